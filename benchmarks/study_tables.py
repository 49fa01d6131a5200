"""What a summary says about the null, closure and sensitivity, as the tables of docs/results/index.md.

    covad report RUN && python benchmarks/study_tables.py RUN

Z of the network is against the toys of R_0, and by chi2 where it is beyond them; the convex test has its
analytic null throughout. Whether Z depends on nu is a chi2 of its medians, whose errors are those of the law:
the toys of the null, common to all nu, do not enter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import numpy as np
from scipy.stats import chi2

from covad.inference.goodness import GoodnessOfFit
from covad.inference.intervals import Interval
from covad.inference.significance import Significance
from covad.results import Summary, read_summary, select
from covad.results.overview import closure_overview
from covad.results.summary import ClosureSummary, SignalSignificance
from covad.settings import Nu

#: The law of each test's null.
LAWS = {"network": "chi2", "convex": "analytic"}
#: Significances of one signal at one nu by their null.
ByNull = dict[str, SignalSignificance]
Signal = tuple[str, float]


def nulls(summary: Summary) -> Iterator[str]:
    """Mean and standard deviation of t at nu = 0, and whether it follows its law."""
    yield "| configuration | toys | W | network: mean, std | chi2: KS p | convex: mean, std | law | KS p |"
    yield "| --- | ---: | --- | --- | ---: | --- | --- | ---: |"
    for name in dict.fromkeys(line.configuration for line in summary.nulls):
        (network,), (convex,) = (
            select(summary.nulls, configuration=name, test=test) for test in ("network", "convex")
        )
        (clip,) = select(summary.clips, configuration=name)
        cells = (
            summary.configuration(name).label,
            str(network.n_toys),
            f"{clip.clip:.3f} +- {clip.error or 0:.3f}",
            f"{network.mean:.1f}, {network.std:.1f}",
            _kolmogorov(network.law.goodness),
            f"{convex.mean:.1f}, {convex.std:.1f}",
            f"{convex.law.mean:.1f}, {convex.law.std:.1f}",
            _kolmogorov(convex.law.goodness),
        )
        yield "| " + " | ".join(cells) + " |"


def _kolmogorov(goodness: Sequence[GoodnessOfFit]) -> str:
    (found,) = select(goodness, method="KS")
    return f"{found.p:.2g}"


def closure(summary: Summary) -> Iterator[str]:
    """Every point with its shift of the median and its rate at 2 sigma over nominal; the verdict on all."""
    yield "| configuration | test | shift of the median (90 %) | rate at 2 sigma / nominal (90 %) | verdict |"
    yield "| --- | --- | --- | --- | --- |"
    for configuration, test in dict.fromkeys((line.configuration, line.test) for line in summary.closure):
        overview = closure_overview(summary, test, configuration)
        lines = select(summary.closure, configuration=configuration, test=test)
        shifts = ", ".join(f"{line.point}: {_shift(line)}" for line in lines)
        rates = ", ".join(f"{line.point}: {_ratio(line)}" for line in lines)
        label = summary.configuration(configuration).label
        yield f"| {label} | {test} | {shifts} | {rates} | {overview.verdict}: {overview.reason} |"


def _shift(line: ClosureSummary) -> str:
    return _with(line.median_shift.shift, line.median_shift.interval)


def _ratio(line: ClosureSummary) -> str:
    rate = line.false_positives_at(2.0)
    known = rate is not None and rate.ratio is not None and rate.ratio_interval is not None
    return _with(rate.ratio, rate.ratio_interval) if known else "not resolved"


def _with(value: float, interval: Interval) -> str:
    low, high = ("open" if end is None else f"{end:.2f}" for end in (interval.low, interval.high))
    return f"{value:.2f} [{low}, {high}]"


class Sensitivity:
    """Median Z by test, configuration, signal, nu and null."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary
        self.lines = summary.significance

    def configurations(self, test: str) -> list[str]:
        return list(dict.fromkeys(line.configuration for line in select(self.lines, test=test)))

    def points(self, test: str, configuration: str) -> list[Nu]:
        mine = select(self.lines, test=test, configuration=configuration)
        return list(dict.fromkeys(line.nu for line in mine))

    def signals(self) -> list[Signal]:
        return list(dict.fromkeys((line.signal, line.injected) for line in self.lines))

    def label(self, signal: Signal) -> str:
        return f"{signal[0]} {100 * signal[1] / self.summary.study.sizes.expected:g} %"

    def title(self, configuration: str) -> str:
        return self.summary.configuration(configuration).label

    def at(self, test: str, configuration: str, signal: Signal, nu: Nu) -> ByNull:
        key = {"test": test, "configuration": configuration, "signal": signal[0], "injected": signal[1]}
        return {line.null: line for line in select(self.lines, **key, nu=nu)}


def over_nu(found: Sensitivity, test: str, configuration: str) -> Iterator[str]:
    """Z at every nu, max - min, and the error of one median; a star: by chi2, one of them is beyond R_0."""
    points = found.points(test, configuration)
    names = ["nu = " + " ".join(f"{x:+g}" if x else "0" for x in nu) for nu in points]
    yield f"| {test}: {found.title(configuration)} | " + " | ".join(names) + " | spread | toys |"
    yield "| --- " * (len(points) + 3) + "|"
    for signal in found.signals():
        rows = [found.at(test, configuration, signal, nu) for nu in points]
        if not all(rows):
            continue
        resolved = test == "network" and not any(row["R_0"].saturated for row in rows)
        used = [row["R_0" if resolved else LAWS[test]] for row in rows]
        star = "" if resolved or test == "convex" else "*"
        z, error = [row.z for row in used], np.mean([_error(row[LAWS[test]]) for row in rows])
        cells = " | ".join(f"{row.text}{star}" for row in used)
        toys = "/".join(dict.fromkeys(str(row.n_toys) for row in used))
        yield f"| {found.label(signal)} | {cells} | {max(z) - min(z):.2f} (+-{error:.2f} each) | {toys} |"


def _error(found: Significance) -> float:
    """Half the 68 % interval of a median by the law."""
    return (found.interval.high - found.interval.low) / 2


def independence(found: Sensitivity, test: str, configuration: str) -> str:
    """Chi2 of the hypothesis that each signal has the same Z at all nu."""
    total, dof = 0.0, 0
    points = found.points(test, configuration)
    for signal in found.signals():
        rows = [found.at(test, configuration, signal, nu) for nu in points]
        if not all(rows):
            continue
        z = np.array([row[LAWS[test]].z for row in rows])
        weight = np.array([_error(row[LAWS[test]]) for row in rows]) ** -2.0
        total += float(weight @ (z - weight @ z / weight.sum()) ** 2)
        dof += len(points) - 1
    what = f"{test}, {found.title(configuration)}"
    return f"- {what}: the same Z at all nu has chi2 = {total:.1f} / {dof}, p = {chi2.sf(total, dof):.2g}"


def differences(found: Sensitivity, test: str, nu: Nu) -> Iterator[str]:
    """Z of all configurations at one nu."""
    configurations = found.configurations(test)
    yield f"| {test} | " + " | ".join(found.title(name) for name in configurations) + " |"
    yield "| --- " * (len(configurations) + 1) + "|"
    for signal in found.signals():
        rows = [found.at(test, name, signal, nu) for name in configurations]
        yield f"| {found.label(signal)} | " + " | ".join(_cell(test, row) for row in rows) + " |"


def _cell(test: str, rows: ByNull) -> str:
    """Beyond the toys of R_0 a bound and the law's Z in brackets (network), or a dagger (convex)."""
    if not rows:
        return ""
    law, toys = rows[LAWS[test]].text, rows["R_0"]
    if test == "network":
        return f"{toys.text} [{law}]" if toys.saturated else toys.text
    return f"{law}{'†' if toys.saturated else ''}"


def calibrations(found: Sensitivity, test: str) -> Iterator[str]:
    """Largest distance of Z from that of R_0, over signals and nu, where R_0 resolves it."""
    for configuration in found.configurations(test):
        worst: dict[str, float] = {}
        for signal in found.signals():
            for nu in found.points(test, configuration):
                rows = found.at(test, configuration, signal, nu)
                if not rows or rows["R_0"].saturated:
                    continue
                for null, row in rows.items():
                    if null != "R_0" and not row.saturated:
                        worst[null] = max(worst.get(null, 0.0), abs(row.z - rows["R_0"].z))
        said = ", ".join(f"{null} {value:.2f}" for null, value in worst.items())
        yield f"- {test}, {found.title(configuration)}: {said}"


def power_at_two_sigma(summary: Summary) -> Iterator[str]:
    """Power at nu = 0 where the null R_0 passes with 2.3 %, of the profiled tests."""
    found: dict[str, dict[str, str]] = {}
    for row in select(summary.power, null="R_0"):
        configuration = summary.configuration(row.configuration)
        plain = configuration.order == 1 and not configuration.own_sizes
        if any(row.nu) or configuration.treatment != "profiled" or not plain:
            continue
        i = min(range(len(row.z_alpha)), key=lambda k: abs(row.z_alpha[k] - 2.0))
        share = 100 * row.injected / summary.study.sizes.expected
        line = found.setdefault(f"{row.signal} {share:g} %", {})
        power = "not resolved" if row.power[i] is None else f"{row.power[i]:.2f}"
        line[f"{configuration.label}: {row.test}"] = f"{power} [{row.low[i]:.2f}, {row.high[i]:.2f}]"
    columns = list(dict.fromkeys(name for line in found.values() for name in line))
    yield "| power at Z = 2 | " + " | ".join(columns) + " |"
    yield "| --- " * (len(columns) + 1) + "|"
    for signal, line in found.items():
        yield f"| {signal} | " + " | ".join(line.get(name, "") for name in columns) + " |"


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True))
def main(run: Path) -> None:
    """Print the tables."""
    summary = read_summary(run)
    found = Sensitivity(summary)
    blocks: list[Iterator[str] | list[str]] = [nulls(summary), closure(summary)]
    centre = summary.points[0]
    for test in summary.tests:
        shifted = [name for name in found.configurations(test) if len(found.points(test, name)) > 1]
        blocks.append(differences(found, test, centre))
        blocks += [over_nu(found, test, name) for name in shifted]
        blocks.append([independence(found, test, name) for name in shifted])
        blocks.append(calibrations(found, test))
    blocks.append(power_at_two_sigma(summary))
    click.echo("\n\n".join("\n".join(block) for block in blocks))


if __name__ == "__main__":
    main()
