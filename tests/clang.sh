#!/bin/sh
# Builds the library and a few tests with clang, without OpenMP, warnings as errors, and runs them.
# Usage: clang.sh SOURCE BUILD CMAKE CLANG
set -eu
source=$1 build=$2 cmake=$3 cc=$4
tests='test_kernel test_norms test_polar test_rules test_bf16'

[ -f "$build/build.ninja" ] ||
    "$cmake" -S "$source" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS_RELEASE="-O1" \
        -DSCION_WERROR=ON -DSCION_OPENMP=OFF -DSCION_PROGRAM=OFF -DSCION_EXAMPLES=OFF -DSCION_BENCH=OFF
# shellcheck disable=SC2086 # one word per target
"$cmake" --build "$build" --target scion_shared $tests
for test in $tests; do
    "$build/tests/$test"
done
