"""The tests of a run beside yardsticks, on the same toys."""

from __future__ import annotations

from collections.abc import Sequence

from covad.inference.intervals import proportion_interval
from covad.report.names import nu_label, share, signal_label, test_label
from covad.report.tables.table import Cell, Column, Row, Table, interval_cell
from covad.report.texts import texts
from covad.results.power import YardstickLine, YardstickTable
from covad.results.summary import Summary
from covad.settings import Nu


def yardstick_table(summary: Summary, found: YardstickTable | None) -> Table | None:
    """Return power and false alarms at Z = 2 of every test and yardstick."""
    if found is None or not found.lines:
        return None
    expected = summary.configuration(found.configuration).expected
    background = dict.fromkeys(line.nu for line in found.lines if line.signal is None)
    shifted = [nu for nu in background if any(nu)]
    columns = [Column(nu_label(nu, summary.shape_names).text, "false alarms") for nu in shifted]
    for signal, injected in found.signals:
        group = f"{signal_label(signal).text}, {share(injected, expected)}"
        columns += [Column("power", group), Column("median Z", group)]
    rows = []
    for name in found.names:
        alarms = found.select(name, None)
        cells = [_worst(alarms, nu) for nu in shifted]
        for signal, injected in found.signals:
            lines = [line for line in found.select(name, signal, injected) if not any(line.nu)]
            cells += [_rate(lines[0]), _median(found, lines[0])] if lines else [Cell(), Cell()]
        rows.append(Row((test_label(name) if name in summary.tests else name,), tuple(cells)))
    return Table(
        name="yardsticks",
        **texts("tables", "yardsticks"),
        keys=("test",),
        columns=tuple(columns),
        rows=tuple(rows),
        quantity="rate",
    )


def _worst(lines: Sequence[YardstickLine], nu: Nu) -> Cell:
    """Return the largest rate of false alarms at nu: one that knows signals has a rate for each of them."""
    there = [line for line in lines if line.nu == nu]
    return _rate(max(there, key=lambda line: line.found or 0)) if there else Cell()


def _rate(line: YardstickLine) -> Cell:
    if line.found is None:
        return Cell()
    return interval_cell(line.found / line.toys, proportion_interval(line.found, line.toys), 3)


def _median(found: YardstickTable, line: YardstickLine) -> Cell:
    """Return the median Z; where null toys resolve no more, what the ceiling expects."""
    ceiling = found.ceiling(line.name, line.signal or "", line.injected)
    if ceiling is not None:
        text = f"{'>= ' if ceiling.limited else ''}{ceiling.expected_z:.1f}"
        return Cell(text, None if ceiling.limited else ceiling.expected_z, ceiling.expected_z)
    if line.median is None:
        return Cell()
    interval = line.median.interval
    return Cell(line.median.text, line.median.z, interval.low, interval.high)
