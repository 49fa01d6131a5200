"""Cells."""

from covad.inference.intervals import Interval
from covad.report.tables.table import interval_cell


def test_an_open_interval_is_written_as_such():
    assert interval_cell(1.0, Interval(0.5, None)).text == "1.00 +open -0.50"
