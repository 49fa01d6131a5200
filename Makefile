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

.PHONY: demo test test-slow calibrate lint format bench clean

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --only-binary pythia8mc -c constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check --only-binary pythia8mc -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY)
	mkdir -p demo
	$(BIN)/covad simulate --process background --events 200000 --seed 1 --out demo/background.h5
	$(BIN)/covad inspect demo/background.h5
	$(BIN)/covad run examples/demo.yaml --out demo/run
	$(BIN)/covad status demo/run
	@echo "This is what exists so far: events, and toys on the analytic latent world (demo/run)."
	@echo "Embedding, report and the test of observed data are not stages of 'covad run' yet."

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

calibrate: $(READY)
	PYTHONPATH=tests $(BIN)/python -m calibration --out runs/calibration --workers 2

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/covad bench toys

clean:
	rm -rf $(VENV) build dist
