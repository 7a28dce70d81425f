#!/bin/sh
# Runs the tests of threads under ThreadSanitizer, from a build of its own beside the ordinary one: those of the
# library, and of images that are decoded ahead where the program is built.
# Usage: tsan.sh SOURCE BUILD CMAKE CC PROGRAM
set -eu
source=$1 build=$2 cmake=$3 cc=$4 program=$5

tests=test_threads
[ "$program" != ON ] || tests="$tests test_data_folder"
"$cmake" -S "$source" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS_RELEASE="-O1 -g" \
    -DSCION_TSAN=ON -DSCION_PROGRAM="$program" -DSCION_EXAMPLES=OFF -DSCION_BENCH=OFF
# shellcheck disable=SC2086
"$cmake" --build "$build" --target $tests

failed=0
for test in $tests; do
    # Where the kernel spreads addresses wider than the sanitizer knows, it gives up before main.
    log=$build/$test.log
    status=0
    "$build/tests/$test" > "$log" 2>&1 || status=$?
    if grep -q 'unexpected memory mapping' "$log"; then
        status=0
        setarch -R "$build/tests/$test" > "$log" 2>&1 || status=$?
    fi
    cat "$log"
    [ $status -eq 0 ] || failed=$status
done
exit $failed
