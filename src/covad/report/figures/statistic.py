"""Distributions of t: null and law, closure (fig:null_tstat_closure), signals (fig:signal_hists)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import mplhep
import numpy as np
from matplotlib.axes import Axes

from covad.inference.histograms import Histogram, binning, histogram
from covad.nplm.dataset import Float64
from covad.report.evidence import Evidence
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
from covad.report.names import (
    Injection,
    configuration_title,
    nu_label,
    null_label,
    share,
    signal_label,
    slug,
    test_label,
)
from covad.report.texts import law_text, texts
from covad.results.overview import law_of
from covad.results.summary import ConfigurationSummary, NullLaw
from covad.settings import Nu
from covad.toys.ensembles import Treatment


def draw_law(axes: Axes, law: NullLaw) -> None:
    """Draw the density of a law."""
    chi2 = rf"$\chi^2_{{{law.effective_dof:g}}}$"
    label = chi2 if law.name == "chi2" else null_label(law.name).tex
    axes.plot(*law.curve, color=BLACK, linewidth=1.0, label=label)


def draw_closure(
    axes: Axes, background: Mapping[Nu, Float64], law: NullLaw | None = None, ratios: Axes | None = None
) -> Axes:
    """Draw t of background-only toys, those at nu = 0 filled, on given axes; the first nu is the central one.

    `ratios` are axes for the ratios to R_0.
    """
    edges = binning(list(background.values()))
    _draw_background(axes, background, edges, law)
    if ratios is not None:
        central, *shifted = (histogram(t, edges) for t in background.values())
        for number, found in enumerate(shifted):
            _draw_ratio(ratios, found, *found.over(central), number, 0.12 * (2 * (number % 2) - 1))
        ratios.set_ylim(0.0, 2.5)
        ratios.set_ylabel(r"$R_\nu / R_0$")
    (ratios or axes).set_xlabel("$t$")
    axes.set_ylabel("density")
    return axes


def _draw_background(
    axes: Axes, background: Mapping[Nu, Float64], edges: Float64, law: NullLaw | None
) -> None:
    (_, central), *shifted = background.items()
    filled(axes, histogram(central, edges).density, edges, null_label("R_0").tex)
    for number, (nu, t) in enumerate(shifted):
        step(axes, histogram(t, edges).density, edges, line_style(number, WARM), nu_label(nu).tex)
    if law is not None:
        draw_law(axes, law)


def _draw_ratio(
    axes: Axes, found: Histogram, ratio: Float64, error: Float64, number: int = 0, offset: float = 0
) -> None:
    """Draw ratios with error bars, those of several samples side by side; empty bins are left out."""
    turn, place = divmod(number, len(WARM))
    colour, marker = WARM[place], MARKERS[turn % len(MARKERS)]
    centres = 0.5 * (found.edges[1:] + found.edges[:-1]) + offset * np.diff(found.edges)
    good = np.isfinite(ratio) & (ratio > 0)
    axes.errorbar(
        centres[good], ratio[good], error[good], color=colour, marker=marker, linestyle="none", linewidth=0.8
    )
    axes.axhline(1.0, color=GREY, linewidth=0.7)


def _label_panel(axes: Axes, configuration: ConfigurationSummary, space: float) -> None:
    axes.set_title(configuration.label, loc="left", pad=3, fontsize=8)
    headroom(axes, space)
    legend(axes, columns=2, where="upper center")


def null_figure(evidence: Evidence, test: str) -> Figure | None:
    """Draw R_0 of every configuration against its law."""
    panels, laws, summary = [], [], evidence.summary
    for configuration in summary.configurations:
        name = configuration.configuration
        t, law = evidence.toys(test, name).get(summary.points[0]), law_of(summary, test, name)
        if t is None or law is None:
            continue
        found = histogram(t, binning([t]))
        laws.append(law_text(law.name))
        with drawing((1.6, 0.9)) as (canvas, (top, bottom)):
            draw_law(top, law)
            mplhep.histplot(
                found.density,
                found.edges,
                yerr=found.density_error,
                ax=top,
                histtype="errorbar",
                color=WARM[0],
                markersize=3,
                label=rf"$R_0$, {len(t)} toys",
            )
            _draw_ratio(bottom, found, *found.over_law(law.distribution))
            top.set_ylabel("density")
            bottom.set_ylabel("toys / law")
            bottom.set_xlabel("$t$")
            bottom.set_ylim(0.0, 2.5)
            _label_panel(top, configuration, 1.5)
            alt = f"t of the toys of R_0 of the {test} against its law, {configuration_title(configuration)}"
            panels.append(panel(slug(f"null_{test}_{name}"), alt, canvas))
    if not panels:
        return None
    values = {"test": test_label(test), "law": " or ".join(dict.fromkeys(laws))}
    return Figure(f"null_{test}", panels=tuple(panels), **texts("figures", "null_law", **values))


def closure_figure(evidence: Evidence, test: str) -> Figure | None:
    """Draw R_nu against R_0 in every configuration."""
    panels = []
    for configuration in evidence.summary.configurations:
        name = configuration.configuration
        background = evidence.toys(test, name)
        if len(background) < 2 or evidence.summary.points[0] not in background:
            continue
        with drawing((1.7, 0.9)) as (canvas, (top, bottom)):
            draw_closure(top, background, law_of(evidence.summary, test, name), bottom)
            _label_panel(top, configuration, 1.5)
            alt = f"t of background-only toys of the {test} at each nu, {configuration_title(configuration)}"
            panels.append(panel(slug(f"closure_{test}_{name}"), alt, canvas))
    if not panels:
        return None
    captions = texts("figures", "closure", test=test_label(test))
    return Figure(f"closure_{test}", panels=tuple(panels), **captions)


def signal_figures(evidence: Evidence) -> Iterator[Figure]:
    """Draw the paper's choices: much charged Higgs everywhere, little leptoquark unlinearised."""
    everywhere = evidence.summary.configurations
    unlinearised = [c for c in everywhere if c.treatment is Treatment.PROFILED and c.kind == "contrastive"]
    for test in evidence.summary.tests:
        for signal, configurations, most in (("hpm", everywhere, True), ("lq", unlinearised, False)):
            if figure := _signal_figure(evidence, test, signal, configurations, most):
                yield figure


def _signal_figure(
    evidence: Evidence, test: str, wanted: str, configurations: Sequence[ConfigurationSummary], most: bool
) -> Figure | None:
    """Draw `wanted` or else the first signal, at the largest or smallest injection."""
    panels, shown = [], None
    for configuration in configurations:
        injections = evidence.summary.injections(configuration.configuration)
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
    evidence: Evidence, test: str, configuration: ConfigurationSummary, injection: Injection
) -> Panel | None:
    signal, injected = injection
    name = configuration.configuration
    background, signals = evidence.toys(test, name), evidence.toys(test, name, signal, injected)
    if not signals or evidence.summary.points[0] not in background:
        return None
    edges = binning([*background.values(), *signals.values()])
    with drawing((2.4,)) as (canvas, (axes,)):
        _draw_background(axes, background, edges, law_of(evidence.summary, test, name))
        for number, (nu, t) in enumerate(signals.items()):
            label = f"{signal_label(signal).tex}, {nu_label(nu).tex}"
            step(axes, histogram(t, edges).density, edges, line_style(number, COLD), label)
        axes.set_ylabel("density")
        axes.set_xlabel("$t$")
        _label_panel(axes, configuration, 1.6)
        alt = f"t of toys with and without {signal}, {test}, {configuration_title(configuration)}"
        return panel(slug(f"signal_{test}_{name}_{signal}_{injected:g}"), alt, canvas)
