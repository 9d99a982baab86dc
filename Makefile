# make train: set up and train the embedded default.   make test: set up, lint and run the tests.   make docs: build the site.
# make peers: graphs through PyG's and DGL's objects and back, in an environment of their own, .venv-peers (Python 3.11).
# make lint: look for faults, at the formatting and the types.      make build: make the wheel and the source archive, in dist.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PEERS := .venv-peers

.PHONY: train test peers lint docs build clean

train: $(VENV)/installed
	$(RUN) -m hetjax.train --config examples/quickstart.yaml --workdir runs/quickstart

test: lint
	$(RUN) -m pytest -n 2

lint: $(VENV)/installed-test
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

peers: $(PEERS)/installed
	DGLBACKEND=pytorch $(PEERS)/bin/python -m tests.support.round_trips pyg dgl

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

$(PEERS)/installed: tests/peers.txt
	$(PYTHON) -m venv --clear $(PEERS)
	{ $(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 && \
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<; } || \
	{ echo "make peers: PyG and DGL cannot be installed here: this needs a network, or pip's cache, and Python 3.11"; exit 1; }
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) build dist site *.egg-info
