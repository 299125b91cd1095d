# One vocabulary for people and CI: every target does its own set-up, in .venv of this checkout.
#   make demo        the whole story on the lab: a miswired drafter, the cause, the fix (about 8 minutes when set up)
#   make test        fast tiers and the lab tiers (under 25 minutes)   make test-full   the long runs alone (under 45)
#   make lab         the lab up, JupyterLab on the notebooks           make lint        ruff, mypy, stripped notebooks
#   make lab-train   the lab's pair trained anew (SEED, OUT)           make lab-check   PAIR served on the lab, right and wrong
#   make bench       speed, as ratios against named peers              make setup       .venv with pinned versions; TORCH=cuda asks for CUDA
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
export PYTHONUNBUFFERED = 1
# Which torch .venv has; TORCH=cuda (or cpu) asks for another one, which makes the set-up run again.
HAS := $(shell sed -n 's/^torch=//p' $(STAMP) 2>/dev/null)
KIND := $(or $(TORCH),$(HAS),cpu)

.PHONY: setup demo test test-full lab lab-train lab-check picture bench lint check-python
.DEFAULT_GOAL := setup

setup: $(STAMP)

ifneq ($(KIND),$(HAS))
.PHONY: $(STAMP)
endif
$(STAMP): requirements.lock remote/lab/requirements.lock pyproject.toml tools/bootstrap.py
	$(PYTHON) tools/bootstrap.py --venv $(VENV) --torch $(KIND)

demo: $(STAMP)
	@$(BIN)/python -m helpers.demo

FAST := tests/unit tests/cases
SLOW := tests/contract tests/lab tests/notebooks tests/browser
test: $(STAMP)
	$(BIN)/python -m pytest -m "not full" -q -n 2 $(FAST)
	$(BIN)/python -m pytest -m "not full" -q -n 2 tests/matrix
	$(BIN)/python -m pytest -m "not full" -q $(SLOW)

test-full: $(STAMP)
	$(BIN)/python -m pytest -m full -q

# In a container one is often root, and Jupyter then asks for a word; it listens on the loopback, behind its token.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)
# Its kernels listen on ports that every user here can reach; with keys nobody else can read what goes there.
ENCRYPTED := --KernelManager.transport_encryption=auto
lab: $(STAMP)
	$(BIN)/workbook lab up
	@echo "The lab stays up when JupyterLab ends: $(BIN)/workbook lab down stops it."
	$(BIN)/jupyter lab $(AS_ROOT) $(ENCRYPTED) --notebook-dir=. --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb

# The README's picture, of a demo that was run here (make demo); it needs Chromium.
picture: $(STAMP)
	$(BIN)/python tools/picture.py

# Half an hour on two idle cores; killed, the same words go on. BUDGET=tiny shows all stages in a minute.
SEED ?= 1
BUDGET ?= full
OUT ?= .lab-train/$(BUDGET)-$(SEED)
PAIR ?= data/lab
lab-train: $(STAMP)
	$(BIN)/python -m remote.lab.recipe --seed $(SEED) --budget $(BUDGET) --out "$(OUT)"
	$(BIN)/python -m helpers.lab_dumps "$(OUT)"

lab-check: $(STAMP)
	$(BIN)/python -m helpers.lab_check "$(PAIR)"

bench: $(STAMP)
	$(BIN)/python -m benchmarks

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/nbstripout --verify notebooks/*.ipynb
