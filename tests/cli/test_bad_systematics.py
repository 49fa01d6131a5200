"""Mistakes in systematics through the command line: one sentence names them, before anything is trained."""

import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import yaml
from finished_run import TINY, simulated

from covad.cli.main import main

N = 12_000
MARK = 2e6
#: Events that the trial of 4000 sees and does not see.
SEEN, UNSEEN = N - 1, N - 2
MODULE = """
import numpy as np

def shift(events, amount):
    particles = events.particles.copy()
    slots = events.layout.slots("jet")
    particles[:, slots, 0] *= np.exp(amount)
    particles[events.particles[:, 0, 0] > 1e6, 0, 0] *= np.float32(np.nan) if amount else 1
    return events.with_particles(particles)

def weigh(events, amount):
    return np.where(events.particles[:, 0, 0] > 1e6, np.nan, np.exp(0.1 * amount))

def half(events, amount):
    return np.ones(len(events) // 2)
"""
SCALE: dict[str, Any] = {"name": "jet_energy_scale"}
PILEUP: dict[str, Any] = {"name": "pileup", "kind": "weights", "up": "up", "down": "down"}
RATE: dict[str, Any] = {"name": "tt_rate", "kind": "normalisation", "uncertainty": 0.3, "only": ["ttbar"]}
LUMI: dict[str, Any] = {"name": "lumi", "kind": "normalisation", "uncertainty": 0.02}


def weigh_file(path: Path, n_up: int = N, marked: int | None = None) -> None:
    """Give a file of events weights with an up and a down column, as another program may write them."""
    with h5py.File(path, "a") as file:
        file["weight"] = np.ones(N)
        file["weights/up"] = np.full(n_up, 1.1)
        file["weights/down"] = np.full(N, 0.9)
        if marked is not None:
            file["Particles"][marked, 0, 0] = MARK


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    cases: dict[str, tuple[int, int | None]] = {
        "good": (N, None),
        "short": (N - 1, None),
        "seen": (N, SEEN),
        "unseen": (N, UNSEEN),
    }
    for name, case in cases.items():
        weigh_file(simulated(folder / f"{name}.h5", "background", N, seed=3), *case)
    return folder


def run(
    monkeypatch: pytest.MonkeyPatch, folder: Path, files: Path, given: dict[str, Any], background: str
) -> int:
    """Run `covad run study.yaml --out RUN --until events --workers 1`, and return its exit code."""
    (folder / "mine.py").write_text(MODULE)
    source = TINY["source"] | {"background": {"files": [str(files / f"{background}.h5")]}} | given
    sizes = {"expected": 150, "reference": 800}
    study = TINY | {"source": source, "nu": [0], "tests": {"convex": {"bumps": 5}}, "sizes": sizes}
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    arguments = ["run", str(folder / "study.yaml"), "--out", str(folder / "RUN")]
    monkeypatch.setattr(sys, "argv", ["covad", *arguments, "--until", "events", "--workers", "1"])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def own(kind: str, function: str, **more: object) -> dict[str, Any]:
    return {"name": "mine", "kind": kind, "function": f"mine:{function}", "sigma": 0.02, **more}


def correlated(value: float) -> dict[str, Any]:
    """Three nuisances, of which the first is correlated with both others, and those against each other."""
    pairs = {("tt_rate", "lumi"): value, ("tt_rate", "pileup"): value, ("lumi", "pileup"): -value}
    return {
        "systematics": [PILEUP, RATE, LUMI],
        "correlations": [{"between": list(names), "value": each} for names, each in pairs.items()],
    }


BAD: list[tuple[str, list[dict[str, Any]], str]] = [
    ("good", [RATE | {"only": ["tt"]}], "source.systematics.0.only: there is no process 'tt' (there are"),
    (
        "good",
        [{"name": "pileup", "kind": "weights", "up": "up"}],
        "systematics.0: up without down: give both",
    ),
    ("good", [{"name": "jes", "kind": "varied", "up": "up"}], "systematics.0.down: this key is needed"),
    ("good", [PILEUP | {"up": "pu"}], "no file has the weights 'pu'"),
    ("short", [PILEUP], "short.h5: dataset 'weights/up' has shape (11999,) for 12000 events"),
    ("good", [own("weights", "half")], "'mine' must return one weight ratio for each of"),
    (
        "good",
        [SCALE, SCALE | {"sigma": 0.1}],
        "'jet_energy_scale' acts on the same events with different sigma",
    ),
    (
        "good",
        [RATE, RATE | {"uncertainty": 0.2}],
        "'tt_rate' acts on the same events with different uncertainty",
    ),
    ("seen", [own("weights", "weigh")], "systematic 'mine': the weight ratio is nan"),
    ("seen", [own("shift", "shift")], "systematic 'mine': pt of met is not finite"),
    ("good", [LUMI | {"uncertainty": 1e-17}], "'lumi' changes none of 4000 background events"),
]


@pytest.mark.parametrize(("background", "systematics", "sentence"), BAD)
def test_a_bad_systematic_is_one_sentence_and_nothing_is_written(
    background: str,
    systematics: list[dict[str, Any]],
    sentence: str,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    code = run(monkeypatch, tmp_path, files, {"systematics": systematics}, background)
    said = capfd.readouterr().err.strip()
    assert code == 2
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "RUN").exists()


def test_correlations_that_cannot_be_are_one_sentence_and_nothing_is_written(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, tmp_path, files, correlated(0.9), "good") == 2
    said = capfd.readouterr().err.strip()
    assert "correlations: together they are not positive definite (smallest eigenvalue -0.8)" in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "RUN").exists()


@pytest.mark.parametrize(
    ("function", "sentence"),
    [("weigh", "the weight ratio is nan at the amount"), ("shift", "pt of met is not finite")],
)
def test_one_nan_among_all_events_stops_the_run_before_the_training(
    function: str,
    sentence: str,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The trial does not see this event: the stage that counts all events does."""
    kind = "weights" if function == "weigh" else "shift"
    for _ in range(2):  # what the first attempt leaves makes the second one no wiser, and no milder
        assert run(monkeypatch, tmp_path, files, {"systematics": [own(kind, function)]}, "unseen") == 2
        last = capfd.readouterr().err.strip().splitlines()[-1]
        assert last.startswith("covad: ")
        assert f"systematic 'mine': {sentence}" in last
        assert last.endswith(f"in event {UNSEEN}")
        assert not (tmp_path / "RUN" / "selected.json").exists()
        assert not list((tmp_path / "RUN").rglob("*.safetensors"))


def test_what_changes_nothing_is_warned_of_by_name_and_the_run_goes_on(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    idle = [LUMI | {"uncertainty": 1e-17}, SCALE]
    assert run(monkeypatch, tmp_path, files, {"systematics": idle}, "good") == 0
    warned = [line for line in capfd.readouterr().err.splitlines() if "changes none of" in line]
    assert len(warned) == 1
    assert "'lumi' changes none of 4000 background events" in warned[0]
    assert (tmp_path / "RUN" / "selected.json").exists()
