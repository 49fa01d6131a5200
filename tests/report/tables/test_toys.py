"""Toys requested = done + failed + missing."""

import pytest
import report_world

from covad.report.tables.toys import toys_table


@pytest.fixture(scope="module")
def evidence():
    return report_world.evidence(tests=("network", "convex"))


def test_toys_add_up(evidence):
    table = toys_table(evidence.summary)
    for row in table.rows:
        requested, done, failed, missing = (cell.value for cell in row.cells[:4])
        assert requested == done + failed + missing
    assert table.rows[-1].cells[0].value == sum(row.cells[0].value for row in table.rows[:-1])
