# The two commands of the README: `make rehearse` and `make test`. Each sets up what it needs,
# once: packages are installed again only when a lock file or pyproject.toml has changed.

PYTHON ?= python3

# Set by the command line alone: a shell may have variables of these names for other purposes.
STEPS := 30
DOCUMENTS := bundled
SEED := 1
ENVIRONMENT :=
MODEL :=
STORE :=
FRESH :=
TAKE_OVER :=

# Bytecode that is never kept would be compiled anew by every process of every run.
unexport PYTHONDONTWRITEBYTECODE

# Whether a variable is set to more than a no: FRESH=0 is one.
yes = $(filter-out 0 no false,$(1))

VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)

# The number of packages in the lock that a rule begins with.
PACKAGES = $$(grep -c == $<)

# uv installs in seconds what takes pip more than a minute.
ifdef UV
MAKE_VENV = "$(UV)" venv --quiet --clear --seed --python $(PYTHON) $(VENV)
INSTALL = "$(UV)" pip install --quiet --python $(BIN)/python
else
# Install uv from its lock, and fall back to pip, which honours index settings that uv does not read.
PIP_INSTALL = $(BIN)/python -m pip install -qq --disable-pip-version-check
MAKE_VENV = $(PYTHON) -m venv --clear $(VENV) && echo "Installing uv, which is faster than pip …" \
	&& $(PIP_INSTALL) --no-deps --require-hashes -r requirements-uv.lock
INSTALL = install() { $(BIN)/uv pip install --quiet --python $(BIN)/python "$$@" \
	|| { echo "uv could not; pip tries, for a minute or two …"; $(PIP_INSTALL) "$$@"; }; }; install
endif

# What starts Prefect, S3, a browser or a cluster.
SERVICES := $(wildcard tests/services tests/*/services)

.PHONY: install install-gpu install-sky install-tinker install-environments \
	install-ray install-verifiers rehearse stop test test-all test-gpu unit \
	debian services matrices lint docs format bench lock outdated clean

rehearse: $(VENV)/.installed  ## train, benchmark and report on this machine
	@TRAIN_SIZE="$(TRAIN_SIZE)" VAL_SIZE="$(VAL_SIZE)" $(BIN)/precis rehearse \
		--steps $(STEPS) --documents "$(DOCUMENTS)" --seed $(SEED) \
		$(if $(ENVIRONMENT),--environment "$(ENVIRONMENT)") \
		$(if $(MODEL),--model "$(MODEL)") $(if $(STORE),--store "$(STORE)") $(if $(call yes,$(FRESH)),--fresh) \
		$(if $(call yes,$(TAKE_OVER)),--take-over)

install: $(VENV)/.installed  ## the environment alone
	@echo "Next: \`. $(BIN)/activate\`, then \`precis doctor\`."

stop: $(VENV)/.installed  ## stop the Prefect server that a rehearsal left up
	@$(BIN)/precis stop

test:  ## every check, and every test but the long ones
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.installed-dev debian
	@$(MAKE) --no-print-directory --jobs=2 services lint docs unit

test-all:  ## the same and the long ones
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory matrices

unit: $(VENV)/.installed-dev
	$(BIN)/python -m pytest tests $(addprefix --ignore=,$(SERVICES) tests/gpu) -m "not long" -n 3 --dist worksteal

debian:  ## what the tests of `make test` start programs of
	@tests/services/install.sh chromium postgresql

services: $(VENV)/.installed-dev debian
	$(BIN)/python -m pytest $(SERVICES) -m "not long" -n 3 --dist loadfile \
		--no-loadscope-reorder --durations=15

# The files that have long tests: to import all others takes as long as some of these.
LONG = $$(grep -rl --include="test_*.py" "mark\.long" tests | grep -v "^tests/gpu")

matrices: $(VENV)/.installed-dev $(VENV)/.installed-ray  ## what test-all adds to test
	@tests/services/install.sh slurm-wlm munge openssh-server openssh-client rsync iproute2 \
		python3-torch
	$(BIN)/python -m pytest $(LONG) -m long -n 3 --dist loadfile \
		--no-loadscope-reorder --durations=15

test-gpu: $(VENV)/.installed-dev .venv-gpu/.installed  ## on a machine with a GPU: tests/gpu/README.md
	.venv-gpu/bin/python -m pytest -c /dev/null --rootdir . tests/gpu/test_layers.py \
		tests/gpu/test_learner.py tests/gpu/test_lora.py tests/gpu/test_outputs.py
	PATH="$$PWD/.venv-gpu/bin:$$PATH" $(BIN)/python -m pytest tests/gpu/flow -s

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: $(VENV)/.installed-dev  ## the documentation, into site/; a dead link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/.installed-dev  ## the programs that print the figures we claim
	@for name in attacks judge lexical_judge readability; do \
		echo "== $$name"; $(BIN)/python bench/$$name.py || exit 1; done

lock: ## resolve the dependencies anew (needs uv)
	"$(UV)" pip compile pyproject.toml --group dev --extra pipeline --extra sky --extra mcp --extra textarena \
		$(LOCK) -o requirements-dev.lock
	"$(UV)" pip compile pyproject.toml --group build --extra pipeline --extra sky \
		--constraint requirements-dev.lock $(LOCK) -o requirements-sky.lock
	"$(UV)" pip compile pyproject.toml --group build --extra pipeline --extra tinker \
		--constraint requirements-dev.lock $(LOCK) -o requirements-tinker.lock
	"$(UV)" pip compile pyproject.toml --group build --extra pipeline --extra mcp --extra textarena \
		--extra reasoning-gym \
		--constraint requirements-dev.lock --overrides requirements-overrides.txt \
		$(LOCK) -o requirements-environments.lock
	"$(UV)" pip compile pyproject.toml --group build --extra pipeline --extra ray \
		--constraint requirements-dev.lock $(LOCK) -o requirements-ray.lock
	"$(UV)" pip compile pyproject.toml --group build --extra pipeline \
		--constraint requirements-dev.lock $(LOCK) -o requirements.lock
	echo uv | "$(UV)" pip compile - --constraint requirements-dev.lock $(LOCK) \
		-o requirements-uv.lock
	"$(UV)" pip compile --group gpu --python-version 3.12 \
		--python-platform x86_64-manylinux_2_35 --constraint requirements-gpu-run.txt \
		--overrides requirements-gpu-overrides.txt $(LOCK_FORM) -o requirements-gpu.lock
	"$(UV)" pip compile tests/services/llama_cpp.txt --python-version 3.11 \
		--python-platform x86_64-manylinux_2_28 $(LOCK_FORM) -o tests/services/llama_cpp.lock
	"$(UV)" pip compile environments/precis_summaries/pyproject.toml --group pyproject.toml:build \
		--no-emit-package precis $(LOCK) -o environments/precis_summaries/requirements.lock

outdated: $(VENV)/.installed-dev  ## the pins that shut a newer release out, and why
	@$(BIN)/python -m tools.outdated

clean:
	rm -rf $(VENV) .venv-* site .mypy_cache .pytest_cache .ruff_cache

LOCK_FORM = --quiet --generate-hashes --no-emit-index-url --custom-compile-command "make lock"
LOCK = --universal --python-version 3.11 $(LOCK_FORM)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15) and "Précis needs Python 3.11, 3.12, 3.13 or 3.14; name one with PYTHON=python3.12.")'
	@echo "Making the environment $(VENV) with $$($(PYTHON) --version) …"
	@$(MAKE_VENV)

$(VENV)/.installed: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "Installing $(PACKAGES) packages, once: about half a minute, a few seconds from uv's cache …"
	@$(INSTALL) --no-deps --require-hashes -r $<
	@echo "Installing Précis itself …"
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@echo "Installed."
	@touch $@

install-gpu: .venv-gpu/.installed  ## to train on this machine's GPU; needs python3.12

.venv-gpu/.installed: requirements-gpu.lock
	@echo "Installing $(PACKAGES) packages into .venv-gpu, once: it takes minutes …"
	@python3.12 -m venv --clear .venv-gpu
	@.venv-gpu/bin/python -m pip install --quiet --no-deps --require-hashes -r $<
	@.venv-gpu/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

install-sky: $(VENV)/.installed-sky  ## with SkyPilot, to rent machines

install-tinker: $(VENV)/.installed-tinker  ## with the client of the Tinker API

install-environments: $(VENV)/.installed-environments  ## with reasoning-gym, TextArena and MCP

install-ray: $(VENV)/.installed-ray  ## with Ray, to play on more machines than one

$(VENV)/.installed-%: requirements-%.lock $(VENV)/.installed
	@echo "Installing the packages of $< beside the rest …"
	@$(INSTALL) --no-deps --require-hashes -r $<
	@touch $@

install-verifiers: .venv-verifiers/.installed  ## to train on environments of verifiers, beside .venv

.venv-verifiers/.installed: environments/precis_summaries/requirements.lock
	@echo "Installing $(PACKAGES) packages into .venv-verifiers, once …"
	@$(PYTHON) -m venv --clear .venv-verifiers
	@.venv-verifiers/bin/python -m pip install --quiet --no-deps --require-hashes -r $<
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock requirements-environments.lock $(VENV)/.installed
	@echo "Installing the packages of the checks and tests, once: $(PACKAGES) with those that are there …"
	@$(INSTALL) --no-deps --require-hashes -r $<
	@echo "Installing the environments' packages for their tests …"
	@$(INSTALL) --no-deps --require-hashes -r requirements-environments.lock || { \
		! command -v cc >/dev/null && \
		echo "reasoning-gym is left out, with its tests: it needs a C compiler."; }
	@touch $@
