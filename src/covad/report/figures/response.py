"""The response: modelled against empirical log ratios (fig:log_sbs) and its validation (fig:models)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes

from covad.report.evidence import Evidence, Float64, Line
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
    panel,
)
from covad.report.figures.latent import Marginal, filled, log_ratio, marginals, nu_order
from covad.report.names import nu_label
from covad.report.texts import texts

#: Bins of the first dimension that are shown, out of 25.
_SHOWN_BINS = 8
#: The most different ones first.
_COLOURS = (COLD[1], WARM[0], COLD[2], WARM[2], COLD[0], WARM[1], COLD[3], WARM[3])


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]


def log_ratio_bins(evidence: Evidence) -> Figure | None:
    """log(N_nu/N_0) against nu in single bins, linear response of each embedding."""
    linear = [space for space in evidence.lines("spaces", order=1) if marginals(evidence, space["name"])]
    if not linear:
        return None
    first = {space["embedding"]: marginals(evidence, space["name"])[0] for space in linear}
    n_bins = min(len(m.nominal) for m in first.values())
    chosen = np.unique(np.linspace(0, n_bins - 1, _SHOWN_BINS).round().astype(int))
    panels = tuple(_bin_panel(first, int(number), n_bins) for number in chosen)
    return Figure("log_ratio_bins", panels=panels, **texts("figures", "log_ratio_bins"))


def _bin_panel(first: dict[str, Marginal], number: int, n_bins: int) -> Panel:
    with drawing((2.1,)) as (canvas, (axes,)):
        for place, (embedding, marginal) in enumerate(first.items()):
            marker = MARKERS[place % len(MARKERS)]
            _draw_bin(axes, marginal, number, _colour(place), marker, embedding)
        axes.axhline(0.0, color=GREY, linewidth=0.7)
        axes.set_xlabel(r"$\nu\ [\sigma]$")
        axes.set_ylabel(r"$\log(N_\nu/N_0)$")
        axes.set_title(f"bin {number + 1} of {n_bins}", loc="right", pad=3)
        axes.margins(0.08, 0.22)
        legend(axes)
        alt = f"log(N_nu/N_0) against nu in bin {number + 1} of {n_bins} of the first latent dimension"
        return panel(f"log_ratio_bins_{number + 1}", alt, canvas)


def _draw_bin(axes: Axes, marginal: Marginal, number: int, colour: str, marker: str, embedding: str) -> None:
    """Points and model along the first nuisance, with the origin that both share."""
    along = [line for line in marginal.shifted if not any(line["nu"][1:])]
    nu = np.array([0.0, *(line["nu"][0] for line in along)])
    rows = [_bin_values(line, number) for line in along]
    empirical, error, modelled = np.array([(0.0, 0.0, 0.0), *rows]).T
    order = np.argsort(nu)
    axes.plot(nu[order], modelled[order], color=colour, linestyle="--", label=f"{embedding}, model")
    axes.errorbar(
        nu[order],
        empirical[order],
        error[order],
        color=colour,
        marker=marker,
        linewidth=0.8,
        capsize=1.5,
        label=embedding,
    )


def _bin_values(line: Line, number: int) -> tuple[float, float, float]:
    observed, predicted, nominal = (line[key][number] for key in ("observed", "predicted", "nominal"))
    if min(observed, predicted, nominal) <= 0:
        return np.nan, np.nan, np.nan
    error = line["uncertainty"][number] / observed
    return float(np.log(observed / nominal)), error, float(np.log(predicted / nominal))


def validation_figures(evidence: Evidence) -> Iterator[Figure]:
    """Prediction against observation in every dimension of every space."""
    for space in evidence.lines("spaces"):
        found = marginals(evidence, space["name"])
        if found:
            name = f"validation_{space['name']}"
            order = "linear" if space["order"] == 1 else "quadratic"
            values = {"embedding": space["embedding"], "order": order}
            panels = tuple(_validation_panel(marginal, name) for marginal in found)
            yield Figure(name, panels=panels, **texts("figures", "validation", **values))


def _validation_panel(marginal: Marginal, name: str) -> Panel:
    unit = [line for line in marginal.shifted if sum(abs(x) for x in line["nu"]) == 1.0]
    with drawing((1.3, 0.9, 0.9)) as (canvas, (top, middle, bottom)):
        filled(top, marginal.density(marginal.nominal), marginal.edges, r"$\nu = 0$")
        for place, line in enumerate(sorted(unit, key=nu_order)):
            _draw_validation((top, middle, bottom), marginal, line, _colour(place))
        middle.axhline(0.0, color=GREY, linewidth=0.7)
        bottom.axhline(1.0, color=GREY, linewidth=0.7)
        top.set_ylabel("density")
        middle.set_ylabel(r"$\log(N_\nu/N_0)$")
        bottom.set_ylabel("fit / obs.")
        bottom.set_xlabel(f"$z_{marginal.dimension}$")
        bottom.set_xlim(marginal.edges[0], marginal.edges[-1])
        headroom(top)
        legend(top, columns=3, where="upper center")
        alt = f"Latent dimension {marginal.dimension}: observed and predicted densities and their ratios"
        return panel(f"{name}_z{marginal.dimension}", alt, canvas)


def _draw_validation(axes: tuple[Axes, Axes, Axes], marginal: Marginal, line: Line, colour: str) -> None:
    top, middle, bottom = axes
    observed, predicted, error = (np.array(line[key]) for key in ("observed", "predicted", "uncertainty"))
    nominal, edges = marginal.nominal, marginal.edges
    label = nu_label(line["nu"]).tex
    _stairs(top, marginal.density(observed), edges, colour, "-", label)
    _stairs(top, marginal.density(predicted), edges, colour, "-.", None)
    _stairs(middle, log_ratio(observed, nominal), edges, colour, "-", None)
    _stairs(middle, log_ratio(predicted, nominal), edges, colour, "-.", None)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, relative = predicted / observed, error / observed
    centres = 0.5 * (edges[1:] + edges[:-1])
    bottom.errorbar(centres, ratio, relative, color=colour, marker="o", linestyle="none", linewidth=0.8)


def _stairs(axes: Axes, values: Float64, edges: Float64, colour: str, dash: str, label: str | None) -> None:
    axes.stairs(values, edges, color=colour, linestyle=dash, label=label, linewidth=1.0)
