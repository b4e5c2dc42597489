# Everything a machine with python3, pip and make needs to run, test and try Tidegauge.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEMO   ?= demo

# The suite starts hundreds of processes: none compiles what another has compiled.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo docs bench test test-all package lint types lock clean

help:  ## list what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
		-r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY)  ## publish the year of an invented town, and compare with the truth
	$(BIN)/tidegauge demo $(DEMO)

docs: $(READY)  ## build the documentation site into site/; needs no network, neither here nor to read it
	$(BIN)/python -m tools.docs

bench: $(READY)  ## run the benchmarks and write docs/benchmarks.md; BENCH="--quick": a first look
	$(BIN)/python -m bench.all $(BENCH)

test: $(READY) lint types  ## lint, types and the suite without its long tests; the same examples every time
	HYPOTHESIS_PROFILE=fixed $(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-all: $(READY) lint types  ## the long tests as well, new random examples, and coverage
	HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest -n auto --dist worksteal --cov --cov-report=term

package: $(READY)  ## build the wheel and the source distribution into dist/
	$(BIN)/python -m hatchling build --directory dist

lint: $(READY)  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## mypy --strict
	$(BIN)/mypy

lock:  ## write requirements.lock anew from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --group dev --extra postgres --extra serve --extra encryption --extra plot \
	  --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
	  --upgrade --quiet --output-file requirements.lock

clean:  ## remove the environment and what the tools left
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .coverage* demo site .bench
