# Every command of the project. Needs Python 3.11 or newer, make and git; the rest is installed into .venv on first use.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The Python that .venv is made from: the first one that is new enough and can make an environment. Or: make test PYTHON=python3.13
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
PEERS_VENV := .venv-peers
PEERS_READY := $(PEERS_VENV)/.ready
PIP := -m pip --disable-pip-version-check --quiet
TESTS ?=

.PHONY: help demo test test-all check format docs lock clean torture torture-release mutate fuzz bench bench-peers

help:  ## this list
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  make %-24s %s\n", $$1, $$2 }' Makefile

demo: $(READY)  ## run the example system end to end and compare every count with the store (DEMO_URL=sqlite:///file.db or postgresql://host/database chooses where)
	$(BIN)/python -m examples.files.demo

test: $(READY)  ## the whole suite (TESTS=tests/unit for a part)
	$(BIN)/python -m pytest -n 2 --dist worksteal $(TESTS)

test-all:  ## the whole suite on every Python from 3.11 up that this machine has
	scripts/test_all.sh

check: $(READY)  ## format, lint, types, import contract, unused and undeclared dependencies, enqueues of the examples, fit of the planted bugs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src
	$(BIN)/onward check examples
	@for patch in tests/planted/patches/*.patch; do git apply -C1 --check $$patch || exit 1; done

format: $(READY)  ## write the format that `make check` asks for
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

docs: $(DOCS_READY)  ## build the documentation into site/ (its code blocks run in `make test`)
	$(BIN)/python scripts/write_cli_page.py
	$(BIN)/zensical build --strict

lock:  ## pin the tools anew: requirements/*.in become requirements/*.txt
	scripts/lock.sh $(PYTHON)

clean:  ## remove everything that these commands made
	rm -rf .venv .venv-[0-9]* .venv-peers site .mypy_cache .ruff_cache .hypothesis .import_linter_cache .demo

torture torture-release: $(READY)  ## kill, freeze, starve and cut off workers, stores and disks, and check every promise; the second for an hour and a half (SEED=7 repeats the choices of a run)
	scripts/torture.sh $(if $(filter torture-release,$@),release,quick)

fuzz: $(READY)  ## feed hostile input to all that reads any (FUZZ_SECONDS=120 for each target, otherwise 20; SEED=7)
	$(BIN)/python -m tests.fuzz --seconds $${FUZZ_SECONDS:-20} $(if $(SEED),--seed $(SEED))

mutate: $(READY)  ## break the code on purpose, and see that a test notices (hours; SAMPLE=50 tries so many of each part, ONLY=rules one part, SEED=7)
	$(BIN)/python -m tests.mutation $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(ONLY),--only $(ONLY)) $(if $(SEED),--seed $(SEED))

bench: $(READY)  ## measure beside the plainest loops on both databases, more than an hour (BENCH="--store sqlite --only drain" a part; --help says what else)
	$(BIN)/python -m benchmarks $(BENCH)

bench-peers: $(PEERS_READY)  ## measure beside other libraries on the same work, about half an hour (BENCH="--peer huey --only drain" a part; --help says what else)
	$(PEERS_VENV)/bin/python -m benchmarks.peers $(BENCH)

# -- set-up -------------------------------------------------------------------------------------------------------------

NEEDS_PYTHON = test -n "$(PYTHON)" || { echo "No Python 3.11 or newer with venv and ensurepip was found. On Debian: apt install python3-venv. Or name one: make $(MAKECMDGOALS) PYTHON=/path/to/python"; exit 1; }

$(READY): requirements/dev.txt pyproject.toml
	@$(NEEDS_PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing the pinned tools into $(VENV) ..."
	@$(BIN)/python $(PIP) install --requirement requirements/dev.txt
	@$(BIN)/python $(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(PEERS_READY): requirements/peers.txt pyproject.toml
	@$(NEEDS_PYTHON)
	@test -x $(PEERS_VENV)/bin/python || $(PYTHON) -m venv $(PEERS_VENV)
	@echo "Installing the libraries to measure into $(PEERS_VENV) ..."
	@$(PEERS_VENV)/bin/python $(PIP) install --requirement requirements/peers.txt
	@$(PEERS_VENV)/bin/python $(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(DOCS_READY): requirements/docs.txt $(READY)
	@$(BIN)/python $(PIP) install --requirement requirements/docs.txt
	@touch $@
