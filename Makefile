# Each target makes .venv when it is missing, and again when the pins change.
#   make demo    the whole suite on real input, in under a minute
#   make dev     Halfpast on 127.0.0.1:7080, data in ./.halfpast
#   make test    the tests; the last line tells the count
#   make docs    docs/ as pages in build/docs, with the reference from the code
#   make check   format, lint, types, layers and bandit (scripts/check adds the tests)
#   make venv    only the environment
#   make audit-zip   build/halfpast-audit.zip, for spark-submit
#   make clean   removes the environment and all caches, keeps ./.halfpast

.PHONY: audit-zip check clean demo dev test venv
.DEFAULT_GOAL := demo

PYTHON ?= python3.11
export PYTHON

venv: .venv/.stamp

.venv/.stamp: requirements/dev.txt requirements/spark.txt pyproject.toml scripts/venv
	@scripts/venv

demo: venv
	@.venv/bin/python -m halfpast_loadtest.demo

dev: venv
	@.venv/bin/halfpast dev

# Most tests wait, for disks and processes, so there are more workers than processors.
WORKERS ?= 3

test: venv
	@.venv/bin/python -m pytest -n $(WORKERS)

audit-zip: venv
	@.venv/bin/python scripts/audit-zip

docs: venv
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet
	@echo "build/docs/index.html (the search needs a server: python3 -m http.server -d build/docs)"

check: venv
	@scripts/check --fast

clean:
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache \
		.pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
