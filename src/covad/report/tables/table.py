"""A table of the report; `report/formats` and the template of the page write it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

from covad.inference.intervals import Interval
from covad.inference.significance import MARK, MEANING, Significance
from covad.inference.verdict import Verdict
from covad.results.summary import ConfigurationSummary

MISSING = "–"
#: What somebody else has published for a test, a configuration and the keys of a cell; None: nothing.
Published = Callable[[str, ConfigurationSummary, tuple[str, ...]], str | None]
BOUND = re.compile(r"^(>=|<=) ")
_ASYMMETRIC = re.compile(r"^(-?[\d.]+) \+(\S+) -(\S+)$")


@dataclass(frozen=True)
class Cell:
    """A number as it is shown, its value and interval where it has them, and the paper's text for it."""

    text: str = MISSING
    value: float | None = None
    low: float | None = None
    high: float | None = None
    paper: str | None = None
    good: bool | None = None  # a verdict, shown as a colour and a word
    extrapolated: bool = False  # a significance that gets a mark

    @property
    def number(self) -> float | None:
        """Return the value; for a bound without one, the end of the interval that it stands for."""
        if self.value is None and (sign := BOUND.match(self.text)):
            return self.low if sign[1] == ">=" else self.high
        return self.value

    @property
    def sorted_by(self) -> str:
        """Return what rows are sorted by: a number, else a text; nothing for what is missing."""
        if self.number is not None:
            return f"{self.number:.9g}"
        return "" if self.text == MISSING else self.text

    @property
    def parts(self) -> tuple[str, str, str] | None:
        """Return (value, up, down) of '1.08 +0.11 -0.10', None for any other text."""
        return parts_of(self.text)

    @property
    def paper_parts(self) -> tuple[str, str, str] | None:
        return None if self.paper is None else parts_of(self.paper)


def parts_of(text: str) -> tuple[str, str, str] | None:
    match = _ASYMMETRIC.match(text)
    return None if match is None else (match[1], match[2], match[3])


def shown(text: str) -> str:
    """Return a number with its signs as they are printed."""
    return text.replace("<=", "≤").replace(">=", "≥").replace("-", "−") if is_number(text) else text


def is_number(text: str) -> bool:
    return bool(re.match(r"^[<>=≤≥ ]*-?\d", text))


@dataclass(frozen=True)
class Column:
    """`group` is the heading over neighbouring columns, empty where there is none.

    `level` is that of the intervals in its cells, where they have any; `prose` says that these are sentences.
    """

    label: str
    group: str = ""
    level: str = "68 %"
    prose: bool = False

    @property
    def full(self) -> str:
        return f"{self.group}, {self.label}" if self.group else self.label


@dataclass(frozen=True)
class Row:
    """Keys say what the row is, cells what was found. The page may leave it to the files."""

    keys: tuple[str, ...]
    cells: tuple[Cell, ...]
    in_files_only: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under columns. `quantity` is what the cells are."""

    name: str
    title: str
    caption: str
    keys: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    quantity: str

    @property
    def on_page(self) -> tuple[Row, ...]:
        """Return the rows that the page shows; the files have all."""
        return tuple(row for row in self.rows if not row.in_files_only)

    @property
    def has_paper(self) -> bool:
        return any(cell.paper is not None for row in self.rows for cell in row.cells)

    @property
    def has_extrapolated(self) -> bool:
        return any(cell.extrapolated for row in self.rows for cell in row.cells)

    def caption_with(self, paper_numbers: str) -> str:
        """Return the caption with what its marks mean; the paper's numbers stand 'In brackets', e.g."""
        told = self.caption
        if self.has_extrapolated:
            told += f" {MARK} {MEANING}."
        if self.has_paper:
            told += f" {paper_numbers}: the paper's numbers, from other samples, which need not agree."
        return told

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Return headings over the columns with the number of columns under each, empty if there are none."""
        if not any(column.group for column in self.columns):
            return []
        return [(group, len(list(under))) for group, under in groupby(self.columns, lambda c: c.group)]


def ended(title: str) -> str:
    """Return a title that another sentence can follow."""
    return title if title.endswith((".", "?", "!")) else f"{title}."


def nothing_published(test: str, configuration: ConfigurationSummary, keys: tuple[str, ...]) -> None:
    """Leave the numbers of a table without others beside them."""


def verdict_cell(verdict: Verdict) -> Cell:
    """Return a verdict, coloured only where there is a yes or a no."""
    return Cell(verdict.value, good=verdict.good)


def z_cell(found: Significance, paper: str | None = None) -> Cell:
    interval = found.interval
    return Cell(found.text, found.z, interval.low, interval.high, paper, extrapolated=found.extrapolated)


def interval_cell(value: float, interval: Interval, digits: int = 2, scale: float = 1.0) -> Cell:
    """Return '0.10 +0.05 -0.04' from a value and its interval, whose ends may be open, times a scale."""
    value *= scale
    low, high = (None if end is None else end * scale for end in (interval.low, interval.high))
    if low is None and high is None:
        return Cell(f"{value:.{digits}f}", value)
    up = "open" if high is None else f"{high - value:.{digits}f}"
    down = "open" if low is None else f"{value - low:.{digits}f}"
    return Cell(f"{value:.{digits}f} +{up} -{down}", value, low, high)
