"""Reach and signal-free power of learned spaces by alpha, and what the rule chooses."""

from __future__ import annotations

import math

from covad.inference.frontier import TIMES_DATA, Frontier, FrontierSetting, Repeated
from covad.report.tables.spaces import AVERAGED, reach_cell
from covad.report.tables.table import Cell, Column, Row, Table
from covad.report.texts import followed, texts
from covad.results.summary import Summary


def frontier_table(summary: Summary) -> Table | None:
    """Return one line per setting, repeats by seed joined; None for a study without several alphas."""
    frontier = summary.frontier
    if frontier is None or not frontier.points:
        return None
    sizes = sorted({size for setting in frontier.settings for size, _ in setting.reach_at})
    columns = [
        Column(AVERAGED, "reach [events]"),
        *(Column(f"ν = ±{size:g}σ", "reach [events]") for size in sizes),
        Column("for the rule", "reach [events]"),
    ]
    if frontier.test is not None:
        columns += [Column("processes left out", "power"), Column("random bumps", "power")]
    columns.append(Column("by the rule"))
    words = texts(
        "tables",
        "frontier",
        times=f"{TIMES_DATA:g}",
        wanted=_events(frontier.wanted),
        power=_power_text(frontier),
    )
    named = any(setting.setting for setting in frontier.settings)
    return Table(
        name="frontier",
        **followed(words, " ".join(f"{line[0].upper()}{line[1:]}." for line in frontier.lines)),
        keys=("alpha", *(["setting"] if named else []), "spaces"),
        columns=tuple(columns),
        rows=tuple(_row(frontier, setting, sizes, named) for setting in frontier.settings),
        quantity="reach and power",
    )


def _row(frontier: Frontier, setting: FrontierSetting, sizes: list[float], named: bool) -> Row:
    cells = [_reach_cell(frontier, setting, size) for size in (None, *sizes)]
    cells.append(Cell(_events(setting.lowest), setting.lowest))
    if frontier.test is not None:
        cells += [_power_cell(setting.power), _power_cell(setting.bump_power)]
    cells.append(Cell("chosen" if frontier.is_chosen(setting) else "no"))
    keys = (f"{setting.alpha:g}", *([setting.setting] if named else []), "; ".join(setting.spaces))
    return Row(keys, tuple(cells))


def _reach_cell(frontier: Frontier, setting: FrontierSetting, size: float | None) -> Cell:
    """Return the reach with its interval for one space, with the spread for several."""
    points = [p for p in frontier.points if (p.setting, p.alpha) == (setting.setting, setting.alpha)]
    if len(points) == 1:
        reach = points[0].reach if size is None else dict(points[0].reach_at).get(size)
        return Cell() if reach is None else reach_cell(reach)
    found = setting.reach if size is None else dict(setting.reach_at).get(size)
    if found is None:
        return Cell()
    mean, spread = found.mean, found.spread or 0.0
    if found.bound:
        return Cell(f">= {_events(mean)}", None, mean)
    low, high = mean * math.exp(-spread), mean * math.exp(spread)
    return Cell(f"{_events(mean)} +{_events(high - mean)} -{_events(mean - low)}", mean, low, high)


def _events(n_events: float) -> str:
    return f"{n_events:,.0f}".replace(",", " ")


def _power_cell(power: Repeated | None) -> Cell:
    if power is None:
        return Cell()
    if power.spread is None:
        return Cell(f"{power.mean:.3f}", power.mean)
    ends = power.mean - power.spread, power.mean + power.spread
    return Cell(f"{power.mean:.3f} ± {power.spread:.3f}", power.mean, *ends)


def _power_text(frontier: Frontier) -> str:
    """Say whose power it is, or which command tells it."""
    if frontier.test is None:
        return "The power is not known: covad tune-power RUN adds it."
    return (
        f"Power: at Z = 2, by covad tune-power, of the test {frontier.test}, on average over processes "
        "left out, which are the same events in all spaces, and over random bumps, which are not."
    )
