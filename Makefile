# Headwork. Every target sets itself up: a .venv in this folder, with pip.
#   make run     the problem book; ends by itself and says where the report is
#   make test    the test suite
#   make check   format, lint, types, import contract: what CI runs besides the tests
#   make soak    the long tests        make bench   the measurements, into results/
#   make results RUN=vision-10-0   a headline run again, by name; without RUN, what each reached
#   make clean   removes the .venv and what was made

PY := .venv/bin/python
READY := .venv/.ready

.PHONY: run test check soak bench results clean setup
run: $(READY)
	@$(PY) -m headwork run

test: $(READY)
	@OMP_NUM_THREADS=1 $(PY) -m pytest -n 2

check: $(READY)
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports

soak: $(READY)
	@$(PY) -m pytest tests -m soak --soak

bench: $(READY)
	@$(PY) -m benchmarks

results: $(READY)
	@$(PY) -m benchmarks.headline $(RUN)

setup: $(READY)

$(READY): pyproject.toml constraints.txt setup.sh
	@sh setup.sh
	@touch $(READY)

clean:
	@rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
