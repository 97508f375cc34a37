# The commands of this checkout. `make lab` and `make test` are all that a newcomer needs.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
PYTEST_ARGS ?=

# Jupyter asks for this flag where it runs as root, as in many containers.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

PACKAGE := $(shell git ls-files sbx_jupyter pyproject.toml 2>/dev/null)
FRONTEND := $(shell git ls-files labextension 2>/dev/null)
BUILT := sbx_jupyter/labextension/package.json

.PHONY: lab test test-python test-faults test-browser check lint format bench screenshots build clean

## Open JupyterLab on the demo notebook, with the engine behind it.
lab: $(VENV)/.lab
	-$(BIN)/jupyter sbx doctor
	$(BIN)/jupyter lab $(AS_ROOT) $(ARGS) binder/demo.ipynb

## Install what the tests need and run all of them.
test: $(VENV)/.test
	$(BIN)/python -m tests.run $(PYTEST_ARGS)

test-python: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-faults: $(VENV)/.test
	$(BIN)/python -m pytest tests/faults --confcutdir=tests/faults $(PYTEST_ARGS)

test-browser: $(VENV)/.test
	$(BIN)/python -m pytest tests/browser --confcutdir=tests/browser $(PYTEST_ARGS)

## The quick checks of a change in Python; installs only what was never installed.
check: | $(BIN)/lint-imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports

## Formatting, types and imports of both languages.
lint: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports
	! grep -nE 'https?://' labextension/yarn.lock
	cd labextension && PATH="$(abspath $(BIN)):$$PATH" jlpm lint && PATH="$(abspath $(BIN)):$$PATH" jlpm test

format: $(VENV)/.test
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

## Ratios against the usual tools, side by side in one run.
bench: $(VENV)/.test
	$(BIN)/python -m tests.benchmarks $(ARGS)

## Pictures of every view in both themes, in tests/browser/shots.
screenshots: $(VENV)/.test
	$(BIN)/python -m pytest tests/browser --confcutdir=tests/browser -k screenshot $(PYTEST_ARGS)

build: $(BUILT)

clean:
	rm -rf sbx_jupyter/labextension sbx_jupyter/static dist labextension/lib labextension/node_modules $(VENV)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "sbx-jupyter needs Python 3.11 or newer; name one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
	  || { echo "Python's venv module is missing; install it: sudo apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(BIN)/lint-imports:
	$(MAKE) $(VENV)/.test

# The front end is built by the package's own build; a stale one would be reused, so drop it first.
$(BUILT): $(FRONTEND) | $(BIN)/python
	rm -rf sbx_jupyter/labextension sbx_jupyter/static

$(VENV)/.lab: $(PACKAGE) $(BUILT) | $(BIN)/python
	$(BIN)/python -m pip install --quiet ".[lab]"
	touch $@

$(VENV)/.test: $(PACKAGE) $(BUILT) | $(BIN)/python
	sh tests/system_packages.sh
	$(BIN)/python -m pip install --quiet ".[lab,test,lint]"
	touch $@
