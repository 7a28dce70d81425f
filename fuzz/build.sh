#!/bin/bash -eu
# As OSS-Fuzz calls it: $CC and $CFLAGS bring the sanitizer, $LIB_FUZZING_ENGINE the fuzzer; the harnesses, their seeds
# (NAME_seed_corpus.zip), words (NAME.dict) and options go to $OUT. The libraries that they need go with them.
source=$(cd "$(dirname "$0")/.." && pwd)
work=${WORK:-$(mktemp -d)}/scion

cmake -S "$source" -B "$work" -G Ninja -DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="${CFLAGS:-}" \
    -DCMAKE_BUILD_TYPE=None -DSCION_FUZZ=ON -DSCION_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" -DSCION_FUZZ_FLAGS= \
    -DSCION_OPENMP=OFF -DSCION_TESTS=OFF -DSCION_EXAMPLES=OFF -DSCION_BENCH=OFF -DCMAKE_BUILD_RPATH='$ORIGIN/lib'
cmake --build "$work" --target fuzz/all

mkdir -p "$OUT/lib"
for program in "$work"/fuzz/fuzz_*; do
    [ -f "$program" ] || continue
    name=${program##*/fuzz_}
    cp "$program" "$OUT/"
    ldd "$program" | awk '$2 == "=>" && $1 !~ /^lib(c|m|pthread|dl|rt|gcc_s)\.so/ { print $3 }' |
        xargs -r cp -u -t "$OUT/lib"
    seeds=("$source/fuzz/corpus/$name")
    [ ! -d "$source/fuzz/regressions/$name" ] || seeds+=("$source/fuzz/regressions/$name")
    zip -q -j -r "$OUT/fuzz_${name}_seed_corpus.zip" "${seeds[@]}"
    [ ! -f "$source/fuzz/$name.dict" ] || cp "$source/fuzz/$name.dict" "$OUT/fuzz_$name.dict"
    printf '[libfuzzer]\nmax_len = 4096\n' > "$OUT/fuzz_$name.options"
done
