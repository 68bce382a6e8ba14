# Headwork. Every target sets itself up: a .venv in this folder, with pip.
#   make run         the problem book; ends by itself and says where the report is
#   make lab         the page that computes, on this computer; Ctrl-C ends it
#   make test        the test suite: quick, and needs nothing but Python
#   make test-real   the tests that need a real browser, course system, LaTeX, data or weights; installs what it can
#   make check       format, lint, types, import contract: what CI runs besides the tests
#   make soak        the long tests        make bench   the measurements, into results/
#   make results RUN=vision-10-0   a headline run again, by name; without RUN, what each reached
#   make notebooks  the course notebooks again, with their outputs, into notebooks/
#   make clean       removes the .venv and what was made

PY := .venv/bin/python
# Bytecode is written as modules are first imported: the set-up installs none.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run lab test test-real check soak bench results notebooks clean setup dev
run:
	@sh setup.sh run
	@$(PY) -m headwork run

lab:
	@sh setup.sh run
	@$(PY) -m headwork lab

test: dev
	@OMP_NUM_THREADS=1 $(PY) -m pytest -n 2 --dist worksteal -m "not real"

test-real: dev
	@$(PY) setup/real_parts.py
	@OMP_NUM_THREADS=1 $(PY) -m pytest -n 2 --dist worksteal -m real --real

check: dev
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports

# The long tests, and then the short ones beside them of what docs/security.md promises.
ABUSE := tests/*.py tests/numbers/test_hostile.py tests/data tests/models/test_checkpoints.py \
	tests/models/test_loading.py tests/inspection/test_inspecting.py tests/training \
	tests/courses/test_hostile_files.py tests/courses/test_class.py tests/courses/test_handin.py \
	tests/lab/test_hostile.py tests/lab/test_server.py tests/lab/test_calls.py tests/cli/test_command_line.py
soak: dev
	@$(PY) -m pytest tests -m soak --soak
	@$(PY) -m pytest $(ABUSE)

bench: dev
	@$(PY) -m benchmarks

results: dev
	@$(PY) -m benchmarks.headline $(RUN)

notebooks: dev
	@$(PY) notebooks/execute.py

setup dev:
	@sh setup.sh dev

clean:
	@rm -rf .venv .venv-courses build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
