"""Learned spaces that differ in more than alpha: one run trains them all, each with its own identity."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from finished_run import TINY, make_run, tiny_study
from samples import random_events

from covad.cli.main import main
from covad.embedding.encoder import Encoder
from covad.embedding.metrics import read_history
from covad.embedding.mlp import Mlp
from covad.errors import CovadError
from covad.events.layout import Collection, EventLayout
from covad.pipeline.encoder import check_learned
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.runs.models import load_space

MLP: dict[str, Any] = {"kind": "mlp", "frame": "event", "hidden": [8], "projector": 8}
SPACES: dict[str, Any] = {
    "plain": {"alpha": 10},
    "again": {"alpha": 10, "seed": 1},
    "kept": {"alpha": 0, "beta": 1, "keep": "observables", "contrast": 0, "encoder": MLP},
    "wide": {"alpha": 0, "outputs": 6},
    "told": {"alpha": 0, "beta": 1, "keep": ["variance", "changes"]},
}


def data_of(path: Path, **source: Any) -> CollisionData:
    return CollisionData.of(tiny_study(source=TINY["source"] | source), RunDirectory(path))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(
        tmp_path_factory.mktemp("learned") / "run",
        "spaces",
        source=TINY["source"] | {"spaces": SPACES},
        configurations=[{"space": name} for name in SPACES],
    )


def test_every_space_is_trained_as_it_says(run: Path) -> None:
    data = CollisionData.of(RunDirectory(run).study(), RunDirectory(run))
    spaces = {name: load_space(data, name) for name in SPACES}
    assert {name: space.outputs for name, space in spaces.items()} == {
        "plain": 4,
        "again": 4,
        "kept": 4,
        "wide": 6,
        "told": 4,
    }
    assert isinstance(spaces["kept"], Mlp)
    particles = random_events(50, 1).particles
    assert not np.allclose(spaces["plain"].encode(particles), spaces["again"].encode(particles))
    for name in SPACES:
        (line,) = read_history(data.products.space(name, 0))
        assert (line.keep is None) == (name not in ("kept", "told"))


def test_a_space_that_says_alpha_alone_is_what_it_was(run: Path) -> None:
    """Its recipe has the keys of before; others have more. A device is no part of any."""
    data = CollisionData.of(RunDirectory(run).study(), RunDirectory(run))
    recipes = {name: dict(data.products.space(name, 0).recipe or {}) for name in SPACES}
    assert "own" not in recipes["plain"]
    assert recipes["plain"]["encoder"] == {"width": 8, "heads": 2, "feed_forward": 16, "projector": 8}
    assert "device" not in recipes["plain"]["training"]
    assert recipes["again"]["own"] == {"seed": 1}
    assert recipes["kept"]["own"] == {"contrast": 0.0, "beta": 1.0, "keep": "observables", "version": 1}
    assert recipes["wide"]["encoder"]["outputs"] == 6
    changes = {"version": 1, "names": None}
    assert recipes["told"]["own"] == {"beta": 1.0, "keep": ["variance", "changes"], "changes": changes}
    source = TINY["source"] | {"spaces": SPACES, "training": TINY["source"]["training"] | {"device": "cpu"}}
    configurations = [{"space": name} for name in SPACES]
    moved = CollisionData.of(tiny_study(source=source, configurations=configurations), RunDirectory(run))
    assert all(dict(moved.products.space(name, 0).recipe or {}) == recipes[name] for name in SPACES)
    source["training"] |= {"changes": ["harder"]}
    fewer = CollisionData.of(tiny_study(source=source, configurations=configurations), RunDirectory(run))
    others = [name for name in SPACES if dict(fewer.products.space(name, 0).recipe or {}) != recipes[name]]
    assert others == ["told"]


def test_spaces_of_before_train_to_the_same_bits_beside_others(run: Path, tmp_path: Path) -> None:
    alone = make_run(
        tmp_path / "run", "spaces", source=TINY["source"] | {"spaces": {"plain": SPACES["plain"]}}
    )
    file = "models/plain/fold_0/encoder.safetensors"
    assert (alone / file).read_bytes() == (run / file).read_bytes()


LAYOUT = EventLayout((Collection("photon", 2), Collection("track", 3, ("pt", "eta"))))
KEPT = {"covariant": {"alpha": 0, "beta": 1, "keep": "observables"}}
CHANGED = {"covariant": {"alpha": 0, "beta": 1, "keep": ["variance", "changes"]}}
OWN = {"covariant": {"alpha": 0, "encoder": {"frame": "event", "axis": ["tracks"]}}}


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ({"spaces": KEPT}, r"^source\.spaces\.covariant\.keep: observables needs a collection of jets"),
        (
            {"spaces": OWN},
            r"^source\.spaces\.covariant\.encoder\.axis: the event layout has no collection 'tracks'",
        ),
        (
            {"spaces": CHANGED, "training": {"batch": 64, "changes": ["harder", "more_jets"]}},
            r"^source\.training\.changes: the change 'more_jets' cannot be had: .* no collection 'jet'",
        ),
        (
            {"spaces": CHANGED, "training": {"batch": 64, "changes": ["softer"]}},
            r"^source\.training\.changes: there is no change 'softer' \(there are harder, ",
        ),
        (
            {"encoder": {"frame": "event", "axis": ["track"]}},
            r"^source\.encoder\.axis: the collection 'track' has no phi, which an axis needs$",
        ),
    ],
)
def test_what_the_layout_does_not_have_is_said_before_training(
    source: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(CovadError, match=sentence) as refused:
        check_learned(data_of(tmp_path, **source), LAYOUT)
    assert "\n" not in str(refused.value)


def test_a_run_says_so_at_once(tmp_path: Path) -> None:
    source = TINY["source"] | {"encoder": {"frame": "event", "axis": ["leptons"]}}
    with pytest.raises(
        CovadError, match=r"source\.encoder\.axis: the event layout has no collection 'leptons'"
    ):
        make_run(tmp_path / "run", "spaces", source=source)
    assert not list((tmp_path / "run").rglob("*.safetensors"))


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ({"spaces": {"a": {"alpha": 0, "beta": 1}}}, "beta weighs L_keep: say what to keep"),
        ({"training": {"changes": ["harder"]}}, r"training.changes: no space keeps changes"),
        ({"spaces": {"a": {"alpha": 0, "outputs": 0}}}, "spaces.a.outputs: it should be greater than 0"),
        (
            {"encoder": {"frame": "event", "axis": ["leptons"]}},
            "source.encoder.axis: the event layout has no",
        ),
        ({"training": TINY["source"]["training"] | {"device": "mps"}}, "torch finds no 'mps' here"),
    ],
)
def test_the_command_line_says_it_in_one_sentence(
    source: dict[str, Any],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    configurations = [{"space": next(iter(source.get("spaces", TINY["source"]["spaces"])))}]
    study = TINY | {"source": TINY["source"] | source, "configurations": configurations}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    arguments = ["run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "RUN"), "--workers", "1"]
    monkeypatch.setattr(sys, "argv", ["covad", *arguments, "--until", "spaces"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert sentence in " ".join(said.split())
    assert "Traceback" not in said
    assert not list(tmp_path.rglob("*.safetensors"))


def test_an_encoder_is_a_space_of_any_kind(run: Path) -> None:
    data = CollisionData.of(RunDirectory(run).study(), RunDirectory(run))
    assert all(isinstance(load_space(data, name), Encoder) for name in SPACES)
