"""Tables that the paper does not have: verdicts, false positives, calibrations, W, toys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from covad.inference.closure import CLOSURE_LEVEL, DETECTION, TOLERATED_SHIFT
from covad.report.evidence import Evidence, Line
from covad.report.names import nu_label, null_label, share, signal_label, test_label
from covad.report.paper.numbers import Paper
from covad.report.spread import SpreadOfZ, spread_of_z
from covad.report.tables.table import MISSING, Cell, Column, Row, Table, interval_cell, z_cell
from covad.report.texts import texts
from covad.report.verdicts import overall, verdict_cell


def titles(evidence: Evidence) -> dict[str, str]:
    """Readable names of the configurations."""
    return {c.name: c.short for c in evidence.configurations}


def verdict_table(evidence: Evidence) -> Table | None:
    """Does it close? One row per test and configuration."""
    rows = []
    for configuration in evidence.configurations:
        for test in evidence.tests:
            lines = evidence.lines("closure", test=test, configuration=configuration.name)
            if lines:
                cells = (*_verdict(lines), *_spread_cells(spread_of_z(evidence, configuration, test)))
                rows.append(Row((test_label(test), configuration.short), cells))
    if not rows:
        return None
    percents = {"level": CLOSURE_LEVEL, "probability": DETECTION}
    criteria = {key: f"{100 * value:g} %" for key, value in percents.items()} | {"tolerated": TOLERATED_SHIFT}
    return Table(
        name="closure_verdicts",
        **texts("tables", "closure_verdicts", **criteria),
        keys=("test", "configuration"),
        columns=(
            Column("closes"),
            Column("smallest p"),
            Column("shift of the median", level="95 %"),
            Column("false positives at 2σ [%]"),
            Column("detectable inflation"),
            Column("spread of Z over ν"),
            Column("bounds left out"),
        ),
        rows=tuple(rows),
        quantity="closure",
    )


def _verdict(lines: Sequence[Line]) -> Iterator[Cell]:
    yield verdict_cell(overall(lines))
    tested = [found for line in lines for found in line["against_null"]]
    smallest = min(tested, key=lambda found: found["corrected_p"], default=None)
    yield Cell() if smallest is None else Cell(f"{smallest['corrected_p']:.2g}", smallest["corrected_p"])
    yield _shift_cell(max((line["median_shift"] for line in lines), key=lambda s: abs(s["shift"])))
    worst = max((_rate_at(line, 2.0) for line in lines), key=lambda rate: rate.get("observed") or -1.0)
    yield _rate_cell(worst)
    ratio = worst.get("detectable_ratio")
    yield Cell() if ratio is None else Cell(f"× {ratio:.2g}", ratio)


def _spread_cells(spread: SpreadOfZ | None) -> tuple[Cell, Cell]:
    if spread is None:
        return Cell(), Cell()
    paper = None if spread.paper is None else f"{spread.paper:g}"
    text = MISSING if spread.largest is None else f"{spread.largest:.2f}"
    return Cell(text, spread.largest, paper=paper), Cell(f"{spread.bounds}", spread.bounds)


def _shift_cell(shift: Line) -> Cell:
    return interval_cell(shift["shift"], shift["interval95"]["low"], shift["interval95"]["high"])


def _rate_at(line: Line, sigma: float) -> Line:
    return next((rate for rate in line["false_positives"] if rate["sigma"] == sigma), {})


def _rate_cell(rate: Line) -> Cell:
    if rate.get("observed") is None:
        return Cell("not resolved" if rate else "–")
    return interval_cell(100 * rate["observed"], 100 * rate["low"], 100 * rate["high"], 1)


def shift_table(evidence: Evidence) -> Table | None:
    """Shift of the median and false positives for each shifted ensemble."""
    names = titles(evidence)
    rows = []
    for line in evidence.lines("closure"):
        by = null_label(line["false_positives_null"]).text
        keys = (test_label(line["test"]), names[line["configuration"]], nu_label(line["nu"]).text, by)
        rates = [_rate_cell(_rate_at(line, sigma)) for sigma in (1.0, 2.0, 3.0)]
        rows.append(Row(keys, (_shift_cell(line["median_shift"]), *rates)))
    if not rows:
        return None
    return Table(
        name="false_positives",
        **texts("tables", "false_positives"),
        keys=("test", "configuration", "toys at", "calibrated by"),
        columns=(
            Column("shift of the median", level="95 %"),
            *(Column(f"Z > {sigma} [%]", "false positives") for sigma in (1, 2, 3)),
        ),
        rows=tuple(rows),
        quantity="shift and false positives",
    )


def clip_table(evidence: Evidence, paper: Paper) -> Table | None:
    """W of every configuration, with the mean of its null."""
    by_name = {c.name: c for c in evidence.configurations}
    rows = []
    for line in evidence.lines("clips"):
        configuration = by_name.get(line["configuration"])
        if configuration is None:
            continue
        same_sizes = paper.comparable(configuration.expected, configuration.reference)
        compared = same_sizes and configuration.treatment == "profiled" and configuration.order == 1
        theirs = paper.clips.get(configuration.kind or "") if compared else None
        null = evidence.line("nulls", test="network", configuration=configuration.name)
        rows.append(Row((configuration.short,), (_clip_cell(line, theirs), *_null_cells(null))))
    if not rows:
        return None
    return Table(
        name="clips",
        **texts("tables", "clips"),
        keys=("configuration",),
        columns=(Column("W"), Column("dof"), Column("mean of t", "R₀"), Column("standard deviation", "R₀")),
        rows=tuple(rows),
        quantity="W",
    )


def _clip_cell(line: Line, paper: float | None) -> Cell:
    error = line["error"]
    text = f"{line['clip']:.4g}" + (f" ± {error:.2g}" if error else "")
    return Cell(text, line["clip"], paper=None if paper is None else f"{paper:g}")


def _null_cells(null: Line | None) -> tuple[Cell, ...]:
    if null is None:
        return (Cell(), Cell(), Cell())
    return (
        Cell(f"{null['dof']}", null["dof"]),
        Cell(f"{null['mean']:.2f}", null["mean"]),
        Cell(f"{null['std']:.2f}", null["std"]),
    )


def toys_table(evidence: Evidence) -> Table:
    """Requested = done + failed + missing, for each ensemble and in sum."""
    names = titles(evidence)
    counted = ("requested", "done", "failed", "missing", "unconverged")
    rows = [_toys_row(line, names, counted) for line in evidence.summary["ensembles"]]
    total = {key: sum(line[key] for line in evidence.summary["ensembles"]) for key in counted}
    rows.append(Row(("all", "", "", ""), (*(Cell(f"{total[key]}", total[key]) for key in counted), Cell())))
    return Table(
        name="toys",
        **texts("tables", "toys"),
        keys=("test", "configuration", "toys at", "signal"),
        columns=(*(Column(key) for key in counted), Column("seconds per toy")),
        rows=tuple(rows),
        quantity="toys",
    )


def _toys_row(line: Line, names: dict[str, str], counted: Sequence[str]) -> Row:
    signal = ""
    if line["signal"] is not None:
        signal = f"{signal_label(line['signal']).text}, {share(line['injected'], line['expected'])}"
    seconds = line["seconds_per_toy"]
    cells = [Cell(f"{line[key]}", line[key]) for key in counted]
    cells.append(Cell() if seconds is None else Cell(f"{seconds:.2g}", seconds))
    keys = (test_label(line["test"]), names[line["configuration"]], nu_label(line["nu"]).text, signal)
    return Row(keys, tuple(cells))


def calibration_table(evidence: Evidence) -> Table | None:
    """Z of every signal at nu = 0 against every null: how much the choice of the null matters."""
    nulls = tuple(dict.fromkeys(line["null"] for line in evidence.lines("significance")))
    by_name = {c.name: c for c in evidence.configurations}
    rows: dict[tuple[str, ...], dict[str, Cell]] = {}
    for line in evidence.lines("significance"):
        if any(line["nu"]):
            continue
        c = by_name[line["configuration"]]
        injection = f"{signal_label(line['signal']).text}, {share(line['injected'], c.expected)}"
        rows.setdefault((injection, c.short, test_label(line["test"])), {})[line["null"]] = z_cell(line)
    if not rows:
        return None
    return Table(
        name="calibrations",
        **texts("tables", "calibrations"),
        keys=("signal", "configuration", "test"),
        columns=tuple(Column(null_label(null).text) for null in nulls),
        rows=tuple(
            Row(keys, tuple(found.get(null, Cell()) for null in nulls))
            for keys, found in sorted(rows.items())
        ),
        quantity="median Z",
    )
