# Every target is one or two lines; what is longer is Python with a test.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TOOLS := .make/manifests/.installed
OWN = -o cache_dir=.pytest_cache/$@
COVERED = $(BIN)/coverage run --data-file=.coverage.$@ -m pytest -q $(OWN)
SIDES := tests/integration/gateway tests/integration/ops
FAULTS := tests/acceptance/faults
# Real processes on a shared machine: in CI what failed is tried once more, alone, and both tries stay in
# the log. A second try that passes is a bug to be found, not a success. Elsewhere there is none.
AGAIN = { test -n "$$CI" && echo "FLAKY? a second try of what failed above" && $(BIN)/python -m pytest -q $(OWN) --last-failed --last-failed-no-failures none $(1); }
PURE := worker/normalize/*,worker/providers/*,worker/chunks/*,worker/segments/*,worker/text/*,worker/failures/*,gateway/sequencer.py,shared/redaction.py,shared/private.py

.PHONY: help install lock format lint test test-rooms test-servers test-gateway test-operators test-processes test-faults cov conformance demo up rivals peers bench faults ci clean

help:  ## Show the targets.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(STAMP)  ## Create the virtual environment from hashed pins.

$(STAMP): requirements-dev.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
	@touch $(STAMP)

lock:  ## Write requirements*.txt anew from the ranges in pyproject.toml.
	$(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --extra postgres --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" -o requirements.txt
	$(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --extra postgres --group dev --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" -c requirements.txt -o requirements-dev.txt
	$(BIN)/uv pip compile --group pyproject.toml:build --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" -c requirements-dev.txt -o requirements-build.txt
	$(BIN)/uv pip compile --group pyproject.toml:manifests --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" -o requirements-manifests.txt

format: install  ## Format and fix what can be fixed.
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: install  ## Formatting, lints, layers, types.
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/lint-imports --no-logo && $(BIN)/mypy

test: install  ## The tests: pure rooms, conformance, real Redis and databases, real processes.
	@$(MAKE) --no-print-directory -j5 test-rooms test-operators test-processes test-servers test-gateway test-faults

test-rooms: install  ## A part of them: what only thinks.
	$(COVERED) tests/unit
	$(BIN)/python -m pytest -q $(OWN) tests/properties tests/conformance

test-servers: install  ## Another: real servers and sockets, the fleet. Like the next it mostly waits.
	$(COVERED) tests/integration $(SIDES:%=--ignore=%) || $(call AGAIN,tests/integration $(SIDES:%=--ignore=%))

test-gateway: install  ## Another: the gateway and its Discord.
	$(COVERED) tests/integration/gateway || $(call AGAIN,tests/integration/gateway)

test-operators: install  ## Another: the operators' side, on two databases.
	$(COVERED) tests/integration/ops || $(call AGAIN,tests/integration/ops)

test-processes: install  ## Another: whole deployments of real processes.
	$(BIN)/python -m pytest -q $(OWN) tests/acceptance --ignore=$(FAULTS) || $(call AGAIN,tests/acceptance --ignore=$(FAULTS))

test-faults: install  ## The last: the quick half of the failure suite, and a browser.
	$(BIN)/python -m pytest -q $(OWN) $(FAULTS) tests/browser || $(call AGAIN,$(FAULTS) tests/browser)

conformance: install  ## The corpus alone, in every cutting (AREA=sse,usage chooses).
	$(BIN)/python -m pytest -q tests/conformance $(if $(AREA),--area $(AREA)) --every-cut

cov:  ## The coverage gates, over what the last `make test` ran in its own process.
	$(BIN)/coverage combine --keep .coverage.test-rooms .coverage.test-servers .coverage.test-gateway .coverage.test-operators
	$(BIN)/coverage report --fail-under=90 --skip-covered
	$(BIN)/coverage report --include='$(PURE)' --fail-under=100 --show-missing --skip-covered

demo: install  ## Run real turns through the whole house, and look at them.
	$(BIN)/turnfleet demo

up: install  ## Stay running: gateway, workers, recorder, rehearsal provider.
	$(BIN)/turnfleet up

rivals:  ## Install what people use today, in an environment of its own, for `make bench`.
	$(PYTHON) -m venv .venv-rivals && .venv-rivals/bin/pip install --quiet -r benchmarks/requirements-rivals.txt

peers: install  ## Speak to litellm and the MCP reference server, which it downloads once (800 MB).
	$(BIN)/python -m pytest -q -m peers tests/peers

bench: install  ## Measure, as ratios side by side.
	$(BIN)/python -m benchmarks

manifests: $(TOOLS)  ## Check Kubernetes files, compose file and Dockerfile.
	.make/manifests/bin/python k8s/check.py

$(TOOLS): requirements-manifests.txt
	$(PYTHON) -m venv .make/manifests
	.make/manifests/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-manifests.txt
	@touch $(TOOLS)

image-digest:  ## Print the digest of the base image, for PYTHON_IMAGE; needs Docker.
	@command -v docker > /dev/null || { echo "there is no docker here"; exit 2; }
	@docker buildx imagetools inspect "$$(sed -n 's/^ARG PYTHON_IMAGE=//p' Dockerfile)" --format '{{.Name}}@{{.Manifest.Digest}}'

compose-up: install  ## Make secrets/ if there is none, and start everything with Docker Compose.
	test -e turnfleet.toml || cp k8s/base/turnfleet.toml turnfleet.toml
	$(BIN)/turnfleet secrets secrets
	TURNFLEET_SECRETS_GID=$$(id -g) docker compose up --detach --build

faults: install  ## The failure suite, with a table of results (ARGS="-k partition" chooses).
	$(BIN)/python -m pytest -q -m "faults or scenario" $(ARGS)

ci: lint test cov demo  ## What CI runs: lint, every test, the coverage gates, the demo.

clean:  ## Remove what the targets made.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* htmlcov build dist
