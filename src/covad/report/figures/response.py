"""The response: modelled against empirical log ratios, and its validation on fresh events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from covad.report.evidence import Evidence
from covad.report.figures.canvas import (
    COLD,
    GREY,
    MARKERS,
    WARM,
    Figure,
    Panel,
    drawing,
    headroom,
    legend,
    legend_above,
    panel,
    shown_name,
)
from covad.report.figures.latent import filled, main_space_first
from covad.report.figures.leading import ShownNuisances, shown_nuisances
from covad.report.names import dimension_label
from covad.report.texts import followed, texts
from covad.results.latent import Marginal
from covad.study.plan import space_label

#: Bins of the first dimension that are shown, out of 25.
_SHOWN_BINS = 4
#: The most different ones first.
_COLOURS = (COLD[1], WARM[0], COLD[2], WARM[2], COLD[0], WARM[1], COLD[3], WARM[3])


def log_ratio_bins(evidence: Evidence) -> Figure | None:
    """Draw log(N_nu/N_0) against nu in single bins: the main response, and one of every other space.

    Of many nuisances the leading ones of the main response are drawn, else the first one of every space.
    """
    first: dict[str, tuple[Marginal, int]] = {}
    shown = ShownNuisances(tuple(evidence.summary.shape_names))
    words = texts("figures", "log_ratio_bins")
    for space in main_space_first(evidence.summary):
        found = evidence.marginals(space.name)
        if space.space in first or not found:
            continue
        shown = shown_nuisances(evidence, space.name)
        if shown.leading:
            first = {name: (found[0], number) for number, name in shown.leading.items()}
            words = followed(words, f"The space is {space.space}. {shown.caption}")
            break
        first[space.space] = found[0], 0
    if not first:
        return None
    n_bins = min(len(marginal.nominal) for marginal, _ in first.values())
    chosen = np.unique(np.linspace(0, n_bins - 1, _SHOWN_BINS).round().astype(int))
    panels = []
    for number in chosen.tolist():
        with drawing((2.1,)) as (canvas, (axes,)):
            for place, (name, (marginal, nuisance)) in enumerate(first.items()):
                nu, empirical, error, modelled = marginal.along_nuisance(nuisance, number)
                colour, marker = _COLOURS[place % len(_COLOURS)], MARKERS[place % len(MARKERS)]
                model = None if shown.leading else f"{name}, model"
                axes.plot(nu, modelled, color=colour, linestyle="--", label=model)
                style: dict[str, Any] = {"color": colour, "marker": marker, "linewidth": 0.8, "capsize": 1.5}
                axes.errorbar(nu, empirical, error, label=shown_name(name), **style)
            axes.axhline(0.0, color=GREY, linewidth=0.7)
            axes.set_xlabel(r"$\nu\ [\sigma]$")
            axes.set_ylabel(r"$\log(N_\nu/N_0)$")
            axes.set_title(f"bin {number + 1} of {n_bins}", loc="right", pad=3)
            axes.margins(0.08, 0.22)
            if shown.leading:
                legend_above(canvas, axes)
            else:
                legend(axes)
            alt = (
                f"Bin {number + 1} of {n_bins} of the first dimension: log of the events at ν over those at "
                f"ν = 0, against ν, as counted and as modelled, for {' and '.join(first)}"
            )
            panels.append(panel(f"log_ratio_bins_{number + 1}", alt, canvas))
    return Figure("log_ratio_bins", panels=tuple(panels), **words)


def validation_figures(evidence: Evidence) -> Iterator[Figure]:
    """Draw prediction against observation in every dimension of every space."""
    main = evidence.summary.main
    for space in main_space_first(evidence.summary):
        found = evidence.marginals(space.name)
        if found:
            name = f"validation_{space.name}"
            of = space_label((space.space, space.order))
            shown = shown_nuisances(evidence, space.name)
            panels = tuple(validation_panel(shown.of(marginal), name, of, shown) for marginal in found)
            words = texts("figures", "validation", space=space.space, order=space.response)
            captions = followed(words, shown.caption)
            folded = (space.space, space.order) != (main.space, main.order)
            yield Figure(name, panels=panels, **captions, folded=folded)


def validation_panel(marginal: Marginal, name: str, of: str, shown: ShownNuisances) -> Panel:
    """Draw one latent dimension: densities at +-1 sigma, their log ratios, predicted over observed counts."""
    edges, centres = marginal.edges, 0.5 * (marginal.edges[1:] + marginal.edges[:-1])
    unit = [line for line in marginal.shifted if sum(abs(x) for x in line.nu) == 1.0]
    with drawing((1.3, 0.9, 0.9)) as (canvas, (top, middle, bottom)):
        filled(top, marginal.density(marginal.nominal), edges, r"$\nu = 0$")
        for place, line in enumerate(unit):
            colour = _COLOURS[place % len(_COLOURS)]
            counted = (line.observed, line.predicted, line.uncertainty)
            observed, predicted, error = (np.array(values) for values in counted)
            for counts, dash, label in ((observed, "-", shown.label(line).tex), (predicted, "-.", None)):
                style: dict[str, Any] = {"color": colour, "linestyle": dash, "linewidth": 1.0}
                top.stairs(marginal.density(counts), edges, label=label, **style)
                middle.stairs(marginal.log_ratio(counts), edges, **style)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio, relative = predicted / observed, error / observed
            bottom.errorbar(
                centres, ratio, relative, color=colour, marker="o", linestyle="none", linewidth=0.8
            )
        middle.axhline(0.0, color=GREY, linewidth=0.7)
        bottom.axhline(1.0, color=GREY, linewidth=0.7)
        top.set_ylabel("density")
        middle.set_ylabel(r"$\log(N_\nu/N_0)$")
        bottom.set_ylabel("fit / obs.")
        bottom.set_xlabel(dimension_label(marginal.name))
        bottom.set_xlim(edges[0], edges[-1])
        headroom(top)
        if shown.leading:
            legend_above(canvas, top)
        else:
            legend(top, columns=3, where="upper center")
        p = ", ".join(f"{line.p:.2g} at {shown.label(line).text}" for line in unit)
        alt = (
            f"{marginal.name} of {of}: observed and predicted densities, log ratios "
            f"and the ratio of both; p of the comparison: {p}"
        )
        return panel(f"{name}_z{marginal.dimension}", alt, canvas)
