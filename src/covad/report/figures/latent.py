"""The latent space: what shifts of nuisances do to it, beside a signal (fig:intro, fig:embedsb4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import mplhep
import numpy as np
from matplotlib.axes import Axes

from covad.report.evidence import Evidence, Float64, LatentSpace, Line
from covad.report.figures.canvas import (
    COLD,
    DASHES,
    FILL,
    GREY,
    WARM,
    Figure,
    LineStyle,
    Panel,
    drawing,
    headroom,
    legend,
    line_style,
    panel,
)
from covad.report.names import nu_label, signal_label
from covad.report.texts import texts

#: Share of a signal that is shown beside the distortions.
SIGNAL_SHARE = 0.01
#: A dash pattern that the two shifts of one nuisance do not have.
_SIGNAL_STYLE: LineStyle = {"color": COLD[1], "linestyle": DASHES[2]}
#: The paper's labels of the marginals of its two embeddings.
_MARGINALS = {"contrastive": "fig:embedsb4", "covariant": "fig:embedslinear"}


@dataclass(frozen=True)
class Marginal:
    """Counts of one latent dimension in equally filled bins, nominal and at every shifted nu."""

    dimension: int
    edges: Float64  # outer ones included
    shifted: tuple[Line, ...]  # comparisons, one per nu

    @property
    def nominal(self) -> Float64:
        return np.array(self.shifted[0]["nominal"])

    def density(self, counts: Float64) -> Float64:
        return np.asarray(counts / counts.sum() / np.diff(self.edges))


def marginals(evidence: Evidence, space: str) -> list[Marginal]:
    """Of every latent dimension, from the checks of a space."""
    comparisons = evidence.checks.get(space, {}).get("comparisons", [])
    places = dict.fromkeys(line["where"] for line in comparisons if line["edges"])
    found = []
    for dimension, where in enumerate(places):
        lines = tuple(line for line in comparisons if line["where"] == where)
        edges = _outer_edges(np.array(lines[0]["edges"]), evidence.spaces.get(space), dimension)
        found.append(Marginal(dimension, edges, lines))
    return found


def _outer_edges(inner: Float64, space: LatentSpace | None, dimension: int) -> Float64:
    """Ends of the outer bins: where 0.1 % of the reference lie beyond, or one more bin width."""
    if space is None:
        low, high = 2 * inner[0] - inner[1], 2 * inner[-1] - inner[-2]
    else:
        low, high = np.quantile(space.raw(space.pools.reference.sample.z, dimension), [0.001, 0.999])
    ends = min(low, inner[0] - 1e-6), max(high, inner[-1] + 1e-6)
    return np.concatenate([[ends[0]], inner, [ends[1]]])


def step(axes: Axes, values: Float64, edges: Float64, style: LineStyle, label: str) -> None:
    """One histogram as a line."""
    mplhep.histplot(values, edges, ax=axes, label=label, edges=False, **style)


def filled(axes: Axes, values: Float64, edges: Float64, label: str) -> None:
    mplhep.histplot(values, edges, ax=axes, histtype="fill", color=FILL, label=label)


def nu_order(line: Line) -> tuple[float, ...]:
    return tuple(line["nu"])


def distortions(evidence: Evidence, space: str, signal: str | None) -> Figure | None:
    """Largest shifts beside a small signal."""
    found, latent = marginals(evidence, space), evidence.spaces.get(space)
    if not found:
        return None
    if latent is None or signal not in (latent.pools.signals if latent else ()):
        signal = None
    size = max(max(abs(x) for x in line["nu"]) for line in found[0].shifted)
    values = {
        "embedding": space.rsplit("_", 1)[0],
        "signal": signal_label(signal).text if signal else "signal (none in this study)",
        "share": f"{100 * SIGNAL_SHARE:g} %",
        "size": f"{size:g}",
    }
    panels = [_distortion_panel(m, latent, signal, size) for m in found]
    return Figure(
        "latent_distortions", panels=tuple(panels), **texts("figures", "latent_distortions", **values)
    )


def _distortion_panel(
    marginal: Marginal, latent: LatentSpace | None, signal: str | None, size: float
) -> Panel:
    nominal, edges = marginal.nominal, marginal.edges
    with drawing((1.5, 1.1)) as (canvas, (top, bottom)):
        filled(top, marginal.density(nominal), edges, "nominal")
        chosen = [line for line in marginal.shifted if max(abs(x) for x in line["nu"]) == size]
        for number, line in enumerate(sorted(chosen, key=nu_order)):
            ratio, style = np.array(line["observed"]) / nominal, line_style(number, WARM)
            step(bottom, ratio, edges, style, nu_label(line["nu"]).tex)
        if signal is not None and latent is not None:
            counts = _signal_counts(marginal, latent, signal)
            name = signal_label(signal).tex
            step(top, marginal.density(counts), edges, _SIGNAL_STYLE, name)
            on_top = 1 + SIGNAL_SHARE * (counts / counts.sum()) / (nominal / nominal.sum())
            step(bottom, on_top, edges, _SIGNAL_STYLE, rf"{100 * SIGNAL_SHARE:g}% {name}")
        bottom.axhline(1.0, color=GREY, linewidth=0.7)
        _finish(top, bottom, marginal, "ratio to nominal")
        legend(bottom, columns=3, where="upper center")
        _widen(bottom)
        alt = f"Latent dimension {marginal.dimension}: density, and ratios to the nominal background"
        return panel(f"latent_distortions_z{marginal.dimension}", alt, canvas)


def _signal_counts(marginal: Marginal, latent: LatentSpace, signal: str) -> Float64:
    """Of the signal at the central nu, in the bins of the marginal; the outer ones are open."""
    at = latent.pools.signals[signal]
    nu = min(at, key=lambda point: sum(abs(x) for x in point))
    z = latent.raw(at[nu].sample.z, marginal.dimension)
    bins = np.searchsorted(marginal.edges[1:-1], z)
    return np.bincount(bins, minlength=len(marginal.edges) - 1).astype(np.float64)


def _finish(top: Axes, bottom: Axes, marginal: Marginal, ratio: str) -> None:
    top.set_ylabel("density")
    bottom.set_ylabel(ratio)
    bottom.set_xlabel(f"$z_{marginal.dimension}$")
    bottom.set_xlim(marginal.edges[0], marginal.edges[-1])
    headroom(top)
    legend(top, columns=2, where="upper center")


def _widen(axes: Axes) -> None:
    """Space for a legend above curves that go either way."""
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.1 * (high - low), high + 0.45 * (high - low))


def marginal_figures(evidence: Evidence) -> Iterator[Figure]:
    """Marginals and log ratios of every embedding, from the checks of its first space."""
    seen = set()
    for space in evidence.lines("spaces"):
        found = marginals(evidence, space["name"])
        if space["embedding"] in seen or not found:
            continue
        seen.add(space["embedding"])
        name = f"marginals_{space['embedding']}"
        values = {"embedding": space["embedding"], "label": _paper_label(evidence, space["embedding"])}
        panels = tuple(_marginal_panel(m, name) for m in found)
        yield Figure(name, panels=panels, **texts("figures", "marginals", **values))


def _paper_label(evidence: Evidence, embedding: str) -> str:
    kinds = {c.embedding: c.kind for c in evidence.configurations}
    return _MARGINALS.get(kinds.get(embedding) or "", "fig:embedsb4")


def _marginal_panel(marginal: Marginal, name: str) -> Panel:
    with drawing((1.5, 1.2)) as (canvas, (top, bottom)):
        filled(top, marginal.density(marginal.nominal), marginal.edges, r"$\nu = 0$")
        for number, line in enumerate(sorted(marginal.shifted, key=nu_order)):
            observed, label = np.array(line["observed"]), nu_label(line["nu"]).tex
            style = line_style(number, _DIVERGING)
            step(top, marginal.density(observed), marginal.edges, style, label)
            step(bottom, log_ratio(observed, marginal.nominal), marginal.edges, style, label)
        bottom.axhline(0.0, color=GREY, linewidth=0.7)
        _finish(top, bottom, marginal, r"$\log(N_\nu/N_0)$")
        alt = f"Latent dimension {marginal.dimension}: densities at each nu and their log ratios"
        return panel(f"{name}_z{marginal.dimension}", alt, canvas)


#: From the lowest nu to the highest.
_DIVERGING = ("#0072b2", "#56b4e9", "#e69f00", "#d55e00")


def log_ratio(counts: Float64, nominal: Float64) -> Float64:
    """log(N_nu/N_0), NaN where either is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(counts / nominal)
    return np.where(np.isfinite(ratio), ratio, np.nan)
