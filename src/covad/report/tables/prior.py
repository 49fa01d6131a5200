"""The table of the prior ensembles: what t depends on, although it should depend on no nuisance."""

from __future__ import annotations

from collections.abc import Sequence

from covad.inference.coverage import Dependence, PriorDependence
from covad.inference.intervals import Interval
from covad.report.names import test_label
from covad.report.tables.table import MISSING, Cell, Column, Row, Table, interval_cell
from covad.report.texts import texts
from covad.results.summary import Summary

#: Terms whose p, corrected for their number, is below this one are shown; the strongest always is.
_SHOWN_P = 0.05


def prior_table(summary: Summary) -> Table | None:
    """Show the regression of t on the truth: a row for every term that matters, the strongest first."""
    rows = []
    for line in summary.prior:
        found, error = line.dependence, line.dependence.shift_error
        label = summary.configuration(line.configuration).label
        for term in _shown_terms(found):
            cells = (
                interval_cell(found.shift, Interval(found.shift - error, found.shift + error)),
                Cell(f"{found.p:.2g}", found.p),
                Cell() if term is None else interval_cell(term.slope, term.interval),
                Cell() if term is None else Cell(f"{term.p:.2g}", term.p),
                Cell(found.left_out or MISSING),
            )
            name = MISSING if term is None else term.term
            rows.append(Row((test_label(line.test), label, f"{found.n_toys}", name), cells))
    if not rows:
        return None
    return Table(
        name="prior",
        **texts("tables", "prior", shown=f"{_SHOWN_P:g}"),
        keys=("test", "configuration", "toys", "term"),
        columns=(
            Column("shift of the mean", level="68 %"),
            Column("p, no dependence"),
            Column("slope", "of the term", level="68 %"),
            Column("p, corrected", "of the term"),
            Column("left out", prose=True),
        ),
        rows=tuple(rows),
        quantity="dependence on the truth",
    )


def _shown_terms(found: PriorDependence) -> Sequence[Dependence | None]:
    """Return the terms that matter by their p, the strongest first and in any case; None without terms."""
    if found.strongest is None:
        return [None]
    others = (term for term in found.terms if term is not found.strongest and term.p < _SHOWN_P)
    return [found.strongest, *sorted(others, key=lambda term: term.p)]
