"""The second example of docs/tutorials/own-events.md: its commands, in order, in a copy."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from event_files import write_events
from tutorial_page import ROOT, commands, run_in_copy, verbs

from covad.cli.main import commands as cli
from covad.events.systematics import make_systematic, shift_events
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.study import read_study

EXAMPLE = ROOT / "examples" / "own_events"
HOW_MANY = ROOT / "docs" / "how-to" / "how-many-toys.md"
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def events():
    specification = importlib.util.spec_from_file_location("make_events", EXAMPLE / "make_events.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.background(3000, np.random.default_rng(1))


def test_the_study_is_valid_and_finds_its_systematic():
    study = read_study(EXAMPLE / "study.yaml")
    data = CollisionData.of(study, RunDirectory(Path("nowhere")))
    assert [systematic.name for systematic in data.systematics] == ["photon_scale"]


def test_the_systematic_moves_photons_and_balances_the_missing_momentum(events):
    scale = make_systematic(
        {"name": "photon_scale", "function": "my_systematics:photon_scale", "sigma": 0.02}, EXAMPLE
    )
    before = events.particles.copy()
    assert scale.shift(events, 0.0).events.particles == pytest.approx(before, rel=1e-5)
    shifted = scale.shift(events, 1.0).events
    assert np.array_equal(events.particles, before)
    layout = events.layout
    photons = layout.slots("photon")
    ratio = shifted.particles[:, photons, 0].sum(axis=1) / before[:, photons, 0].sum(axis=1)
    assert ((ratio > 1.0199) & (ratio < 1.0401)).all()
    momentum = [(p[..., 0] * np.cos(p[..., layout.column("phi")])) for p in (before, shifted.particles)]
    visible = np.r_[layout.slots("met").start, np.arange(photons.start, photons.stop)]
    assert momentum[1][:, visible].sum(axis=1) == pytest.approx(momentum[0][:, visible].sum(axis=1), abs=1e-3)


def python_block(page: Path, mark: str) -> str:
    """The one block of Python on a page that has this in it."""
    (code,) = (block for block in PYTHON_BLOCK.findall(page.read_text()) if mark in block)
    return code


def test_the_numbers_of_the_sizing_table_are_those_of_its_code(capsys):
    exec(python_block(HOW_MANY, "norm.isf"), {})
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 5
    assert set(rows) <= set(HOW_MANY.read_text().splitlines())


def test_the_shift_lifts_events_over_the_trigger(events):
    data = CollisionData.of(read_study(EXAMPLE / "study.yaml"), RunDirectory(Path("nowhere")))
    up, down = (
        shift_events(events, data.systematics, [nu], data.selection).yield_ratio for nu in (1.0, -1.0)
    )
    assert down < 1.0 < up


def test_inspect_applies_cuts_and_systematics_of_the_study(events, tmp_path):
    path = write_events(tmp_path / "mine.h5", events)
    result = CliRunner().invoke(cli, ["inspect", str(path), "--study", str(EXAMPLE / "study.yaml")])
    assert result.exit_code == 0, result.output
    data = CollisionData.of(read_study(EXAMPLE / "study.yaml"), RunDirectory(Path("nowhere")))
    n_selected = len(data.selection.apply(events)[0])
    assert 0 < n_selected < len(events)
    assert f"after the cuts: {n_selected} events, efficiency {n_selected / len(events):.4f}" in result.output
    for nu in (-1, 1):
        ratio = shift_events(events, data.systematics, [nu], data.selection).yield_ratio
        (line,) = (line for line in result.output.splitlines() if f" {nu:+d} " in line)
        assert "photon_scale" in line
        assert f"{ratio:.4f}" in line


def test_the_tutorial_has_commands_for_every_step():
    assert verbs(2) == ["inspect", "inspect", "schema", "run", "status", "report", "test", "export"]


@pytest.mark.slow
def test_every_command_of_the_tutorial_works(tmp_path):
    run_in_copy(EXAMPLE, tmp_path, commands(2))
    run = tmp_path / "run"
    assert (run / "report.html").exists()
    assert len(list((tmp_path / "onnx").glob("*.onnx"))) == 2
    (answer,) = (run / "observed").glob("*.json")
    observation = json.loads(answer.read_text())
    assert observation["nuisances"][0]["auxiliary"] == pytest.approx(0.3)
    lines = observation["tests"][0]["significances"]
    assert [line["null"] for line in lines] == ["R_0", "R_+1", "R_-1", "analytic"]
    assert all(0 < line["p"] < 1 for line in lines)
    toys = json.loads((run / "summary.json").read_text())["toys"]
    assert toys == {"requested": 600, "done": 600, "failed": 0, "missing": 0}
