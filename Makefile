# All targets need Python 3.11 or newer with venv.

PYTHON ?= python3
VENV := .venv
DEMO := $(VENV)/.demo
READY := $(VENV)/.ready
INSTALL := PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(VENV)/bin/pip install --quiet --disable-pip-version-check --editable

.PHONY: run test check test-slow test-data test-browser chromium format tables mutants docs fuzz faults

run: $(DEMO)
	$(VENV)/bin/remnant demo

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

# Generates the tables of the documents from the files in results/ and from the code.
tables: $(READY)
	$(VENV)/bin/remnant table --update README.md docs/RESULTS.md docs/trace.md
	$(VENV)/bin/python docs/site/blocks.py

# Builds the documentation site: build/site/index.html.
docs: $(READY)
	$(VENV)/bin/python docs/site/build.py

# Changes the source in 500 places, one at a time, and lists the changes that no test notices.
mutants: $(READY)
	$(VENV)/bin/python -m mutants

# Runs changed inputs through every parser: COUNT=1000 make fuzz
fuzz: $(READY)
	$(VENV)/bin/python -m fuzz --count $(or $(COUNT),100000)

# Injects faults into commands, and checks that nothing is lost; --short takes less than a minute.
faults: $(READY)
	$(VENV)/bin/python faults

# Opens a report in Chromium.
test-browser: $(READY) chromium
	$(VENV)/bin/pytest -m browser -n 0

format: $(READY)
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

# Chromium for `make test-browser`: that of Debian as root, that of Playwright otherwise.
chromium: $(READY)
	@command -v chromium >/dev/null 2>&1 || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && apt-get update -qq && apt-get install -qq -y chromium; } || \
	$(VENV)/bin/playwright install chromium || { \
	  echo "make test-browser needs Chromium, which could not be installed. On Debian: apt-get install chromium"; exit 1; }

# `make run` installs what it runs, the other targets everything; both in one environment.
$(DEMO): pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(INSTALL) '.[report]'
	@touch $@

$(READY): pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(INSTALL) '.[dev]'
	@touch $(DEMO) $@

$(VENV)/bin/pip:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "remnant needs Python 3.11 or newer: $(PYTHON) was not found. Install it, or run: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "remnant needs Python 3.11 or newer: $(PYTHON) is $$($(PYTHON) --version). Run: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "remnant needs the Python module venv. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
