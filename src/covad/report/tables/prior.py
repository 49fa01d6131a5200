"""The table of the prior ensembles: what t depends on, although it should depend on no nuisance."""

from __future__ import annotations

from covad.inference.intervals import Interval
from covad.report.names import test_label
from covad.report.tables.table import Cell, Column, Row, Table, interval_cell
from covad.report.texts import texts
from covad.results.summary import Summary


def prior_table(summary: Summary) -> Table | None:
    """Show the regression of t on the truth, and its strongest term."""
    rows = []
    for line in summary.prior:
        found, term = line.dependence, line.dependence.strongest
        error = found.shift_error
        cells = (
            interval_cell(found.shift, Interval(found.shift - error, found.shift + error)),
            Cell(f"{found.p:.2g}", found.p),
            Cell() if term is None else Cell(term.term),
            Cell() if term is None else interval_cell(term.slope, term.interval),
            Cell() if term is None else Cell(f"{term.p:.2g}", term.p),
        )
        label = summary.configuration(line.configuration).label
        rows.append(Row((test_label(line.test), label, f"{found.n_toys}"), cells))
    if not rows:
        return None
    return Table(
        name="prior",
        **texts("tables", "prior"),
        keys=("test", "configuration", "toys"),
        columns=(
            Column("shift of the mean", level="68 %"),
            Column("p, no dependence"),
            Column("term", "strongest dependence"),
            Column("slope", "strongest dependence", level="68 %"),
            Column("p, corrected", "strongest dependence"),
        ),
        rows=tuple(rows),
        quantity="dependence on the truth",
    )
