from pathlib import Path

import pytest

from covad.errors import CovadError
from covad.events.layout import Events
from covad.events.systematics import (
    BUILT_IN,
    JetEnergyScale,
    LeptonEnergyScale,
    make_systematic,
)
from covad.events.users_code import load_function

MODULE = """
def half_met(events, amount):
    particles = events.particles.copy()
    particles[:, 0, 0] *= 1 + amount
    return events.with_particles(particles)
"""


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_is_made_by_its_name(name: str) -> None:
    assert make_systematic({"name": name}).name == name


def test_options_reach_the_systematic() -> None:
    made = make_systematic({"name": "jet_energy_scale", "sigma": 0.05, "propagate_to_met": True})
    assert made == JetEnergyScale(sigma=0.05, propagate_to_met=True)
    made = make_systematic({"name": "lepton_energy_scale", "collections": ["muon"]})
    assert made == LeptonEnergyScale(collections=("muon",))


def test_a_users_function_beside_the_study_file(tmp_path: Path, events: Events) -> None:
    (tmp_path / "users_met_scale.py").write_text(MODULE)
    mine = make_systematic({"name": "mine", "function": "users_met_scale:half_met", "sigma": 0.1}, tmp_path)
    assert mine.shift(events, -5.0).events.particles[0, 0, 0] == pytest.approx(12.5)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({}, "no name"),
        ({"name": "jes"}, "unknown systematic 'jes'"),
        ({"name": "jet_energy_scale", "sigm": 0.1}, "no option 'sigm'"),
        ({"name": "jet_energy_scale", "sigma": 0}, "sigma must be a positive number"),
        ({"name": "jet_energy_scale", "sigma": "big"}, "sigma must be a positive number"),
        ({"name": "jet_energy_scale", "sigma": float("inf")}, "sigma must be a positive number"),
        ({"name": "jet_energy_scale", "sigma": True}, "sigma must be a positive number"),
        ({"name": "jet_energy_scale", "propagate_to_met": "no"}, "propagate_to_met must be of type bool"),
        ({"name": "jet_energy_resolution", "seed": 1.5}, "seed must be of type int, not 1.5"),
        ({"name": "lepton_energy_scale", "collections": "muon"}, "collections must be of type list"),
        ({"name": "mine", "function": "nowhere", "sigma": 1}, "module:function"),
        ({"name": "mine", "function": "no_such_module:f", "sigma": 1}, "'no_such_module' cannot be imported"),
        ({"name": "mine", "function": "math:no_such", "sigma": 1}, "no function 'no_such'"),
        ({"name": "mine", "function": "math:exp"}, "exactly the keys"),
    ],
)
def test_mistakes_are_named(description: dict[str, object], message: str) -> None:
    with pytest.raises(CovadError, match=message):
        make_systematic(description)


def test_a_module_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken_module_of_user.py").write_text("raise RuntimeError('boom')")
    with pytest.raises(CovadError, match="'broken_module_of_user' cannot be imported: boom"):
        make_systematic({"name": "x", "function": "broken_module_of_user:f", "sigma": 1}, tmp_path)
    (tmp_path / "leaving_module_of_user.py").write_text("import sys\nsys.exit(0)")
    with pytest.raises(CovadError, match="'leaving_module_of_user' cannot be imported: it ends the program"):
        make_systematic({"name": "x", "function": "leaving_module_of_user:f", "sigma": 1}, tmp_path)


def test_modules_of_one_name_in_two_folders_are_two(tmp_path):
    """In a notebook two studies may each have a my_systematics.py."""
    found = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "one_of_two.py").write_text(f"def shift(events, amount):\n    return {number}\n")
        found.append(load_function("one_of_two:shift", folder))
    assert [function(None, 0.0) for function in found] == [1, 2]
