"""The tables of docs/results, where configurations differ in their events and Z in what toys resolve."""

from dataclasses import replace
from pathlib import Path

import benchmark_module
import pytest
import report_world


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return benchmark_module.load("study_tables")


@pytest.fixture
def summary():
    return report_world.evidence().summary


def rows(table):
    """Return the cells of a table without its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_shares_are_those_of_the_events_that_a_configuration_expects(tables, summary):
    first, *others = summary.configurations
    larger = replace(first, expected=5 * first.expected)
    summary = replace(summary, configurations=(larger, *others))
    *found, _ = tables.sensitivity(summary, tables.cases(summary)).split("\n\n")
    heads = [block.split("|")[1].strip() for block in found]
    assert heads == ["0.1 % of signal", "0.2 % of signal", "0.5 % of signal", "1 % of signal"]
    for block, large in zip(found, (True, True, False, False), strict=True):
        labels = {cells[0] for cells in rows(block)}
        assert (first.label in labels) == large
        assert labels.isdisjoint(c.label for c in others) == large


def test_a_power_stands_in_the_column_of_its_signal(tables, summary):
    weak, _ = tables.power(summary).split("\n\n")
    header = [cell.strip() for cell in weak.splitlines()[0].strip("|").split("|")]
    assert len(header) == 4, "two signals were injected with 50 events"
    for cells in rows(weak):
        assert len(cells) == 4
        assert all("[" in cell or cell in ("not resolved", "") for cell in cells[2:])


def test_a_bound_has_no_part_in_the_spread_over_seeds(tables, summary):
    lines = [line for line in summary.significance if not line.saturated][:3]
    mean, spread, error = tables._spread_of_z(lines)
    assert float(mean) == pytest.approx(sum(line.z for line in lines) / 3, abs=0.01)
    assert float(spread) >= 0
    assert error
    assert tables._spread_of_z([*lines[:2], replace(lines[2], saturated=True)]) == ("", "", "")
