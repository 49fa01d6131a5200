"""Whole runs in spaces of observables and joined ones: every stage, and runs with the keys of before."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from finished_run import TINY, make_run, run_here, tiny_study

from covad.embedding.spaces import JoinedSpace, ObservableSpace
from covad.embedding.transformer import Transformer
from covad.errors import StudyError
from covad.results.run import open_run
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.runs.models import load_space
from covad.runs.scale import load_scale
from covad.runs.status import learning_progress
from covad.storage.json_files import read_json
from covad.storage.sealed import read_sealed, write_sealed
from covad.study.plan import reach_convex

NAMES = ["log_met", "ht", "st", "mt", "m_leptons", "n_jets", "n_leptons"]
PLAIN: dict[str, Any] = {"kind": "observables", "observables": NAMES}
SPLITS = {role: n for role, n in TINY["source"]["splits"].items() if role != "encoder"}
ALONE: dict[str, Any] = {
    "source": TINY["source"] | {"spaces": {"plain": PLAIN}, "splits": SPLITS},
    "tests": {"convex": {"bumps": 5}},
    "configurations": [{"treatment": "none"}, {"treatment": "profiled", "order": 2}],
}


TESTS: dict[str, Any] = {"tests": ALONE["tests"]}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("alone") / "run", **ALONE)


def test_observables_alone_train_no_encoder_and_do_every_stage(alone: Path) -> None:
    there = sorted(path.name for path in (alone / "models" / "plain" / "fold_0").iterdir())
    assert there == ["response_1.safetensors", "response_2.safetensors", "space.safetensors"]
    directory = RunDirectory(alone)
    assert all(stage.finished for stage in learning_progress(directory.study(), directory))
    summary = open_run(alone).summary
    assert summary.trainings == ()
    assert {c.kind for c in summary.configurations} == {"observables"}
    assert [space.space for space in summary.spaces] == ["plain", "plain"]
    assert summary.toys.missing == 0
    assert {line.where for line in summary.spaces[0].validation} == {*NAMES, "cells"}


def test_rare_numbers_are_scaled_by_half_a_step(alone: Path) -> None:
    data = CollisionData.of_run(RunDirectory(alone).study(), RunDirectory(alone))
    width = load_scale(data.products.pools(("plain", 1))).width
    assert width[NAMES.index("n_leptons")] == 0.5
    assert width[NAMES.index("n_jets")] > 0.5


def test_a_joined_space_has_the_columns_of_both(tmp_path: Path) -> None:
    spaces = {"both": {"kind": "joined", "of": ["learned", "plain"]}, "learned": {"alpha": 0}, "plain": PLAIN}
    source = TINY["source"] | {"spaces": spaces}
    run = make_run(
        tmp_path / "run", "checks", source=source, configurations=[{"space": "both"}], tests=ALONE["tests"]
    )
    data = CollisionData.of_run(RunDirectory(run).study(), RunDirectory(run))
    both = load_space(data, "both")
    assert isinstance(both, JoinedSpace)
    assert [type(part) for part in both.parts.values()] == [Transformer, ObservableSpace]
    assert both.outputs == 4 + len(NAMES)
    assert not (run / "models" / "plain" / "fold_0" / "response_1.safetensors").exists()


def test_the_adaptive_test_looks_at_the_parts_of_a_joined_space(tmp_path: Path) -> None:
    few = {"kind": "observables", "observables": ["met", "ht"]}
    spaces = {"a": few, "b": {"kind": "observables", "observables": ["st"]}}
    spaces |= {"both": {"kind": "joined", "of": ["b", "a"]}}
    run = make_run(
        tmp_path / "run",
        source=TINY["source"] | {"spaces": spaces, "splits": SPLITS},
        tests={"adaptive": {"capacities": [2.5], "bumps": [5], "together": [3]}},
        configurations=[{"space": "both"}, {"space": "a"}],
        result="adaptive",
    )
    study = RunDirectory(run).study()
    kept = {name: read_json(run / "members" / f"{name}-profiled.json") for name in ("both", "a")}
    assert kept["both"]["parts"] == ["b", "a"]
    assert [scale["basis"].get("dimensions") for scale in kept["both"]["scales"]] == [[0], [1, 2]]
    assert kept["a"]["parts"] == []
    summary = open_run(run).summary
    assert summary.toys.failed == summary.toys.missing == 0
    assert reach_convex(study, "both").parts == (("b", 1), ("a", 2))


def test_a_part_of_few_values_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its scales are one, and toys have a finite t; the reach of so few bumps ended in a traceback."""
    spaces = {
        "a": {"kind": "observables", "observables": ["met", "ht"]},
        "b": {"kind": "observables", "observables": ["n_jets"]},
        "both": {"kind": "joined", "of": ["a", "b"]},
    }
    run = make_run(
        tmp_path / "run",
        source=TINY["source"] | {"spaces": spaces, "splits": SPLITS},
        tests={"adaptive": {"capacities": [2.5, 4], "bumps": [5, 12], "together": [3, 30]}},
        configurations=[{"space": "both"}],
    )
    assert "different points in b, so the test has" in caplog.text
    assert "different points in a" not in caplog.text
    summary = open_run(run).summary
    assert summary.toys.failed == summary.toys.missing == 0


def test_the_order_of_joined_spaces_is_part_of_what_they_are(tmp_path: Path) -> None:
    """z has the columns in that order: a response of the other order does not fit it."""
    parts = {"a": PLAIN, "b": {"kind": "observables", "observables": ["met", "ht"]}}
    digests = []
    for of in (["a", "b"], ["b", "a"]):
        spaces = parts | {"j": {"kind": "joined", "of": of}}
        source = TINY["source"] | {"spaces": spaces, "splits": SPLITS}
        run = make_run(
            tmp_path / "_".join(of), "spaces", source=source, configurations=[{"space": "j"}], **TESTS
        )
        data = CollisionData.of_run(RunDirectory(run).study(), RunDirectory(run))
        digests.append(data.products.space("j", 0).digest)
    assert digests[0] != digests[1]


def test_a_run_with_the_keys_of_before_is_read_and_goes_on(alone: Path, tmp_path: Path) -> None:
    """Only study.json differs: nothing is made anew."""
    study = tiny_study(**ALONE)
    origin = read_sealed(alone / "study.json")
    assert origin is not None
    old = {**origin["study"], "source": dict(origin["study"]["source"])}
    old["source"]["embeddings"] = old["source"].pop("spaces")
    old["configurations"] = [
        {"embedding" if key == "space" else key: value for key, value in entry.items()}
        for entry in old["configurations"]
    ]
    write_sealed(alone / "study.json", origin | {"study": old})
    assert RunDirectory(alone).study() == study
    times = {path: path.stat().st_mtime_ns for path in (alone / "models").rglob("*.safetensors")}
    run_here(study, alone)
    assert times == {path: path.stat().st_mtime_ns for path in (alone / "models").rglob("*.safetensors")}


def test_edited_code_of_an_observable_is_another_study(tmp_path: Path) -> None:
    module = tmp_path / "my_columns.py"
    module.write_text("def f(events):\n    return events.particles[:, 0, :1]\n")
    own = {"kind": "observables", "function": "my_columns:f", "names": ["met"]}
    source = ALONE["source"] | {"spaces": {"own": own}, "folder": str(tmp_path)}
    run = make_run(tmp_path / "run", "spaces", **(ALONE | {"source": source}))
    data = CollisionData.of_run(RunDirectory(run).study(), RunDirectory(run))
    particles = np.ones((2, *load_space(data, "own").layout.shape), np.float32)
    assert load_space(data, "own").encode(particles).tolist() == [[1.0], [1.0]]
    module.write_text("def f(events):\n    return 2 * events.particles[:, 0, :1]\n")
    with pytest.raises(StudyError, match="the code of the systematics or observables has changed"):
        CollisionData.of_run(RunDirectory(run).study(), RunDirectory(run))
