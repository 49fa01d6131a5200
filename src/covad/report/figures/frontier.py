"""The frontier of learned spaces: closure reach against signal-free power, one dot per space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from covad.inference.frontier import (
    TIMES_DATA,
    Frontier,
    FrontierPoint,
    FrontierSetting,
    Repeated,
    shown_reach,
)
from covad.inference.reach import Reach
from covad.report.figures.canvas import COLD, GREY, MARKERS, WARM, Figure, drawing, legend, panel, shown_name
from covad.report.names import number
from covad.report.texts import followed, texts
from covad.results.summary import Summary

#: Distance of repeats on the axis of alphas.
_APART = 0.15


@dataclass(frozen=True)
class Where:
    """The reach that a panel shows: averaged over the prior, or the smallest at so many sigma."""

    sigma: float | None = None

    @property
    def label(self) -> str:
        return "averaged over the prior" if self.sigma is None else rf"at $\pm${self.sigma:g}$\sigma$"

    @property
    def text(self) -> str:
        return "averaged over the prior" if self.sigma is None else f"at ±{self.sigma:g}σ"

    def of_point(self, point: FrontierPoint) -> Reach | None:
        return point.reach if self.sigma is None else dict(point.reach_at).get(self.sigma)

    def of_setting(self, setting: FrontierSetting) -> Repeated | None:
        return setting.reach if self.sigma is None else dict(setting.reach_at).get(self.sigma)


def shown_reaches(frontier: Frontier) -> Iterator[Where]:
    """Yield the reaches that the spaces have, the average first."""
    yield Where()
    yield from (Where(sigma) for sigma in sorted({s for p in frontier.points for s, _ in p.reach_at}))


def frontier_figure(summary: Summary) -> Figure | None:
    """Draw reach against power, one panel per kind of reach; against alpha where the power is not known."""
    frontier = summary.frontier
    if frontier is None or not frontier.points:
        return None
    panels = []
    for where in shown_reaches(frontier):
        with drawing((2.4,)) as (canvas, (axes,)):
            draw_frontier(axes, frontier, where)
            axes.set_title(f"closure reach {where.label}", loc="left", pad=3, fontsize=8)
            legend(axes)
            name = "frontier" if where.sigma is None else f"frontier_{where.sigma:g}_sigma"
            panels.append(panel(name, _alt(frontier, where), canvas))
    kind = "frontier" if frontier.has_power else "frontier_without_power"
    words = texts(
        "figures", kind, test=frontier.test, times=f"{TIMES_DATA:g}", wanted=number(frontier.wanted)
    )
    return Figure("frontier", panels=tuple(panels), **followed(words, _rule(frontier)))


def draw_frontier(axes: Axes, frontier: Frontier, where: Where) -> Axes:
    """Draw one dot per space on given axes, means and spreads of repeats, the reach wanted and the choice."""
    alphas = sorted({setting.alpha for setting in frontier.settings})

    def x_of(found: FrontierPoint | FrontierSetting) -> float:
        power = found.power.mean if isinstance(found.power, Repeated) else found.power
        return float(power) if frontier.has_power and power is not None else float(alphas.index(found.alpha))

    axes.set_yscale("log")
    axes.axhline(
        frontier.wanted, color=GREY, linestyle="--", linewidth=0.9, label=f"{TIMES_DATA:g} × expected data"
    )
    for turn, name in enumerate(dict.fromkeys(setting.setting for setting in frontier.settings)):
        colour, marker = COLD[(turn + 1) % len(COLD)], MARKERS[turn % len(MARKERS)]
        mine = [s for s in frontier.settings if s.setting == name and where.of_setting(s) is not None]
        means = [(x_of(s), found.mean) for s in mine if (found := where.of_setting(s)) is not None]
        if len(means) > 1:  # from alpha to alpha
            axes.plot(*zip(*means, strict=True), color=colour, linewidth=0.6, alpha=0.5)
        points = [p for p in frontier.points if p.setting == name]
        for point in points:
            repeats = [p for p in points if p.alpha == point.alpha]
            # in power, repeats lie apart by themselves
            aside = 0.0 if frontier.has_power else _APART * (repeats.index(point) - (len(repeats) - 1) / 2)
            faint = 0.45 if len(repeats) > 1 else 1.0
            _draw_point(axes, x_of(point) + aside, where.of_point(point), colour, marker, faint)
        for setting, (x, mean) in zip(mine, means, strict=True):
            found = where.of_setting(setting)
            if found is not None and found.spread is not None:
                _draw_mean(axes, setting, x, found, colour, marker, frontier.has_power)
            if frontier.has_power:  # else the axis has alpha
                told = rf"$\alpha$ = {setting.alpha:g}"
                axes.annotate(told, (x, mean), (4, 4), textcoords="offset points", fontsize=7)
            if frontier.is_chosen(setting):
                axes.plot(
                    x, mean, "o", markersize=11, markerfacecolor="none", color=WARM[0], label="by the rule"
                )
        if name:
            axes.plot([], [], marker, color=colour, label=shown_name(name).replace(", ", ",\n"))
    _drop_repeated_labels(axes)
    if frontier.has_power:
        axes.margins(x=0.15)
        axes.set_xlabel("power, processes left out")
    else:
        axes.set_xticks(range(len(alphas)), [f"{alpha:g}" for alpha in alphas])
        axes.set_xlim(-0.5, len(alphas) - 0.3)
        axes.set_xlabel(r"$\alpha$")
    axes.set_ylabel("reach [events]")
    return axes


def _draw_point(axes: Axes, x: float, reach: Reach | None, colour: str, marker: str, faint: float) -> None:
    """Draw one space with its 68 % interval; a reach without upper end as its lower end, with an arrow."""
    if reach is None:
        return
    y, bound = shown_reach(reach)
    low, high = reach.interval.low or y, reach.interval.high
    ends = [[0.0], [0.4 * y]] if bound or high is None else [[max(y - low, 0.0)], [max(high - y, 0.0)]]
    axes.errorbar(
        [x], [y], ends, fmt=marker, color=colour, lolims=bound, elinewidth=0.8, capsize=2.0, alpha=faint
    )


def _draw_mean(
    axes: Axes,
    setting: FrontierSetting,
    x: float,
    found: Repeated,
    colour: str,
    marker: str,
    has_power: bool,
) -> None:
    """Draw the mean over repeats with their spread, in power too."""
    spread, across = found.spread or 0.0, None
    if has_power and setting.power is not None:
        across = setting.power.spread
    up_down = [[found.mean * -np.expm1(-spread)], [found.mean * np.expm1(spread)]]
    axes.errorbar(
        [x],
        [found.mean],
        up_down,
        across,
        fmt=marker,
        markersize=6,
        markerfacecolor="none",
        color=colour,
        elinewidth=1.4,
        label="mean and spread over seeds",
    )


def _drop_repeated_labels(axes: Axes) -> None:
    """Leave every name in the legend once."""
    known: set[str] = set()
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
        if label in known:
            handle.set_label("_repeated")
        known.add(label)


def _alt(frontier: Frontier, where: Where) -> str:
    return f"Closure reach {where.text} of the learned spaces: {'; '.join(_told(frontier.settings, where))}"


def _told(settings: Sequence[FrontierSetting], where: Where) -> Iterator[str]:
    for setting in settings:
        if (found := where.of_setting(setting)) is not None:
            whose = f", {setting.setting}" if setting.setting else ""
            power = "" if setting.power is None else f" with a power of {setting.power.mean:.2f}"
            least = "at least " if found.bound else ""
            yield f"alpha = {setting.alpha:g}{whose}: {least}{number(round(found.mean))} events{power}"


def _rule(frontier: Frontier) -> str:
    """Return the rule's choices as sentences."""
    return " ".join(f"{line[0].upper()}{line[1:]}." for line in frontier.lines)
