# Every target sets up what it needs in .venv; a machine with Python 3.11 or newer and a package index is enough. Outside
# of it only programs that tests need are installed, by `make test` of root: a browser for the pages, PostgreSQL for tables in
# it, R for what is said about it. Where one is missing, its tests are skipped (in CI: they fail).
#   make demo PYTHON=python3.12          another interpreter (a change of interpreter makes .venv anew)
#   make test ARGS="-k uniform"          further arguments for pytest or the benchmark

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
SMOKE := build/smoke

# Stamps: which interpreter .venv was made with, and what was installed since pyproject.toml last changed.
MADE := $(VENV)/.made-with-$(subst /,-,$(PYTHON))
RUN := $(VENV)/.installed
DEV := $(VENV)/.installed-dev

# Pages are looked at in Debian's Chromium. Where it cannot be installed, those tests say so and are left out.
BROWSER := $(VENV)/.browser
SYSTEM := $(VENV)/.system
SERVER := ls /usr/lib/postgresql/*/bin/pg_ctl > /dev/null 2>&1
LACKS = $$(command -v chromium > /dev/null || echo chromium) $$($(SERVER) || command -v pg_ctl > /dev/null || echo pg_ctl) \
	$$(command -v Rscript > /dev/null || echo Rscript)

# Tests are compiled once and kept, whatever the environment says: compiling them takes longer than many of them.
PYTEST = PYTHONDONTWRITEBYTECODE= CI_LACKS="$(LACKS)" $(BIN)/python -m pytest -n auto --dist worksteal

# Publishing waits for the disk, and quick tests publish hundreds of times: in memory, if there is a gigabyte of it.
MEMORY = $$(df -Pk /dev/shm 2> /dev/null | awk 'END { if ($$4 > 1048576) print "/dev/shm" }')
IN_MEMORY = memory=$(MEMORY); TMPDIR=$${memory:-$${TMPDIR:-/tmp}}

PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo quick test full check lowest smoke reproduce bench sail spark sparks clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-11s%s\n", $$1, $$2 }' Makefile

demo: $(RUN) ## publish a made-up table, query the release, show the result
	$(BIN)/sfumato demo

quick: $(DEV) ## one case of every test that is not long, in less than a minute: after each edit
	$(IN_MEMORY) $(PYTEST) --extent quick -o tmp_path_retention_policy=failed $(ARGS)

test: $(DEV) $(BROWSER) $(SYSTEM) ## all that guards a promise, in some minutes: before each commit
	$(PYTEST) $(ARGS)
	$(if $(ARGS),,$(BOTH_SPARKS))

full: $(DEV) $(BROWSER) $(SYSTEM) ## the whole matrices, and many more examples: before a release
	$(PYTEST) --extent full $(ARGS)
	$(if $(ARGS),,$(MAKE) sail spark sparks EXTENT=full)

# Two processes, beside each other, on two cores; both must pass.
BOTH_SPARKS = $(MAKE) sail & first=$$!; $(MAKE) spark; second=$$?; wait $$first && exit $$second

# Tests of Spark, in environments and runs of their own. Without Java, those of Spark itself are left out, aloud.
EXTENT := test
SPARK_TESTS = -m pytest --extent $(EXTENT) tests/spark
HAS_JAVA = command -v java > /dev/null || { echo "NO JAVA: SPARK ITSELF IS NOT TESTED"; exit 0; };

sail: .venv-sail/.installed ## of test: Spark's protocol, without Java
	.venv-sail/bin/python $(SPARK_TESTS)

spark: ## of test: Spark itself, if there is Java
	@$(HAS_JAVA) $(MAKE) .venv-spark/.installed && set -x && .venv-spark/bin/python $(SPARK_TESTS)

sparks: ## of full: Spark Connect, and the Spark before this one
	@$(HAS_JAVA) $(MAKE) .venv-spark/.installed .venv-older/.installed && set -x && \
	SFUMATO_TEST_CONNECT=1 .venv-spark/bin/python $(SPARK_TESTS) && .venv-older/bin/python $(SPARK_TESTS)

check: $(DEV) ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lowest: .venv-lowest/.installed ## the quick tests with the oldest dependencies that pyproject.toml allows
	PYTHONDONTWRITEBYTECODE= .venv-lowest/bin/python -m pytest -n auto --extent quick $(ARGS)

smoke: $(DEV) ## install the wheel alone, without dev tools or extras, and run it
	rm -rf $(SMOKE)
	mkdir -p $(SMOKE)
	$(BIN)/python -m build --outdir $(SMOKE) . > $(SMOKE)/build.log 2>&1 || { cat $(SMOKE)/build.log; exit 1; }
	$(PYTHON) -m venv $(SMOKE)/venv
	! $(BIN)/python -m zipfile -l $(SMOKE)/*.whl | grep -E '^(papers|tests|bench)/'
	$(SMOKE)/venv/bin/python $(PIP_INSTALL) $(SMOKE)/*.whl
	cd $(SMOKE) && venv/bin/sfumato --help > /dev/null
	cd $(SMOKE) && venv/bin/sfumato demo

reproduce: $(DEV) ## the papers' tables and figures: make reproduce ARGS="list", or NAME... --out DIR
	$(BIN)/python -m papers $(or $(ARGS),all --quick --out build/reproduction)

bench: $(DEV) ## time publishing and perturbing, side by side
	$(BIN)/python bench/publish.py $(ARGS)
	$(BIN)/python bench/peers.py

clean: ## remove everything that make and the tools left
	rm -rf $(VENV) .venv-* build dist src/*.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src papers tests bench -type d -name __pycache__ -prune -exec rm -rf {} +

$(MADE):
	@echo "setting up $(VENV) (once; a minute or two)"
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(RUN): $(MADE) pyproject.toml
	$(BIN)/python $(PIP_INSTALL) -e .
	@touch $@

# What the tests need contains what a run needs, so both stamps are set.
$(DEV): $(MADE) pyproject.toml
	$(BIN)/python $(PIP_INSTALL) -e '.[dev]'
	@touch $(RUN) $@

# What is installed in the environment that is named so.
OF_sail := -e '.[dev-sail]'
OF_spark := -e '.[dev-spark]'
OF_older := -e . 'pyspark[sql]>=3.5,<4' 'pandas>=2.2,<3' hypothesis pytest

# Each dependency of the package itself at its lower bound; what only tests use is as new as it comes.
LOWEST = import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")
.venv-lowest/.installed: pyproject.toml
	@echo "setting up .venv-lowest (once; a minute or two)"
	$(PYTHON) -m venv --clear .venv-lowest
	$(PYTHON) -c '$(LOWEST)' | sed 's/>=/==/' > .venv-lowest/lowest.txt
	.venv-lowest/bin/python $(PIP_INSTALL) -c .venv-lowest/lowest.txt -e '.[dev]'
	@touch $@

.venv-%/.installed: pyproject.toml
	@echo "setting up .venv-$* (once; a minute or two)"
	$(PYTHON) -m venv --clear .venv-$*
	.venv-$*/bin/python $(PIP_INSTALL) $(OF_$*)
	@touch $@

# Only root may install a program of the system, and a machine without one runs all other tests.
$(BROWSER): $(MADE)
	@command -v chromium > /dev/null || [ "$$(id -u)" -ne 0 ] || \
	{ apt-get -q update && apt-get -qy install --no-install-recommends chromium; } > $@.log 2>&1 || \
	echo "chromium could not be installed: pages are not looked at in a browser"
	@touch $@

$(SYSTEM): $(MADE)
	@{ $(SERVER) && command -v Rscript > /dev/null; } || [ "$$(id -u)" -ne 0 ] || \
	{ apt-get -q update && apt-get -qy install --no-install-recommends postgresql r-base-core; } > $@.log 2>&1 || \
	echo "PostgreSQL or R could not be installed: what needs them is not tested"
	@touch $@
