#!/bin/sh
# Compiles the first C block of README.md, which is a whole program, without a warning, and runs it. The table of commands
# has a row for each command of the program, if that was built.
# Usage: readme.sh SOURCE BUILD CC [FLAG...]
set -eu
source=$1 build=$2 cc=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk '/^```/ { if (inside) exit; inside = ($0 == "```c"); next } inside' "$source/README.md" > "$work/example.c"
if ! [ -s "$work/example.c" ]; then
    echo "README.md has no block that opens with \`\`\`c" >&2
    exit 1
fi
"$cc" -std=c11 -Wall -Wextra -Werror "$@" -I"$source/include" -o "$work/example" "$work/example.c" \
    -L"$build" -Wl,-rpath,"$build" -lscion -lm
"$work/example"

[ -x "$build/scion" ] || exit 0
"$build/scion" help | sed -n 's/^  \([a-z]*\)  .*/\1/p' > "$work/commands"
[ -s "$work/commands" ]
while read -r command; do
    grep -q "^| \`\(mpirun .* \)\{0,1\}scion $command[ \`]" "$source/README.md" ||
        { echo "README.md has no row for scion $command"; exit 1; }
done < "$work/commands"
