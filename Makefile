# Targets for developers; `make` lists them. Needs Python >= 3.11 and pip.

PYTHON ?= python3
DEMO_DIR ?= demo_output
# Tests run in two processes. Each has half of them in their order, so that
# those of one file share their set-up, and then takes from the other.
PYTEST_FLAGS ?= --numprocesses=2 --dist=worksteal
# How often `make torture` stops each function and experiment.
KILLS ?= 20
BAZEL ?= bazel
BAZEL_FLAGS ?=

VENV := .venv
BIN := $(VENV)/bin
# Packages that `pip` has installed into $(VENV), made anew when setup.py changes.
DEMO_STAMP := $(VENV)/.installed-demo
TEST_STAMP := $(VENV)/.installed-test
DOCS_STAMP := $(VENV)/.installed-docs

# Most modules are never imported; the others are compiled when they are.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile

# Says nothing of MkDocs 2, which setup.py leaves out.
MKDOCS := NO_MKDOCS_2_WARNING=1 TF_CPP_MIN_LOG_LEVEL=3 \
	$(BIN)/python -m mkdocs

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Byte code is kept: without, each process takes 12 s to import TensorFlow, not 5.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-slow torture lint format build-file bazel-test has-bazel \
	bench docs docs-serve notebooks release versions clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' \
		Makefile

demo: $(DEMO_STAMP) ## Refine posteriors on the concrete data, into DEMO_DIR
	$(BIN)/python -m tfp_refine.experiments.uci --dataset=concrete --seeds=3 \
		--train_steps=2000 --refine_steps=100 --output_dir="$(DEMO_DIR)"

test: lint ## Check style and types, run all but the slow tests
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m "not slow"

test-slow: lint ## Check style and types, run every test
	TFP_REFINE_CASES=many $(BIN)/python -m pytest $(PYTEST_FLAGS)

torture: $(TEST_STAMP) ## Attack all functions, KILLS times; print a table
	TFP_REFINE_KILLS=$(KILLS) $(BIN)/python -m pytest $(PYTEST_FLAGS) \
		--verbose tests/integration/test_killed.py tests/integration/test_growth.py \
		tests/integration/test_damaged.py tests/functional/test_files.py \
		tests/functional/test_resumable.py tests/posteriors/test_posterior_file.py \
		tests/test_storage.py tests/experiments/test_killed.py \
		tests/distribute tests/refinement/test_cluster.py \
		tests/properties/test_bad_input.py

lint: $(TEST_STAMP) ## Check the style and the types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(TEST_STAMP) ## Format the code and apply the fixes of the linter
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

build-file: $(TEST_STAMP) ## Rewrite BUILD from the tree and its imports
	$(BIN)/python -m tests.structure.build_file

bazel-test: has-bazel $(TEST_STAMP) ## Build all, run the quick tests with Bazel
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BAZEL) test \
		--test_tag_filters=-slow $(BAZEL_FLAGS) //...

bench: $(DEMO_STAMP) ## Run every script in benchmarks/
	@set -e; for script in benchmarks/[!_]*.py; do \
		echo "$$script"; $(BIN)/python "$$script"; \
	done

docs: $(DOCS_STAMP) ## Build the site with the documentation, into site/
	$(MKDOCS) build --strict

docs-serve: $(DOCS_STAMP) ## Show the site while the pages are written
	$(MKDOCS) serve --strict

notebooks: $(TEST_STAMP) ## Run the notebooks in colab/, store their outputs
	$(BIN)/python docs/notebooks.py

release: $(TEST_STAMP) ## Build and check the distributions of HEAD, into dist/
	$(BIN)/python -m tools.release

versions: $(TEST_STAMP) ## Test the oldest and the newest versions of Keras etc.
	$(BIN)/python -m tools.versions

clean: ## Delete the environment, caches, the site and results of `make demo`
	rm -rf $(VENV) build dist *.egg-info demo_output site \
		.hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

has-bazel:
	@command -v $(BAZEL) >/dev/null || { echo "bazel-test needs Bazel, but" \
		"there is no '$(BAZEL)' on PATH. Try: make test" >&2; exit 1; }

# Debian ships `venv` without the wheels it needs to install pip: then the pip
# of $(PYTHON) does it. The newest pip takes half the time of that of Python 3.11
# to find out what to install.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit( \
		"tfp_refine needs Python >= 3.11, but $(PYTHON) is " \
		+ sys.version.split()[0] + ". Try: make PYTHON=python3.11")'
	$(PYTHON) -m venv --clear $(VENV) \
		|| { $(PYTHON) -m venv --clear --without-pip $(VENV) \
		&& $(PYTHON) -m pip --python $(BIN)/python install pip; }
	$(INSTALL) --upgrade pip
	@touch $@

$(DEMO_STAMP): setup.py | $(VENV)/.created
	$(INSTALL) -e '.[tf,plot]'
	@touch $@

$(TEST_STAMP): setup.py | $(VENV)/.created
	$(INSTALL) -e '.[tf,plot,test]'
	@touch $(DEMO_STAMP) $(DOCS_STAMP) $@

$(DOCS_STAMP): setup.py | $(VENV)/.created
	$(INSTALL) -e '.[tf,plot,docs]'
	@touch $(DEMO_STAMP) $@
