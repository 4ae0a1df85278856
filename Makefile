# The only list of commands. A fresh machine with Python 3.11+ and make needs nothing else.
PYTHON ?= python3
PY := .venv/bin/python
STAMP := .venv/.setup
# Compiled modules are kept whatever the environment says: a test run has a thousand processes.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup check test sim chaos compat bench demo dist serve lock

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(STAMP)  ## make .venv with everything in it (from PyPI)

$(STAMP): requirements.lock pyproject.toml hatch_build.py src/ottla/records/_native.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ottla needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 setup")'
	$(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@# With a C compiler, records are decoded by the compiled loop, and tests run over both (docs/decisions/0006).
	OTTLA_NATIVE=try $(PY) -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	$(PY) -m compileall -q src  # as pip does when it installs a wheel: a broker starts in half the time
	@touch $(STAMP)

check: setup  ## ruff, mypy --strict, import-linter, the tidy test
	@$(MAKE) --no-print-directory -j 2 check-types check-style check-imports check-tidy

.PHONY: check-types check-style check-imports check-tidy
check-types:
	.venv/bin/mypy
check-style:
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
check-imports:
	.venv/bin/lint-imports
check-tidy:
	$(PY) -m pytest tests/tidy

test: setup  ## every test that needs only PyPI, but for those of `make check`; ARGS="tests/unit -k name" runs some
ifdef ARGS
	$(PY) -m pytest -m "not compat" $(ARGS)
else
	@# Once, before four processes would do it: Spark's classes and the modules of all tests are prepared.
	@$(PY) -m pytest --collect-only --quiet >/dev/null & .venv/bin/ottla pipeline prepare && wait
	$(PY) -m pytest -m "not compat and not alone" --ignore tests/tidy -n 4
	$(PY) -m pytest -m "not compat and alone" tests/integration
endif

chaos: setup  ## break a cluster under load: ARGS="--faults 200 --seed N"; ARGS="--spark --faults 100" breaks a Spark query, "--spark --sink" one into a topic
	$(PY) -m tests.chaos $(ARGS)

sim: setup  ## 2,000 stories of whole nodes under faults; a broken one prints how to see it again; ARGS="--hours 1"
	$(PY) -m tests.simulation --seeds 2000 $(ARGS)

compat: setup  ## real clients and Apache Kafka's own tools (Maven Central, npm, Go modules, kcat)
	$(PY) -m pytest -m compat tests -rs $(ARGS)

bench: setup  ## measure beside a floor program and Apache Kafka; writes bench/RESULTS.md
	$(PY) -m bench $(ARGS)

demo: setup  ## three brokers, orders, a pipeline on Spark, a broker killed, an audit: about a minute
	$(PY) -m examples.demo $(ARGS)

dist: setup  ## wheel and sdist in dist/; OTTLA_NATIVE=1 compiles the loops over records into the wheel
	.venv/bin/uv build --out-dir dist

serve: setup  ## run a broker on localhost:9092, data in ./ottla-data
	.venv/bin/ottla serve $(ARGS)

lock: setup  ## rewrite requirements.lock from pyproject.toml
	.venv/bin/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q -o requirements.lock
