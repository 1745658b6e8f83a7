# Everything is installed into .venv; nothing else on the machine is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# pip's own marks: each is newer than pyproject.toml when its set of packages is installed.
BASE := $(VENV)/.base
DEV := $(VENV)/.dev
SRC := events projections infra replay producers consumers

.PHONY: run test test-slow check format bench bench-jobshop bench-peers clean

run: $(BASE)
	$(BIN)/evolog run examples/jobshop/run.toml

test: $(DEV)
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(DEV)
	$(BIN)/python -m pytest -m slow

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/check.py

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(BASE)
	$(BIN)/python -m benchmarks.throughput
	$(BIN)/python -m benchmarks.throughput --sync always --candidates 1000
	$(BIN)/python -m benchmarks.reading
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.peers

bench-jobshop: $(BASE)
	$(BIN)/python -m benchmarks.jobshop

bench-peers: $(BASE)
	$(BIN)/python -m benchmarks.peers --install

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "evolog needs Python 3.11 or newer; $(PYTHON) is older: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(BASE): pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $(BASE)

$(DEV): pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(BASE) $(DEV)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
