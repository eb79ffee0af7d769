# For people: `make help` lists the goals. The build itself is described in CMakeLists.txt and
# CMakePresets.json; every goal here first installs what it needs (SETUP=no leaves that out).
PRESET ?= release
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
FUZZ_SECONDS ?= 60
SETUP ?= yes

build_dir = $(if $(filter release,$(1)),build,build-$(1))
packages = $(if $(filter-out no,$(SETUP)),tools/packages.sh $(1),true)
configure = cmake --preset $(1) $(if $(V),,>/dev/null)
build = $(configure) && cmake --build $(call build_dir,$(1)) -j $(JOBS)

.PHONY: all demo test check format tsan clang fuzz slow test-models versus coverage install clean help

all: ## build the program build/focal and the libraries
	@$(call packages,build)
	$(call build,$(PRESET)) --target focal-product

demo: all ## the main job: a real model reads a long document and answers
	@$(call packages,demo)
	@tools/demo.sh $(call build_dir,$(PRESET))/focal

test: ## all tests in the release build, unit tests under ASan and UBSan
	@$(call packages,build test)
	$(call build,$(PRESET))
	$(call build,dev)
	tools/run_tests.py -j $(JOBS) $(call build_dir,$(PRESET)) $(call build_dir,dev)

check: ## format, clang-tidy, cppcheck, include arrows
	@$(call packages,build test check)
	$(call configure,$(PRESET))
	tools/check.sh $(call build_dir,$(PRESET)) $(JOBS)

format: ## rewrite all C files as .clang-format says
	@$(call packages,check)
	git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format-14 -i

tsan: ## unit tests under ThreadSanitizer
	@$(call packages,build test)
	$(call build,tsan)
	tools/run_tests.py -j $(JOBS) build-tsan

clang: ## everything again with clang
	@$(call packages,build test check)
	$(call build,clang)
	tools/run_tests.py -j $(JOBS) build-clang

fuzz: ## every fuzz target for FUZZ_SECONDS (60) on top of its corpus
	@$(call packages,build test check)
	$(call build,fuzz)
	tools/fuzz.sh build-fuzz $(FUZZ_SECONDS)

slow: ## the tests that are too long for `make test`
	@$(call packages,build test)
	$(call build,$(PRESET))
	tools/run_tests.py -j 1 --label slow $(call build_dir,$(PRESET))

test-models: ## figures of real models (docs/TESTING.md says which files it needs)
	@$(call packages,build test)
	$(call build,$(PRESET))
	tools/run_tests.py -j 1 --label models $(call build_dir,$(PRESET))

versus: all ## focal beside llama.cpp and transformers, by turns (MODEL, PYTHON, OPTIONS; docs/SPEED.md)
	@$(call packages,build test $(if $(PYTHON),,versus) demo)
	@MODEL='$(MODEL)' PYTHON='$(PYTHON)' bench/versus/run.sh $(call build_dir,$(PRESET))/focal $(OPTIONS)

coverage: ## lines that the unit tests execute, by file
	@$(call packages,build test)
	$(call build,coverage)
	tools/run_tests.py -j $(JOBS) build-coverage
	tools/coverage.sh build-coverage

install: all ## install to PREFIX (/usr/local); DESTDIR is honoured
	cmake --install $(call build_dir,$(PRESET)) --prefix $(PREFIX)

clean: ## remove everything that was built
	rm -rf build build-* demo

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
