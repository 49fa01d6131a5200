"""Tables of the null and of closure: verdicts, false positives, goodness-of-fit p-values."""

from __future__ import annotations

from collections.abc import Callable

from covad.inference.closure import SHOWN_LEVEL, FalsePositives, MedianShift
from covad.inference.goodness import GoodnessOfFit
from covad.inference.statements import (
    ERROR_RATE,
    JUDGED_Z,
    TOLERATED_RATIO,
    TOLERATED_SHIFT,
    rounded_up,
    toys_that_can_tell,
)
from covad.report.names import (
    configuration_title,
    goodness_label,
    null_label,
    point_label,
    shown_reason,
    slug,
    test_label,
)
from covad.report.tables.table import (
    MISSING,
    Cell,
    Column,
    Published,
    Row,
    Table,
    interval_cell,
    nothing_published,
    verdict_cell,
)
from covad.report.texts import texts
from covad.results.overview import ClosureOverview, SpreadOfZ, closure_overview, spread_of_z
from covad.results.summary import ConfigurationSummary, Summary, select

#: Level of the intervals that the verdict rests on.
_LEVEL = f"{100 * SHOWN_LEVEL:.0f} %"
#: A published spread of Z of a test in a configuration, calibrated by a null; None: nothing.
PublishedSpread = Callable[[str, ConfigurationSummary, str], float | None]


def verdict_table(summary: Summary, published_spread: PublishedSpread) -> Table | None:
    """Return verdicts, one row per test and configuration."""
    rows = []
    for configuration in summary.configurations:
        for test in summary.tests:
            overview = closure_overview(summary, test, configuration.configuration)
            if overview is not None:
                spread = spread_of_z(summary, test, configuration.configuration)
                beside = None if spread is None else published_spread(test, configuration, spread.null)
                cells = (*_verdict_cells(overview), *_spread_cells(spread, beside))
                rows.append(Row((test_label(test), configuration.label), cells))
    if not rows:
        return None
    return Table(
        name="closure_verdicts",
        **texts(
            "tables",
            "closure_verdicts",
            chance=f"{100 * ERROR_RATE:.0f} %",
            shift=TOLERATED_SHIFT,
            ratio=TOLERATED_RATIO,
            level=_LEVEL,
            law_toys=rounded_up(toys_that_can_tell(None, JUDGED_Z)),
            null_toys=rounded_up(toys_that_can_tell(1.0, JUDGED_Z)),
        ),
        keys=("test", "configuration"),
        columns=(
            Column("closes"),
            Column("why", prose=True),
            Column("shift of the median", level=_LEVEL),
            Column("rate at 2σ / nominal", level=_LEVEL),
            Column("smallest p"),
            Column("spread of Z over ν"),
            Column("bounds left out"),
        ),
        rows=tuple(rows),
        quantity="closure",
    )


def _verdict_cells(overview: ClosureOverview) -> tuple[Cell, ...]:
    p = overview.smallest_p
    return (
        verdict_cell(overview.verdict),
        Cell(shown_reason(overview.reason)),
        _shift_cell(overview.worst_shift.median_shift),
        _ratio_cell(overview.alarms),
        Cell() if p is None else Cell(f"{p:.2g}", p),
    )


def _spread_cells(spread: SpreadOfZ | None, published: float | None) -> tuple[Cell, Cell]:
    if spread is None:
        return Cell(), Cell()
    text = MISSING if spread.largest is None else f"{spread.largest:.2f}"
    paper = None if published is None else f"{published:g}"
    return Cell(text, spread.largest, paper=paper), Cell(f"{spread.bounds}", spread.bounds)


def _shift_cell(shift: MedianShift) -> Cell:
    return interval_cell(shift.shift, shift.interval)


def _ratio_cell(found: FalsePositives | None) -> Cell:
    if found is None:
        return Cell()
    if found.ratio is None or found.ratio_interval is None:
        return Cell("not resolved")
    return interval_cell(found.ratio, found.ratio_interval)


def _rate_cell(found: FalsePositives | None) -> Cell:
    if found is None:
        return Cell()
    if found.rate is None or found.interval is None:
        return Cell("not resolved")
    return interval_cell(found.rate, found.interval, digits=1, scale=100)


def shift_table(summary: Summary) -> Table | None:
    """Return what each point says of closure: shift of the median, rates over nominal, false positives."""
    rows = []
    for line in summary.closure:
        label = summary.configuration(line.configuration).label
        by = null_label(line.false_positives[0].null).text
        rates = [_rate_cell(line.false_positives_at(z_alpha)) for z_alpha in (1.0, 2.0, 3.0)]
        ratios = [_ratio_cell(line.false_positives_at(z_alpha)) for z_alpha in (2.0, 3.0)]
        keys = (test_label(line.test), label, point_label(line.point).text, by)
        toys = Cell(f"{line.n_toys}", line.n_toys)
        rows.append(Row(keys, (toys, _shift_cell(line.median_shift), *ratios, *rates)))
    if not rows:
        return None
    return Table(
        name="false_positives",
        **texts("tables", "false_positives", level=_LEVEL),
        keys=("test", "configuration", "toys at", "calibrated by"),
        columns=(
            Column("toys"),
            Column("shift of the median", level=_LEVEL),
            *(Column(f"{sigma}σ", "rate / nominal", level=_LEVEL) for sigma in (2, 3)),
            *(Column(f"Z > {sigma} [%]", "false positives") for sigma in (1, 2, 3)),
        ),
        rows=tuple(rows),
        quantity="shift and false positives",
    )


def _p_cell(goodness: tuple[GoodnessOfFit, ...], method: str, paper: str | None) -> Cell:
    found = next((found for found in goodness if found.method == method), None)
    return Cell(paper=paper) if found is None else Cell(found.text, found.p, paper=paper)


def null_table(summary: Summary, title: str, published: Published) -> Table | None:
    """Compare R_0 of every configuration against the law of its test: goodness-of-fit p-values."""
    methods = tuple(dict.fromkeys(found.method for null in summary.nulls for found in null.law.goodness))
    if not methods:
        return None
    rows = []
    for null in summary.nulls:
        configuration = summary.configuration(null.configuration)
        kind = configuration.kind or ""
        cells = (
            _p_cell(null.law.goodness, method, published(null.test, configuration, (kind, method)))
            for method in methods
        )
        rows.append(Row((test_label(null.test), configuration.label), tuple(cells)))
    return Table(
        name="null_law",
        title=title,
        caption=texts("tables", "null_law")["caption"],
        keys=("test", "configuration"),
        columns=tuple(Column(goodness_label(method)) for method in methods),
        rows=tuple(rows),
        quantity="p-value",
    )


def closure_table(
    summary: Summary, configuration: ConfigurationSummary, published: Published = nothing_published
) -> Table | None:
    """Compare R_nu with R_0, and with chi2 for the network: goodness-of-fit p-values."""
    mine = select(summary.closure, configuration=configuration.configuration)
    lines = [line for line in mine if line.against_null]
    if not lines:
        return None
    nulls = ["R_0", *(["chi2"] if any(line.against_chi2 for line in lines) else [])]
    columns = [(point, null) for null in nulls for point in dict.fromkeys(line.point for line in lines)]
    rows = []
    for test in summary.tests:
        of_test = {line.point: line for line in lines if line.test == test}
        for method in dict.fromkeys(found.method for line in of_test.values() for found in line.against_null):
            cells = []
            for point, null in columns:
                line = of_test.get(point)
                goodness = () if line is None else line.against_null if null == "R_0" else line.against_chi2
                beside = published(test, configuration, (null, point.removeprefix("R_"), method))
                cells.append(_p_cell(goodness, method, beside))
            rows.append(Row((test_label(test), goodness_label(method)), tuple(cells)))
    return Table(
        name=slug(f"closure_{configuration.configuration}"),
        **texts("tables", "closure", configuration=configuration_title(configuration)),
        keys=("test", "goodness of fit"),
        columns=tuple(
            Column(point_label(point).text, f"against {null_label(null).text}") for point, null in columns
        ),
        rows=tuple(rows),
        quantity="p-value",
    )
