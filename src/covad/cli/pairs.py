"""Options of the form NAME=NUMBER."""

from __future__ import annotations

import math
from collections.abc import Sequence

from covad.errors import CovadError


def parse_values(option: str, texts: Sequence[str]) -> dict[str, float]:
    """Read the NAME=VALUE pairs of an option that may be given several times."""
    values: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not (name and equals and math.isfinite(value)):
            raise CovadError(f"{option} is written NAME=VALUE, with a number, not '{text}'")
        if name in values:
            raise CovadError(f"{option}: '{name}' is given twice: give it once")
        values[name] = value
    return values


def parse_counts(option: str, texts: Sequence[str]) -> dict[str, int]:
    """Read pairs whose values are whole numbers."""
    values = parse_values(option, texts)
    for name, value in values.items():
        if value != int(value):
            raise CovadError(f"{option}: the number of events of '{name}' must be whole, not {value:g}")
    return {name: int(value) for name, value in values.items()}
