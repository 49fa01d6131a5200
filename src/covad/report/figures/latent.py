"""The latent space: what shifts of nuisances do to it, beside a signal."""

from __future__ import annotations

from collections.abc import Iterator

import mplhep
import numpy as np
from matplotlib.axes import Axes

from covad.nplm.dataset import Float64
from covad.report.evidence import Evidence
from covad.report.figures.canvas import (
    COLD,
    DASHES,
    DIVERGING,
    FILL,
    GREY,
    WARM,
    Figure,
    LineStyle,
    Panel,
    drawing,
    headroom,
    legend,
    legend_above,
    panel,
)
from covad.report.figures.leading import ShownNuisances, shown_nuisances, sizes_text
from covad.report.names import dimension_label, signal_label
from covad.report.texts import followed, texts
from covad.results.latent import LatentSpace, Marginal
from covad.results.spaces import SpaceSummary
from covad.results.summary import Summary

#: Share of a signal that is shown beside the distortions.
SIGNAL_SHARE = 0.01
#: A dash pattern that the two shifts of one nuisance do not have.
_SIGNAL_STYLE: LineStyle = {"color": COLD[1], "linestyle": DASHES[2]}


def step(axes: Axes, values: Float64, edges: Float64, style: LineStyle, label: str | None) -> None:
    """Draw a histogram as a line."""
    mplhep.histplot(values, edges, ax=axes, label=label, edges=False, **style)


def filled(axes: Axes, values: Float64, edges: Float64, label: str) -> None:
    mplhep.histplot(values, edges, ax=axes, histtype="fill", color=FILL, label=label)


def distortions(evidence: Evidence, space: str, signal: str | None) -> Figure | None:
    """Draw the largest shifts beside a small signal."""
    latent, shown = evidence.spaces.get(space), shown_nuisances(evidence, space)
    found = [shown.of(marginal) for marginal in evidence.marginals(space)]
    if not found:
        return None
    if latent is None or signal not in latent.pools.signals:
        signal = None
    values = {
        "space": space.rsplit("_", 1)[0],
        "signal": signal_label(signal).text if signal else "signal (none in this study)",
        "share": f"{100 * SIGNAL_SHARE:g} %",
        "size": sizes_text(shown.largest(found[0])),
    }
    panels = tuple(_distortion_panel(marginal, latent, signal, shown) for marginal in found)
    words = followed(texts("figures", "latent_distortions", **values), shown.told_of_signs)
    return Figure("latent_distortions", panels=panels, **words)


def _distortion_panel(
    marginal: Marginal, latent: LatentSpace | None, signal: str | None, shown: ShownNuisances
) -> Panel:
    nominal, edges = marginal.nominal, marginal.edges
    largest = shown.largest(marginal)
    with drawing((1.5, 1.1)) as (canvas, (top, bottom)):
        filled(top, marginal.density(nominal), edges, "nominal")
        for line, style, label in shown.styled(largest, WARM):
            step(bottom, marginal.ratio(np.array(line.observed)), edges, style, label)
        if signal is not None and latent is not None:
            counts, name = marginal.signal_counts(latent, signal), signal_label(signal).tex
            step(top, marginal.density(counts), edges, _SIGNAL_STYLE, name)
            on_top = marginal.with_signal(counts, SIGNAL_SHARE)
            step(bottom, on_top, edges, _SIGNAL_STYLE, rf"{100 * SIGNAL_SHARE:g}% {name}")
        bottom.axhline(1.0, color=GREY, linewidth=0.7)
        _finish(top, bottom, marginal, "ratio to nominal")
        if shown.leading:
            legend_above(canvas, top, bottom)
        else:
            legend(top, columns=2, where="upper center")
            legend(bottom, columns=3, where="upper center")
            low, high = bottom.get_ylim()  # the curves go either way: space for the legend above them
            bottom.set_ylim(low - 0.1 * (high - low), high + 0.45 * (high - low))
        sizes = f"{sizes_text(largest)} sigma"
        whose = f" of {shown.names}" if shown.leading else ""
        alt = (
            f"{marginal.name}: density of the background"
            + (f" and of {signal_label(signal).text}" if signal else "")
            + f"; below, what a shift{whose} by {sizes}"
            + (f" and {100 * SIGNAL_SHARE:g} % of the signal" if signal else "")
            + " does to it, as ratios"
        )
        return panel(f"latent_distortions_z{marginal.dimension}", alt, canvas)


def _finish(top: Axes, bottom: Axes, marginal: Marginal, ratio: str) -> None:
    top.set_ylabel("density")
    bottom.set_ylabel(ratio)
    bottom.set_xlabel(dimension_label(marginal.name))
    bottom.set_xlim(marginal.edges[0], marginal.edges[-1])
    headroom(top)


def main_space_first(summary: Summary) -> list[SpaceSummary]:
    """Return all spaces, that of the main configuration first, then its other orders of the response."""
    main = summary.main
    return sorted(summary.spaces, key=lambda s: (s.space != main.space, s.order != main.order))


def marginal_figures(evidence: Evidence) -> Iterator[Figure]:
    """Draw marginals and log ratios of every space, from the checks of its first order."""
    seen = set()
    for space in main_space_first(evidence.summary):
        found = evidence.marginals(space.name)
        if space.space in seen or not found:
            continue
        seen.add(space.space)
        name, shown = f"marginals_{space.space}", shown_nuisances(evidence, space.name)
        panels = tuple(_marginal_panel(shown.of(marginal), name, space.space, shown) for marginal in found)
        captions = followed(texts("figures", "marginals", space=space.space), shown.told_of_signs)
        folded = space.space != evidence.summary.main.space
        yield Figure(name, panels=panels, **captions, folded=folded)


def _marginal_panel(marginal: Marginal, name: str, space: str, shown: ShownNuisances) -> Panel:
    with drawing((1.5, 1.2)) as (canvas, (top, bottom)):
        filled(top, marginal.density(marginal.nominal), marginal.edges, r"$\nu = 0$")
        for line, style, label in shown.styled(marginal.shifted, DIVERGING):
            observed = np.array(line.observed)
            step(top, marginal.density(observed), marginal.edges, style, label)
            step(bottom, marginal.log_ratio(observed), marginal.edges, style, label)
        bottom.axhline(0.0, color=GREY, linewidth=0.7)
        _finish(top, bottom, marginal, r"$\log(N_\nu/N_0)$")
        if shown.leading:
            legend_above(canvas, top)
        else:
            legend(top, columns=2, where="upper center")
        points = ", ".join(shown.label(line).text for line in marginal.shifted)
        alt = (
            f"{marginal.name} of the space {space}: density of the background "
            f"at ν = 0 and at {points}; below, the log ratios of the shifted ones to it"
        )
        return panel(f"{name}_z{marginal.dimension}", alt, canvas)
