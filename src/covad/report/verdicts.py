"""Does it close? Yes, no, or too few toys to tell, which is None in the summary."""

from __future__ import annotations

from collections.abc import Sequence

from covad.report.evidence import Line
from covad.report.tables.table import Cell

_WORDS = {True: "closes", False: "does not close", None: "cannot tell yet"}


def overall(lines: Sequence[Line]) -> bool | None:
    """One verdict of several lines: a failure decides, then what cannot be told."""
    found = {line["closes"] for line in lines}
    return False if False in found else None if None in found else True


def word(closes: bool | None) -> str:
    return _WORDS[closes]


def verdict_cell(closes: bool | None) -> Cell:
    """Coloured only where there is a verdict."""
    return Cell(word(closes), good=closes)
