"""Pulls, constraints and impacts of nuisances, and their correlations, as fits of histograms show them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from covad.inference.impacts import Fixed, Impact
from covad.inference.nuisances import Correlations, NuisanceToys
from covad.nplm.dataset import Float64
from covad.observed.result import Observation
from covad.report.evidence import Evidence
from covad.report.figures.canvas import (
    BLACK,
    COLD,
    FILL,
    GREY,
    WARM,
    Figure,
    Panel,
    listing,
    panel,
    shown_name,
)
from covad.report.figures.excess import most_significant
from covad.report.names import configuration_title, slug
from covad.report.texts import followed, texts
from covad.results.overview import quoted_first
from covad.results.summary import ConfigurationSummary, select

#: Nuisances of a figure; tables have all.
SHOWN = 20
#: Nuisances of a panel where all are shown.
_LONGEST = 30
#: Distance of the two fits of a nuisance from its line, and height of its bars.
_APART, _BAR = 0.16, 0.62


def nuisance_figures(observations: Sequence[Observation]) -> Iterator[Figure]:
    """Draw pulls beside impacts, and the correlations, of the files of largest Z."""
    for observation in most_significant(observations):
        if not observation.nuisances:
            continue
        name = slug(f"nuisances_{observation.name}")
        panels, told = [_pulls_and_impacts(observation, name)], []
        if observation.correlations is not None and len(observation.correlations.names) > 1:
            panels.append(_correlation_panel(observation.correlations, observation.file, name))
            told.append("Below: correlations of the nuisances of the fit without h, in per cent.")
        if (n := len(observation.nuisances)) > SHOWN:
            told.append(f"The first {SHOWN} of {n} nuisances are shown; the tables have all.")
        words = texts("figures", "observed_nuisances", file=observation.file)
        yield Figure(name, panels=tuple(panels), **followed(words, " ".join(told)))


def toy_nuisance_figure(evidence: Evidence) -> Figure | None:
    """Draw what toys at nu = 0 say of all nuisances, one panel per configuration of the quoted test."""
    summary = evidence.summary
    tests = [test for test in quoted_first(summary) if select(summary.nuisances, test=test)]
    panels = [
        _toy_panel(part, number, summary.configuration(line.configuration))
        for line in summary.nuisances
        if not line.prior and line.test == tests[0]
        for number, part in enumerate(_parts(line.nuisances))
    ]
    if not panels:
        return None
    return Figure("nuisances_of_toys", panels=tuple(panels), **texts("figures", "nuisances_of_toys"))


def _parts(nuisances: Sequence[NuisanceToys]) -> Iterator[Sequence[NuisanceToys]]:
    """Share many nuisances among panels of nearly the same height."""
    size = math.ceil(len(nuisances) / math.ceil(len(nuisances) / _LONGEST)) if nuisances else 1
    for start in range(0, len(nuisances), size):
        yield nuisances[start : start + size]


def _toy_panel(nuisances: Sequence[NuisanceToys], number: int, configuration: ConfigurationSummary) -> Panel:
    with listing([nuisance.name for nuisance in nuisances]) as (canvas, (axes,)):
        draw_toy_nuisances(axes, nuisances)
        axes.set_title(configuration.label, loc="left", pad=3, fontsize=8)
        tightest = min(nuisances, key=lambda nuisance: nuisance.std)
        alt = (
            f"Fitted minus true value of {len(nuisances)} nuisances over {tightest.n_toys} toys, "
            f"{configuration_title(configuration)}: most constrained is {tightest.name}, to "
            f"{tightest.std:.2f} of its sigma without h"
        )
        return panel(slug(f"nuisances_of_toys_{configuration.configuration}_{number}"), alt, canvas)


def draw_pulls(axes: Axes, observation: Observation, shown: int = SHOWN) -> Axes:
    """Draw fitted minus auxiliary values with post-fit sigmas, without and with h, ranked by impact."""
    fits = observation.ranked_nuisances[:shown]
    order = {fit.name: number for number, fit in enumerate(observation.nuisances)}
    axes.axvspan(-1.0, 1.0, color=FILL, alpha=0.5, linewidth=0)
    axes.axvline(0.0, color=GREY, linewidth=0.7)
    y = np.arange(len(fits), dtype=np.float64)
    _points(axes, y, [fit.shift for fit in fits], [fit.constraint for fit in fits], BLACK, "o", "without h")
    with_h = next((test for test in observation.tests if test.constraints_with_h), None)
    with_h = with_h or next((test for test in observation.tests if test.nu_with_h), None)
    if with_h is not None:
        numbers = [order[fit.name] for fit in fits]
        values = [with_h.nu_with_h[k] - fit.auxiliary for k, fit in zip(numbers, fits, strict=True)]
        errors = [with_h.constraints_with_h[k] for k in numbers] if with_h.constraints_with_h else None
        _points(axes, y + 2 * _APART, values, errors, COLD[1], "s", "with h")
    reach = max((abs(x) for x in axes.dataLim.intervalx), default=1.0)
    axes.set_xlim(-1.15 * max(reach, 1.3), 1.15 * max(reach, 1.3))
    axes.set_xlabel(r"$(\hat\nu - \nu_0)\,/\,\sigma$")
    name_lines(axes, [fit.name for fit in fits])
    _legend_above(axes)
    return axes


def draw_impacts(axes: Axes, impacts: Sequence[Impact], shown: int = SHOWN) -> Axes:
    """Draw the change of Z as a nuisance is held at -+ 1 sigma, post-fit filled, pre-fit open."""
    for number, impact in enumerate(impacts[:shown]):
        ends = (
            (impact.down, impact.prefit_down, COLD[1], r"$-1\sigma$"),
            (impact.up, impact.prefit_up, WARM[0], r"$+1\sigma$"),
        )
        for postfit, prefit, colour, label in ends:
            told = label if number == 0 else None
            axes.barh(number, _change(postfit), _BAR, color=colour, alpha=0.75, linewidth=0, label=told)
            axes.barh(number, _change(prefit), _BAR, facecolor="none", edgecolor=colour, linewidth=0.7)
    axes.axvline(0.0, color=GREY, linewidth=0.7)
    widest = max((abs(_change(end)) for i in impacts[:shown] for end in (i.down, i.up)), default=0.0)
    opened = max(
        (abs(_change(end)) for i in impacts[:shown] for end in (i.prefit_down, i.prefit_up)), default=0.0
    )
    # a nuisance that the data know well has a large pre-fit bar, which may end at the edge
    reach = 1.15 * max(min(opened, 2.0 * widest), widest, 1e-3)
    axes.set_xlim(-reach, reach)
    axes.xaxis.set_major_locator(MaxNLocator(4, symmetric=True))
    axes.set_xlabel(r"$\Delta Z$")
    name_lines(axes, [impact.name for impact in impacts[:shown]])
    _legend_above(axes)
    return axes


def draw_correlations(axes: Axes, correlations: Correlations, shown: int = SHOWN) -> Axes:
    """Draw the matrix in per cent; of many nuisances, those with the strongest correlations."""
    names, matrix = _strongest(correlations, shown)
    axes.pcolormesh(
        np.arange(len(names) + 1) - 0.5,
        np.arange(len(names) + 1) - 0.5,
        matrix,
        cmap="RdBu_r",
        vmin=-1.0,
        vmax=1.0,
        edgecolors="white",
        linewidth=0.3,
    )
    for (row, column), value in np.ndenumerate(matrix):
        text = f"{round(100 * value) + 0:d}"
        colour = "white" if abs(value) > 0.6 else BLACK
        size = 7 if len(names) <= 10 else 5
        axes.text(column, row, text.replace("-", "−"), ha="center", va="center", fontsize=size, color=colour)
    name_lines(axes, names)
    axes.set_xticks(range(len(names)), [shown_name(name) for name in names], rotation=90)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(length=0)
    axes.set_aspect("equal")
    return axes


def draw_toy_nuisances(axes: Axes, nuisances: Sequence[NuisanceToys]) -> Axes:
    """Draw mean and standard deviation of fitted minus true values, without and with h."""
    y = np.arange(len(nuisances), dtype=np.float64)
    axes.axvspan(-1.0, 1.0, color=FILL, alpha=0.5, linewidth=0)
    axes.axvline(0.0, color=GREY, linewidth=0.7)
    _points(axes, y, [n.mean for n in nuisances], [n.std for n in nuisances], BLACK, "o", "without h")
    with_h = [n.mean_with_h for n in nuisances], [n.std_with_h for n in nuisances]
    _points(axes, y + 2 * _APART, *with_h, COLD[1], "s", "with h")
    reach = max((abs(x) for x in axes.dataLim.intervalx), default=1.0)
    axes.set_xlim(-1.1 * max(reach, 1.3), 1.1 * max(reach, 1.3))
    axes.set_xlabel(r"$(\hat\nu - \nu_\mathrm{true})\,/\,\sigma$")
    name_lines(axes, [nuisance.name for nuisance in nuisances])
    _legend_above(axes)
    return axes


def name_lines(axes: Axes, names: Sequence[str]) -> None:
    """Put one name at each line, the first on top."""
    axes.set_yticks(range(len(names)), [shown_name(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _points(
    axes: Axes,
    y: Float64,
    values: Sequence[float],
    errors: Sequence[float | None] | None,
    colour: str,
    marker: str,
    label: str,
) -> None:
    sizes = None if errors is None else [0.0 if error is None else error for error in errors]
    axes.errorbar(
        values, y - _APART, xerr=sizes, fmt=marker, color=colour, markersize=3, linewidth=1.0, label=label
    )


def _change(end: Fixed) -> float:
    return end.change or 0.0


def _legend_above(axes: Axes) -> None:
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=2,
        borderaxespad=0.1,
        columnspacing=1.0,
        handletextpad=0.4,
    )


def _pulls_and_impacts(observation: Observation, name: str) -> Panel:
    names = [fit.name for fit in observation.ranked_nuisances[:SHOWN]]
    impacts = observation.impacts
    if impacts:
        names = [f"{name}  {number}" for number, name in enumerate(names, start=1)]
    with listing(names, columns=2 if impacts else 1) as (canvas, axes):
        draw_pulls(axes[0], observation)
        name_lines(axes[0], names)
        if impacts:
            draw_impacts(axes[1], impacts)
            axes[1].set_yticklabels([])
        return panel(f"{name}_pulls", _seen(observation), canvas, wide=bool(impacts))


def _seen(observation: Observation) -> str:
    moved = max(observation.nuisances, key=lambda fit: abs(fit.shift))
    told = (
        f"{observation.file}: fitted values of {len(observation.nuisances)} nuisances with their post-fit "
        f"sigmas; {moved.name} has moved most, by {moved.shift:+.2f} sigma"
    )
    if not observation.impacts:
        return told
    first = observation.impacts[0]
    return f"{told}; beside them impacts on Z, the largest, {first.size:.2f}, of {first.name}"


def _strongest(correlations: Correlations, shown: int) -> tuple[list[str], Float64]:
    """Return names and matrix of those with the strongest correlations, in their order."""
    names, matrix = list(correlations.names), np.array(correlations.matrix, dtype=np.float64)
    strength = np.abs(matrix - np.eye(len(names))).max(axis=0)
    kept = np.sort(np.argsort(-strength, kind="stable")[:shown])
    return [names[k] for k in kept], matrix[np.ix_(kept, kept)]


def _correlation_panel(correlations: Correlations, file: str, name: str) -> Panel:
    names, _ = _strongest(correlations, SHOWN)
    with listing(names, square=True) as (canvas, (axes,)):
        draw_correlations(axes, correlations)
        first, second, value = correlations.pairs[0]
        alt = (
            f"{file}: correlations of {len(correlations.names)} fitted nuisances in per cent; the strongest, "
            f"{100 * value:.0f} %, is that of {first} and {second}"
        )
        return panel(f"{name}_correlations", alt, canvas)
