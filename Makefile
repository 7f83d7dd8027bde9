# Everything runs in a virtual environment that is made on first use; nothing but Python >= 3.11 is assumed.
PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
THREADS ?= 2
SECONDS ?= 600

RUN := $(VENV)/bin/python
LINT := $(VENV)/lint.stamp
CORE := $(VENV)/core.stamp
PLOTS := $(VENV)/plots.stamp
TEST := $(VENV)/test.stamp
PEERS := $(VENV)/peers.stamp
# The versions of ruff and pyright that pyproject.toml names.
RUFF := $(shell sed -n 's/.*"\(ruff[^"]*\)".*/\1/p' pyproject.toml)
PYRIGHT := $(shell sed -n 's/.*"\(pyright[^"]*\)".*/\1/p' pyproject.toml)
# The suite of data-apis/array-api-tests, and how many examples it draws for each function.
ARRAY_API_TESTS ?=
EXAMPLES ?= 20
# Options for the comparison of whole training steps: make bench BENCH="--quick --tasks mlp_small,lstm"
BENCH ?=
# Test workers, and products as small as the demo's, gain nothing from threads that fight for the same cores.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(RUN) -m pytest -n $(WORKERS)
# A processor without AVX-512, as far as a larger one can play it: Weft's code, and NumPy's, OpenBLAS's and PyTorch's.
V3 := WEFT_TARGET=x86-64-v3 OPENBLAS_CORETYPE=Haswell ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 \
	NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
# The share of the tests that `make test-v3` runs: make test-v3 SHARE=1/4
SHARE ?= 1/1
THREADED := OMP_NUM_THREADS=$(THREADS) OPENBLAS_NUM_THREADS=$(THREADS) MKL_NUM_THREADS=$(THREADS)

.DEFAULT_GOAL := help
.PHONY: help test test-all test-v3 fuzz array-api array-api-there lint format demo bench docs clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' Makefile

test: lint $(TEST) ## lint and the tests that are quick enough for every change
	$(PYTEST)

test-all: lint $(TEST) ## the slow tests as well
	$(PYTEST) -m "slow or not slow"

test-v3: $(TEST) ## the tests as on a processor without AVX-512; SHARE=1/4 runs a quarter of them
	$(V3) $(PYTEST) --share $(SHARE)

fuzz: $(TEST) ## random calls of everything public, right and wrong, for SECONDS=600; fails on a crash, a hang, foreign errors
	$(ONE_THREAD) $(RUN) -m tests.fuzz.run --seconds $(SECONDS) --processes $(WORKERS)

lint: $(LINT) $(CORE) ## style, common mistakes and types, changing nothing
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m pyright --pythonpath $(RUN)

format: $(LINT) ## rewrite files in the house style
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

array-api: array-api-there $(TEST) ## the Array-API standard's own suite: make array-api ARRAY_API_TESTS=its/folder
	cd "$(ARRAY_API_TESTS)" && $(ONE_THREAD) ARRAY_API_TESTS_MODULE=weft.array_api \
		$(abspath $(RUN)) -m pytest --max-examples=$(EXAMPLES) array_api_tests

array-api-there:
	@test -d "$(ARRAY_API_TESTS)/array_api_tests" || { \
		echo "ARRAY_API_TESTS must name a clone of the suite, got '$(ARRAY_API_TESTS)'. Get it, then run again:"; \
		echo "  git clone --recursive https://github.com/data-apis/array-api-tests"; \
		echo "  $(RUN) -m pip install -r array-api-tests/requirements.txt"; \
		echo "  make array-api ARRAY_API_TESTS=array-api-tests"; exit 2; } >&2

demo: $(PLOTS) ## train a network on handwritten digits; figures, curves and checkpoints go to runs/
	$(ONE_THREAD) $(VENV)/bin/weft train digits-mlp

bench: $(PEERS) ## training steps beside PyTorch and JAX (table and plot in build/bench), then kernels and layers
	$(RUN) bench/run.py --threads $(THREADS) $(BENCH)
	$(THREADED) $(RUN) bench/kernels.py
	$(THREADED) $(RUN) bench/eager.py
	$(THREADED) $(RUN) bench/layers.py

docs: $(CORE) ## write the generated pages of docs/, and the stubs that editors and type checkers read
	$(RUN) docs/generate.py
	$(RUN) docs/notes.py
	$(RUN) docs/stubs.py
	$(RUN) docs/compiler_printouts.py

clean: ## remove the environment, caches and build products
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find weft tests bench docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(RUN):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Weft needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
		"Choose another with: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(LINT): pyproject.toml | $(RUN)
	$(RUN) -m pip install --quiet '$(RUFF)' '$(PYRIGHT)'
	@touch $@

$(CORE): pyproject.toml | $(RUN)
	$(RUN) -m pip install --quiet -e .
	@touch $@

$(PLOTS): pyproject.toml | $(RUN)
	$(RUN) -m pip install --quiet -e '.[plots]'
	@touch $@ $(CORE)

$(TEST): pyproject.toml | $(RUN)
	$(RUN) -m pip install --quiet -e '.[test]'
	@touch $@ $(PLOTS) $(CORE)

$(PEERS): pyproject.toml | $(RUN)
	$(RUN) -m pip install --quiet -e '.[test,bench]'
	@touch $@ $(TEST) $(PLOTS) $(CORE)
