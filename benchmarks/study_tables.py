"""What a summary says about the null, closure and sensitivity, as the tables of docs/results.md.

    covad report RUN && python benchmarks/study_tables.py RUN

Z of the network is against the toys of R_0, and by chi2 where it is beyond them; the convex test has its
analytic null throughout. Whether Z depends on nu is a chi2 of its medians, whose errors are those of the law:
the toys of the null, common to all nu, do not enter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy.stats import chi2

#: Calibration that covers all Z of a test.
LAW = {"network": "chi2", "convex": "analytic"}
VERDICTS = {True: "closes", False: "does not close", None: "cannot tell yet"}
Key = tuple[str, str, str, float, tuple[float, ...]]
Line = dict[str, Any]


def nulls(summary: Line) -> Iterator[str]:
    """Mean and standard deviation of t at nu = 0, and whether it follows its law."""
    clips = {line["configuration"]: line for line in summary["clips"]}
    lines = {(line["configuration"], line["test"]): line for line in summary["nulls"]}
    yield "| configuration | toys | W | network: mean, std | chi2: KS p | convex: mean, std | law | KS p |"
    yield "| --- | ---: | --- | --- | ---: | --- | --- | ---: |"
    for name in dict.fromkeys(configuration for configuration, _ in lines):
        network, convex, clip = lines[name, "network"], lines[name, "convex"], clips[name]
        law = convex["analytic"]
        cells = (
            name,
            str(network["n_toys"]),
            f"{clip['clip']:.3f} +- {clip['error'] or 0:.3f}",
            _moments(network),
            _kolmogorov(network["against_chi2"]),
            _moments(convex),
            _moments(law),
            _kolmogorov(law["against"]),
        )
        yield "| " + " | ".join(cells) + " |"


def _moments(line: Line) -> str:
    return f"{line['mean']:.1f}, {line['std']:.1f}"


def _kolmogorov(tests: list[Line]) -> str:
    return f"{next(test['p'] for test in tests if test['test'] == 'KS'):.2g}"


def closure(summary: Line) -> Iterator[str]:
    """Smallest corrected p, shifts of the median, false positives at 1 sigma, verdict."""
    found: dict[tuple[str, str], list[Line]] = {}
    for line in summary["closure"]:
        found.setdefault((line["configuration"], line["test"]), []).append(line)
    yield "| configuration | test | p | shift at +1 sigma | shift at -1 sigma | pass 1 sigma | verdict |"
    yield "| --- | --- | ---: | --- | --- | --- | --- |"
    for (configuration, test), lines in found.items():
        ordered = sorted(lines, key=lambda line: line["nu"], reverse=True)
        p = min(cell["corrected_p"] for line in lines for cell in line["against_null"])
        shifts = " | ".join(_shift(line["median_shift"]) for line in ordered)
        rates = [line["false_positives"][0]["observed"] for line in ordered]
        passing = " and ".join(f"{100 * rate:.1f}" for rate in rates)
        verdict = VERDICTS[lines[0]["closes"]]
        yield f"| {configuration} | {test} | {p:.2g} | {shifts} | {passing} % | {verdict} |"


def _shift(line: Line) -> str:
    interval = line["interval95"]
    return f"{line['shift']:.2f} [{interval['low']:.2f}, {interval['high']:.2f}]"


class Sensitivity:
    """Median Z by (test, configuration, signal, injected, nu) and null."""

    def __init__(self, summary: Line) -> None:
        self.nominal = summary["study"]["sizes"]["expected"]
        self.z: dict[Key, dict[str, Line]] = {}
        for row in summary["significance"]:
            key = row["test"], row["configuration"], row["signal"], row["injected"], tuple(row["nu"])
            self.z.setdefault(key, {})[row["null"]] = row

    def configurations(self, test: str) -> list[str]:
        return list(dict.fromkeys(key[1] for key in self.z if key[0] == test))

    def points(self, test: str, configuration: str) -> list[tuple[float, ...]]:
        return list(dict.fromkeys(key[4] for key in self.z if key[:2] == (test, configuration)))

    def signals(self) -> list[tuple[str, float]]:
        return list(dict.fromkeys((key[2], key[3]) for key in self.z))

    def label(self, signal: tuple[str, float]) -> str:
        return f"{signal[0]} {100 * signal[1] / self.nominal:g} %"

    def at(
        self, test: str, configuration: str, signal: tuple[str, float], nu: tuple[float, ...]
    ) -> dict[str, Line]:
        return self.z.get((test, configuration, *signal, nu), {})


def over_nu(found: Sensitivity, test: str, configuration: str) -> Iterator[str]:
    """Z at every nu, max - min, and the error of one median; a star: by chi2, one of them is beyond R_0."""
    points = found.points(test, configuration)
    names = ["nu = " + " ".join(f"{x:+g}" if x else "0" for x in nu) for nu in points]
    yield f"| {test}: {configuration} | " + " | ".join(names) + " | spread | toys |"
    yield "| --- " * (len(points) + 3) + "|"
    for signal in found.signals():
        rows = [found.at(test, configuration, signal, nu) for nu in points]
        if not all(rows):
            continue
        resolved = test == "network" and not any(row["R_0"]["saturated"] for row in rows)
        used = [row["R_0" if resolved else LAW[test]] for row in rows]
        star = "" if resolved or test == "convex" else "*"
        z, error = [row["z"] for row in used], np.mean([_error(row[LAW[test]]) for row in rows])
        cells = " | ".join(f"{row['text']}{star}" for row in used)
        toys = "/".join(dict.fromkeys(str(row["n_toys"]) for row in used))
        yield f"| {found.label(signal)} | {cells} | {max(z) - min(z):.2f} (+-{error:.2f} each) | {toys} |"


def _error(row: Line) -> float:
    """Half the 68 % interval of a median by the law."""
    return float(row["high"] - row["low"]) / 2


def independence(found: Sensitivity, test: str, configuration: str) -> str:
    """Chi2 of the hypothesis that each signal has the same Z at all nu."""
    total, dof = 0.0, 0
    points = found.points(test, configuration)
    for signal in found.signals():
        rows = [found.at(test, configuration, signal, nu) for nu in points]
        if not all(rows):
            continue
        z = np.array([row[LAW[test]]["z"] for row in rows])
        weight = np.array([_error(row[LAW[test]]) for row in rows]) ** -2.0
        total += float(weight @ (z - weight @ z / weight.sum()) ** 2)
        dof += len(points) - 1
    p = chi2.sf(total, dof)
    return f"- {test}, {configuration}: the same Z at all nu has chi2 = {total:.1f} / {dof}, p = {p:.2g}"


def differences(found: Sensitivity, test: str, nu: tuple[float, ...]) -> Iterator[str]:
    """Z of all configurations at one nu."""
    configurations = found.configurations(test)
    yield f"| {test} | " + " | ".join(configurations) + " |"
    yield "| --- " * (len(configurations) + 1) + "|"
    for signal in found.signals():
        rows = [found.at(test, name, signal, nu) for name in configurations]
        yield f"| {found.label(signal)} | " + " | ".join(_cell(test, row) for row in rows) + " |"


def _cell(test: str, rows: dict[str, Line]) -> str:
    """Beyond the toys of R_0 a bound and the law's Z in brackets (network), or a dagger (convex)."""
    if not rows:
        return ""
    law, beyond = rows[LAW[test]]["text"], rows["R_0"]["saturated"]
    if test == "network":
        return f"{rows['R_0']['text']} [{law}]" if beyond else str(rows["R_0"]["text"])
    return f"{law}{'†' if beyond else ''}"


def calibrations(found: Sensitivity, test: str) -> Iterator[str]:
    """Largest distance of Z from that of R_0, over signals and nu, where R_0 resolves it."""
    for configuration in found.configurations(test):
        worst: dict[str, float] = {}
        for key, rows in found.z.items():
            if key[:2] != (test, configuration) or rows["R_0"]["saturated"]:
                continue
            for null, row in rows.items():
                if null != "R_0" and not row["saturated"]:
                    worst[null] = max(worst.get(null, 0.0), abs(row["z"] - rows["R_0"]["z"]))
        said = ", ".join(f"{null} {value:.2f}" for null, value in worst.items())
        yield f"- {test}, {configuration}: {said}"


def power_at_two_sigma(summary: Line) -> Iterator[str]:
    """Power at nu = 0 where the null R_0 passes with 2.3 %, of the profiled tests."""
    found: dict[str, dict[str, str]] = {}
    for row in summary["power"]:
        if row["null"] != "R_0" or any(row["nu"]) or not row["configuration"].endswith("profiled"):
            continue
        i = min(range(len(row["z_alpha"])), key=lambda k: abs(row["z_alpha"][k] - 2.0))
        share = 100 * row["injected"] / summary["study"]["sizes"]["expected"]
        line = found.setdefault(f"{row['signal']} {share:g} %", {})
        cell = f"{row['power'][i]:.2f} [{row['low'][i]:.2f}, {row['high'][i]:.2f}]"
        line[f"{row['configuration']}: {row['test']}"] = cell
    columns = list(dict.fromkeys(name for line in found.values() for name in line))
    yield "| power at Z = 2 | " + " | ".join(columns) + " |"
    yield "| --- " * (len(columns) + 1) + "|"
    for signal, line in found.items():
        yield f"| {signal} | " + " | ".join(line.get(name, "") for name in columns) + " |"


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True))
def main(run: Path) -> None:
    """Print the tables."""
    summary = json.loads((run / "summary.json").read_text())
    found = Sensitivity(summary)
    blocks: list[Iterator[str] | list[str]] = [nulls(summary), closure(summary)]
    centre = next(key[4] for key in found.z if not any(key[4]))
    for test in dict.fromkeys(key[0] for key in found.z):
        shifted = [name for name in found.configurations(test) if len(found.points(test, name)) > 1]
        blocks.append(differences(found, test, centre))
        blocks += [over_nu(found, test, name) for name in shifted]
        blocks.append([independence(found, test, name) for name in shifted])
        blocks.append(calibrations(found, test))
    blocks.append(power_at_two_sigma(summary))
    click.echo("\n\n".join("\n".join(block) for block in blocks))


if __name__ == "__main__":
    main()
