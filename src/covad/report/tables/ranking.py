"""The ranked closure over the prior: which nuisances the response describes worst, and which are pruned."""

from __future__ import annotations

from covad.inference.intervals import Interval
from covad.inference.ranking import PRUNED_INFORMATION, PRUNED_SHIFT, PriorClosure, Shift, TrainingSpread
from covad.report.evidence import Evidence
from covad.report.figures.nuisances import SHOWN
from covad.report.tables.table import Cell, Column, Row, Table, interval_cell
from covad.report.texts import followed, texts
from covad.study.plan import nuisance_names


def ranking_table(evidence: Evidence) -> Table | None:
    """Return the shift of t by each nuisance of each space, those described worst first; then pairs."""
    names, rows, pruned = nuisance_names(evidence.summary.study), [], []
    for space in evidence.summary.spaces:
        closure = evidence.closure_over_prior(space.name)
        if closure is None:
            continue
        spread = evidence.training_spread(space.name)
        where = f"{space.space}, {space.response}"
        rows += _rows(where, names, closure, spread)
        if closure.pruned:
            left_out = ", ".join(names[number] for number in closure.pruned)
            pruned.append(f"Negligible in the {where} space: {left_out}.")
    if not rows:
        return None
    words = texts(
        "tables", "closure_ranking", information=f"{PRUNED_INFORMATION:g}", shift=f"{PRUNED_SHIFT:g}"
    )
    return Table(
        name="closure_ranking",
        **followed(words, " ".join(pruned) or "No nuisance is negligible by this rule."),
        keys=("space", "nuisance"),
        columns=(
            Column("by its misfit", "shift of t", level="68 %"),
            Column("if left out", "shift of t", level="68 %"),
            Column("from fit to fit", "shift of t"),
            Column("N I"),
            Column("negligible"),
        ),
        rows=tuple(rows),
        quantity="shift of the mean of t in standard deviations",
    )


def _rows(
    where: str, names: tuple[str, ...], closure: PriorClosure, spread: TrainingSpread | None
) -> list[Row]:
    average = Cell() if spread is None else _number(spread.average)
    rows = [Row((where, "all"), (_shift_cell(closure.average), Cell(), average, Cell(), Cell()))]
    for number, entry in enumerate(closure.nuisances):
        trained = Cell() if spread is None else _number(spread.shifts[entry.nuisance])
        cells = (
            _shift_cell(entry.misfit),
            _shift_cell(entry.left_out),
            trained,
            Cell(f"{entry.information:.3g}", entry.information),
            Cell("yes" if entry.pruned else "no"),
        )
        rows.append(Row((where, names[entry.nuisance]), cells, in_files_only=number >= SHOWN))
    for number, pair in enumerate(closure.pairs):
        name = " × ".join(names[k] for k in pair.pair)
        cells = (_shift_cell(pair.misfit), Cell(), Cell(), Cell(), Cell())
        rows.append(Row((where, name), cells, in_files_only=number >= SHOWN // 4))
    return rows


def _number(value: float) -> Cell:
    return Cell(f"{value:.3f}", value)


def _shift_cell(found: Shift) -> Cell:
    """Write the shift with its interval; one that is not seen as the upper end."""
    if found.shift <= 0.0:
        return Cell(f"<= {found.high:.3f}", None, found.low, found.high)
    return interval_cell(found.shift, Interval(found.low, found.high), digits=3)
