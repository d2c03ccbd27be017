# Everything a contributor runs. Each target sets up what it needs, on a machine with Python >= 3.11, git and make, and
# installs nothing outside this folder; only `make peers` installs packages of the system.
#
#   PYTHON=python3.12 make setup    use another Python
#   TANDEM_PURE=1 make setup        keep the core interpreted although a C compiler is at hand

SHELL := /bin/sh
.SHELLFLAGS := -eu -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# The suite starts hundreds of Python processes. Each would compile every module it imports anew.
unexport PYTHONDONTWRITEBYTECODE

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

.PHONY: help setup spark check test test-quick test-compat test-sdks demo pictures bench fuzz crash drill spark-crash soak capture-memory overload attack attack-memory checksum-cost simulate schemathesis coverage coverage-of-mission docs lock peers clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  \1\t/' | expand -t 24

# --- environment --------------------------------------------------------------------------------------------------

$(VENV)/.stamp-uv: requirements/uv.txt tools/prerequisites.py
	@command -v $(PYTHON) >/dev/null || { echo 'There is no $(PYTHON). On Debian and Ubuntu: apt install python3 python3-venv' >&2; exit 1; }
	@$(PYTHON) tools/prerequisites.py
	@echo 'tandem: making the environment in $(VENV)'
	@$(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@touch $@

$(VENV)/.stamp-dev: $(VENV)/.stamp-uv requirements/dev.txt pyproject.toml hatch_build.py
	@echo 'tandem: installing the broker and its tools (100 MB)'
	@$(UV_INSTALL) --require-hashes -r requirements/dev.txt
	@$(UV_INSTALL) --no-build-isolation --no-deps --editable .
	@touch $@

# Where atheris has no wheel, the engine in tests/fuzz/mutate.py takes its place.
$(VENV)/.stamp-fuzz: $(VENV)/.stamp-dev requirements/fuzz.txt
	$(UV_INSTALL) --require-hashes -r requirements/fuzz.txt || echo 'no atheris here: fuzzing goes on without coverage guidance'
	@touch $@

# What the tests, the demo and the benchmark of the data pipeline need.
$(VENV)/.stamp-spark: $(VENV)/.stamp-dev requirements/spark.txt
	@echo 'tandem: installing Spark (500 MB)'
	@$(UV_INSTALL) --require-hashes -r requirements/spark.txt
	@touch $@

setup: $(VENV)/.stamp-dev ## make .venv with tandem in it, compiled where a C compiler is at hand
	@$(PY) -m tools.compile_core

spark: setup $(VENV)/.stamp-spark ## add what the data pipeline on Spark needs to .venv

peers: $(VENV)/.stamp-dev ## install the foreign stacks that tests and benchmarks compare with: Node, Java, Go, RabbitMQ, Qpid Proton (uses apt)
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
	$(PY) -m tools.generate_blocking --check
	$(PY) -m tools.generate_descriptions --check

test: ## run all tests, those of the core in both forms; ends with one summary
	@$(MAKE) --no-print-directory -j2 setup $(VENV)/.stamp-spark
	@$(PY) -m tools.run_tests

test-quick: setup ## a choice of tests that answers in 90 seconds
	@$(PY) -m tools.run_tests --quick

test-compat: setup ## the official SDKs of each language that is installed, in the short form that is part of make test
	@$(PY) -m tools.run_tests compat

# The results are committed: the table of docs/reference/compatibility.md is made from them.
test-sdks: setup ## every feature of the official SDKs in Python, JavaScript, Java and Go over every transport; writes the table
	TANDEM_SDKS=long $(PY) -m pytest -q tests/compat -p tools.sdk_results
	$(PY) -m tools.generate_docs

coverage: $(VENV)/.stamp-dev ## branch coverage of tandem.amqp by its plain tests, which must be 100 %
	@$(PY) -m tools.run_tests coverage

coverage-of-mission: $(VENV)/.stamp-dev ## the lines of docs/mission.md that no test names
	@$(PY) -m tools.coverage_of_mission

fuzz: $(VENV)/.stamp-fuzz ## feed N inputs to each fuzz target: make fuzz N=2000000, or with TARGET=decoder to one
	TANDEM_PURE=1 $(PY) -m tests.fuzz.run --inputs $(N) $(if $(TARGET),--target $(TARGET))

crash: setup ## kill the broker N times under load and account for every message: make crash N=200
	$(PY) -m tests.crash.run --cycles $(if $(filter command% environment%,$(origin N)),$(N),200)

drill: setup ## N outages at random under a paired client, J at a time, every message accounted for: make drill N=100
	$(PY) -m tests.drill.run --jobs $(or $(J),2) --drills $(if $(filter command% environment%,$(origin N)),$(N),100)

spark-crash: setup $(VENV)/.stamp-spark ## kill driver, executors and broker N times each under captures to a disk and to S3, and compare: make spark-crash N=20
	$(PY) -m tests.spark.run --rounds $(if $(filter command% environment%,$(origin N)),$(N),20)

soak: setup $(VENV)/.stamp-spark ## `tandem pipeline run` for S seconds at R events a second with N kills of driver, worker and broker: make soak S=3600 R=2000 N=20
	$(PY) -m tests.spark.soak --seconds $(or $(S),3600) --rate $(or $(R),2000) --kills $(if $(filter command% environment%,$(origin N)),$(N),20)

capture-memory: setup $(VENV)/.stamp-spark ## memory of a capture of N events of 1 MB, by format: make capture-memory N=1200
	$(PY) -m tests.spark.capture_memory --events $(if $(filter command% environment%,$(origin N)),$(N),1200)

# Not in `make test`: how fast a machine fills its memory, its disk and its event loop decides how long each takes.
overload: setup ## put real load on a broker past each of its limits, and see the official SDK wait and recover
	$(PY) -m pytest -q tests/server/health/overload.py

# The figures depend on the machine: run these where nothing else runs. BEFORE is a checkout of an earlier commit, made
# ready with `make setup`, whose broker is measured in turn with this one.
attack: setup ## how long neighbours of each kind of attacker wait, as tables: make attack BEFORE=../before
	$(PY) -m tests.load.starvation $(if $(BEFORE),--before $(BEFORE))

attack-memory: setup ## what one hostile connection, and 1,000 strangers, make the broker hold
	$(PY) -m tests.load.memory
	$(PY) -m tests.load.stranger_memory

checksum-cost: setup ## rates of a queue with and without checksums, in turn: make checksum-cost BEFORE=../before
	$(PY) -m tests.load.checksum_cost $(if $(BEFORE),--before $(BEFORE))

simulate: setup ## run the engine on a simulated clock, disk and network, from N seeds, then hunt every mutant: make simulate N=2000
	$(PY) -m tests.sim.run --jobs 2 --steps 10000 --seeds $(if $(filter command% environment%,$(origin N)),$(N),200)
	$(PY) -m tests.sim.canaries --seeds 150

# --- to look at ---------------------------------------------------------------------------------------------------

demo: $(VENV)/.stamp-dev $(VENV)/.stamp-spark ## kill a broker and a primary namespace under load, account for every message, capture and report with Spark
	@$(PY) -m tools.compile_core --discard-stale
	@$(PY) examples/demo.py

pictures: $(VENV)/.stamp-dev ## take the pictures of the documentation from the report of make demo (needs Chromium)
	@$(PY) -m tools.pictures

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
