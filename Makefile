# Every target makes its own virtual environment first; nothing else has to be installed by hand.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready
# One thread per process: the parallelism of covad is over processes.
export OMP_NUM_THREADS = 1
export MKL_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1
export NUMBA_NUM_THREADS = 1

.PHONY: demo docs results test test-slow coverage calibrate faults lint format bench dist clean

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --only-binary pythia8mc -c constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check --only-binary pythia8mc -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY)
	mkdir -p demo
	test -f demo/study.yaml || $(BIN)/covad init --preset quick demo/study.yaml
	test -f demo/observed.h5 || $(BIN)/covad simulate --process background --events 3000 --seed 20261117 \
	    --inject a4l=100 --shift jet_energy_scale=0.025 --out demo/observed.h5
	$(BIN)/covad run demo/study.yaml --out demo/run
	$(BIN)/covad test demo/run demo/observed.h5 > demo/observed.txt
	$(BIN)/covad report demo/run

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Every table and figure of docs/results, from a finished run: make results RUN=...; of one page: PAGE=joined.md
results: $(READY)
	$(if $(RUN),,$(error make results RUN=... takes the directory of a finished run))
	$(BIN)/python benchmarks/results_pages.py $(RUN) $(if $(PAGE),--page $(PAGE))

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile

# Real ROOT files for one of the tests, 80 MB; without them it is skipped.
test-slow: $(READY)
	-$(BIN)/pip install --quiet --disable-pip-version-check --no-deps scikit-hep-testdata==0.3.12
	$(BIN)/python -m pytest -m slow

coverage: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile --cov=covad --cov-report=term-missing:skip-covered

calibrate: $(READY)
	PYTHONPATH=tests $(BIN)/python -m calibration --out runs/calibration --workers 2

faults: $(READY)
	PYTHONPATH=tests $(BIN)/python -m faults --out runs/faults

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/covad bench toys

# The files of a release, and the wheel tried in an empty environment; nothing is published.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	ls -l dist
	PYTHON=$(PYTHON) .ci/try-wheel dist/covad-*.whl

clean:
	rm -rf $(VENV) build dist site
