# `make demo` and `make test` each do everything from a fresh clone. `make help` lists the rest.
VENV ?= .venv
CACHE ?= .cache
OUT ?= out
PY := $(VENV)/bin/python
SJF := $(VENV)/bin/vllm-sjf
MODEL := $(CACHE)/smollm2-135m
PREDICTOR := $(CACHE)/predictor
DATA := training/dataset/smollm2_135m.parquet

# What demo and bench share: 16 slots, one cap, eager mode (compiling takes a minute a server).
# vLLM's CPU build ends with "CPU Generator does not use offset" when a request with a seed is
# prefilled in chunks, so every prompt must fit into one step.
BENCH := $(SJF) bench --model $(MODEL) --predictor $(PREDICTOR) --data $(DATA) \
	--max-num-seqs 16 --max-tokens 512 --server-arg=--enforce-eager --server-arg=--max-model-len=4096 \
	--server-arg=--no-enable-chunked-prefill --server-arg=--max-num-batched-tokens=4096

.DEFAULT_GOAL := help
.PHONY: help setup model predictor demo bench bench-live mixed test matrix lint site package audit

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## make .venv and install everything
	@sh scripts/setup.sh $(VENV)

model: setup  ## make the small chat model in .cache
	@$(SJF) model --out $(MODEL)

predictor: model  ## train the demo's predictor (ten seconds)
	@test -f $(PREDICTOR)/manifest.json && test $(PREDICTOR)/manifest.json -nt $(DATA) || \
		{ echo "predictor: training on $(DATA)"; \
		$(SJF) train --kind linear --data $(DATA) --model $(MODEL) --out $(PREDICTOR); }

demo: predictor  ## compare with stock vLLM on a burst (15 minutes at most)
	@$(BENCH) --requests 100 --out $(OUT)/demo

bench: predictor  ## every rival in virtual time, then the README's table (half an hour on two cores)
	@$(SJF) compare benchmarks/matrices/headline.toml --out $(OUT)/headline
	@$(SJF) report $(OUT)/headline --readme README.md

bench-live: predictor  ## the demo's comparison on live servers with more requests
	@$(BENCH) --requests 180 --out $(OUT)/bench

mixed: model  ## interactive and batch work on one live server (eight minutes)
	@$(SJF) mixed --model $(MODEL) --data $(DATA) --server-arg=--enforce-eager \
		--server-arg=--max-model-len=4096 --out $(OUT)/mixed

test: setup  ## run all tests, a real vLLM server included
	@$(PY) -m pytest

matrix: model  ## test each supported vLLM (VERSIONS="0.31 0.32") and write docs/compatibility.md
	@$(PY) scripts/matrix.py $(VERSIONS)

lint: setup  ## ruff (lint and format) and mypy (strict)
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

site: setup  ## make the documents' site in out/site; fails on a broken link
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --site-dir $(abspath $(OUT))/site

package: setup  ## build wheel and sdist into dist, and check them
	@rm -rf dist
	@$(PY) -m build --no-isolation
	@$(PY) -m twine check --strict dist/*

audit: setup  ## look for known vulnerabilities in what is installed (asks the internet)
	@$(VENV)/bin/pip-audit --local --skip-editable
