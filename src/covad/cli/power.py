"""Powers as tables on stdout: of settings against anomalies, and of tests beside yardsticks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from covad.cli.console import result_console, table
from covad.inference.intervals import proportion_interval
from covad.results.power import FamilyPower, PowerTuning, SettingPower


def print_tuning(found: Mapping[Path, PowerTuning]) -> None:
    """Print all settings of all runs in one table, those of the largest power first."""
    console = result_console()
    lines = [(path, line) for path, tuning in found.items() for line in tuning.settings]
    lines.sort(key=lambda each: -1.0 if each[1].mean is None else each[1].mean, reverse=True)
    families = list(dict.fromkeys(family.family for _, line in lines for family in line.families))
    several = len(found) > 1
    shown = table("Power at Z = 2, on average over anomalies that nobody tuned for")
    for heading in (*(["run"] if several else []), "space", "test"):
        shown.add_column(heading)
    for heading in ("capacity", "spread", *families, "mean"):
        shown.add_column(heading, justify="right")
    for path, line in lines:
        cells = [*([path.name] if several else []), line.space, _test(line)]
        cells += ["" if x is None else f"{x:g}" for x in (line.capacity, line.spread)]
        by_name = {family.family: family for family in line.families}
        cells += [_power(by_name[name]) if name in by_name else "" for name in families]
        shown.add_row(*cells, "" if line.mean is None else f"{line.mean:.3f}")
    console.print(shown)
    toys = sum(family.toys for _, line in lines for family in line.families)
    if toys:
        console.print("of toys, with the formula's in brackets; the mean is of the toys")
        alarms = sum(family.false_alarms for _, line in lines for family in line.families)
        console.print(
            f"{alarms} of {toys} fits without anomaly were beyond Z = 2 ({0.02275 * toys:.0f} expected)"
        )
    else:
        console.print("by the formula, which ranks but is too high for dense anomalies; --toys N counts")
    if len({(path, line.space) for path, line in lines}) > 1:
        console.print("bumps differ between spaces: compare spaces by the processes left out")
    for note in dict.fromkeys(note for tuning in found.values() for note in tuning.notes):
        console.print(f"note: {note}")


def _test(line: SettingPower) -> str:
    return line.test if line.bumps is None else f"{line.test}, {line.bumps} bumps"


def _power(family: FamilyPower) -> str:
    formula = "" if family.formula is None else f"{family.formula:.3f}"
    if not family.toys:
        return formula
    interval = proportion_interval(family.found, family.toys)
    error = 0.5 * ((interval.high or 0.0) - (interval.low or 0.0))
    told = f"{family.found / family.toys:.3f} ± {error:.3f}"
    return f"{told} ({formula})" if formula else told
