"""Distributions of t: null and law, closure (fig:null_tstat_closure), signals (fig:signal_hists)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import mplhep
import numpy as np
from matplotlib.axes import Axes
from scipy.stats import chi2

from covad.inference import goodness
from covad.nplm.convex.generalised_chi2 import GeneralisedChi2
from covad.report.evidence import Configuration, Evidence, Float64, Line
from covad.report.figures.canvas import (
    BLACK,
    COLD,
    GREY,
    MARKERS,
    WARM,
    Figure,
    Panel,
    drawing,
    headroom,
    legend,
    line_style,
    panel,
)
from covad.report.figures.latent import filled, step
from covad.report.names import nu_label, null_label, share, signal_label, slug, test_label
from covad.report.texts import texts

#: Most bins of a histogram; fewer where there are few toys.
_MOST_BINS, _FEWEST_BINS = 25, 8
_CURVE_POINTS = 48
#: Toys beyond this quantile of all that are shown fall into the last bin.
_SHOWN_QUANTILE = 0.998
_LAWS = {
    "network": "χ² with one degree of freedom per parameter",
    "convex": "its generalised χ², which was not fitted",
}
Ensembles = dict[tuple[float, ...], Float64]


@dataclass(frozen=True)
class Law:
    """The law of the null: chi2 of the network, the generalised chi2 of the convex test."""

    label: str
    law: goodness.Law
    low: float
    high: float

    @classmethod
    def of(cls, null: Line | None) -> Law | None:
        if null is None:
            return None
        analytic = null["analytic"]
        if analytic is None:
            law = chi2(null["dof"])
            return cls(rf"$\chi^2_{{{null['dof']}}}$", law, float(law.ppf(1e-4)), float(law.ppf(0.9999)))
        if "weights" not in analytic:
            return None
        low, high = (analytic["mean"] + n * analytic["std"] for n in (-3.5, 5.0))
        weighted = GeneralisedChi2(np.array(analytic["weights"]))
        return cls(r"generalised $\chi^2$", weighted, max(low, 0.0), high)

    @cached_property
    def curve(self) -> tuple[Float64, Float64]:
        """(t, density), from differences of the cumulative function."""
        edges = np.linspace(self.low, self.high, _CURVE_POINTS)
        return 0.5 * (edges[1:] + edges[:-1]), np.diff(self.cdf(edges)) / np.diff(edges)

    def cdf(self, t: Float64) -> Float64:
        return np.asarray(self.law.cdf(t))

    def draw(self, axes: Axes) -> None:
        axes.plot(*self.curve, color=BLACK, linewidth=1.0, label=self.label)


def law_of(evidence: Evidence, test: str, configuration: Configuration) -> Law | None:
    return Law.of(evidence.line("nulls", test=test, configuration=configuration.name))


def binning(samples: Sequence[Float64]) -> Float64:
    """Equal bins for all samples of a panel."""
    pooled = np.concatenate(samples)
    low, high = pooled.min(), np.quantile(pooled, _SHOWN_QUANTILE)
    smallest = min(len(sample) for sample in samples)
    n_bins = int(np.clip(1.3 * np.sqrt(smallest), _FEWEST_BINS, _MOST_BINS))
    return np.linspace(low, high if high > low else low + 1.0, n_bins + 1)


def counts(t: Float64, edges: Float64) -> Float64:
    """Toys per bin; what lies beyond is in the last one."""
    return np.histogram(np.clip(t, edges[0], edges[-1]), edges)[0].astype(np.float64)


def density(t: Float64, edges: Float64) -> Float64:
    return np.asarray(counts(t, edges) / len(t) / np.diff(edges))


def null_figure(evidence: Evidence, test: str) -> Figure | None:
    """R_0 of every configuration against its law."""
    panels = []
    for configuration in evidence.configurations:
        t = evidence.toys(test, configuration, evidence.points[0])
        law = law_of(evidence, test, configuration)
        if t is not None and law is not None:
            panels.append(_null_panel(t, law, configuration, test))
    if not panels:
        return None
    values = {"test": test_label(test), "law": _LAWS[test]}
    return Figure(f"null_{test}", panels=tuple(panels), **texts("figures", "null_law", **values))


def _null_panel(t: Float64, law: Law, configuration: Configuration, test: str) -> Panel:
    edges = binning([t])
    found, expected = counts(t, edges), len(t) * np.diff(law.cdf(edges))
    scale = 1.0 / (len(t) * np.diff(edges))
    with drawing((1.6, 0.9)) as (canvas, (top, bottom)):
        law.draw(top)
        mplhep.histplot(
            found * scale,
            edges,
            yerr=np.sqrt(found) * scale,
            ax=top,
            histtype="errorbar",
            color=WARM[0],
            markersize=3,
            label=rf"$R_0$, {len(t)} toys",
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio, error = found / expected, np.sqrt(found) / expected
        _points(bottom, edges, ratio, error)
        _finish(top, bottom, configuration, "toys / law")
        bottom.set_ylim(0.0, 2.5)
        alt = f"t of the toys of R_0 of the {test} against its law, {configuration.title}"
        return panel(slug(f"null_{test}_{configuration.name}"), alt, canvas)


def _points(
    axes: Axes, edges: Float64, ratio: Float64, error: Float64, number: int = 0, offset: float = 0
) -> None:
    """Ratios with error bars, those of several samples side by side; empty bins are left out."""
    turn, place = divmod(number, len(WARM))
    colour, marker = WARM[place], MARKERS[turn % len(MARKERS)]
    centres = 0.5 * (edges[1:] + edges[:-1]) + offset * np.diff(edges)
    good = np.isfinite(ratio) & (ratio > 0)
    axes.errorbar(
        centres[good], ratio[good], error[good], color=colour, marker=marker, linestyle="none", linewidth=0.8
    )
    axes.axhline(1.0, color=GREY, linewidth=0.7)


def _finish(top: Axes, bottom: Axes, configuration: Configuration, ratio: str) -> None:
    top.set_title(configuration.short, loc="left", pad=3, fontsize=8)
    top.set_ylabel("density")
    bottom.set_ylabel(ratio)
    bottom.set_xlabel("$t$")
    headroom(top, 1.5)
    legend(top, columns=2, where="upper center")


def background_ensembles(evidence: Evidence, test: str, configuration: Configuration) -> Ensembles:
    found = {nu: evidence.toys(test, configuration, nu) for nu in evidence.points}
    return {nu: t for nu, t in found.items() if t is not None}


def closure_figure(evidence: Evidence, test: str) -> Figure | None:
    """R_nu against R_0 in every configuration."""
    panels = []
    for configuration in evidence.configurations:
        background = background_ensembles(evidence, test, configuration)
        if len(background) > 1 and evidence.points[0] in background:
            law = law_of(evidence, test, configuration)
            panels.append(_closure_panel(background, law, configuration, test))
    if not panels:
        return None
    captions = texts("figures", "closure", test=test_label(test))
    return Figure(f"closure_{test}", panels=tuple(panels), **captions)


def _closure_panel(background: Ensembles, law: Law | None, configuration: Configuration, test: str) -> Panel:
    edges = binning(list(background.values()))
    (_, central), *shifted = background.items()
    nominal = counts(central, edges)
    with drawing((1.7, 0.9)) as (canvas, (top, bottom)):
        _draw_background(top, background, edges, law)
        for number, (_, t) in enumerate(shifted):
            found = counts(t, edges)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = (found / len(t)) / (nominal / len(central))
                error = ratio * np.sqrt(1 / found + 1 / nominal)
            _points(bottom, edges, ratio, error, number, 0.12 * (2 * (number % 2) - 1))
        _finish(top, bottom, configuration, r"$R_\nu / R_0$")
        bottom.set_ylim(0.0, 2.5)
        alt = f"t of background-only toys of the {test} at each nu, {configuration.title}"
        return panel(slug(f"closure_{test}_{configuration.name}"), alt, canvas)


def _draw_background(axes: Axes, background: Ensembles, edges: Float64, law: Law | None) -> None:
    (_, central), *shifted = background.items()
    filled(axes, density(central, edges), edges, null_label("R_0").tex)
    for number, (nu, t) in enumerate(shifted):
        step(axes, density(t, edges), edges, line_style(number, WARM), nu_label(nu).tex)
    if law is not None:
        law.draw(axes)


def signal_figures(evidence: Evidence) -> Iterator[Figure]:
    """The paper's choices: much of the charged Higgs everywhere, little of the leptoquark unlinearised."""
    profiled = [c for c in evidence.configurations if c.treatment == "profiled"]
    for test in evidence.tests:
        if found := _signal_figure(evidence, test, "hpm", evidence.configurations, True):
            yield found
        unlinearised = [c for c in profiled if c.kind == "contrastive"]
        if found := _signal_figure(evidence, test, "lq", unlinearised, False):
            yield found


def _signal_figure(
    evidence: Evidence, test: str, wanted: str, configurations: Sequence[Configuration], most: bool
) -> Figure | None:
    """`wanted` or else the first signal, at the largest or smallest injection."""
    panels, shown = [], None
    for configuration in configurations:
        injections = evidence.injections(configuration)
        mine = [i for i in injections if i[0] == wanted] or list(injections[:1])
        if not mine:
            continue
        injection = sorted(mine, key=lambda i: i[1])[-1 if most else 0]
        drawn = _signal_panel(evidence, test, configuration, injection)
        if drawn is not None:
            panels.append(drawn)
            shown = shown or (signal_label(injection[0]).text, share(injection[1], configuration.expected))
    if shown is None:
        return None
    label = "fig:signal_hists" if most else "fig:lq_unlinearized_overlap"
    values = {"signal": shown[0], "share": shown[1], "test": test_label(test), "label": label}
    name = f"signal_{'most' if most else 'least'}_{test}"
    return Figure(name, panels=tuple(panels), **texts("figures", "signal", **values))


def _signal_panel(
    evidence: Evidence, test: str, configuration: Configuration, injection: tuple[str, float]
) -> Panel | None:
    background = background_ensembles(evidence, test, configuration)
    found = {nu: evidence.toys(test, configuration, nu, *injection) for nu in evidence.points}
    signals = {nu: t for nu, t in found.items() if t is not None}
    if not signals or evidence.points[0] not in background:
        return None
    edges = binning([*background.values(), *signals.values()])
    with drawing((2.4,)) as (canvas, (axes,)):
        _draw_background(axes, background, edges, law_of(evidence, test, configuration))
        name = signal_label(injection[0]).tex
        for number, (nu, t) in enumerate(signals.items()):
            step(axes, density(t, edges), edges, line_style(number, COLD), f"{name}, {nu_label(nu).tex}")
        axes.set_title(configuration.short, loc="left", pad=3, fontsize=8)
        axes.set_ylabel("density")
        axes.set_xlabel("$t$")
        headroom(axes, 1.6)
        legend(axes, columns=2, where="upper center")
        alt = f"t of toys with and without {injection[0]}, {test}, {configuration.title}"
        return panel(slug(f"signal_{test}_{configuration.name}_{injection[0]}_{injection[1]:g}"), alt, canvas)
