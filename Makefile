# SPDX-License-Identifier: Apache-2.0
#
# A thin front to CMake and tools/. CC=clang make: the other compiler (use a fresh BUILD=folder for it).
BUILD ?= build
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
export JOBS

all: build

build: $(BUILD)/build.ninja
	ninja -C $(BUILD) -j $(JOBS)

$(BUILD)/build.ninja:
	cmake -G Ninja -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX)

setup:
	tools/setup

check: # everything; last line "N passed, N failed"
	tools/check

test: build # only the tests, only the release build
	ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure

check-tf: build # TensorFlow (installed into a virtual environment) reads the checkpoints that we write
	tools/check_tf $(BUILD)

demo: # DEMO=name: one of them, DEMO=all: the long one too; on a fresh machine this installs what is missing first
	tools/setup
	$(MAKE) build
	demos/run $(BUILD) $(DEMO)

bench: build # BENCH=prefix: some groups of them
	bench/run $(BUILD) $(BENCH)

install: build
	cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null && cmake --install $(BUILD)

docs: build # what is generated from the program's tables
	$(BUILD)/creturnn layers --doc >docs/layers.md

format:
	clang-format -i $$(find src cli tests bench include -name '*.[ch]' -not -name '*.pb-c.*')

clean:
	rm -rf build build-*

.PHONY: all build setup check test check-tf demo bench install docs format clean
