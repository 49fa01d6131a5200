"""A table of the report, and how it is written: LaTeX and CSV here, HTML by the template."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from covad.inference.closure import Verdict
from covad.inference.intervals import Interval
from covad.inference.significance import MARK, MEANING, Significance
from covad.report.names import latex
from covad.results.summary import ConfigurationSummary

MISSING = "–"
#: What somebody else has published for a test, a configuration and the keys of a cell; None: nothing.
Published = Callable[[str, ConfigurationSummary, tuple[str, ...]], str | None]
_BOUND = re.compile(r"^(>=|<=) ")
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
    def parts(self) -> tuple[str, str, str] | None:
        """(value, up, down) of '1.08 +0.11 -0.10', None for any other text."""
        return _parts(self.text)

    @property
    def paper_parts(self) -> tuple[str, str, str] | None:
        return None if self.paper is None else _parts(self.paper)


def _parts(text: str) -> tuple[str, str, str] | None:
    match = _ASYMMETRIC.match(text)
    return None if match is None else (match[1], match[2], match[3])


def shown(text: str) -> str:
    """Signs as they are printed."""
    return text.replace("<=", "≤").replace(">=", "≥").replace("-", "−") if _is_number(text) else text


def _is_number(text: str) -> bool:
    return bool(re.match(r"^[<>=≤≥ ]*-?\d", text))


@dataclass(frozen=True)
class Column:
    """`group` is the heading over neighbouring columns, empty where there is none.

    `level` is that of the intervals in its cells, where they have any.
    """

    label: str
    group: str = ""
    level: str = "68 %"

    @property
    def full(self) -> str:
        return f"{self.group}, {self.label}" if self.group else self.label


@dataclass(frozen=True)
class Row:
    """Keys say what the row is, cells what was found."""

    keys: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Rows under columns. `quantity` is what the cells are; `paper_label` the paper's name for it."""

    name: str
    title: str
    caption: str
    keys: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    quantity: str
    paper_label: str | None = None

    @property
    def has_paper(self) -> bool:
        return any(cell.paper is not None for row in self.rows for cell in row.cells)

    @property
    def has_extrapolated(self) -> bool:
        return any(cell.extrapolated for row in self.rows for cell in row.cells)

    def caption_with(self, paper_numbers: str) -> str:
        """The caption and what its marks mean; the paper's numbers stand `paper_numbers`: 'in brackets'."""
        marked = f" {MARK} {MEANING}." if self.has_extrapolated else ""
        return f"{self.caption}{marked}{self._paper_note(paper_numbers)}"

    def _paper_note(self, paper_numbers: str) -> str:
        if not self.has_paper:
            return f" The paper's table: {self.paper_label}." if self.paper_label else ""
        label = f" ({self.paper_label})" if self.paper_label else ""
        return f" {paper_numbers}: the paper's numbers{label}, from other samples, which need not agree."

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Headings over the columns with the number of columns under each, empty if there are none."""
        if not any(column.group for column in self.columns):
            return []
        return [(group, len(list(under))) for group, under in groupby(self.columns, lambda c: c.group)]


def ended(title: str) -> str:
    """A title that another sentence can follow."""
    return title if title.endswith((".", "?", "!")) else f"{title}."


def csv_text(table: Table) -> str:
    """One line a row, and numbers in columns of their own: value, ends of the interval, note, the paper's.

    A note is the sign of a bound, the mark of an extrapolation, or a word that stands in place of a number.
    """
    columns = [*_key_columns(table)]
    for number, column in enumerate(table.columns):
        cells = [row.cells[number] for row in table.rows]
        columns += _csv_columns(column.full, cells)
        if any(cell.paper is not None for cell in cells):
            columns += _csv_columns(f"{column.full} (paper)", [_paper_cell(cell) for cell in cells])
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([header for header, _ in columns])
    writer.writerows(zip(*(values for _, values in columns), strict=True))
    return out.getvalue()


CsvColumn = tuple[str, list[str]]


def _key_columns(table: Table) -> Iterator[CsvColumn]:
    for number, key in enumerate(table.keys):
        yield key, [row.keys[number] for row in table.rows]


def _csv_columns(header: str, cells: Sequence[Cell]) -> Iterator[CsvColumn]:
    """Only those that hold something; a column without any number is one of words."""
    numbers = [_value_or_bound(cell) for cell in cells]
    if not any(number is not None for number in numbers):
        yield header, ["" if cell.text == MISSING else cell.text for cell in cells]
        return
    yield header, [_digits(number) for number in numbers]
    parts = {
        "low": [_digits(cell.low) for cell in cells],
        "high": [_digits(cell.high) for cell in cells],
        "note": [_note(cell) for cell in cells],
    }
    for name, values in parts.items():
        if any(values):
            yield f"{header} {name}", values


def _value_or_bound(cell: Cell) -> float | None:
    """A bound that is the end of an interval without a value is that end."""
    if cell.value is None and (sign := _BOUND.match(cell.text)):
        return cell.low if sign[1] == ">=" else cell.high
    return cell.value


def _digits(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"


def _note(cell: Cell) -> str:
    sign = _BOUND.match(cell.text)
    if _value_or_bound(cell) is None:
        said = "" if cell.text == MISSING else cell.text
    else:
        said = sign[1] if sign else ""
    return " ".join(filter(None, (said, MARK if cell.extrapolated else "")))


def _paper_cell(cell: Cell) -> Cell:
    """The paper's text as a number of its own."""
    text = cell.paper or MISSING
    if parts := _parts(text):
        value, up, down = parts
        low = None if down == "open" else float(value) - float(down)
        high = None if up == "open" else float(value) + float(up)
        return Cell(text, float(value), low, high)
    sign = _BOUND.match(text)
    digits = text[sign.end() :] if sign else text
    return Cell(text, float(digits)) if _is_number(digits) else Cell(text)


def latex_text(table: Table) -> str:
    """A table environment; the paper's numbers follow ours in brackets."""
    layout = "l" * len(table.keys) + "".join("c" * n for _, n in table.groups or [("", len(table.columns))])
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{\textbf{{{latex(ended(table.title))}}} {latex(table.caption_with('In brackets'))}}}",
        rf"\label{{{'tab:' + table.name}}}",
        rf"\begin{{tabular}}{{{layout}}}",
        r"\hline",
        *_latex_header(table),
        r"\hline",
        *(_latex_row([latex(key) for key in row.keys], row.cells) for row in table.rows),
        r"\hline",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_header(table: Table) -> Iterator[str]:
    if table.groups:
        over = [rf"\multicolumn{{{n}}}{{c}}{{{latex(group)}}}" for group, n in table.groups]
        yield " & ".join([""] * len(table.keys) + over) + r" \\"
    names = [*table.keys, *(column.label for column in table.columns)]
    yield " & ".join(latex(name) for name in names) + r" \\"


def _latex_row(keys: list[str], cells: tuple[Cell, ...]) -> str:
    return " & ".join([*keys, *(_latex_cell(cell) for cell in cells)]) + r" \\"


def _latex_cell(cell: Cell) -> str:
    ours = _latex_number(cell.text) + (latex(MARK) if cell.extrapolated else "")
    return ours if cell.paper is None else f"{ours} [{_latex_number(cell.paper)}]"


def _latex_number(text: str) -> str:
    parts = _parts(text)
    if parts is not None:
        return f"${parts[0]}^{{+{parts[1]}}}_{{-{parts[2]}}}$"
    return latex(shown(text))


def nothing_published(test: str, configuration: ConfigurationSummary, keys: tuple[str, ...]) -> None:
    """Leave the numbers of a table without others beside them."""


def verdict_cell(verdict: Verdict) -> Cell:
    """Coloured only where there is a yes or a no."""
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
