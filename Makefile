# The two commands of the README: `make rehearse` and `make test`. Each sets up what it needs,
# once: packages are installed again only when a lock file or pyproject.toml has changed.

PYTHON ?= python3
STEPS ?= 30
DOCUMENTS ?= bundled
SEED ?= 1

# Bytecode that is never kept would be compiled anew by every process of every run.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)

ifdef UV
INSTALL = $(UV) pip install --quiet --python $(BIN)/python
MAKE_VENV = $(UV) venv --quiet --clear --python $(PYTHON) $(VENV)
else
# An environment that uv made has no pip.
INSTALL = $(BIN)/python -m ensurepip >/dev/null && $(BIN)/python -m pip install --quiet \
	--disable-pip-version-check
MAKE_VENV = $(PYTHON) -m venv --clear $(VENV)
endif

.PHONY: install rehearse stop test unit services lint format bench lock clean

rehearse: $(VENV)/.installed  ## train, benchmark and report on this machine
	@$(BIN)/precis rehearse --steps $(STEPS) --documents "$(DOCUMENTS)" --seed $(SEED) \
		$(if $(STORE),--store "$(STORE)") $(if $(FRESH),--fresh)

install: $(VENV)/.installed  ## the environment alone

stop: $(VENV)/.installed  ## stop the Prefect server that a rehearsal left up
	@$(BIN)/precis stop

test: lint unit services  ## everything that CI runs

unit: $(VENV)/.installed-dev
	$(BIN)/python -m pytest tests/unit -n 3

services: $(VENV)/.installed-dev
	$(BIN)/python -m pytest tests/services -n 2 --dist loadfile --durations=10

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/.installed-dev  ## the programs that print the figures we claim
	@for program in bench/*.py; do echo "== $$program"; $(BIN)/python $$program || exit 1; done

lock: ## resolve the dependencies anew (needs uv)
	$(UV) pip compile pyproject.toml --group build $(LOCK) -o requirements.lock
	$(UV) pip compile pyproject.toml --group dev --constraint requirements.lock $(LOCK) \
		-o requirements-dev.lock

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache

LOCK = --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Précis needs Python 3.11 or newer; name one with PYTHON=python3.12.")'
	@$(MAKE_VENV)

$(VENV)/.installed: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "Installing into $(VENV): once, and silent for a minute or two …"
	@$(INSTALL) --no-deps --require-hashes -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	@$(INSTALL) --no-deps --require-hashes -r requirements-dev.lock
	@touch $@
