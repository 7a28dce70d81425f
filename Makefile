# The front door. Every target installs what it needs first (tools/deps), then lets CMake and Ninja work.

PREFIX ?= /usr/local
DESTDIR ?=
MAKEFLAGS += --no-print-directory

.PHONY: all everything deps deps-test deps-bench deps-fuzz deps-cross deps-wheel deps-deb demo test bench asan clang cross fuzz peers wheel test-python deb lint fmt check install clean help

# The library and the program. Once the tests were built in build/, they are kept up to date too.
all: deps build/build.ninja
	@cmake --build build

# And tests, examples and benchmarks.
everything: deps-test
	@cmake -S . -B build -G Ninja -DSCION_WERROR=ON -DSCION_TESTS=ON -DSCION_EXAMPLES=ON -DSCION_BENCH=ON > /dev/null
	@cmake --build build

demo: all
	@tools/demo build

test: everything
	@cd build && ctest --output-on-failure -j2

bench: deps-bench build/build.ninja
	@cmake -B build -DSCION_BENCH=ON > /dev/null
	@cmake --build build
	@build/bench_scion

asan: deps-test build-asan/build.ninja
	@cmake --build build-asan
	@cd build-asan && ctest --output-on-failure -j2

clang: deps-test build-clang/build.ninja
	@cmake --build build-clang
	@cd build-clang && ctest --output-on-failure -j2

# The library for 64-bit ARM: its products, polar factor, norms, rules and conformance vectors under qemu.
cross: deps-cross build-cross/build.ninja
	@cmake --build build-cross
	@cd build-cross && ctest --output-on-failure -j2 \
		-R '^(base|bf16|kernel|kernel_neon_pairs|gemm|gemm_neon_pairs|polar|norms|rules|conform_[^c].*)$$'

# MINUTES in all, shared by the harnesses.
fuzz: deps-fuzz build-fuzz/build.ninja
	@cmake --build build-fuzz --target fuzz/all
	@tools/fuzz build-fuzz $(or $(MINUTES),10)

# Needs the network, python3-venv and npm.
peers: all
	@tools/peers build

# The Python package: build/dist/*.whl and the source archive. Needs the network.
wheel: deps-wheel
	@tools/wheel

# All tests of the Python package, with torch and the trainers around it. Needs the network and 6 GB.
test-python: deps-wheel
	@tools/wheel --test

# Debian packages, in build/deb: make deb PROGRAM=another-name
deb: deps-deb
	@packaging/build-deb build/deb $(or $(PROGRAM),scion)

lint: deps-test build-lint/build.ninja
	@tools/lint build-lint

fmt: deps-test
	@tools/check-format --fix

check: everything
	@tools/check-format
	@tools/check-layers
	@tools/check-rows
	@tools/check-symbols build
	@echo "format, layers, rows and symbols: fine"

install: all
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

clean:
	rm -rf build build-asan build-clang build-cross build-fuzz build-lint

help:
	@echo "make            build the library and the program into build/"
	@echo "make demo       train a small GPT on a text and generate text"
	@echo "make test       run the tests"
	@echo "make bench      measure; writes build/bench.json"
	@echo "make asan       run the tests under AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "make clang      build with clang, without OpenMP, and run the tests"
	@echo "make cross      build the library for 64-bit ARM and run its numerical tests under qemu"
	@echo "make fuzz       feed damaged files to every reader and parser for MINUTES=10"
	@echo "make peers      compare with transformers, tokenizers, tiktoken, llama.cpp and tensorboard, which are downloaded"
	@echo "make wheel      build the Python package libscion into build/dist"
	@echo "make test-python  test it with torch, transformers, lightning and accelerate, which are downloaded"
	@echo "make deb        Debian packages in build/deb; PROGRAM=NAME calls the program otherwise"
	@echo "make lint       cppcheck and clang-tidy"
	@echo "make fmt        format the sources"
	@echo "make check      check format, layers and exported symbols"
	@echo "make install    install to PREFIX=$(PREFIX), below DESTDIR if given"
	@echo "make clean      remove build/ and build-*/"
	@echo "Missing Debian packages are installed first; SCION_DEPS=skip in the environment prevents it."

deps:
	@tools/deps build

deps-test:
	@tools/deps test

deps-bench:
	@tools/deps bench

deps-fuzz:
	@tools/deps fuzz

deps-cross:
	@tools/deps cross

deps-wheel:
	@tools/deps wheel

deps-deb:
	@tools/deps deb

# Ninja runs CMake again by itself when a CMake file changes. The order matters only for a fresh machine.
build/build.ninja: | deps
	@cmake -S . -B build -G Ninja -DSCION_WERROR=ON -DSCION_TESTS=OFF -DSCION_EXAMPLES=OFF -DSCION_BENCH=OFF

build-asan/build.ninja: | deps-test
	@cmake -S . -B build-asan -G Ninja -DSCION_ASAN=ON -DSCION_BENCH=OFF

build-clang/build.ninja: | deps-test
	@cmake -S . -B build-clang -G Ninja -DCMAKE_C_COMPILER=clang -DSCION_OPENMP=OFF -DSCION_WERROR=ON

build-cross/build.ninja: | deps-cross
	@cmake -S . -B build-cross -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DSCION_WERROR=ON \
		-DSCION_PROGRAM=OFF -DSCION_EXAMPLES=OFF -DSCION_BENCH=OFF

build-fuzz/build.ninja: | deps-fuzz
	@cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_C_FLAGS_RELEASE="-O1 -g" -DSCION_FUZZ=ON \
		-DSCION_OPENMP=OFF -DSCION_TESTS=OFF -DSCION_EXAMPLES=OFF -DSCION_BENCH=OFF

build-lint/build.ninja: | deps-test
	@cmake -S . -B build-lint -G Ninja -DCMAKE_C_COMPILER=clang -DSCION_OPENMP=OFF -DSCION_TESTS=OFF \
		-DSCION_EXAMPLES=OFF -DSCION_BENCH=OFF > /dev/null
