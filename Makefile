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

check: $(READY)  ## format, lint, types, import contract, unused and undeclared dependencies, enqueues of the examples
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src
	$(BIN)/onward check examples

format: $(READY)  ## write the format that `make check` asks for
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

docs: $(DOCS_READY)  ## build the documentation into site/ (its code blocks run in `make test`)
	$(BIN)/python scripts/write_cli_page.py
	$(BIN)/zensical build --strict

lock:  ## pin the tools anew: requirements/*.in become requirements/*.txt
	scripts/lock.sh $(PYTHON)

clean:  ## remove everything that these commands made
	rm -rf .venv .venv-* site .mypy_cache .ruff_cache .hypothesis .import_linter_cache .demo

# Commands whose work is not built yet say so and fail, so that nobody takes silence for a passed check.
torture torture-release:  ## (not built yet) kill, freeze and starve workers, and check every promise
	@echo "make $@: not built yet. The crash tests that exist run in 'make test' (tests/acceptance)."; exit 2

mutate:  ## (not built yet) break the code on purpose, and see that a test notices
	@echo "make mutate: not built yet."; exit 2

fuzz:  ## (not built yet) feed hostile input for a long time
	@echo "make fuzz: not built yet. The property tests that exist run in 'make test'."; exit 2

bench bench-peers:  ## (not built yet) measure, beside the raw loop and beside other libraries
	@echo "make $@: not built yet. No speed is claimed until it is."; exit 2

# -- set-up -------------------------------------------------------------------------------------------------------------

$(READY): requirements/dev.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer with venv and ensurepip was found. On Debian: apt install python3-venv. Or name one: make $(MAKECMDGOALS) PYTHON=/path/to/python"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing the pinned tools into $(VENV) ..."
	@$(BIN)/python $(PIP) install --requirement requirements/dev.txt
	@$(BIN)/python $(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(DOCS_READY): requirements/docs.txt $(READY)
	@$(BIN)/python $(PIP) install --requirement requirements/docs.txt
	@touch $@
