PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test coverage lint docs notebooks format clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  \1\t\2/' | expand -t 12

setup: $(STAMP) ## create .venv with catnf and its development tools, once

# The stamp is written last, so that an interrupted installation is taken up again.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(STAMP) ## a short tour on the CPU
	$(BIN)/catnf demo

test: $(STAMP) ## run the tests and the examples in docstrings
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

# The packages that others build on, by their own tests.
PUBLIC := flows encodings models
coverage: $(STAMP) ## which lines of flows, encodings and models their tests reach; fails below 90 %
	$(BIN)/python -m pytest $(PUBLIC:%=tests/%) $(PUBLIC:%=src/catnf/%) $(PUBLIC:%=--cov=catnf.%) \
		--cov-report=term-missing:skip-covered --cov-fail-under=90

lint: $(STAMP) ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(STAMP) ## build the documentation into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Read it: $(CURDIR)/site/index.html"

notebooks: $(STAMP) ## run the notebooks of docs/ again and keep what they print
	cd docs/notebooks && OMP_NUM_THREADS=1 ../../$(BIN)/python ../run_notebooks.py *.ipynb

format: $(STAMP) ## fix what can be fixed automatically
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove .venv, caches and build products
	rm -rf $(VENV) build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +
