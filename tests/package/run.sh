#!/bin/sh
# Installs into a prefix that is thrown away, moves that prefix, and builds two foreign projects against it, one in
# C and one in C++: with pkg-config, shared and fully static, and with find_package, against both targets.
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
mv "$work/first" "$work/prefix"
# The program may be left out; what shells complete goes with it.
if [ -e "$work/prefix/bin/scion" ]; then
    for file in bash-completion/completions/scion zsh/site-functions/_scion fish/vendor_completions.d/scion.fish; do
        grep -q -e '--complete' "$work/prefix/share/$file" || { echo "share/$file is missing"; exit 1; }
    done
fi
pkgconfig=$(dirname "$(find "$work/prefix" -name scion.pc)")
export PKG_CONFIG_PATH="$pkgconfig"
libdir=$(pkg-config --variable=libdir scion)
header=$(sed -n 's/^#define SCION_VERSION "\(.*\)"/\1/p' "$work/prefix/include/scion.h")
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

    quietly "$cmake" -S "$here/$kind" -B "$work/cmake-$kind" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix"
    quietly "$cmake" --build "$work/cmake-$kind"
    verify "$work/cmake-$kind/user_shared" yes
    verify "$work/cmake-$kind/user_static" no
done
