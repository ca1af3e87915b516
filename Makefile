# The first of these that is Python 3.11 or 3.12 makes the environment.
PYTHON ?= python3.11 python3.12 python3
# TF=2.20 takes that line of TensorFlow, in an environment of its own, not the newest.
VENV ?= $(if $(TF),.venv-$(TF),.venv)
# What `test` runs: files or folders.
TESTS ?= tests
# Test processes; conftest.py gives each its share of the cores.
JOBS ?= 2

export TF_CPP_MIN_LOG_LEVEL ?= 3

# Pretrained weights and prepared data for `real`.
SHARED ?= $(or $(HYPERTF_SHARED),../shared)

.PHONY: quickstart compare real test test-quick test-serving test-tpu test-mesh lint docs bench

quickstart: $(VENV)/.installed
	$(VENV)/bin/python -m experiments.quickstart

# Every method at nano scale, three seeds; goes on where it was stopped.
compare: $(VENV)/.installed
	$(VENV)/bin/python -m experiments.compare

# T5 1.1-small on real tasks, plain and with HyperPrompt, and plain without packing:
# goes on where it was stopped.
real: $(VENV)/.installed
	$(VENV)/bin/python $(SHARED)/tools/unpack_weights.py out/t5.1.1-small
	$(VENV)/bin/python -m experiments.results.real_small.driver \
	  --init=out/t5.1.1-small --data_dir=$(SHARED)/data/tfds

# A file stays in one process, so what its tests share is made once.
PYTEST = $(VENV)/bin/python -m pytest $(TESTS) -n $(JOBS) --dist loadfile \
	  --no-loadscope-reorder

test: $(VENV)/.installed
	$(PYTEST) --durations=20

# A part of every folder's tests, for the minutes between two edits; conftest.py says
# which.
test-quick: $(VENV)/.installed
	$(PYTEST) --quick

# Exports of every method, read where nothing but TensorFlow is installed: one
# environment of each release, made on first use.
test-serving: $(VENV)/.installed
	$(VENV)/bin/python -m tests.export.in_environment 2.20 2.21

# Every method through Google's TPU compiler: a quarter of an hour.
test-tpu: $(VENV)/.installed
	EVERY_METHOD=1 $(VENV)/bin/python -m pytest tests/tpu

# Every method on meshes of four devices and of two processes: half an hour.
test-mesh: $(VENV)/.installed
	EVERY_METHOD=1 $(VENV)/bin/python -m pytest tests/mesh

lint: $(VENV)/.installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

# The site, into out/site; a broken link or a name that is not there is an error.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict
	@echo "open out/site/index.html"

bench: $(VENV)/.installed
	$(VENV)/bin/python -m pip install --quiet -e ".[bench]"
	$(VENV)/bin/python -m experiments.bench --suite=t5

$(VENV)/bin/python:
	@for python in $(PYTHON); do \
	  if $$python -c 'import sys; sys.exit(sys.version_info[:2] not in [(3, 11), (3, 12)])' 2>/dev/null; then \
	    echo "making $(VENV) with $$python"; \
	    exec $$python -m venv $(VENV); \
	  fi; \
	done; \
	echo "hypertf needs Python 3.11 or 3.12; none of '$(PYTHON)' is. Try: make PYTHON=/path/to/python3.11" >&2; \
	exit 1

# Order-only: the interpreter's own date says nothing about what is installed.
$(VENV)/.installed: setup.py | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet -e ".[test]" $(if $(TF),"tensorflow==$(TF).*")
	@touch $@
