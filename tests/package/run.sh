#!/bin/sh
# Installs into a prefix that is thrown away, moves that prefix, and builds two foreign projects against it, one in
# C and one in C++: with pkg-config, shared and fully static, and with find_package, against both targets. Documents are
# complete, and the environment is the one that docs/installing.md sets.
# Usage: run.sh BUILD CMAKE
set -eu
build=$1 cmake=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Runs "$@" silently unless it fails.
quietly()
{
    "$@" > "$work/log" 2>&1 || { cat "$work/log"; echo "failed: $*"; exit 1; }
}

# Runs program $1 and checks whether it needs the shared library: $2 is yes or no.
verify()
{
    needs=no
    ! readelf -d "$1" | grep -q 'NEEDED.*\[libscion\.so\.[0-9]*\.[0-9]*\]' || needs=yes
    if [ "$needs" != "$2" ]; then
        echo "$1: needs the shared library: $needs, expected $2"
        exit 1
    fi
    "$1"
}

quietly env DESTDIR= "$cmake" --install "$build" --prefix "$work/first"
prefix=$work/opt
mv "$work/first" "$prefix"
doc=$prefix/share/doc/scion

# A link to a file of the source tree that is installed elsewhere is not followed.
for document in "$doc"/*.md "$doc"/docs/*.md; do
    grep -o '](\([^)#:]*\)[)#]' "$document" | sed 's/^](//; s/[)#]$//' | while read -r link; do
        case $link in '' | ../include/*) continue ;; esac
        [ -e "${document%/*}/$link" ] || { echo "${document#"$prefix/"}: $link is not installed"; exit 1; }
    done
done
[ -s "$doc/docs/file-formats.md" ] && [ -s "$doc/examples/load_checkpoint.py" ] || { echo 'documents are missing'; exit 1; }

# The program may be left out; what shells complete goes with it.
if [ -e "$prefix/bin/scion" ]; then
    for file in bash-completion/completions/scion zsh/site-functions/_scion fish/vendor_completions.d/scion.fish; do
        grep -q -e '--complete' "$prefix/share/$file" || { echo "share/$file is missing"; exit 1; }
    done
    # Help that names a document says where it is.
    for command in $("$prefix/bin/scion" help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
        "$prefix/bin/scion" help "$command" > "$work/help"
        for file in $(grep -o 'docs/[a-z0-9.-]*\.md' "$work/help"); do
            [ -s "$doc/$file" ] || { echo "scion help $command: $file is not installed"; exit 1; }
            grep -qxF "docs/ is $(realpath "$doc")/docs" "$work/help" ||
                { echo "scion help $command: does not say where docs/ is"; exit 1; }
        done
    done
fi

# Under another name: the man page and the completions follow, which is decided before anything is compiled.
source=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt")
off='-DSCION_TESTS=OFF -DSCION_EXAMPLES=OFF -DSCION_BENCH=OFF'
if [ -e "$prefix/bin/scion" ]; then
    # shellcheck disable=SC2086 # one word per setting
    quietly "$cmake" -S "$source" -B "$work/named" -G Ninja $off -DSCION_PROGRAM_NAME=scion-lmo
    grep -qx '.Nm scion-lmo' "$work/named/man1/scion-lmo.1" && grep -q '^\$ scion-lmo train' "$work/named/man1/scion-lmo.1" ||
        { echo 'the man page does not follow SCION_PROGRAM_NAME'; exit 1; }
    for line in bash:'complete -F _scion-lmo scion-lmo' zsh:'#compdef scion-lmo' fish:"complete -c scion-lmo -f -a '(__scion-lmo_complete)'"; do
        grep -qxF "${line#*:}" "$work/named/completion/${line%%:*}" || { echo "completion/${line%%:*}: no $line"; exit 1; }
    done
    grep -q 'build scion-lmo: ' "$work/named/build.ninja" || { echo 'the program does not follow SCION_PROGRAM_NAME'; exit 1; }
    # shellcheck disable=SC2086
    ! "$cmake" -S "$source" -B "$work/wrong" -G Ninja $off '-DSCION_PROGRAM_NAME=../scion' > "$work/log" 2>&1 ||
        { echo 'a path as SCION_PROGRAM_NAME'; exit 1; }
fi

# The commands of the document, for its $HOME/opt.
sed -n '/^export PKG_CONFIG_PATH/,/^```/{/^```/!p;}' "$doc/docs/installing.md" > "$work/environment"
[ -s "$work/environment" ] || { echo 'docs/installing.md does not set PKG_CONFIG_PATH'; exit 1; }
home=${HOME-} HOME=$work
. "$work/environment"
HOME=$home
libdir=$LD_LIBRARY_PATH
case $(pkg-config --cflags scion) in
    */../[!.]*/..*) echo "pkg-config --cflags goes up and down: $(pkg-config --cflags scion)"; exit 1 ;;
esac
unset LD_LIBRARY_PATH
header=$(sed -n 's/^#define SCION_VERSION "\(.*\)"/\1/p' "$prefix/include/scion.h")
if [ "$(pkg-config --modversion scion)" != "$header" ]; then
    echo "scion.pc says $(pkg-config --modversion scion), scion.h says $header"
    exit 1
fi

# shellcheck disable=SC2046,SC2086 # pkg-config prints words, and a compiler has flags
for kind in c cpp; do
    case $kind in
        c) compile="cc -std=c11" main=$here/c/main.c ;;
        cpp) compile="c++ -std=c++17" main=$here/cpp/main.cpp ;;
    esac

    quietly $compile -o "$work/$kind-shared" "$main" $(pkg-config --cflags --libs scion)
    LD_LIBRARY_PATH=$libdir verify "$work/$kind-shared" yes
    quietly $compile -static -o "$work/$kind-static" "$main" $(pkg-config --static --cflags --libs scion)
    verify "$work/$kind-static" no

    quietly "$cmake" -S "$here/$kind" -B "$work/cmake-$kind" -G Ninja -DCMAKE_PREFIX_PATH="$prefix"
    quietly "$cmake" --build "$work/cmake-$kind"
    verify "$work/cmake-$kind/user_shared" yes
    verify "$work/cmake-$kind/user_static" no
done
