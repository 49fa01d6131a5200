"""Mistakes in observables through the command line: one sentence names them, before anything is trained."""

import sys
from pathlib import Path
from typing import Any

import h5py
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

def nan(events):
    met = events.particles[:, 0, 0]
    return {"a": met, "b": np.where(met > 1e6, np.nan, met)}

def constant(events):
    return {"a": events.particles[:, 0, 0], "b": np.full(len(events), 3)}

def order(events):
    return {"a": events.particles[:, 0, 0], "b": np.arange(len(events))}

def fails(events):
    raise RuntimeError("no such luck")

def signal_only(events):
    return {"a": events.particles[:, 0, 0]}
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Background files, in which one event is marked."""
    folder = tmp_path_factory.mktemp("files")
    for name, marked in (("seen", SEEN), ("unseen", UNSEEN)):
        with h5py.File(simulated(folder / f"{name}.h5", "background", N, seed=3), "a") as file:
            file["Particles"][marked, 0, 0] = MARK
    return folder


def run(
    monkeypatch: pytest.MonkeyPatch, folder: Path, file: Path, space: dict[str, Any], until: str = "spaces"
) -> int:
    """Run a study whose only space is of observables up to the stage `spaces`, and return the exit code."""
    (folder / "mine.py").write_text(MODULE)
    splits = {role: n for role, n in TINY["source"]["splits"].items() if role != "encoder"}
    given = {"background": {"files": [str(file)]}, "spaces": {"own": space}, "splits": splits}
    sizes = {"expected": 150, "reference": 800}
    study = TINY | {"source": TINY["source"] | given, "nu": [0], "sizes": sizes}
    (folder / "study.yaml").write_text(yaml.safe_dump(study | {"tests": {"convex": {"bumps": 5}}}))
    arguments = ["run", str(folder / "study.yaml"), "--out", str(folder / "RUN"), "--until", until]
    monkeypatch.setattr(sys, "argv", ["covad", *arguments, "--workers", "1"])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def own(function: str) -> dict[str, Any]:
    return {"kind": "observables", "function": f"mine:{function}", "names": ["a", "b"]}


BAD: list[tuple[dict[str, Any], str]] = [
    (own("nan"), f"sample 'background': source.spaces.own: observable 'b' is nan in event {SEEN}"),
    (own("constant"), "source.spaces.own: observable 'b' is 3 in "),
    (own("order"), "source.spaces.own: observable 'b' depends on the other events or on their order"),
    (own("fails"), "source.spaces.own: the function ended in RuntimeError: no such luck ("),
    (own("signal_only"), "source.spaces.own: the function returned no column 'b' (it returned a)"),
    (own("nowhere"), "source.spaces.own: module 'mine' has no function 'nowhere'"),
    (own("x") | {"function": "gone:f"}, "source.spaces.own: module 'gone' cannot be imported"),
    (
        {"kind": "observables", "observables": ["ht", "hat"]},
        "source.spaces.own: there is no observable 'hat'",
    ),
    ({"alpha": 1, "kind": "learnt"}, "source.spaces.own.kind: learned or observables or joined was expected"),
]


@pytest.mark.parametrize(("space", "sentence"), BAD)
def test_a_bad_observable_is_one_sentence_and_nothing_is_written(
    space: dict[str, Any],
    sentence: str,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    code = run(monkeypatch, tmp_path, files / "seen.h5", space)
    said = capfd.readouterr().err.strip()
    assert code == 2
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "RUN").exists()


def test_an_event_that_the_trial_has_not_seen_is_found_before_the_training(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code = run(monkeypatch, tmp_path, files / "unseen.h5", own("nan"))
    said = capfd.readouterr().err.strip().splitlines()
    assert code == 2
    assert f"sample 'background': source.spaces.own: observable 'b' is nan in event {UNSEEN}" in said[-1]
    assert not (tmp_path / "RUN" / "models").exists()
    assert not (tmp_path / "RUN" / "selected.json").exists()
