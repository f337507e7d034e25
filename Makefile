# Two commands matter: `make demo` shows it working, `make test` proves it.  Both need only make and a Python 3.11+.
.DEFAULT_GOAL := help
.PHONY: help setup demo test agents check web bench docs goldens fault lock clean

BIN := .venv/bin
ARGS ?=
WIDE := -n auto --dist worksteal

# The suite starts hundreds of processes, and compiling the server takes each of them longer than importing it.
unexport PYTHONDONTWRITEBYTECODE

help: ## what can be asked for
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 10

setup: ## make .venv with everything that running and testing need
	@requirements/install dev
	@$(BIN)/python hatch_build.py if-possible

demo: ## pull a small model, serve it, stream one answer of it, and go on serving
	@requirements/install runtime
	@$(BIN)/python hatch_build.py if-possible
	$(BIN)/rivermouth demo $(ARGS)

test: setup ## the whole suite; fails when a promise has no passing test (ARGS="-k sse" for a part)
	@$(BIN)/python hatch_build.py
	@$(BIN)/python -m tests.web.chromium || test -n "$(ARGS)"
	@$(BIN)/python -m tests.sdk.node
	$(BIN)/python -m pytest $(WIDE) -o promises_strict=true $(ARGS)

agents: setup ## coding agents do a task through the server; writes docs/agents-results.md (ARGS="--agent Codex" for a part)
	$(BIN)/python -m tests.agents $(ARGS)
	@test -n "$(ARGS)" || $(BIN)/python -m docs.last_passed agents

check: setup ## format, lint, types and import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python hatch_build.py check

web: setup ## build the chat page into the package, and run its unit tests (installing builds it too)
	$(BIN)/python hatch_build.py
	$(BIN)/python hatch_build.py units

bench: ## measure beside nginx, the local engine, stops of chats, clients that leave; write docs/benchmarks.md (needs gcc and two cores)
	@requirements/install runtime
	$(BIN)/python benchmarks/run.py $(ARGS)
	$(BIN)/python benchmarks/local_engine.py
	$(BIN)/python benchmarks/chat_stop.py
	$(BIN)/python benchmarks/leave.py
	@test -n "$(ARGS)" || $(BIN)/python -m docs.last_passed bench

docs: setup ## write the generated pages again, and test the documentation against the code
	$(BIN)/python -m docs.generate
	$(BIN)/python -m pytest tests/test_repository.py tests/test_docs.py tests/test_dialect_pages.py $(ARGS)

goldens: setup ## write what goes over the wires again, to be read in a diff; nothing else ever updates it
	$(BIN)/python -m tests.goldens.regenerate

fault: setup ## what only runs thoroughly, some ten minutes; or what proves one line of the documents: make fault LINE=F7
	@$(BIN)/python hatch_build.py
	@$(BIN)/python -m tests.web.chromium || test -n "$(LINE)$(ARGS)"
	@$(BIN)/python -m tests.sdk.node
	RIVERMOUTH_THOROUGH=1 $(BIN)/python -m pytest -o timeout=1800 $(if $(LINE),-v --covering $(LINE),$(WIDE) -m thorough) $(ARGS)
	@test -n "$(LINE)$(ARGS)" || $(BIN)/python -m docs.last_passed fault

lock: setup ## resolve the dependencies again (UPGRADE=--upgrade for newer versions)
	$(BIN)/uv pip compile pyproject.toml requirements/build.in --extra openvino --extra dev $(UPGRADE) $(LOCK) \
		-o requirements/dev.txt
	$(BIN)/uv pip compile pyproject.toml requirements/build.in --extra openvino -c requirements/dev.txt $(LOCK) \
		-o requirements/runtime.txt

LOCK := --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	--custom-compile-command "make lock"

clean: ## remove .venv and what tools left behind
	rm -rf .venv build dist artefacts web/node_modules tests/sdk/js/node_modules tests/agents/node_modules src/rivermouth/http/site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	$(MAKE) -C benchmarks clean
