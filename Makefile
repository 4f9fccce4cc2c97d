# Everything runs in .venv, which is made on first use and again when the dependencies change.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
	-c constraints.txt
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo lint test test-all check docs package format mutants test-versions clean

help:
	@echo "make demo      run kernels, break one, validate all of them and show the table"
	@echo "make lint      format, lint, types, import rules and size, without tests"
	@echo "make test      make lint and the fast tests; ARGS goes to pytest"
	@echo "make test PACKAGE=trnblas   the same for src/trnblas and tests/trnblas alone"
	@echo "make test-all  the same as make test, with the slow tests"
	@echo "make check     tools/check as it is; ARGS goes to pytest"
	@echo "make docs      write the reference pages and build the site"
	@echo "make package   build the wheel and the source package, in dist/"
	@echo "make format    rewrite the sources the way make test wants them"
	@echo "make mutants   plant faults and see which the tests notice; ARGS goes to tools/mutants.py"
	@echo "make test-versions   the fast tests on other versions of Python, torch, NumPy and SciPy"
	@echo "make clean     remove .venv and every cache"

# Modules are compiled when they are imported: to compile all of torch takes longer than to unpack it.
# hatchling comes first because the project is then built in .venv itself: a build in isolation
# would fetch a second, unconstrained one. The distribution was called trnsci: an environment of that
# time would have two that own the same files.
$(READY): pyproject.toml constraints.txt
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(PIP) hatchling editables
	$(VENV)/bin/python -m pip uninstall --quiet --quiet --quiet --yes trnsci
	$(PIP) --no-build-isolation -e '.[dev]'
	touch $@

setup: $(READY)

# Every kernel on the simulator against its reference, and the table of what came out.
demo: $(READY)
	$(VENV)/bin/python examples/demo.py
	@echo; echo "Every kernel of the libraries, on the simulator against its reference:"; echo
	$(VENV)/bin/python -m trnsci validate --quick --jobs 2
	@echo
	@$(VENV)/bin/python -m trnsci status
	@echo; printf "the same as a page: "
	@$(VENV)/bin/python -m trnsci status --format html --output build/status.html

# PACKAGE, if given, reaches tools/lint and tools/check as an environment variable.
lint: $(READY)
	tools/lint

test: $(READY)
	tools/check -m "not slow" $(ARGS)

# PySCF and the site's builders are large packages for a few slow tests.
$(VENV)/.all: $(READY)
	$(PIP) --no-build-isolation -e '.[dev,docs,pyscf]'
	touch $@

test-all: $(VENV)/.all
	tools/check $(ARGS)

check: $(READY)
	tools/check $(ARGS)

# The site's builder is large; only those who build the site need it.
$(VENV)/.docs: $(READY)
	$(PIP) --no-build-isolation -e '.[dev,docs]'
	touch $@

docs: $(VENV)/.docs
	$(VENV)/bin/python tools/gen_catalogue.py
	$(VENV)/bin/python tools/gen_stubs.py
	$(VENV)/bin/python tools/gen_api.py
	$(VENV)/bin/python tools/gen_benchmarks.py
	$(VENV)/bin/python tools/gen_coverage.py
	$(VENV)/bin/python tools/gen_migration.py
	$(VENV)/bin/python tools/gen_origins.py
	$(VENV)/bin/python tools/gen_pictures.py
	$(VENV)/bin/python tools/gen_energy_plot.py
	address=$$($(VENV)/bin/python hatch_build.py) && \
		TRNSCI_REPOSITORY_URL="$$address" $(VENV)/bin/python -m mkdocs build --quiet
	@echo site/index.html

# Without isolation: hatchling is in .venv, so that nothing is fetched.
package: $(READY)
	$(VENV)/bin/python -m build --no-isolation

format: $(READY)
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

# Cosmic Ray is a large package for a report now and then.
$(VENV)/.mutants: $(READY)
	$(PIP) --no-build-isolation -e '.[dev,mutants]'
	touch $@

mutants: $(VENV)/.mutants
	$(VENV)/bin/python tools/mutants.py $(ARGS)

# An hour of tests, and several gigabytes from the package index.
$(VENV)/.versions: $(READY)
	$(PIP) --no-build-isolation -e '.[dev,versions]'
	touch $@

test-versions: $(VENV)/.versions
	$(VENV)/bin/python tools/tested_versions.py $(ARGS)

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	rm -rf docs/api docs/benchmarks docs/instructions site
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
