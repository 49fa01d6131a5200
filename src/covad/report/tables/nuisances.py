"""Tables of nuisances: of observed files, their correlations, and over toys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from covad.inference.impacts import Impact
from covad.inference.intervals import Interval
from covad.inference.nuisances import UNUSUAL_PULL, NuisanceFit
from covad.observed.result import Observation
from covad.report.figures.nuisances import SHOWN
from covad.report.names import test_label
from covad.report.tables.observed import file_names
from covad.report.tables.table import Cell, Column, Row, Table, interval_cell
from covad.report.texts import texts
from covad.results.summary import Summary


def nuisance_table(observations: Sequence[Observation]) -> Table | None:
    """Return every nuisance of every file, ranked by impact; the page has the leading and unusual ones."""
    rows = []
    for file, observation in zip(file_names(observations), observations, strict=True):
        impacts = {impact.name: impact for impact in observation.impacts}
        with_h = _with_h(observation)
        for number, fit in enumerate(observation.ranked_nuisances):
            cells = (*_fit_cells(fit), *with_h[fit.name], *_impact_cells(impacts.get(fit.name)))
            keys = (file, observation.label, fit.name)
            rows.append(Row(keys, cells, in_files_only=number >= SHOWN and not fit.unusual))
    if not rows:
        return None
    ends = [Column(sign, f"ΔZ, {which}") for which in ("post-fit", "pre-fit") for sign in ("−1σ", "+1σ")]
    return Table(
        name="observed_nuisances",
        **texts("tables", "observed_nuisances", unusual=f"{UNUSUAL_PULL:g}"),
        keys=("file", "configuration", "nuisance"),
        columns=(
            *(Column(part, "without h") for part in ("auxiliary", "fitted", "pull", "post/pre")),
            *(Column(part, "with h") for part in ("fitted", "post/pre")),
            *ends,
        ),
        rows=tuple(rows),
        quantity="nuisances",
    )


def _fit_cells(fit: NuisanceFit) -> tuple[Cell, ...]:
    ends = fit.fitted - fit.error, fit.fitted + fit.error
    return (
        _cell(fit.auxiliary),
        Cell(f"{_digits(fit.fitted)} ± {fit.error:.2f}", fit.fitted, *ends),
        _cell(fit.pull),
        _cell(fit.constraint),
    )


def _with_h(observation: Observation) -> dict[str, tuple[Cell, Cell]]:
    """Return fitted value and constraint with h: of the test that has impacts, else of the first."""
    names = [fit.name for fit in observation.nuisances]
    found = dict.fromkeys(names, (Cell(), Cell()))
    tests = sorted(observation.tests, key=lambda test: not test.constraints_with_h)
    for test in tests[:1]:
        constraints = test.constraints_with_h or (None,) * len(test.nu_with_h)
        for name, value, constraint in zip(names, test.nu_with_h, constraints, strict=False):
            found[name] = _cell(value), _cell(constraint)
    return found


def _impact_cells(impact: Impact | None) -> Iterator[Cell]:
    if impact is None:
        yield from (Cell(), Cell(), Cell(), Cell())
        return
    for end in (impact.down, impact.up, impact.prefit_down, impact.prefit_up):
        yield Cell("no fit") if end.change is None else _cell(end.change, 3)


def _cell(value: float | None, digits: int = 2) -> Cell:
    return Cell() if value is None else Cell(_digits(value, digits), value)


def _digits(value: float, digits: int = 2) -> str:
    """Return a number without the sign of a zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def correlation_table(observations: Sequence[Observation]) -> Table | None:
    """Return the correlation of every pair of nuisances of every file, the strongest first."""
    rows = []
    for file, observation in zip(file_names(observations), observations, strict=True):
        if observation.correlations is None:
            continue
        for number, (first, second, value) in enumerate(observation.correlations.pairs):
            keys = (file, observation.label, first, second)
            rows.append(Row(keys, (_cell(value),), in_files_only=number >= SHOWN))
    if not rows:
        return None
    return Table(
        name="observed_correlations",
        **texts("tables", "observed_correlations"),
        keys=("file", "configuration", "nuisance", "and"),
        columns=(Column("correlation"),),
        rows=tuple(rows),
        quantity="correlations",
    )


def toy_nuisance_table(summary: Summary) -> Table | None:
    """Return mean and width of fitted minus true values over toys; the page has the most constrained."""
    rows = []
    for line in summary.nuisances:
        label = summary.configuration(line.configuration).label
        ranked = sorted(line.nuisances, key=lambda nuisance: nuisance.std)
        for number, found in enumerate(ranked):
            error = found.mean_error
            cells = (
                interval_cell(found.mean, Interval(found.mean - error, found.mean + error)),
                _cell(found.std),
                Cell("biased" if found.biased else "none seen", good=not found.biased),
                _cell(found.mean_with_h),
                _cell(found.std_with_h),
            )
            keys = (test_label(line.test), label, "prior" if line.prior else "ν = 0", found.name)
            rows.append(Row(keys, cells, in_files_only=number >= SHOWN and not found.biased))
    if not rows:
        return None
    return Table(
        name="nuisances_of_toys",
        **texts("tables", "nuisances_of_toys"),
        keys=("test", "configuration", "toys at", "nuisance"),
        columns=(
            Column("mean", "without h"),
            Column("standard deviation", "without h"),
            Column("bias", "without h"),
            Column("mean", "with h"),
            Column("standard deviation", "with h"),
        ),
        rows=tuple(rows),
        quantity="fitted minus true nuisances",
    )
