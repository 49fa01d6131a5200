"""Other settings of some processes, as another generator or tune would have: for separate samples.

They change the settings by what tunes of the same data differ by, some per cent. Nothing is fitted to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from covad.errors import UnknownNameError
from covad.simulation.parametric import bosons, pairs
from covad.simulation.parametric.products import HardProcess
from covad.simulation.parametric.radiation import InitialState


def _scaled(tune: InitialState, number: float, hardness: float) -> InitialState:
    """Return radiation with other numbers of jets, and with other momenta."""
    return replace(tune, mean_jets=number * tune.mean_jets, scale=hardness * tune.scale)


#: By process.
VARIANTS: Mapping[str, Mapping[str, HardProcess]] = {
    "w": {
        "more_radiation": partial(bosons.w, initial=_scaled(bosons.W_RADIATION, 1.05, 1.05)),
        "less_radiation": partial(bosons.w, initial=_scaled(bosons.W_RADIATION, 1 / 1.05, 1 / 1.05)),
    },
    "z": {
        "more_continuum": partial(bosons.z, drell_yan=bosons.DrellYan(continuum=0.22)),
        "more_radiation": partial(bosons.z, initial=_scaled(bosons.Z_RADIATION, 1.05, 1.05)),
    },
    "ttbar": {
        "more_radiation": partial(pairs.ttbar, initial=_scaled(pairs.TTBAR_RADIATION, 1.1, 1.1)),
        "less_radiation": partial(pairs.ttbar, initial=_scaled(pairs.TTBAR_RADIATION, 1 / 1.1, 1 / 1.1)),
    },
}


def find_variant(process: str, variant: str) -> HardProcess:
    """Return a process with other settings, or raise UnknownNameError."""
    known = VARIANTS.get(process, {})
    if variant not in known:
        there = ", ".join(f"{name}: {', '.join(each)}" for name, each in VARIANTS.items())
        raise UnknownNameError(f"the simulator has no variant '{variant}' of '{process}' (there are {there})")
    return known[variant]
