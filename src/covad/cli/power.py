"""Powers as tables on stdout: of settings against anomalies, and of tests beside yardsticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from covad.cli.console import result_console, table
from covad.inference.intervals import proportion_interval
from covad.results.power import FamilyPower, PowerTuning, SettingPower, YardstickLine, YardstickTable
from covad.toys.truths import nu_text


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
        console.print("bumps differ between spaces: compare spaces by the other families")
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


def print_yardsticks(found: YardstickTable, names: Sequence[str]) -> None:
    """Print power at nu = 0 and false alarms at other nu, one line per test and yardstick.

    `names` are those of the nuisances.
    """
    console = result_console()
    shifted = [nu for nu in dict.fromkeys(line.nu for line in found.lines if line.signal is None) if any(nu)]
    shown = table(f"Beyond Z = 2 of {found.null_toys} null toys at nu = 0, {found.configuration}")
    shown.add_column("test")
    for nu in shifted:
        shown.add_column(f"false alarms, {nu_text(nu, names)}", justify="right")
    for signal, injected in found.signals:
        shown.add_column(f"{injected:g} events of {signal}: power, Z", justify="right")
    for name in found.names:
        cells = [name]
        for nu in shifted:
            cells.append(", ".join(_counted(line) for line in found.select(name, None) if line.nu == nu))
        for signal, injected in found.signals:
            central = [line for line in found.select(name, signal, injected) if not any(line.nu)]
            cells.append(", ".join(f"{_counted(line)}, {_z(found, line)}" for line in central))
        shown.add_row(*cells)
    console.print(shown)
    if found.ceilings:
        console.print(
            "supervised: the Z that is expected with nuisances fixed, >= where simulated events are too few"
        )
    if found.trials is not None:
        console.print(f"the best of 1-D tests counts as {found.trials:.1f} independent tests")
    for note in found.notes:
        console.print(f"note: {note}")


def _counted(line: YardstickLine) -> str:
    return "?" if line.rate is None else f"{line.rate:.2f}"


def _z(found: YardstickTable, line: YardstickLine) -> str:
    """Return the median Z of toys; of a supervised search, the Z that it expects."""
    ceiling = found.ceiling(line.name, line.signal or "", line.injected)
    if ceiling is not None:
        return f"{'>= ' if ceiling.limited else ''}{ceiling.expected_z:.1f}"
    return "" if line.median is None else line.median.text
