"""Cells."""

from covad.inference.intervals import Interval
from covad.report.tables.table import Cell, interval_cell


def test_an_open_interval_is_written_as_such():
    assert interval_cell(1.0, Interval(0.5, None)).text == "1.00 +open -0.50"


def test_rows_are_sorted_by_numbers_where_there_are_any():
    cells = (
        Cell("1.08 +0.11 -0.10", 1.08),
        Cell(">= 12 000", None, 12_000.0),
        Cell("<= 9.1", None, None, 9.1),
    )
    assert [cell.sorted_by for cell in cells] == ["1.08", "12000", "9.1"]
    assert [cell.sorted_by for cell in (Cell(), Cell("closes", good=True))] == ["", "closes"]
