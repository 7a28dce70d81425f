#!/bin/sh
# The tests that need NumPy alone, by Debian's python3-numpy and python3-pytest, on the package of a build.
#     run.sh BUILD [LIBASAN]     LIBASAN: the sanitizer's library, which must be loaded before Python
set -eu
modules='numpy, pytest'
. "${0%/*}/../../tests/find_python"
export PYTHONPATH="$1/python" PYTHONDONTWRITEBYTECODE=1
if [ $# -gt 1 ]; then # Python itself leaks, on purpose
    export LD_PRELOAD="$2" ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
fi
exec "$python" -m pytest -q -p no:cacheprovider "${0%/*}" -k 'not torch and not frameworks'
