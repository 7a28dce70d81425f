#!/bin/sh
# The commands of a run, each for a moment, under valgrind: no memory is read that nobody wrote, none is lost.
# Usage: valgrind.sh SCION PRESETS VALGRIND...
set -eu
scion=$1
export SCION_PRESETS="$2"
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat > checked <<END
#!/bin/sh
exec $* $scion "\$@"
END
chmod +x checked

# Runs a command; its output is shown only if it fails.
run()
{
    ./checked "$@" > output 2>&1 || { echo "failed: $*"; cat output; exit 1; }
}

i=0
while [ $i -lt 80 ]; do
    echo "Line $i of a text that a small model learns."
    i=$((i + 1))
done > text.txt
small='width=16 layers=1 head_size=16 batch=2 block=8'
# shellcheck disable=SC2086 # one word per setting
{
    run train shakespeare data=text.txt $small steps=3 save_every=1 eval_every=2 norm_every=2 out=run
    run resume run steps=4
    run eval run
    run sample run tokens=8
    run report run out=page.html
}
