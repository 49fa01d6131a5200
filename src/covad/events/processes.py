"""The processes of the paper: names for the command line, codes of the prepared files, and the mix."""

from __future__ import annotations

from covad.errors import UnknownNameError
from covad.events.layout import Collection, EventLayout

#: 19 slots x (pt, eta, phi) = 57 numbers: the layout of the public 40 MHz dataset, without its class column.
ADC2021_LAYOUT = EventLayout(
    (Collection("met", 1), Collection("electron", 4), Collection("muon", 4), Collection("jet", 10))
)

#: Position in this tuple = process code of the prepared npz files.
PROCESS_NAMES = ("w", "qcd", "z", "ttbar", "lq", "a4l", "hpm", "h0")
BACKGROUND = "background"

#: Fractions of the Standard Model mix.
BACKGROUND_MIX = {"w": 0.592, "qcd": 0.338, "z": 0.067, "ttbar": 0.003}


def process_code(name: str) -> int:
    """Return the code of a process, or raise UnknownNameError."""
    if name not in PROCESS_NAMES:
        known = ", ".join((*PROCESS_NAMES, BACKGROUND))
        raise UnknownNameError(f"unknown process '{name}' (known: {known})")
    return PROCESS_NAMES.index(name)
