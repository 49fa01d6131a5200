"""Tables of the spaces, without toys: separation, linearity, reach, validation, smoothed weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from covad.embedding.metrics import ProbeResult
from covad.inference.intervals import Interval
from covad.inference.reach import Reach
from covad.nplm.smoothing import TOLERATED_RESIDUAL
from covad.report.names import nu_label, signal_label
from covad.report.tables.table import MISSING, Cell, Column, Row, Table, interval_cell
from covad.report.texts import followed, texts
from covad.results.spaces import SpaceSummary
from covad.results.summary import Summary, select
from covad.runs.smoothing import ClosureCheck, SmoothedPool, smoothing_doubt
from covad.settings import Nu
from covad.study import Collisions

#: Shifts at which the linearity is shown, in units of sigma.
_SIZES = (1.0, 2.0)
AVERAGED = "prior average"


def separation_table(summary: Summary) -> Table | None:
    """Tell how well a space separates the processes, and how linearly it answers to nu."""
    source = summary.study.source
    named = list(source.nuisances) if isinstance(source, Collisions) else []
    spaces = {space.space: space for space in reversed(summary.spaces)}
    rows = []
    for name, space in sorted(spaces.items()):
        # no direction stands for a space whose linearity is not known
        for direction in dict.fromkeys(line.direction for line in space.linearity) or [()]:
            cells = (*_probe_cells(space.probe), *_linearity_cells(space, direction))
            rows.append(Row((name, _axis(direction, named)), cells))
    if not rows:
        return None
    return Table(
        name="separation",
        **texts("tables", "separation"),
        keys=("space", "along"),
        columns=(
            Column("accuracy [%]", "linear probe"),
            Column("balanced [%]", "linear probe"),
            Column("effect of 1σ on log N"),
            *(Column(f"at {size:g}σ [%]", "departure from linearity") for size in _SIZES),
        ),
        rows=tuple(rows),
        quantity="separation and linearity",
    )


def _axis(direction: Nu, named: list[str]) -> str:
    """Name a systematic where the study gives one, else a nuisance by its number."""
    if not direction:
        return MISSING
    number = direction.index(1.0)
    if len(named) == len(direction):
        return named[number]
    return f"ν{number + 1}" if len(direction) > 1 else "ν"


def _probe_cells(probe: ProbeResult) -> tuple[Cell, Cell]:
    accuracy, error, balanced = (
        100 * share for share in (probe.accuracy, probe.accuracy_uncertainty, probe.balanced_accuracy)
    )
    return Cell(f"{accuracy:.2f} ± {error:.2f}", accuracy), Cell(f"{balanced:.1f}", balanced)


def _linearity_cells(space: SpaceSummary, direction: Nu) -> tuple[Cell, ...]:
    """Return the linearity in cells of all latent dimensions; few events may have left them out."""
    lines = {line.size: line for line in select(space.linearity, where="cells", direction=direction)}
    first = lines.get(_SIZES[0])
    effect = Cell() if first is None else Cell(f"{first.effect:.3f}", first.effect)
    cells = [effect]
    for size in _SIZES:
        line = lines.get(size)
        if line is None:
            cells.append(Cell())
        elif line.departure <= 0.0:  # noise leaves no departure: an upper end alone
            cells.append(Cell(f"<= {100 * line.high:.1f}", None, None, 100 * line.high))
        else:
            ends = Interval(line.low, line.high)
            cells.append(interval_cell(line.departure, ends, digits=1, scale=100))
    return tuple(cells)


def fold_table(summary: Summary) -> Table | None:
    """Tell how much the results depend on the fold; None for a study with one fold."""
    rows = [
        Row(
            (space.space, space.response, str(line.fold)),
            (
                *_probe_cells(line.probe),
                reach_cell(line.reach.average),
                *(reach_cell(reach) for reach in line.reach.smallest.values()),
            ),
        )
        for space in summary.spaces
        if len(space.folds) > 1
        for line in space.folds
    ]
    if not rows:
        return None
    return Table(
        name="folds",
        **texts("tables", "folds"),
        keys=("space", "response", "fold"),
        columns=(
            Column("accuracy [%]", "linear probe"),
            Column("balanced [%]", "linear probe"),
            Column(AVERAGED, "reach [events]"),
            *(Column(f"ν = ±{size:g}σ", "reach [events]") for size in summary.spaces[0].reach.smallest),
        ),
        rows=tuple(rows),
        quantity="spread over folds",
    )


def reach_table(summary: Summary) -> Table | None:
    """Tell how many events the response is good for: averaged over the prior, and at each nu."""
    rows = []
    for space in summary.spaces:
        points = {nu_label(point.nu, summary.shape_names).text: point for point in space.reach.points}
        for where, reach in {AVERAGED: space.reach.average, **points}.items():
            cells = (
                reach_cell(reach),
                Cell(f"{reach.at_shift:g}", reach.at_shift),
                Cell(f"{reach.fresh_events:,}".replace(",", " "), float(reach.fresh_events)),
            )
            rows.append(Row((space.space, space.response, where), cells))
    if not rows:
        return None
    return Table(
        name="closure_reach",
        **texts("tables", "closure_reach"),
        keys=("space", "response", "at"),
        columns=(Column("reach [events]"), Column("at a shift of [σ]"), Column("fresh events")),
        rows=tuple(rows),
        quantity="events",
    )


def reach_cell(reach: Reach) -> Cell:
    """Return events or, where the misfit is compatible with none, the lower end of the interval."""
    n, low, high = reach.n_events, reach.interval.low or 0.0, reach.interval.high
    if n is None or high is None:
        return Cell(f">= {low:,.0f}".replace(",", " "), None, low, None)
    return Cell(f"{n:,.0f} +{high - n:,.0f} -{n - low:,.0f}".replace(",", " "), n, low, high)


def yield_table(summary: Summary) -> Table | None:
    """Compare the yields of fresh events with those of the response; tell what the difference does to t."""
    rows = []
    for space in summary.spaces:
        for line in space.yields:
            difference, error = (100 * x for x in (line.observed - line.predicted, line.uncertainty))
            cells = (
                Cell(f"{line.observed:.4f}", line.observed),
                Cell(f"{line.predicted:.4f}", line.predicted),
                Cell(f"{difference:.3f} ± {error:.3f}", difference),
                Cell(f"<= {line.high:.2f}", None, None, line.high)
                if line.shift <= 0.0
                else interval_cell(line.shift, Interval(line.low, line.high), digits=2),
                Cell(f"{line.n_events:g}", line.n_events),
            )
            rows.append(
                Row((space.space, space.response, nu_label(line.nu, summary.shape_names).text), cells)
            )
    if not rows:
        return None
    return Table(
        name="response_yield",
        **texts("tables", "response_yield"),
        keys=("space", "response", "at"),
        columns=(
            Column("observed", "yield"),
            Column("predicted", "yield"),
            Column("difference [%]", "yield"),
            Column("shift [σ]"),
            Column("at events"),
        ),
        rows=tuple(rows),
        quantity="yield",
    )


def validation_table(summary: Summary) -> Table | None:
    """Compare predicted and observed counts per space, place and nu."""
    rows = []
    for space in summary.spaces:
        for line in space.validation:
            residual = 100 * line.residual_share
            cells = (
                Cell(f"{line.chi2:.1f}", line.chi2),
                Cell(f"{line.dof}", line.dof),
                Cell(f"{line.p:.2g}", line.p),
                # below zero, the squared misfit is less than the noise expected in it, and has no size
                Cell("none seen") if residual < 0 else Cell(f"{residual:.1f}", residual),
            )
            keys = (space.space, space.response, line.where, nu_label(line.nu, summary.shape_names).text)
            rows.append(Row(keys, cells))
    if not rows:
        return None
    return Table(
        name="response_validation",
        **texts("tables", "response_validation"),
        keys=("space", "response", "where", "at"),
        columns=(Column("χ²"), Column("dof"), Column("p"), Column("residual [%]")),
        rows=tuple(rows),
        quantity="validation",
    )


def smoothing_table(summary: Summary) -> Table | None:
    """Tell how negative weights were smoothed in every pool; None where no weight was negative."""
    rows = [
        Row((space.space, space.response, name, at), _smoothing_cells(pool))
        for space in summary.spaces
        for name, at, pool in _smoothed_pools(space.smoothing, summary.shape_names)
    ]
    if not rows:
        return None
    told = texts("tables", "smoothing", expected=summary.study.sizes.expected, tolerated=TOLERATED_RESIDUAL)
    doubts = [
        f"{space.space}, {space.response}: {doubt}."
        for space in summary.spaces
        if (doubt := smoothing_doubt(space.smoothing, summary.shape_names))
    ]
    return Table(
        name="smoothing",
        **followed(told, " ".join(doubts)),
        keys=("space", "response", "pool", "at"),
        columns=(
            Column("events"),
            Column("negative [%]"),
            Column("smoothed", "effective events"),
            Column("signed", "effective events"),
            Column("unmatched", "sums"),
            Column("largest residual", "sums"),
            Column("p, bumps", "closure"),
            Column("p, cells", "closure"),
            Column("adds to χ²", "closure"),
        ),
        rows=tuple(rows),
        quantity="smoothing of weights",
    )


def _smoothed_pools(
    pools: Sequence[SmoothedPool], names: Sequence[str]
) -> Iterator[tuple[str, str, SmoothedPool]]:
    """Yield pools with their names and where they are; of the many of the prior the one that moves most."""
    for pool in pools:
        if pool.pool != "prior":
            yield signal_label(pool.pool).text, nu_label(pool.nu, names).text, pool
    if prior := [pool for pool in pools if pool.pool == "prior"]:
        yield "prior", f"worst of {len(prior)} points", max(prior, key=lambda pool: pool.moves)


def _smoothing_cells(pool: SmoothedPool) -> tuple[Cell, ...]:
    counts = (
        Cell(f"{number:,.0f}".replace(",", " "), float(number))
        for number in (pool.effective, pool.effective_signed)
    )
    return (
        Cell(f"{pool.events:,}".replace(",", " "), float(pool.events)),
        Cell(f"{100 * pool.negative_share:.1f}", 100 * pool.negative_share),
        *counts,
        Cell(f"{pool.unmatched} of {pool.columns}", float(pool.unmatched)),
        Cell(f"{pool.largest_residual:.3f}", pool.largest_residual),
        _p_cell(pool.bumps),
        _p_cell(pool.cells),
        # below zero, the squared difference is less than the noise expected in it, and has no size
        Cell("none seen") if pool.moves < 0 else Cell(f"{pool.moves:.2g}", pool.moves),
    )


def _p_cell(check: ClosureCheck) -> Cell:
    """Return p; nothing where the smoothing has decided all sums."""
    return Cell(f"{check.p:.2g}", check.p) if check.dof else Cell()
