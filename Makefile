# Everything a contributor runs. Each target sets up what it needs, on a machine with Python >= 3.11, git and make.
#
#   PYTHON=python3.12 make setup    another Python
#   TANDEM_PURE=1 make setup        the interpreted form of tandem.amqp, although a C compiler is there

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
N ?= 20000

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
UV := $(BIN)/uv
UV_INSTALL := $(UV) pip install --quiet --python $(PY)
COMPILE_LOCK := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --custom-compile-command 'make lock'

# Only what holds Python: mypy takes a folder without any for a mistake.
CHECKED := $(foreach path,src tests bench tools examples,\
	$(if $(shell find $(path) -name '*.py' -print -quit 2>/dev/null),$(path))) hatch_build.py
# The tests of tandem.amqp: run in both forms, and for the coverage of the interpreted one.
CORE_TESTS := $(wildcard tests/unit tests/spec tests/fuzz) \
	$(patsubst %,--ignore=tests/unit/test_%.py,packaging readme style tools)

.PHONY: help setup spark check test demo bench fuzz crash drill spark-crash simulate schemathesis coverage coverage-of-mission docs lock peers clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  \1\t/' | expand -t 24

# --- environment --------------------------------------------------------------------------------------------------

$(VENV)/.stamp-uv: requirements/uv.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"Tandem needs Python 3.11 or newer, this is {v[0]}.{v[1]}: PYTHON=python3.11 make setup")'
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@touch $@

$(VENV)/.stamp-dev: $(VENV)/.stamp-uv requirements/dev.txt pyproject.toml hatch_build.py
	$(UV_INSTALL) --require-hashes -r requirements/dev.txt
	$(UV_INSTALL) --no-build-isolation --no-deps --editable .
	@touch $@

# Where atheris has no wheel, the engine in tests/fuzz/mutate.py takes its place.
$(VENV)/.stamp-fuzz: $(VENV)/.stamp-dev requirements/fuzz.txt
	$(UV_INSTALL) --require-hashes -r requirements/fuzz.txt || echo 'no atheris here: fuzzing goes on without coverage guidance'
	@touch $@

# Half a gigabyte: what the tests, the demo and the benchmark of the data pipeline need.
$(VENV)/.stamp-spark: $(VENV)/.stamp-dev requirements/spark.txt
	$(UV_INSTALL) --require-hashes -r requirements/spark.txt
	@touch $@

setup: $(VENV)/.stamp-dev ## make .venv with tandem in it, compiled where a C compiler is at hand
	@$(PY) -m tools.compile_core

spark: setup $(VENV)/.stamp-spark ## add what the data pipeline on Spark needs to .venv

peers: $(VENV)/.stamp-dev ## build the foreign AMQP stacks that the interop tests and benchmarks talk to
	bash tools/peers.sh

# --- checks -------------------------------------------------------------------------------------------------------

check: setup $(VENV)/.stamp-spark ## format, lint, types, layers, generated docs, places of the mutants
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(CHECKED)
	$(BIN)/lint-imports
	$(PY) -m tools.generate_docs --check
	$(PY) -m tools.transcript --check
	$(PY) -m tests.sim.canaries --check
	$(PY) -m tools.generate_sync --check

# Three groups at a time on two cores: most of them wait for long, for the official SDKs, for child processes, for Spark.
# The long ones come first, and whatever has no group of its own is in `rest`.
TEST_GROUPS := spark rest sdks outages commands coverage interpreted
SPARK_TESTS := $(wildcard tests/spark)
SDK_TESTS := $(wildcard tests/compat)
OUTAGE_TESTS := $(wildcard tests/crash tests/drill tests/load tests/pairing)
COMMAND_TESTS := $(wildcard tests/cli tests/client tests/management tests/security tests/testing)
GROUPED_TESTS := $(SPARK_TESTS) $(SDK_TESTS) $(OUTAGE_TESTS) $(COMMAND_TESTS)

test: setup peers $(VENV)/.stamp-spark ## all tests, and those of tandem.amqp again in the interpreted form, with their coverage
	@mkdir -p build; printf '%s\n' $(TEST_GROUPS) | xargs -P 3 -I GROUP bash -c '\
		echo "tests of GROUP: begun"; status=0; log=build/test-GROUP.log; \
		$(MAKE) --no-print-directory test-GROUP > $$log 2>&1 || status=1; \
		echo "tests of GROUP: after $$SECONDS s"; cat $$log; exit $$status'

.PHONY: $(TEST_GROUPS:%=test-%)
test-spark:
	@$(PY) -m pytest -q $(SPARK_TESTS)

test-sdks:
	@$(PY) -m pytest -q $(SDK_TESTS)

test-outages:
	@$(PY) -m pytest -q $(OUTAGE_TESTS)

test-commands:
	@$(PY) -m pytest -q $(COMMAND_TESTS)

test-rest:
	@$(PY) -m pytest -q tests $(GROUPED_TESTS:%=--ignore=%)

test-interpreted:
	@TANDEM_PURE=1 $(PY) -m pytest -q -m 'hypothesis or exhaustive' $(CORE_TESTS)

test-coverage: coverage

# Property tests are not traced: they would take most of the time, and coverage must not hang on what they happen to draw.
coverage: $(VENV)/.stamp-dev ## branch coverage of tandem.amqp by its plain tests, which must be 100 %
	TANDEM_PURE=1 $(BIN)/coverage run -m pytest -q -m 'not hypothesis and not exhaustive' $(CORE_TESTS)
	$(BIN)/coverage report

coverage-of-mission: $(VENV)/.stamp-dev ## the lines of docs/mission.md that no test names
	@$(PY) -m tools.coverage_of_mission

fuzz: $(VENV)/.stamp-fuzz ## feed N inputs to each fuzz target: make fuzz N=2000000, or with TARGET=decoder to one
	TANDEM_PURE=1 $(PY) -m tests.fuzz.run --inputs $(N) $(if $(TARGET),--target $(TARGET))

crash: setup ## kill the broker N times under load and account for every message: make crash N=200
	$(PY) -m tests.crash.run --cycles $(if $(filter command% environment%,$(origin N)),$(N),200)

drill: setup ## N outages at random under a paired client, J at a time, every message accounted for: make drill N=100
	$(PY) -m tests.drill.run --jobs $(or $(J),2) --drills $(if $(filter command% environment%,$(origin N)),$(N),100)

spark-crash: setup $(VENV)/.stamp-spark ## kill driver, executors and broker N times each under a capture, and compare: make spark-crash N=20
	$(PY) -m tests.spark.run --rounds $(if $(filter command% environment%,$(origin N)),$(N),20)

simulate: setup ## run the engine on a simulated clock, disk and network, from N seeds, then hunt every mutant: make simulate N=2000
	$(PY) -m tests.sim.run --jobs 2 --steps 10000 --seeds $(if $(filter command% environment%,$(origin N)),$(N),200)
	$(PY) -m tests.sim.canaries --seeds 150

# --- to look at ---------------------------------------------------------------------------------------------------

demo: setup $(VENV)/.stamp-spark ## a broker killed under the official SDK, a primary namespace killed under a paired client; every message accounted for
	$(PY) examples/kill_and_recover.py
	rm -rf build/demo
	$(BIN)/tandem drill --keep build/demo
	$(BIN)/tandem pipeline report --from build/demo

bench: setup peers $(VENV)/.stamp-spark ## rates next to RabbitMQ, to the disk, to the official SDK and to python-qpid-proton, each in one run
	$(BIN)/tandem bench queue
	$(BIN)/tandem bench hub
	$(BIN)/tandem bench client
	$(BIN)/tandem bench spark
	$(BIN)/tandem bench amqp

# --- upkeep -------------------------------------------------------------------------------------------------------

docs: $(VENV)/.stamp-dev ## write the generated pages of docs/ anew
	$(PY) -m tools.generate_docs

.venv-schemathesis/.stamp: requirements/schemathesis.txt $(VENV)/.stamp-uv
	$(UV) venv --quiet --clear .venv-schemathesis
	$(UV) pip install --quiet --python .venv-schemathesis/bin/python --require-hashes -r requirements/schemathesis.txt
	touch $@

schemathesis: setup .venv-schemathesis/.stamp ## requests made from the OpenAPI document; N= examples for each operation
	$(PY) -m tools.schemathesis .venv-schemathesis/bin/schemathesis $(or $(N),50)

lock: $(VENV)/.stamp-uv ## pin the newest versions; UPGRADE= keeps what still satisfies pyproject.toml
	$(COMPILE_LOCK) $(UPGRADE) --group uv --output-file requirements/uv.txt
	$(COMPILE_LOCK) $(UPGRADE) pyproject.toml --group dev --output-file requirements/dev.txt
	$(COMPILE_LOCK) $(UPGRADE) --group fuzz --output-file requirements/fuzz.txt
	$(COMPILE_LOCK) $(UPGRADE) --constraint requirements/dev.txt --group spark --output-file requirements/spark.txt
	$(COMPILE_LOCK) $(UPGRADE) requirements/peers.in --output-file requirements/peers.txt
	$(COMPILE_LOCK) $(UPGRADE) requirements/schemathesis.in --output-file requirements/schemathesis.txt
	@! grep -nE '://' requirements/*.txt || { echo 'a lock names an address: it must hold versions and hashes only' >&2; exit 1; }
UPGRADE ?= --upgrade

clean: ## remove the environment and everything built
	rm -rf $(VENV) .venv-peers .venv-schemathesis tests/interop/peers/node_modules tests/compat/node/node_modules build dist htmlcov .coverage .coverage.* .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find src -name '*.so' -delete -o -name '*.pyd' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
