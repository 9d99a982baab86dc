# make train: set up and train the embedded default.   make test: set up, lint and run the tests.   make docs: build the site.
# make lint: look for faults, at the formatting and the types.      make build: make the wheel and the source archive, in dist.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

.PHONY: train test lint docs build clean

train: $(VENV)/installed
	$(RUN) -m hetjax.train --config examples/quickstart.yaml --workdir runs/quickstart

test: lint
	$(RUN) -m pytest -n 2

lint: $(VENV)/installed-test
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

build: $(VENV)/installed-test
	rm -rf build dist
	$(RUN) -m build

docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(f"hetjax needs Python 3.11 or later, and $(PYTHON) is {sys.version.split()[0]}; try: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python's venv module is missing (on Debian: apt-get install python3-venv)"; exit 1; }

$(VENV)/installed: $(VENV)/bin/python pyproject.toml
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/installed-test: $(VENV)/bin/python pyproject.toml
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-docs: $(VENV)/bin/python pyproject.toml
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) build dist site *.egg-info
