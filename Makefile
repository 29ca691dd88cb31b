# All targets need Python 3.11 or newer with venv.

PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready

.PHONY: run test check test-slow test-data format tables

run: $(READY)
	$(VENV)/bin/remnant run

test: $(READY)
	$(VENV)/bin/pytest

check: $(READY)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/pytest

test-slow: $(READY)
	$(VENV)/bin/pytest -m slow

# Needs the real datasets: cifar-10-batches-py, CIFAR-10_human.pt and nw_ucla.npz in the folder $REMNANT_DATA, and
# the Debian package dataset-fashion-mnist.
test-data: $(READY)
	$(VENV)/bin/pytest -m data

# Generates the tables of the documents from the files in results/.
tables: $(READY)
	$(VENV)/bin/remnant table --update README.md docs/RESULTS.md

format: $(READY)
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "remnant needs python3, version 3.11 or newer: $(PYTHON) was not found. Install it, or run: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "remnant needs Python 3.11 or newer: $(PYTHON) is $$($(PYTHON) --version). Run: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "remnant needs the Python module venv. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(VENV)/bin/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
