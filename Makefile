# The two commands of the README: `make demo` and `make test`.
# Everything is installed into environments of this folder; nothing else is touched.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
# Folder with the data sets of docs/data.md; the one beside the checkout if it is there.
SKDP_DATA_HOME ?= $(abspath $(wildcard ../shared/data))
export SKDP_DATA_HOME
# One thread per worker: two workers would only fight over two cores.
# What is compiled is kept, for the other workers and for processes that tests start.
TEST_ENV = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

# Windows has other folders in an environment.
BIN = $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# Python compiles what is imported; pip would compile every file of every library.
PIP_OPTIONS = --disable-pip-version-check -qq
INSTALL = install --no-compile
PIP = $(BIN)/python -m pip $(PIP_OPTIONS)
PYTEST = $(TEST_ENV) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q
OLDEST_VENV = $(VENV)-oldest
# Oldest first; the first with a wheel for the running Python is taken.
OLDEST = 1.6.0 1.6.1 1.7.0 1.7.1 1.7.2 1.8.0
# What a release of scikit-learn can break.
OLDEST_TESTS = tests/contract

# diffprivlib needs an older scikit-learn than skdp's newest, so the peers live apart.
PEERS_VENV = $(VENV)-peers
PEERS = benchmarks/peers.txt

.PHONY: help dev demo demo-solvers demo-search demo-sparse demo-ratings demo-table demo-boosting demo-large demo-images demo-look demo-audit demo-owners demo-users demo-intervals test test-papers test-engines test-onnx test-wide test-benchmarks test-rest test-bugs test-all test-oldest bench docs build smoke lint workflows release-check where clean python

help:
	@echo "make dev          install what contributors need into .venv (1 minute)"
	@echo "make demo         install, then fit private models on real data (1 minute)"
	@echo "make demo-solvers install, then compare the solvers on real data (2 minutes)"
	@echo "make demo-search  install, then search hyper-parameters privately on real data (3 minutes)"
	@echo "make demo-sparse  install, then select few of 26,460 words privately (2 minutes)"
	@echo "make demo-ratings install, then factorise ratings of films privately (1 minute)"
	@echo "make demo-table   install, then fit a table of mixed columns (1 minute)"
	@echo "make demo-boosting install, then fit boosted trees and draw their curves (1 minute)"
	@echo "make demo-large   install, then fit a table that may be larger than memory (2 minutes)"
	@echo "make demo-images  install, then classify images of digits (2 minutes)"
	@echo "make demo-look    install, then describe a table, choose a threshold, draw curves (1 minute)"
	@echo "make demo-audit   install, then try to refute privacy promises (1 minute)"
	@echo "make demo-owners  install, then fit one model to the tables of four owners (1 minute)"
	@echo "make demo-users   install, then protect all rows of a person together (1 minute)"
	@echo "make demo-intervals  install, then put intervals around predictions (1 minute)"
	@echo "make test         install, then run the tests (5 minutes on 2 cores, then 4)"
	@echo "make test-engines  the tests of PostgreSQL, Spark and Dask"
	@echo "make test-papers  the tests of skdp/papers (3 minutes on 2 cores)"
	@echo "make test-wide    the combinations of settings that make test leaves out"
	@echo "make test-benchmarks  the tests of benchmarks/ (half a minute)"
	@echo "make test-rest    these four in one session, as CI runs them"
	@echo "make test-onnx    the tests of ONNX, which CI runs too"
	@echo "make test-bugs    plant each bug of tests/bugs, and run the tests that must find it"
	@echo "make test-all     all tests, and the long statistical ones"
	@echo "make test-oldest  the contract tests on the oldest supported scikit-learn"
	@echo "make docs       the site, examples run (4 minutes): docs/_build/html/index.html"
	@echo "make build      wheel and source archive of the last commit, into dist"
	@echo "make smoke        test the wheel in a new environment of each Python found (minutes)"
	@echo "make bench        speed and accuracy, compared with other libraries (hours)"
	@echo "make lint         ruff and mypy"
	@echo "make workflows    check the files of continuous integration"
	@echo "make release-check  list the placeholders that only the owners can fill in"
	@echo "make where WORDS='some words of a message'  where the message has to be changed too"

python:
	@command -v $(PYTHON) >/dev/null 2>&1 || \
	  { echo "skdp needs Python 3.11 to 3.14, got none: install python3, or name one with PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' || \
	  { echo "skdp needs Python 3.11 to 3.14, got $$($(PYTHON) --version 2>&1): install one, or name it with PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "skdp needs Python's venv module, which is missing: install it (on Debian and Ubuntu: apt install python3-venv)"; exit 1; }

$(BIN)/python: | python
	@$(PYTHON) -m venv $(VENV)

# One stamp per extra, renewed when the requirements change.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	@echo "installing skdp[$*] into $(VENV), which takes about 40 seconds ..."
	@$(PIP) $(INSTALL) --editable '.[$*]'
	@touch $@

dev: $(VENV)/.installed-test $(VENV)/.installed-dev
	@echo "ready: $(BIN)/python -m pytest tests/sums, make lint"

demo: $(VENV)/.installed-demo
	@$(BIN)/python examples/plot_01_first_private_model.py

demo-solvers: $(VENV)/.installed-demo
	@$(BIN)/python examples/plot_02_which_solver.py

demo-search: $(VENV)/.installed-demo
	@$(BIN)/python examples/plot_03_private_search.py

demo-sparse: $(VENV)/.installed-demo
	@$(BIN)/python examples/plot_04_few_features.py

demo-ratings: $(VENV)/.installed-demo
	@$(BIN)/python examples/plot_05_ratings.py

demo-table: $(VENV)/.installed-demo
	@$(BIN)/python examples/plot_06_table_of_mixed_columns.py

demo-boosting: $(VENV)/.installed-demo
	@$(BIN)/python examples/plot_07_shapes_of_boosting.py

demo-large: $(VENV)/.installed-demo
	@$(BIN)/python examples/plot_08_larger_than_memory.py

demo-images: $(VENV)/.installed-demo
	@$(BIN)/python examples/plot_09_images.py

demo-look: $(VENV)/.installed-demo
	@$(BIN)/python examples/plot_10_look_and_decide.py

demo-audit: $(VENV)/.installed-demo
	@$(BIN)/python examples/plot_11_audit.py

demo-owners: $(VENV)/.installed-demo
	@$(BIN)/python examples/plot_12_several_owners.py

demo-users: $(VENV)/.installed-demo
	@$(BIN)/python examples/plot_13_several_rows_a_person.py

demo-intervals: $(VENV)/.installed-demo
	@$(BIN)/python examples/plot_14_intervals.py

test: $(VENV)/.installed-test
	$(PYTEST) -m "not slow and not bench and not wide and not long and not engines" --ignore=tests/papers --ignore=skdp/papers

test-engines: $(VENV)/.installed-test
	$(PYTEST) -m "engines and not slow and not wide" tests/io

# Conversion to ONNX, which needs packages of 110 MB.
test-onnx: $(VENV)/.installed-test $(VENV)/.installed-onnx
	$(PYTEST) -k onnx tests/test_export.py

test-papers: $(VENV)/.installed-test
	$(PYTEST) -m "not slow and not bench and not wide" tests/papers skdp/papers

# One session for all that CI runs beside `make test`.
test-rest: $(VENV)/.installed-test
	$(PYTEST) -m "(annex or engines or wide or long) and not slow and not bench" tests skdp benchmarks

test-wide: $(VENV)/.installed-test
	$(PYTEST) -m "wide and not slow" tests

test-bugs: $(VENV)/.installed-test
	@$(TEST_ENV) $(BIN)/python -m tests.bugs --jobs $(JOBS)

test-benchmarks: $(VENV)/.installed-test
	$(PYTEST) -m "not slow and not bench" benchmarks

test-all: $(VENV)/.installed-test
	$(PYTEST) -m "not bench" tests skdp benchmarks

# All but scikit-learn comes from the environment of `make test`: a .pth file adds its
# packages after those of the new environment.
test-oldest: $(VENV)/.installed-test
	@test -x $(OLDEST_VENV)/bin/python || $(BIN)/python -m venv $(OLDEST_VENV)
	@packages() { $$1/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }; \
	  packages $(abspath $(VENV)) > "$$(packages $(OLDEST_VENV))/all_but_scikit_learn.pth"
	@for version in $(OLDEST); do \
	  if $(OLDEST_VENV)/bin/python -m pip $(PIP_OPTIONS) $(INSTALL) --no-deps \
	    --only-binary=scikit-learn "scikit-learn==$$version" 2>/dev/null; \
	  then echo "oldest scikit-learn with a wheel for this Python: $$version"; break; fi; \
	done
	$(TEST_ENV) $(OLDEST_VENV)/bin/python -m pytest -n $(JOBS) -q -m "not slow and not bench and not wide" $(OLDEST_TESTS)

# A peer that cannot be installed here is reported in the table, not fatal.
$(PEERS_VENV)/.installed: pyproject.toml $(PEERS) | python
	@test -x $(PEERS_VENV)/bin/python || $(PYTHON) -m venv $(PEERS_VENV)
	@echo "installing skdp and its peers into $(PEERS_VENV) ..."
	@$(PEERS_VENV)/bin/python -m pip --disable-pip-version-check -qq install \
	  --constraint $(PEERS) --editable .
	@for peer in $$(grep -v '^#' $(PEERS)); do \
	  $(PEERS_VENV)/bin/python -m pip --disable-pip-version-check -qq install \
	    --constraint $(PEERS) "$$peer" || echo "not installed: $$peer"; \
	done
	@touch $@

bench: $(VENV)/.installed-bench $(PEERS_VENV)/.installed
	@$(TEST_ENV) $(PEERS_VENV)/bin/python -m benchmarks speed
	@$(TEST_ENV) $(PEERS_VENV)/bin/python -m benchmarks peers
	@$(TEST_ENV) $(PEERS_VENV)/bin/python -m benchmarks tabular_peers

# Any warning is an error; then every link is followed. No network is needed.
docs: $(VENV)/.installed-docs
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@$(BIN)/python docs/_check.py docs/_build/html
	@echo "the site: docs/_build/html/index.html"

# Builds twice, and keeps what has the same bytes both times.
$(VENV)-build/.installed: .ci/build.txt | python
	@test -x $(VENV)-build/bin/python || $(PYTHON) -m venv $(VENV)-build
	@$(VENV)-build/bin/python -m pip --disable-pip-version-check -qq install --requirement .ci/build.txt
	@touch $@

build: $(VENV)-build/.installed
	@rm -rf dist
	@$(VENV)-build/bin/python .ci/build.py dist

# PYTHONS names interpreters; without it, all that are found are tried.
smoke: build
	@$(PYTHON) .ci/smoke.py dist/*.whl $(PYTHONS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

# The forms are part of the linter: no network is needed.
FORM = $(BIN)/check-jsonschema --quiet --builtin-schema vendor
workflows: $(VENV)/.installed-dev
	@$(FORM).github-workflows .github/workflows/*.yml
	@$(FORM).github-issue-forms .github/ISSUE_TEMPLATE/fault.yml .github/ISSUE_TEMPLATE/wish.yml
	@$(FORM).github-issue-config .github/ISSUE_TEMPLATE/config.yml
	@$(FORM).readthedocs .readthedocs.yaml
	@$(FORM).citation-file-format CITATION.cff
	@$(BIN)/zizmor --offline --quiet .github/workflows

release-check: python
	@$(PYTHON) .ci/release_check.py

# Where words of a message stand: code, tests with planted bugs, pages.
where:
	@git grep -n --fixed-strings -e "$(WORDS)" -- skdp tests docs examples '*.md'

clean:
	rm -rf $(VENV) $(VENV)-build $(OLDEST_VENV) $(PEERS_VENV) build dist *.egg-info demo docs/_build docs/gallery docs/reference docs/sg_execution_times.rst
