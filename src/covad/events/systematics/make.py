"""Systematics from the entries of a study file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from covad.errors import CovadError, UnknownNameError
from covad.events.systematics.built_in import BUILT_IN
from covad.events.systematics.built_in_weights import BUILT_IN_WEIGHTS
from covad.events.systematics.normalisation import ProcessNormalisation
from covad.events.systematics.nuisance import Nuisance, Restricted
from covad.events.systematics.samples import SeparateSamples
from covad.events.systematics.users import UserSystematic
from covad.events.systematics.variation import Systematic
from covad.events.systematics.varied import VariedObjects
from covad.events.systematics.weights import UserWeights, WeightColumns
from covad.events.users_code import load_function


def make_nuisances(entries: Iterable[Mapping[str, Any]], folder: Path | None = None) -> tuple[Nuisance, ...]:
    """Build the nuisances of a study from its entries, in the order in which their names first appear."""
    found: dict[str, list[Systematic]] = {}
    for entry in entries:
        effect = make_effect(entry, folder)
        found.setdefault(effect.name, []).append(effect)
    return tuple(Nuisance(name, tuple(effects)) for name, effects in found.items())


def make_effect(description: Mapping[str, Any], folder: Path | None = None) -> Systematic:
    """Build what one entry of a study file does, to all processes or to some."""
    settings = dict(description)
    kind, only = settings.pop("kind", "shift"), tuple(settings.pop("only", ()))
    effect = _of_kind(kind, settings, folder)
    return Restricted(effect, only) if only else effect


def _of_kind(kind: str, settings: dict[str, Any], folder: Path | None) -> Systematic:
    """Build a systematic of a kind; the study has checked its keys."""
    match kind:
        case "shift":
            return make_systematic(settings, folder)
        case "varied":
            return VariedObjects(**settings)
        case "weights" if "function" in settings:
            function = load_function(settings["function"], folder)
            return UserWeights(settings["name"], settings.get("sigma", 1.0), function)
        case "weights" if "up" in settings:
            return WeightColumns(**settings)
        case "weights":
            return make_built_in(settings, BUILT_IN_WEIGHTS)
        case "normalisation":
            return ProcessNormalisation(**settings)
        case "samples":
            return SeparateSamples(settings["name"], settings["process"], "down" not in settings)
    raise UnknownNameError(f"unknown kind of systematic '{kind}'")


def make_systematic(description: Mapping[str, Any], folder: Path | None = None) -> Systematic:
    """Build a shift of objects from its entry in a study file.

    Built in: {name: jet_energy_scale, sigma: 0.025, ...options}. A user's own:
    {name: my_scale, function: my_module:my_shift, sigma: 0.02}, where my_module is importable or lies in
    `folder` (that of the study file), and my_shift(events, amount) returns the shifted events.
    """
    if "function" not in description:
        return make_built_in(description, BUILT_IN)
    name, sigma = _name_and_sigma(description)
    if set(description) != {"name", "function", "sigma"}:
        raise CovadError(f"systematic '{name}' takes exactly the keys name, function and sigma")
    return UserSystematic(name, sigma, load_function(str(description["function"]), folder))


def make_built_in(description: Mapping[str, Any], known: Mapping[str, type[Any]]) -> Systematic:
    """Build a systematic of covad's own from its entry in a study file.

    It is the one of the key `built_in`, so that several nuisances can be of one sort; else that of its name.
    """
    name, _ = _name_and_sigma(description)
    settings = {key: value for key, value in description.items() if key not in ("name", "built_in")}
    sort = description.get("built_in", name)
    if sort not in known:
        raise UnknownNameError(
            f"unknown systematic '{sort}' (built in: {', '.join(known)}; "
            "your own needs the key 'function: module:function')"
        )
    options = {f.name: f.default for f in fields(known[sort]) if f.name != "name"}
    for key in settings:
        if key not in options:
            raise CovadError(
                f"systematic '{name}' has no option '{key}' (it has {', '.join(sorted(options))})"
            )
    given = {key: _option(name, key, v, options[key]) for key, v in settings.items()}
    made: Systematic = known[sort](name=name, **given)
    return made


def _name_and_sigma(description: Mapping[str, Any]) -> tuple[str, float]:
    """Return both, or raise CovadError if they are none; sigma is 1 if left out."""
    name, sigma = description.get("name"), description.get("sigma", 1.0)
    if not isinstance(name, str):
        raise CovadError("a systematic of the study file has no name: give it the key name")
    if type(sigma) not in (int, float) or not 0 < sigma < math.inf:
        raise CovadError(f"systematic '{name}': sigma must be a positive number, not {sigma!r}")
    return name, float(sigma)


def _option(name: str, key: str, value: Any, default: Any) -> Any:
    """Return an option in the type of its default; lists and whole numbers are converted."""
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(value)
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if type(value) is not type(default):
        kind = "list" if isinstance(default, tuple) else type(default).__name__
        raise CovadError(f"systematic '{name}': {key} must be of type {kind}, not {value!r}")
    return value
