#!/bin/sh
# Runs test_threads under ThreadSanitizer, from a build of its own beside the ordinary one.
# Usage: tsan.sh SOURCE BUILD CMAKE CC
set -eu
source=$1 build=$2 cmake=$3 cc=$4

[ -f "$build/build.ninja" ] ||
    "$cmake" -S "$source" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS_RELEASE="-O1 -g" \
        -DSCION_TSAN=ON -DSCION_PROGRAM=OFF -DSCION_EXAMPLES=OFF -DSCION_BENCH=OFF
"$cmake" --build "$build" --target test_threads

# Where the kernel spreads addresses wider than the sanitizer knows, it gives up before main.
log=$build/test_threads.log
status=0
"$build/tests/test_threads" > "$log" 2>&1 || status=$?
if grep -q 'unexpected memory mapping' "$log"; then
    status=0
    setarch -R "$build/tests/test_threads" > "$log" 2>&1 || status=$?
fi
cat "$log"
exit $status
