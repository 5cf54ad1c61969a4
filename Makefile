# make train-and-eval [PROFILE=tiny] [SET="seed=1 rl.algorithm=dapo"]   sets up, runs the whole DAG, prints the decision
# make test                            sets up, runs the fast tests and one reduced run of the DAG
# make help                            every target

PROFILE ?= tiny
# KEY=VALUE ..., parameters that lie over the profile in this run alone.
SET ?=
# cpu or gpu; left empty, what the machine has (nvidia-smi answers or not).
ACCELERATOR ?=
# A Python 3.11 (the GPU set also takes 3.12); left empty, python3.11 or python3.
PYTHON ?=
# Where PyTorch's CPU build comes from when pip does not find it elsewhere.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
PREFECT_PORT ?= 4200
MLFLOW_PORT ?= 5000

BIN := .venv/bin
SHELL := /bin/bash
export ACCELERATOR PYTHON TORCH_INDEX PREFECT_PORT MLFLOW_PORT
# Where python, dvc and prefect are found by the stages' commands.
RUN := PATH="$(CURDIR)/$(BIN):$$PATH" env -u PYTHONDONTWRITEBYTECODE -u PYTHONHOME

.DEFAULT_GOAL := help
.PHONY: help setup train-and-eval ablations test test-slow lint up down ui lineage picture screenshot enforce clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

setup: ## bring .venv in step with requirements/ (every other target does this first)
	@requirements/install.sh

train-and-eval: setup ## run the DAG: questions in, a release decision out
	@$(RUN) python -m flows.train_and_eval --profile "$(PROFILE)" $(foreach one,$(SET),--set '$(one)')

ablations: setup ## run PROFILE and its arms, each one switch apart, with three seeds; then a table and a picture
	@$(RUN) python -m flows.ablations --profile "$(PROFILE)" && $(RUN) python -m tasks.ablations

test: setup ## fast tests, then one reduced run of the DAG
	@$(RUN) python -m pytest -m "not slow and not e2e"
	@$(RUN) python -m pytest -m e2e

test-slow: setup ## tests that start vLLM, verl or the whole DAG
	@$(RUN) python -m pytest -m slow

lint: setup ## ruff, mypy, import rules
	@$(RUN) ruff check . && $(RUN) ruff format --check . && $(RUN) mypy && $(RUN) lint-imports --no-logo

up: setup ## start Prefect's server and worker and MLflow's UI on this machine
	@$(RUN) python -m flows.services up

down: setup ## end what `make up` started
	@$(RUN) python -m flows.services down

ui: setup ## MLflow's UI alone, in this terminal
	@$(RUN) python -m flows.services ui

lineage: setup ## where the champion comes from (python -m tasks.lineage VERSION|RUN_ID for others)
	@$(RUN) python -m tasks.lineage

picture: setup ## draw docs/images/climb.png: exact match and searches over the steps of the last RL run
	@$(RUN) python -m tasks.evaluation.climb

screenshot: setup ## docs/images/report.png: the viewer of the last evaluation's report (needs Chromium)
	@$(RUN) python -m tasks.evaluation.report.picture

enforce: setup ## exit 1 when the gate's last decision was: rejected
	@$(RUN) python -m tasks.gate --enforce

clean: ## remove caches; data, models and tracking stay
	@rm -rf .pytest_cache .ruff_cache .mypy_cache .hypothesis build *.egg-info
	@find tasks flows tests -name __pycache__ -prune -exec rm -rf {} +
