"""Recipes leave out settings that have their defaults: whoever changes a default raises RECIPES."""

from dataclasses import MISSING, fields
from typing import Any

import pytest

from covad.embedding.settings import EncoderSettings, Training
from covad.events.selection import Selection
from covad.events.systematics import BUILT_IN, BUILT_IN_WEIGHTS
from covad.nplm.settings import ConvexSettings, NetworkSettings
from covad.response.settings import ResponseFit
from covad.runs.products import RECIPES
from covad.storage.json_files import as_read
from covad.study.sources import Splits
from covad.study.spaces import LearnedSpace

#: The defaults that the recipes of these numbers stand for.
PINNED_FOR = {"events": 1, "spaces": 1, "response": 2, "pools": 2, "checks": 3, "tune": 3}
PINNED: dict[type, dict[str, Any]] = {
    Selection: {"object_minimum": {"jet": 23.0}, "trigger": ["electron", "muon"], "trigger_minimum": 23.0},
    Splits: {
        "encoder": 1_000_000,
        "response": 1_000_000,
        "check": 500_000,
        "basis": 50_000,
        "reference": 1_500_000,
        "data": 1_500_000,
    },
    EncoderSettings: {
        "width": 32,
        "layers": 2,
        "heads": 4,
        "feed_forward": 64,
        "outputs": 4,
        "projector": 64,
        "kind": "transformer",
        "frame": "detector",
        "axis": None,
        "hidden": [128, 128, 64],
    },
    Training: {
        "steps": 3000,
        "batch": 512,
        "learning_rate": 0.002,
        "warm_up": 100,
        "weight_decay": 1e-06,
        "temperature": 0.1,
        "ratio_hidden": [64, 64],
        "validate_every": 250,
        "validation_batches": 8,
        "patience": 8,
        "contrast_on": "projector",
        "validation_share": 0.1,
        "covariance": None,
        "keep_hidden": [64, 64],
        "changes": None,
        "device": "auto",
    },
    LearnedSpace: {
        "kind": "learned",
        "alpha": 0.0,
        "contrast": 1.0,
        "beta": 0.0,
        "keep": None,
        "outputs": None,
        "seed": 0,
        "encoder": None,
    },
    ResponseFit: {
        "hidden": [128, 128, 64],
        "epochs": 12,
        "batch": 8192,
        "learning_rate": 0.005,
        "weight_decay": 1e-06,
        "validation_share": 0.1,
        "patience": 4,
        "fits": 1,
        "bootstrap": False,
        "cross": None,
    },
    NetworkSettings: {"clip": "tune", "starts": 1, "hops": 0, "hidden": [4, 4]},
    ConvexSettings: {"bumps": 100, "capacity": None, "spread": 3.0, "seed": 0},
}
#: Options of the built-in systematics.
PINNED_OPTIONS: dict[str, dict[str, Any]] = {
    "jet_energy_scale": {
        "sigma": 0.025,
        "name": "jet_energy_scale",
        "collection": "jet",
        "propagate_to_met": False,
        "met": "met",
        "eta": [],
        "pt": [],
    },
    "lepton_energy_scale": {
        "sigma": 0.01,
        "name": "lepton_energy_scale",
        "collections": ["electron", "muon"],
    },
    "met_soft_scale": {"sigma": 0.1, "name": "met_soft_scale", "met": "met"},
    "jet_energy_resolution": {
        "sigma": 0.05,
        "name": "jet_energy_resolution",
        "collection": "jet",
        "excess": 0.1,
        "stochastic": 0.8,
        "constant": 0.05,
        "seed": 0,
    },
    "lepton_efficiency": {
        "sigma": 0.02,
        "name": "lepton_efficiency",
        "collections": ["electron", "muon"],
        "pivot": 25.0,
    },
    "trigger_efficiency": {
        "sigma": 0.03,
        "name": "trigger_efficiency",
        "collections": ["electron", "muon"],
        "threshold": 23.0,
        "width": 8.0,
    },
    "jet_tagging": {
        "sigma": 0.03,
        "name": "jet_tagging",
        "collection": "jet",
        "eta_max": 2.5,
        "minimum": 23.0,
        "pivot": 50.0,
        "slope": 0.5,
        "most": 4,
    },
    "slope": {"sigma": 0.03, "name": "slope", "variable": "jet_sum", "pivot": 0.0, "width": 1.0},
}

RAISE = (
    "its default has changed: raise RECIPES in runs/products.py, so that older runs make their models anew"
)
ADD = "is new: add its default to this list, which RECIPES stand for"


def compare(found: dict[str, Any], pinned: dict[str, Any], where: str) -> None:
    for key, value in pinned.items():
        assert found.get(key) == value, f"{where}.{key}: {RAISE}, and pin {found.get(key)!r} here"
    assert not set(found) - set(pinned), f"{where}: {set(found) - set(pinned)} {ADD}"


@pytest.mark.parametrize("settings", PINNED, ids=lambda settings: settings.__name__)
def test_defaults_that_recipes_leave_out_stay(settings):
    needed = {"alpha": 0} if settings is LearnedSpace else {}
    compare(as_read(dict(settings(**needed))), PINNED[settings], settings.__name__)


#: Keys that recipes and files do not know of where they have their defaults.
ADDED = {
    EncoderSettings: {"kind", "frame", "axis", "hidden"},
    Training: {"keep_hidden", "device", "changes"},
    LearnedSpace: {"contrast", "beta", "keep", "outputs", "seed", "encoder"},
}


@pytest.mark.parametrize("settings", ADDED, ids=lambda settings: settings.__name__)
def test_keys_that_came_later_are_told_only_where_they_are_used(settings):
    plain = settings(**({"alpha": 0} if settings is LearnedSpace else {}))
    assert set(plain.model_dump(mode="json")) == set(PINNED[settings]) - ADDED[settings]
    if settings is LearnedSpace:
        used = settings(alpha=0, beta=1, keep="inputs", seed=2)
        assert used.model_dump(mode="json", exclude_defaults=True) == {
            "alpha": 0.0,
            "beta": 1.0,
            "keep": "inputs",
            "seed": 2,
        }


@pytest.mark.parametrize("name", BUILT_IN | BUILT_IN_WEIGHTS)
def test_options_that_recipes_leave_out_stay(name):
    options = {}
    for option in fields((BUILT_IN | BUILT_IN_WEIGHTS)[name]):
        if option.init and option.default is not MISSING:
            options[option.name] = option.default
        elif option.init and option.default_factory is not MISSING:
            options[option.name] = option.default_factory()
    compare(as_read(options), PINNED_OPTIONS[name], name)


def test_the_pinned_defaults_are_those_of_the_recipes():
    assert PINNED_FOR == RECIPES, "RECIPES were raised: pin the defaults of now, and their number"
