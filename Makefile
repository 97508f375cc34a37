# The commands of this checkout. To begin, `make lab` and `make test` are enough.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
PYTEST_ARGS ?=

# Jupyter requires this flag when it runs as root, as in many containers.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

PACKAGE := $(shell git ls-files sbx_jupyter pyproject.toml 2>/dev/null)
FRONTEND := $(shell git ls-files labextension 2>/dev/null)
BUILT := sbx_jupyter/labextension/package.json
TOOLS := $(BIN)/lint-imports

# pip prints its progress the first time, which takes minutes; after that it installs changes only.
QUIET = $(if $(wildcard $@),--quiet)

# The tests that need no root, no system package and no engine.
UNIT_TESTS := tests/docs tests/test_imports.py tests/test_structure.py tests/protocol tests/client/test_public_face.py \
  tests/isolation/stored/test_changes.py tests/engine/egress/test_addresses.py \
  tests/engine/egress/test_intercept.py tests/engine/egress/test_policy.py \
  tests/engine/egress/test_proxy.py tests/engine/egress/test_ranges.py \
  tests/isolation/test_channel.py tests/engine/state/test_datadir.py \
  tests/engine/sandboxes/test_listing.py tests/engine/state/test_store.py \
  tests/service/test_decoders.py tests/service/test_log_file.py \
  tests/engine/templates/test_dockerfile.py tests/isolation/stored/test_volume_content.py \
  tests/engine/volumes/test_secrets.py tests/engine/volumes/test_volumes.py \
  tests/widgets/test_ordering.py tests/widgets/test_rate_limit.py

# Without those that look at pages, imports and sizes, not at what runs.
LOWEST_TESTS := $(filter-out tests/docs tests/test_imports.py tests/test_structure.py,$(UNIT_TESTS))

# What make test-long runs under another Python version: all that stands on the system calls of Python.
SECOND_TESTS := tests/isolation tests/agent tests/client tests/protocol tests/widgets

.PHONY: lab test test-long test-python test-integrations test-second-python test-pythons test-lowest test-accessibility test-faults test-each-call test-damage test-kills test-crowd test-browser test-programs test-siege test-notebook-tools test-binder test-hub test-applications test-floods test-release test-containers test-tiers check test-units tools lint lint-python lint-front-end format api bench screenshots moving-picture docs docs-links build clean

## Open JupyterLab on a copy of the demo notebook in demo, with the engine behind it.
lab: $(VENV)/.lab
	-$(BIN)/jupyter sbx doctor
	$(BIN)/python binder/match_kernel.py binder demo
	$(BIN)/jupyter lab $(AS_ROOT) $(ARGS) demo/demo.ipynb

## Install what the tests need and run all but the long ones.
test: $(VENV)/.test
	$(BIN)/python -m tests.run $(PYTEST_ARGS)

## Run the long tests: a crash at each named step, every attack in each tier, those marked long, and sandboxes
## under another Python version. Before a release, and after a change of what they are about.
test-long: $(VENV)/.test
	$(BIN)/python -m tests.run long $(PYTEST_ARGS)
	sh tests/second_python.sh $(SECOND_TESTS) $(PYTEST_ARGS)

test-python: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST_ARGS)

## Other people's programs, each in an environment of its own (.integrations), with an engine of each
## tier: about 10 minutes, and 10 more the first time. Needs root; two of them need Python 3.12.
## Names in ARGS choose some of them, SBX_TEST_TIER="one id" one tier; ARGS=--record writes the results into
## docs/use-it-from.md.
test-integrations: $(VENV)/.test
	$(BIN)/python -m tests.integrations $(ARGS)

## The unit tests under another Python version, where the machine has one: about two minutes the first time.
test-second-python: $(BUILT)
	sh tests/second_python.sh $(LOWEST_TESTS) $(PYTEST_ARGS)

## The unit tests under each Python from 3.12 to 3.14 that the machine has.
test-pythons: $(BUILT)
	sh tests/each_python.sh $(LOWEST_TESTS) $(PYTEST_ARGS)

## The unit tests with the lowest version of each dependency that pyproject.toml allows.
test-lowest: $(BUILT)
	sh tests/lowest_versions.sh $(LOWEST_TESTS) $(PYTEST_ARGS)

test-faults: $(VENV)/.test
	$(BIN)/python -m pytest tests/faults --confcutdir=tests/faults $(PYTEST_ARGS)

## Run compilers, virtual machines and package managers in sandboxes, those that the machine has.
test-programs: $(VENV)/.test
	$(BIN)/python -m pytest tests/programs --confcutdir=tests/programs $(PYTEST_ARGS)

## Attack three engines with thirty sandboxes from inside three of these, with everything at once, and
## print how long their neighbours' operations took: about 3 minutes. Needs root, and setpriv.
test-siege: $(VENV)/.test
	$(BIN)/python -m pytest -s tests/siege --confcutdir=tests/siege $(PYTEST_ARGS)

## Run papermill, jupyter console, nbconvert and the culling of idle kernels with sandboxed kernels, and
## cells that print a gigabyte: about 5 minutes.
test-notebook-tools: $(VENV)/.test
	$(BIN)/python -m pip install --quiet ".[notebook-tools]"
	$(BIN)/python -m pytest -s tests/notebook_tools --confcutdir=tests/notebook_tools $(PYTEST_ARGS)

## Run the demo notebooks as Binder does: an ordinary user, no user namespaces; print the time of the
## first sandbox. Needs root.
test-binder: $(VENV)/.test
	$(BIN)/python -m pytest -s tests/binder --confcutdir=tests/binder $(PYTEST_ARGS)

## Sandboxes below a JupyterHub with two users, with each recipe of recipes/jupyterhub: about 3 minutes.
## Installs JupyterHub and its proxy in .hub, once; needs root. IDLE=600 watches an idle page for longer.
test-hub: $(VENV)/.test
	SBX_HUB_IDLE_SECONDS=$(or $(IDLE),20) \
	  $(BIN)/python -m pytest -s tests/hub --confcutdir=tests/hub $(PYTEST_ARGS)

## Use Streamlit, Gradio, Dash, FastAPI's documentation and Vite in sandboxes, in a browser, and attack Jupyter
## from a page at a host name: about 5 minutes. Installs the programs in .applications, once; those that do not
## install are left out.
test-applications: $(VENV)/.test
	$(BIN)/python -m pytest -s tests/applications --confcutdir=tests/applications $(PYTEST_ARGS)

## Send gigabytes through the proxy of ports, and flood a terminal: the memory stays flat. GB=1 SECONDS=10
## is shorter than 5 and 60.
test-floods: $(VENV)/.test
	SBX_FLOOD_GB=$(or $(GB),5) SBX_FLOOD_SECONDS=$(or $(SECONDS),60) \
	  $(BIN)/python -m pytest -s tests/floods --confcutdir=tests/floods $(PYTEST_ARGS)

## Build sdist and wheel twice and compare them; install, upgrade under a running sandbox and remove
## them; print what each step of a newcomer takes: about 10 minutes. Takes the committed files.
test-release: $(VENV)/.test
	$(BIN)/python -m pip install --quiet ".[release]"
	$(BIN)/python -m pytest -s tests/release --confcutdir=tests/release $(PYTEST_ARGS)

## Build the image of recipes/container by podman, as root and as an ordinary user, and use JupyterLab
## and sandboxes in it: about 10 minutes. Needs root and podman. Without a registry, BASE=FILE imports a
## root directory in place of the base image; mmdebstrap --variant=minbase bookworm FILE makes one.
test-containers: $(VENV)/.test
	SBX_CONTAINER_BASE=$(BASE) \
	  $(BIN)/python -m pytest -s tests/containers --confcutdir=tests/containers $(PYTEST_ARGS)

## Try each line of docs/tiers.md in a sandbox of an engine of each tier, then the unmodified clients
## with each: about 12 minutes. Needs root. What clients see otherwise is in tests/conformance/differences.py.
test-tiers: $(VENV)/.test
	$(BIN)/python -m pytest tests/tiers --confcutdir=tests/tiers $(PYTEST_ARGS)
	for tier in root "many ids" "one id" landlock none; do echo "$$tier:"; \
	  SBX_TEST_TIER="$$tier" $(BIN)/python -m pytest -q -rx tests/conformance $(PYTEST_ARGS) || exit 1; \
	done

## Let each call that changes a file fail once: without space, by an error of the disk, by a kill before
## it and in its middle. First of operations on the store (minutes), then of a whole engine, of which
## EVERY=20 takes each twentieth.
test-each-call: $(VENV)/.test
	SBX_EACH_CALL=1 $(BIN)/python -m pytest tests/engine/state/test_each_call.py $(PYTEST_ARGS)
	SBX_EACH_CALL=$(or $(EVERY),5) \
	  $(BIN)/python -m pytest tests/faults/test_each_call.py --confcutdir=tests/faults $(PYTEST_ARGS)

## Damage the engine's files 3,000 times, each in another way, and recover: about 20 minutes.
test-damage: $(VENV)/.test
	SBX_DAMAGE_ROUNDS=3000 SBX_DAMAGE_SEED=$(or $(SEED),2) \
	  $(BIN)/python -m pytest tests/engine/state/test_damage.py $(PYTEST_ARGS)

## Kill the helpers of four kinds of engine at random moments under load, 1,000 times with each kind:
## about 10 minutes a kind. ENGINES=namespaces, none, full or separate chooses one, KINDS="zygotes,holders
## of ids" the helpers.
test-kills: $(VENV)/.test
	SBX_KILL_ROUNDS=$(or $(ROUNDS),1000) SBX_KILL_SEED=$(or $(SEED),2) \
	  SBX_KILL_ENGINES="$(or $(ENGINES),namespaces none full separate landlock)" SBX_KILL_KINDS="$(KINDS)" \
	  $(BIN)/python -m pytest -s tests/faults/test_kills.py --confcutdir=tests/faults $(PYTEST_ARGS)

## Scroll the panel with 200 sandboxes, leave it alone for a minute, open a folder of 100,000 files, flood
## a terminal beside one of JupyterLab, and print the figures: about 4 minutes.
test-crowd: $(VENV)/.test
	$(BIN)/python -m pytest -s tests/browser/test_crowd.py --confcutdir=tests/browser $(PYTEST_ARGS)

## Look at each state of each view with axe-core, in three themes, and use the views by keyboard alone:
## about 6 minutes.
test-accessibility: $(VENV)/.test
	$(BIN)/python -m pytest tests/accessibility --confcutdir=tests/accessibility $(PYTEST_ARGS)

test-browser: $(VENV)/.test
	$(BIN)/python -m pytest tests/browser --confcutdir=tests/browser $(PYTEST_ARGS)

## Check formatting, types and imports, and run the unit tests: under two minutes. Needs no root, and
## installs the Python packages only, once.
check: | $(TOOLS)
	@echo "Each part prints when it is over: about a minute and a half on 2 cores."
	@$(MAKE) --jobs=3 --output-sync=target lint-python lint-front-end test-units

## Check formatting, types and imports of both languages, and run the front end's unit tests.
lint: | $(TOOLS)
	@echo "Each part prints when it is over: about a minute on 2 cores."
	@$(MAKE) --jobs=2 --output-sync=target lint-python lint-front-end

lint-python: | $(TOOLS)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/pyright

lint-front-end: | $(TOOLS)
	! grep -nE 'https?://' labextension/yarn.lock
	cd labextension && PATH="$(abspath $(BIN)):$$PATH" jlpm lint && PATH="$(abspath $(BIN)):$$PATH" jlpm test

test-units: | $(TOOLS)
	$(BIN)/python -m pytest -q $(UNIT_TESTS) $(PYTEST_ARGS)

format: | $(TOOLS)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

## Renew the front end's types of the server's routes, after a change of what these take or answer.
api: $(VENV)/.test
	cd labextension && PATH="$(abspath $(BIN)):$$PATH" sh -c "jlpm install && jlpm api"

## Compare the engine with other ways to do the same, measured in turns in one run, and write
## docs/performance.md: about 2 minutes on a quiet machine. Installs packages to compare with in .peers,
## once. ARGS="--group NAME" measures another group (--help lists them), --growth the curves,
## --against REF this code beside an earlier commit, and --profile ROW draws a flame graph.
bench: $(VENV)/.test
	$(BIN)/python -m tests.benchmarks $(ARGS)

## Take pictures of every view in both themes, in tests/browser/shots.
screenshots: $(VENV)/.test
	SBX_PICTURES=1 $(BIN)/python -m pytest tests/browser --confcutdir=tests/browser -k "screenshot or sandboxed_kernel or widgets or memory or question" $(PYTEST_ARGS)

## Join the screenshots into the moving picture of the README.
moving-picture: screenshots
	$(BIN)/python tests/browser/moving_picture.py

## Build the documentation site in build/docs/html; warnings are errors.
docs: $(VENV)/.test
	$(BIN)/python -m pip install --quiet ".[docs]"
	$(BIN)/python docs/site/make_site.py

## List the addresses outside that the documentation links to, check their form, and look them up:
## those that cannot be reached, as without a network, are named as such.
docs-links: $(VENV)/.test
	$(BIN)/python docs/site/make_site.py --links

build: $(BUILT)

clean:
	rm -rf sbx_jupyter/labextension sbx_jupyter/static dist build labextension/lib labextension/node_modules $(VENV)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "sbx-jupyter needs Python 3.11 or newer; name one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
	  || { echo "Python's venv module is missing; install it: sudo apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# The tools of the checks. They read the checkout itself, so that a change needs no installation.
tools: | $(TOOLS)

$(TOOLS): | $(BIN)/python
	@echo "Installing sbx-jupyter and its tools into $(VENV): about 3 minutes."
	$(BIN)/python -m pip install ".[lab,test,lint]"
	@touch $@

# The build of the Python package builds the front end, but reuses an old one, so remove that first.
$(BUILT): $(FRONTEND) | $(BIN)/python
	rm -rf sbx_jupyter/labextension sbx_jupyter/static

$(VENV)/.lab: $(PACKAGE) $(BUILT) | $(BIN)/python
	@echo "Installing sbx-jupyter and JupyterLab into $(VENV): about 2 minutes the first time, then seconds."
	$(BIN)/python -m pip install $(QUIET) ".[lab]"
	touch $@

$(VENV)/.test: $(PACKAGE) $(BUILT) | $(BIN)/python
	sh tests/system_packages.sh
	@echo "Installing sbx-jupyter and what its tests need into $(VENV): about 3 minutes the first time, then seconds."
	$(BIN)/python -m pip install $(QUIET) ".[lab,test,lint]"
	touch $@
