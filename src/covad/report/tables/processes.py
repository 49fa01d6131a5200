"""Table of the background processes: what is expected of each."""

from __future__ import annotations

from covad.report.names import process_label
from covad.report.tables.table import Cell, Column, Row, Table
from covad.report.texts import texts
from covad.results.summary import Summary


def process_table(summary: Summary) -> Table | None:
    """Tell what is expected of every process; None where every event of the files counts once."""
    table = summary.yields
    if table is None:
        return None
    rows = []
    for line in table.processes:
        trained_as = "" if line.label == line.process else f" (trained as {process_label(line.label)})"
        efficiency = Cell()
        if line.efficiency is not None:
            efficiency = Cell(f"{line.efficiency:.4g}", line.efficiency)
        counts = [
            Cell(f"{number:.0f}", float(number)) for number in (line.events, line.selected, line.effective)
        ]
        cells = (
            *counts,
            Cell(f"{100 * line.negative_share:.1f}", 100 * line.negative_share),
            efficiency,
            _yield(line.expected, line.error),
            Cell(f"{100 * table.share(line):.2f}", 100 * table.share(line)),
        )
        rows.append(Row((process_label(line.process) + trained_as,), cells))
    n_events, n_selected = (
        float(sum(getattr(line, key) for line in table.processes)) for key in ("events", "selected")
    )
    total = (
        Cell(f"{n_events:.0f}", n_events),
        Cell(f"{n_selected:.0f}", n_selected),
        Cell(f"{table.effective:.0f}", table.effective),
        Cell(f"{100 * table.negative_share:.1f}", 100 * table.negative_share),
        Cell(),
        _yield(table.expected, table.error),
        Cell("100", 100.0),
    )
    expected = summary.study.sizes.expected
    source = f"Toys expect {expected:g} events in this mix."
    if not table.given:
        source = (
            f"The mix is that of the weights in the files, its yield the {expected:g} events of the study."
        )
    return Table(
        name="processes",
        **texts("tables", "processes", source=source),
        keys=("process",),
        columns=(
            Column("events"),
            Column("selected"),
            Column("effective"),
            Column("negative [%]"),
            Column("efficiency"),
            Column("yield"),
            Column("share [%]"),
        ),
        rows=(*rows, Row(("total",), total)),
        quantity="expected events",
    )


def _yield(expected: float, error: float) -> Cell:
    return Cell(f"{expected:.6g} ± {error:.2g}", expected, expected - error, expected + error)
