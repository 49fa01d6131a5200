"""The tables of docs/results, in Markdown, from the summary of a run; `results_pages.py` writes them.

Z of a test that knows its law is by that law, with a dagger where no toys have tested it. Z of the network is
against its toys; beyond them it is a bound, with what chi2 would say in brackets. Tests may differ from
configuration to configuration: a table has rows of what ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from scipy.stats import chi2

from covad.inference.intervals import Interval
from covad.inference.significance import MARK, MEANING, Significance
from covad.report.names import Injection, nu_label, ordered, point_label, share, shown_reason, signal_label
from covad.report.paper.tables import chapter_tables
from covad.report.tables.table import Table
from covad.results import Summary, select
from covad.results.frontier import setting_of
from covad.results.lines import events_text
from covad.results.overview import closure_overview, quoted_test
from covad.results.power import YardstickLine, YardstickTable
from covad.results.summary import ClosureSummary, ConfigurationSummary, SignalPower, SignalSignificance
from covad.settings import Nu
from covad.study import Collisions

#: Thresholds of closure and power, in sigma.
JUDGED = 2.0
#: The chapters of the report that have tables of the paper.
PAPER = ("null", "closure", "sensitivity")
#: A test in a configuration.
Case = tuple[ConfigurationSummary, str]


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; nothing without rows."""
    lines = [list(row) for row in rows]
    if not lines:
        return "Nothing: the run has no toys for it."
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, ["---"] * len(header), *lines))


def cases(summary: Summary, tests: Sequence[str] | None = None) -> list[Case]:
    """Return every test in every configuration that it ran in, the main configuration first."""
    ordered_by = sorted(summary.configurations, key=lambda c: c != summary.main)
    return [
        (c, test)
        for c in ordered_by
        for test in summary.tests_of(c.configuration)
        if tests is None or test in tests
    ]


def shown_first(summary: Summary) -> list[Case]:
    """Return the cases of the short page: the quoted test everywhere, and the network where it ran."""
    return cases(summary, (quoted_test(summary)[0], "network"))


def injections(summary: Summary) -> list[Injection]:
    """Return all signals with their injected events."""
    found = (i for c in summary.configurations for i in summary.injections(c.configuration))
    return ordered(dict.fromkeys(found))


def nulls(summary: Summary) -> str:
    """Return mean and spread of t at nu = 0 beside its law, and whether it follows that."""
    rows = []
    for configuration, test in cases(summary):
        for line in select(summary.nulls, configuration=configuration.configuration, test=test):
            clips = select(summary.clips, configuration=configuration.configuration)
            width = f"{clips[0].clip:.3f}" if test == "network" and clips else ""
            p = {found.method: f"{found.p:.2g}" for found in line.law.goodness}
            of_toys, of_law = f"{line.mean:.1f}, {line.std:.1f}", f"{line.law.mean:.1f}, {line.law.std:.1f}"
            rows.append(
                (configuration.label, test, width, str(line.n_toys), of_toys, of_law, p.get("KS", ""))
            )
    columns = ("configuration", "test", "W", "toys", "mean and std of t", "of its law", "KS p")
    if not any(row[2] for row in rows):  # W is the network's
        columns, rows = (*columns[:2], *columns[3:]), [(*row[:2], *row[3:]) for row in rows]
    return markdown(columns, rows)


def closure(summary: Summary) -> str:
    """Return the worst point of every test and configuration, and the verdict."""
    rows = []
    for configuration, test in cases(summary):
        found = closure_overview(summary, test, configuration.configuration)
        if found is None:
            continue
        lines = select(summary.closure, configuration=configuration.configuration, test=test)
        shift = f"{_shift(found.worst_shift)} at {point_label(found.worst_shift.point).text}"
        rate = f"{_ratio(found.most_alarms)} at {point_label(found.most_alarms.point).text}"
        toys = " to ".join(dict.fromkeys(f"{n(line.n_toys for line in lines)}" for n in (min, max)))
        rows.append((configuration.label, test, toys, shift, rate, str(found.verdict)))
    columns = ("largest shift of the median", "largest rate at 2σ / nominal", "verdict")
    return markdown(("configuration", "test", "toys per point", *columns), rows)


def closure_points(summary: Summary) -> str:
    """Return shift and rate at every point, and the reason of the verdict."""
    rows = []
    for configuration, test in cases(summary):
        for line in select(summary.closure, configuration=configuration.configuration, test=test):
            where = point_label(line.point).text
            rows.append((configuration.label, test, where, str(line.n_toys), _shift(line), _ratio(line)))
    table = markdown(
        ("configuration", "test", "toys at", "toys", "shift of the median", "rate at 2σ / nominal"), rows
    )
    reasons = []
    for configuration, test in cases(summary):
        if found := closure_overview(summary, test, configuration.configuration):
            told = f"**{found.verdict}**: {shown_reason(found.reason)}"
            reasons.append(f"- {configuration.label}, {test}: {told}.")
    return "\n".join([table, "", *reasons])


def _shift(line: ClosureSummary) -> str:
    return _with(line.median_shift.shift, line.median_shift.interval)


def _ratio(line: ClosureSummary) -> str:
    rate = line.false_positives_at(JUDGED)
    if rate is None or rate.ratio is None or rate.ratio_interval is None:
        return "not resolved"
    return _with(rate.ratio, rate.ratio_interval)


def _with(value: float, interval: Interval) -> str:
    low, high = ("open" if end is None else f"{end:.2f}" for end in (interval.low, interval.high))
    return f"{value:.2f} [{low}, {high}]"


def reach(summary: Summary) -> str:
    """Return up to how many events every response closes: at each distance from nu = 0, over the prior."""
    sizes = sorted({size for space in summary.spaces for size in space.reach.smallest})
    rows = []
    for space in summary.spaces:
        at = [events_text(space.reach.smallest[size]) for size in sizes if size in space.reach.smallest]
        rows.append((f"{space.space}, {space.response}", *at, events_text(space.reach.average)))
    return markdown(("space", *(f"at ±{size:g}σ" for size in sizes), "averaged over the prior"), rows)


def z_of(summary: Summary, configuration: str, test: str, injection: Injection, nu: Nu) -> str:
    """Return the median Z against the null that the test is quoted by; empty without toys."""
    key = {"configuration": configuration, "test": test, "signal": injection[0], "injected": injection[1]}
    found = {line.null: line for line in select(summary.significance, **key, nu=nu)}
    if not found:
        return ""
    if (line := found.get("analytic")) is not None:
        return _shown(line)
    toys, law = found["R_0"], found.get("chi2")
    return f"{_shown(toys)} [{law.z:.2f}]" if toys.saturated and law is not None else _shown(toys)


def _shown(line: Significance) -> str:
    return f"{line.text.replace('>=', '≥').replace('<=', '≤')}{MARK if line.extrapolated else ''}"


def sensitivity(summary: Summary, chosen: Sequence[Case]) -> str:
    """Return the median Z of every signal at nu = 0, a table for each share of signal."""

    def cells(case: Case, mine: Sequence[Injection | None]) -> list[str]:
        (configuration, test), centre = case, summary.points[0]
        name = configuration.configuration
        return ["" if each is None else z_of(summary, name, test, each, centre) for each in mine]

    blocks = _by_share(summary, chosen, cells)
    bounds = "≥: beyond the toys, in brackets by χ². " if any("≥" in block for block in blocks) else ""
    blocks.append(f"{bounds}{MARK}: {MEANING}. Errors are 68 %.")
    return "\n\n".join(blocks)


def _by_share(
    summary: Summary,
    chosen: Sequence[Case],
    cells: Callable[[Case, Sequence[Injection | None]], Sequence[str]],
) -> list[str]:
    """Return a table for each share of signal, the smallest first, with a row per case that has something.

    A share is that of the events which the configuration expects: they may differ.
    """
    mine = {c.configuration: _shares(summary, c) for c, _ in chosen}
    shares = {told: size for each in mine.values() for (_, told), (_, size) in each.items()}
    signals = [signal for signal, _ in ordered({(s, 0.0) for each in mine.values() for s, _ in each})]
    blocks = []
    for told in sorted(shares, key=shares.__getitem__):
        columns = [s for s in signals if any((s, told) in each for each in mine.values())]
        rows = []
        for case in chosen:
            found = (mine[case[0].configuration].get((signal, told)) for signal in columns)
            line = cells(case, [None if each is None else each[0] for each in found])
            if any(line):
                rows.append((case[0].label, case[1], *line))
        header = (f"{told} of signal", "test", *(signal_label(signal).text for signal in columns))
        blocks.append(markdown(header, rows))
    return blocks


def _shares(
    summary: Summary, configuration: ConfigurationSummary
) -> dict[tuple[str, str], tuple[Injection, float]]:
    """Return the injections of a configuration by signal and share, each with that share as a number."""
    expected = configuration.expected
    return {
        (signal, share(injected, expected)): ((signal, injected), injected / expected)
        for signal, injected in summary.injections(configuration.configuration)
    }


def power(summary: Summary) -> str:
    """Return the power at nu = 0 where 2.3 % of background toys pass, a table for each share of signal."""

    def cells(case: Case, mine: Sequence[Injection | None]) -> list[str]:
        key = {"configuration": case[0].configuration, "test": case[1], "nu": summary.points[0]}
        curves = {(line.signal, line.injected): line for line in select(summary.power, **key, null="R_0")}
        return [_power(None if each is None else curves.get(each)) for each in mine]

    return "\n\n".join(_by_share(summary, cases(summary), cells))


def _power(line: SignalPower | None) -> str:
    """Write the power at the threshold with its band."""
    if line is None:
        return ""
    i = int(np.argmin(np.abs(np.array(line.z_alpha) - JUDGED)))
    value = line.power[i]
    return "not resolved" if value is None else f"{value:.2f} [{line.low[i]:.2f}, {line.high[i]:.2f}]"


def seeds(summary: Summary) -> str:
    """Return Z and reach of trainings that differ in their seed alone, and their spread."""
    test = quoted_test(summary)[0]
    blocks = []
    for group in _same_but_for_seed(summary):
        rows = []
        for injection in injections(summary):
            lines = [_central(summary, c.configuration, test, injection) for c in group]
            known = [line for line in lines if line is not None]
            if len(known) == len(group):
                what = f"{signal_label(injection[0]).text}, {share(injection[1], group[0].expected)}"
                rows.append((what, *(_shown(line) for line in known), *_spread_of_z(known)))
        for name in ("average", *_sizes(summary)):
            found = [_reach(summary, c, name) for c in group]
            where = "over the prior" if name == "average" else f"at ±{name:g}σ"
            rows.append(
                (f"reach {where}", *("open" if n is None else _events(n) for n in found), *_spread(found))
            )
        header = (test, *(c.label for c in group), "mean", "std over seeds", "error of one")
        blocks.append(markdown(header, rows))
    return "\n\n".join(blocks) or "Nothing: no space was trained with several seeds."


def _spread_of_z(lines: Sequence[SignalSignificance]) -> tuple[str, str, str]:
    """Return mean, standard deviation and the error of one; nothing where a Z is a bound."""
    if any(line.saturated for line in lines):
        return "", "", ""
    z, errors = np.array([line.z for line in lines]), np.array([_error(line) for line in lines])
    error = np.sqrt(np.mean(errors**2))
    return f"{z.mean():.2f}", f"{z.std(ddof=1):.2f}", "open" if np.isnan(error) else f"{error:.2f}"


def _same_but_for_seed(summary: Summary) -> list[list[ConfigurationSummary]]:
    """Return configurations that differ in the seed of their learned space alone; two at least."""
    source, groups = summary.study.source, {}
    for c in summary.configurations:
        entry = source.learned.get(c.space) if isinstance(source, Collisions) else None
        if entry is not None:
            key = (setting_of(entry, c.order)[0], entry.alpha, c.treatment, c.expected, c.reference)
            groups.setdefault(key, []).append(c)
    return [group for group in groups.values() if len(group) > 1]


def _central(
    summary: Summary, configuration: str, test: str, injection: Injection
) -> SignalSignificance | None:
    """Return Z at nu = 0 against the quoted null."""
    key = {"configuration": configuration, "test": test, "signal": injection[0], "injected": injection[1]}
    lines = select(summary.significance, **key, nu=summary.points[0], null=quoted_test(summary)[1])
    return lines[0] if lines else None


def _error(line: Significance) -> float:
    """Return half the 68 % interval; NaN where an end is open."""
    low, high = line.interval.low, line.interval.high
    return np.nan if low is None or high is None else (high - low) / 2


def _sizes(summary: Summary) -> list[float]:
    return sorted({size for space in summary.spaces for size in space.reach.smallest})


def _reach(summary: Summary, configuration: ConfigurationSummary, name: str | float) -> float | None:
    (space,) = select(summary.spaces, space=configuration.space, order=configuration.order)
    found = space.reach.average if isinstance(name, str) else space.reach.smallest[name]
    return found.n_events


def _spread(found: Sequence[float | None]) -> tuple[str, str, str]:
    """Return the geometric mean of reaches, and the factor by which they scatter."""
    if None in found:
        return "", "", ""
    logs = np.log(np.array(found, dtype=float))
    return _events(np.exp(logs.mean())), f"×/ {np.exp(logs.std(ddof=1)):.1f}", ""


def _events(number: float) -> str:
    """Return three digits, thousands apart."""
    return f"{float(f'{number:.3g}'):,.0f}".replace(",", " ")


def over_nu(summary: Summary, chosen: Sequence[Case]) -> str:
    """Return Z at every nu, its spread, and the chi2 of the hypothesis that it is the same everywhere."""
    blocks, same = [], []
    for configuration, test in chosen:
        name = configuration.configuration
        mine = [line for line in summary.significance if (line.configuration, line.test) == (name, test)]
        points = sorted({line.nu for line in mine}, key=summary.points.index)
        if len(points) < 2:
            continue
        null = "analytic" if any(line.null == "analytic" for line in mine) else "chi2"
        rows, total, dof = [], 0.0, 0
        for injection in injections(summary):
            signal, injected = injection
            lines = select(mine, signal=signal, injected=injected, null=null)
            if len(lines) < len(points):
                continue
            z = np.array([line.z for line in lines])
            error = np.array([_median_error(line) for line in lines])
            told = f"{signal_label(signal).text}, {share(injected, configuration.expected)}"
            cells = [z_of(summary, name, test, injection, nu) for nu in points]
            rows.append((told, *cells, f"{np.ptp(z):.2f}", f"±{np.sqrt(np.mean(error**2)):.2f}"))
            if np.isfinite(error).all():
                weight = error**-2.0
                total += float(weight @ (z - weight @ z / weight.sum()) ** 2)
                dof += len(points) - 1
        at = [nu_label(nu, summary.shape_names).text for nu in points]
        blocks.append(markdown((f"{configuration.label}, {test}", *at, "max - min", "error of one"), rows))
        if dof:
            same.append((configuration.label, test, f"{total:.1f} / {dof}", f"{chi2.sf(total, dof):.2g}"))
    if same:
        header = ("the same Z at all ν?", "test", "χ² / degrees of freedom", "p")
        blocks.append(markdown(header, same))
        note = "Z is by the law of each test, for the network χ². Errors are those of the medians alone: "
        blocks.append(note + "all ν share one null.")
    return "\n\n".join(blocks) or "Nothing: no signal has toys at several ν."


def _median_error(line: SignalSignificance) -> float:
    """Return half the interval of the median alone."""
    interval = line.median_interval
    if interval is None or interval.low is None or interval.high is None:
        return np.nan
    return max((interval.high - interval.low) / 2, 1e-3)


def calibrations(summary: Summary) -> str:
    """Return the largest distance of Z from that of R_0, over signals and nu, where R_0 resolves it."""
    rows = []
    for configuration, test in cases(summary):
        key = {"configuration": configuration.configuration, "test": test}
        by_toys = {
            (line.signal, line.injected, line.nu): line.z
            for line in select(summary.significance, **key, null="R_0")
            if not line.saturated
        }
        worst: dict[str, float] = {}
        for line in select(summary.significance, **key):
            z = by_toys.get((line.signal, line.injected, line.nu))
            if line.null != "R_0" and z is not None and not line.saturated:
                worst[line.null] = max(worst.get(line.null, 0.0), abs(line.z - z))
        if worst:
            told = ", ".join(f"{null} {value:.2f}" for null, value in worst.items())
            rows.append((configuration.label, test, told))
    return markdown(("configuration", "test", "largest distance from Z by R_0"), rows)


def cost(summary: Summary) -> str:
    """Return the wall time of every stage, and what toys of each test cost."""
    manifest = summary.manifest
    seconds = {} if manifest is None else manifest.seconds
    stages = [(stage, _minutes(value)) for stage, value in seconds.items()]
    stages.append(("all", _minutes(sum(seconds.values()))))
    rows = []
    for test in summary.tests:
        lines = [line for line in select(summary.ensembles, test=test) if line.seconds_per_toy is not None]
        done = sum(line.done for line in lines)
        spent = sum(line.done * (line.seconds_per_toy or 0.0) for line in lines)
        rows.append((test, str(done), f"{spent / max(done, 1):.2f}", f"{spent / 3600:.1f}"))
    cores = "" if manifest is None else f" on {manifest.machine['cores']} cores"
    header = ("test", "toys", "core-seconds a toy", "core-hours")
    return markdown(("stage", f"wall time{cores}"), stages) + "\n\n" + markdown(header, rows)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def toys(summary: Summary) -> str:
    """Return a sentence on the toys that the tables rest on."""
    counts = summary.toys
    return f"{counts.done} toys are done, {counts.failed} failed."


def yardsticks(summary: Summary, found: YardstickTable | None) -> str:
    """Power at Z = 2 and median Z of tests and yardsticks at nu = 0, and their false alarms elsewhere."""
    if found is None:
        return ""
    expected = summary.configuration(found.configuration).expected
    shifted = [nu for nu in dict.fromkeys(line.nu for line in found.lines if line.signal is None) if any(nu)]
    header = ["test", *(f"false alarms, {nu_label(nu, summary.shape_names).text}" for nu in shifted)]
    header += [f"{signal_label(signal).text}, {share(n, expected)}" for signal, n in found.signals]
    rows = []
    for name in found.names:
        alarms = [[line.rate for line in found.select(name, None) if line.nu == nu] for nu in shifted]
        cells = [f"{max(rate or 0.0 for rate in rates):.2f}" if rates else "" for rates in alarms]
        for signal, injected in found.signals:
            lines = [line for line in found.select(name, signal, injected) if not any(line.nu)]
            cells += [_power_and_z(found, line) for line in lines[:1]] or [""]
        rows.append((name, *cells))
    return markdown(header, rows)


def _power_and_z(found: YardstickTable, line: YardstickLine) -> str:
    ceiling = found.ceiling(line.name, line.signal or "", line.injected)
    power = "" if line.rate is None else f"{line.rate:.2f}, "
    if ceiling is not None:
        return f"{power}{'≥ ' if ceiling.limited else ''}{ceiling.expected_z:.1f}"
    return power + ("" if line.median is None else _shown(line.median))


def beside_the_paper(summary: Summary) -> Iterator[str]:
    """Yield the paper's tables with our numbers; the paper's stand in brackets."""
    for chapter in PAPER:
        for table, _ in chapter_tables(summary, chapter):
            if table is not None and table.has_paper:
                yield f"### {table.title}\n\n{_of_report(table)}"


def _of_report(table: Table) -> str:
    """Return a table of the report with its caption."""
    rows = []
    for row in table.rows:
        cells = (c.text + (MARK if c.extrapolated else "") + _in_brackets(c.paper) for c in row.cells)
        rows.append((*row.keys, *cells))
    return f"{markdown((*table.keys, *(c.full for c in table.columns)), rows)}\n\n{table.caption}"


def _in_brackets(paper: str | None) -> str:
    return "" if paper is None else f" [{paper}]"
