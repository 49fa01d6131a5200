"""What a summary says about sensitivity, as Markdown for docs/results.md.

    covad report RUN && python benchmarks/sensitivity_tables.py RUN

Median Z per signal at every nu with its spread, what profiling and linearisation cost, and how far the
calibrations agree. The network is calibrated by the toys of R_0; a star marks lines of which one Z is beyond
what they resolve, and which are calibrated by chi2 instead. The convex test has its analytic null throughout.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

#: Calibration that covers all Z of a test.
LAW = {"network": "chi2", "convex": "analytic"}
Key = tuple[str, str, str, float, tuple[float, ...]]


class Sensitivity:
    """Median Z by (test, configuration, signal, injected, nu) and null."""

    def __init__(self, summary: dict[str, Any]) -> None:
        self.nominal = summary["study"]["sizes"]["expected"]
        self.z: dict[Key, dict[str, dict[str, Any]]] = {}
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
    ) -> dict[str, dict[str, Any]]:
        return self.z.get((test, configuration, *signal, nu), {})


def over_nu(found: Sensitivity, test: str, configuration: str) -> Iterator[str]:
    """Z at every nu, and max - min: of toys where all are resolved, else of the law."""
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
        z = [row["z"] for row in used]
        toys = "/".join(str(row["n_toys"]) for row in used)
        # an upper end that the toys do not resolve is open
        widths = [row["high"] - row["low"] for row in used if row["high"] is not None]
        error = f"{sum(widths) / (2 * len(widths)):.2f}" if widths else "?"
        cells = " | ".join(f"{row['text']}{star}" for row in used)
        yield f"| {found.label(signal)} | {cells} | {max(z) - min(z):.2f} (each +-{error}) | {toys} |"


def differences(found: Sensitivity, test: str, nu: tuple[float, ...]) -> Iterator[str]:
    """Z of all configurations at one nu, by the law, so that none is cut off."""
    configurations = found.configurations(test)
    yield f"| {test}, {LAW[test]} | " + " | ".join(configurations) + " |"
    yield "| --- " * (len(configurations) + 1) + "|"
    for signal in found.signals():
        rows = [found.at(test, name, signal, nu).get(LAW[test]) for name in configurations]
        yield f"| {found.label(signal)} | " + " | ".join(row["text"] if row else "" for row in rows) + " |"


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


def power_at_two_sigma(summary: dict[str, Any]) -> Iterator[str]:
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
    for test in dict.fromkeys(key[0] for key in found.z):
        centre = next(key[4] for key in found.z if not any(key[4]))
        blocks = [differences(found, test, centre)]
        for name in found.configurations(test):
            if len(found.points(test, name)) > 1:
                blocks.append(over_nu(found, test, name))
        blocks.append(calibrations(found, test))
        for block in blocks:
            click.echo("\n".join(block) + "\n")
    click.echo("\n".join(power_at_two_sigma(summary)))


if __name__ == "__main__":
    main()
