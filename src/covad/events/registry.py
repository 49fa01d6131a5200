"""Systematics by name, as study files list them: built-in ones, and users' own as `module:function`."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from covad.errors import CovadError, UnknownNameError
from covad.events.systematics import (
    JetEnergyResolution,
    JetEnergyScale,
    LeptonEnergyScale,
    MetSoftScale,
    Systematic,
    UserSystematic,
)

BUILT_IN: dict[str, type[Any]] = {
    "jet_energy_scale": JetEnergyScale,
    "lepton_energy_scale": LeptonEnergyScale,
    "met_soft_scale": MetSoftScale,
    "jet_energy_resolution": JetEnergyResolution,
}


def make_systematic(description: Mapping[str, Any], folder: Path | None = None) -> Systematic:
    """Build a systematic from its entry in a study file.

    Built in: {name: jet_energy_scale, sigma: 0.025, ...options}. A user's own:
    {name: my_scale, function: my_module:my_shift, sigma: 0.02}, where my_module is importable or lies in
    `folder` (that of the study file), and my_shift(events, amount) returns the shifted events.
    """
    settings = dict(description)
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise CovadError("a systematic of the study file has no name")
    sigma = settings.get("sigma", 1.0)
    if type(sigma) not in (int, float) or not 0 < sigma < math.inf:
        raise CovadError(f"systematic '{name}': sigma must be a positive number, not {sigma!r}")
    if "function" in settings:
        return _users_own(name, settings, folder)
    if name not in BUILT_IN:
        raise UnknownNameError(
            f"unknown systematic '{name}' (built in: {', '.join(BUILT_IN)}; "
            "your own needs the key 'function: module:function')"
        )
    kind = BUILT_IN[name]
    options = {f.name: f.default for f in fields(kind) if f.name != "name"}
    for key in settings:
        if key not in options:
            raise CovadError(
                f"systematic '{name}' has no option '{key}' (it has {', '.join(sorted(options))})"
            )
    made: Systematic = kind(**{key: _option(name, key, v, options[key]) for key, v in settings.items()})
    return made


def _option(name: str, key: str, value: Any, default: Any) -> Any:
    """An option as the systematic wants it: of the type of its default, lists and whole numbers allowed."""
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(value)
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if type(value) is not type(default):
        kind = "list" if isinstance(default, tuple) else type(default).__name__
        raise CovadError(f"systematic '{name}': {key} must be of type {kind}, not {value!r}")
    return value


def _users_own(name: str, settings: dict[str, Any], folder: Path | None) -> UserSystematic:
    extra = set(settings) - {"function", "sigma"}
    if extra or "sigma" not in settings:
        raise CovadError(f"systematic '{name}' takes exactly the keys name, function and sigma")
    return UserSystematic(name, float(settings["sigma"]), load_function(str(settings["function"]), folder))


def load_function(reference: str, folder: Path | None = None) -> Callable[..., Any]:
    """The function that `module:function` names; modules beside the study file are found as well."""
    module_name, _, function_name = reference.partition(":")
    if not module_name or not function_name:
        raise CovadError(f"'{reference}' does not have the form module:function")
    try:
        with _importable(folder):
            module = importlib.import_module(module_name)
    except Exception as failure:
        raise CovadError(f"module '{module_name}' cannot be imported: {failure}") from failure
    function: Callable[..., Any] | None = getattr(module, function_name, None)
    if not callable(function):
        raise UnknownNameError(f"module '{module_name}' has no function '{function_name}'")
    return function


@contextmanager
def _importable(folder: Path | None) -> Iterator[None]:
    if folder is None:
        yield
        return
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
