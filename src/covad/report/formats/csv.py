"""Tables as CSV: numbers in columns of their own."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from covad.inference.significance import MARK
from covad.report.tables.table import BOUND, MISSING, Cell, Table, is_number, parts_of


def csv_text(table: Table) -> str:
    """Return one line a row, and numbers in columns of their own: value, interval, note, the paper's.

    A note is the sign of a bound, the mark of an extrapolation, or a word that stands in place of a number.
    """
    columns = [(key, [row.keys[number] for row in table.rows]) for number, key in enumerate(table.keys)]
    for number, column in enumerate(table.columns):
        cells = [row.cells[number] for row in table.rows]
        columns += _columns(column.full, cells)
        if any(cell.paper is not None for cell in cells):
            columns += _columns(f"{column.full} (paper)", [_paper_cell(cell) for cell in cells])
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([header for header, _ in columns])
    writer.writerows(zip(*(values for _, values in columns), strict=True))
    return out.getvalue()


def _columns(header: str, cells: Sequence[Cell]) -> Iterator[tuple[str, list[str]]]:
    """Return only those that hold something; a column without any number is one of words."""
    numbers = [cell.number for cell in cells]
    if not any(number is not None for number in numbers):
        yield header, ["" if cell.text == MISSING else cell.text for cell in cells]
        return
    yield header, [_digits(number) for number in numbers]
    notes = []
    for cell, number in zip(cells, numbers, strict=True):
        sign = BOUND.match(cell.text)
        word = "" if cell.text == MISSING else cell.text
        said = word if number is None else sign[1] if sign else ""
        notes.append(" ".join(filter(None, (said, MARK if cell.extrapolated else ""))))
    parts = {
        "low": [_digits(cell.low) for cell in cells],
        "high": [_digits(cell.high) for cell in cells],
        "note": notes,
    }
    for name, values in parts.items():
        if any(values):
            yield f"{header} {name}", values


def _digits(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"


def _paper_cell(cell: Cell) -> Cell:
    """Return the paper's text as a number of its own."""
    text = cell.paper or MISSING
    if parts := parts_of(text):
        value, up, down = parts
        low = None if down == "open" else float(value) - float(down)
        high = None if up == "open" else float(value) + float(up)
        return Cell(text, float(value), low, high)
    sign = BOUND.match(text)
    digits = text[sign.end() :] if sign else text
    return Cell(text, float(digits)) if is_number(digits) else Cell(text)
