"""Distributions of t: the picture of closure, null and law, closure of every configuration, signals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

import mplhep
import numpy as np
from matplotlib.axes import Axes

from covad.inference.histograms import Histogram, binning, histogram
from covad.nplm.dataset import Float64
from covad.report.evidence import Ensembles, Evidence
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
    point_label,
    share,
    signal_label,
    slug,
    test_label,
)
from covad.report.texts import law_text, texts
from covad.results.overview import law_of, quoted_first, quoted_test
from covad.results.summary import ConfigurationSummary, NullLaw, Summary, select
from covad.settings import Nu
from covad.toys.ensembles import Treatment


def draw_law(axes: Axes, law: NullLaw, label: str | None = None) -> None:
    """Draw the density of a law, named by itself unless told otherwise."""
    chi2 = rf"$\chi^2_{{{law.effective_dof:g}}}$"
    own = chi2 if law.name == "chi2" else null_label(law.name).tex
    axes.plot(*law.curve, color=BLACK, linewidth=1.0, label=label or own)


def draw_closure(
    axes: Axes,
    background: Mapping[Nu, Float64],
    names: Sequence[str],
    law: NullLaw | None = None,
    ratios: Axes | None = None,
) -> Axes:
    """Draw t of background-only toys, those at nu = 0 filled, on given axes; the first nu is the central one.

    `names` are those of the nuisances, `ratios` axes for the ratios to R_0.
    """
    edges = binning(list(background.values()))
    _draw_background(axes, background, names, edges, law)
    if ratios is not None:
        central, *shifted = (histogram(t, edges) for t in background.values())
        for number, found in enumerate(shifted):
            _draw_ratio(ratios, found, *found.over(central), number, 0.12 * (2 * (number % 2) - 1))
        ratios.set_ylim(0.0, 2.5)
        ratios.set_ylabel(r"ratio to $\nu = 0$")
    (ratios or axes).set_xlabel("$t$")
    axes.set_ylabel("density")
    return axes


def _draw_background(
    axes: Axes, background: Mapping[Nu, Float64], names: Sequence[str], edges: Float64, law: NullLaw | None
) -> None:
    (_, central), *shifted = background.items()
    filled(axes, histogram(central, edges).density, edges, r"$\nu = 0$")
    for number, (nu, t) in enumerate(shifted):
        step(axes, histogram(t, edges).density, edges, line_style(number, WARM), nu_label(nu, names).tex)
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


def main_first(summary: Summary) -> list[ConfigurationSummary]:
    """Return all configurations, the main one first."""
    return sorted(summary.configurations, key=lambda found: found != summary.main)


def closure_picture(evidence: Evidence) -> Figure | None:
    """Draw the point of the method: t of shifted background without and with the nuisances in the test.

    The quoted test and as many events as in the main configuration; its space, where that has both.
    """
    summary, (test, _) = evidence.summary, quoted_test(evidence.summary)

    def nearest(treatment: Treatment) -> ConfigurationSummary | None:
        equal = [c for c in main_first(summary) if c.expected == summary.main.expected]
        found = [c for c in equal if c.treatment is treatment]
        same = [c for c in found if c.space == summary.main.space]
        drawable = [c for c in (*same, *found) if len(evidence.toys(test, c.configuration)) > 1]
        return next((c for c in drawable if summary.points[0] in evidence.toys(test, c.configuration)), None)

    words = {Treatment.NONE: "without the nuisances in the test", Treatment.PROFILED: "nuisances profiled"}
    drawn = {told: found for treatment, told in words.items() if (found := nearest(treatment))}
    if not drawn:
        return None
    background = {told: _extremes(evidence.toys(test, c.configuration)) for told, c in drawn.items()}
    edges = binning([t for toys in background.values() for t in toys.values()])
    with drawing((1.05,) * len(drawn)) as (canvas, every):
        for axes, (told, configuration) in zip(every, drawn.items(), strict=True):
            law = law_of(summary, test, configuration.configuration)
            _draw_background(axes, background[told], summary.shape_names, edges, None)
            if law is not None:
                draw_law(axes, law, "expected")
            axes.set_ylabel("density")
            headroom(axes, 1.35)
            told_on = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.8}
            axes.text(
                0.98,
                0.95,
                told,
                transform=axes.transAxes,
                ha="right",
                va="top",
                fontsize=8,
                fontweight="bold",
                bbox=told_on,
            )
            axes.set_xlim(edges[0], edges[-1])
        if len(summary.points[0]) == 1:  # above the axes; nu of several nuisances is too long for that
            every[0].legend(
                loc="lower right", bbox_to_anchor=(1.01, 0.97), ncols=6, handlelength=1.4, columnspacing=0.9
            )
        else:
            legend(every[0])
        every[-1].set_xlabel("$t$")
        moves = (f"{told}: {moved(summary, test, c.configuration)}" for told, c in drawn.items())
        alt = f"Histograms of t of background-only toys of the {test_label(test)}. {'; '.join(moves)}."
        picture = panel("closure_picture", alt, canvas)
    what = f"Configurations: {'; '.join(c.label for c in drawn.values())}."
    text = "closure_picture" if len(drawn) > 1 else "closure_only"
    captions = texts("figures", text, test=test_label(test), what=what)
    return Figure("closure_picture", panels=(picture,), **captions)


def _extremes(background: Ensembles) -> Ensembles:
    """Return the toys at nu = 0 and at the largest shifts, as many as there are colours."""
    largest = max(max(map(abs, nu)) for nu in background)
    far = [nu for nu in background if max(map(abs, nu)) == largest]
    return {nu: background[nu] for nu in (next(iter(background)), *far[: len(WARM)])}


def moved(summary: Summary, test: str, configuration: str) -> str:
    """Say how far the median of t moves at each shifted nu, as the summary has it."""
    lines = select(summary.closure, test=test, configuration=configuration)
    shifted = [line for line in lines if line.point.startswith("R_") and line.point != "R_0"]
    told = (f"{line.median_shift.shift:+.2f} at {point_label(line.point).text}" for line in shifted)
    return f"the median moves by {', '.join(told)} standard deviations" if shifted else "no shifted toys"


def null_figure(evidence: Evidence, test: str) -> Figure | None:
    """Draw R_0 of every configuration against its law."""
    panels, laws, summary = [], [], evidence.summary
    for configuration in main_first(summary):
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
                label=rf"$\nu = 0$, {len(t)} toys",
            )
            _draw_ratio(bottom, found, *found.over_law(law.distribution))
            top.set_ylabel("density")
            bottom.set_ylabel("toys / law")
            bottom.set_xlabel("$t$")
            bottom.set_ylim(0.0, 2.5)
            _label_panel(top, configuration, 1.5)
            alt = (
                f"t of {len(t)} background toys of the {test_label(test)}, "
                f"{configuration_title(configuration)}: mean {_mean(summary, test, name):.1f}, that of the "
                f"law drawn over them {law.mean:.1f}"
            )
            panels.append(panel(slug(f"null_{test}_{name}"), alt, canvas))
    if not panels:
        return None
    values = {"test": test_label(test), "law": " or ".join(dict.fromkeys(laws))}
    return Figure(f"null_{test}", panels=tuple(panels), **texts("figures", "null_law", **values))


def _mean(summary: Summary, test: str, configuration: str) -> float:
    return select(summary.nulls, test=test, configuration=configuration)[0].mean


def closure_figure(evidence: Evidence, test: str) -> Figure | None:
    """Draw R_nu against R_0 in every configuration."""
    panels, names = [], evidence.summary.shape_names
    for configuration in main_first(evidence.summary):
        name = configuration.configuration
        background = evidence.toys(test, name)
        if len(background) < 2 or evidence.summary.points[0] not in background:
            continue
        with drawing((1.7, 0.9)) as (canvas, (top, bottom)):
            draw_closure(top, background, names, law_of(evidence.summary, test, name), bottom)
            _label_panel(top, configuration, 1.5)
            alt = (
                f"t of background-only toys of the {test_label(test)}, {configuration_title(configuration)}: "
                f"{moved(evidence.summary, test, name)}"
            )
            panels.append(panel(slug(f"closure_{test}_{name}"), alt, canvas))
    if not panels:
        return None
    captions = texts("figures", "closure", test=test_label(test))
    return Figure(f"closure_{test}", panels=tuple(panels), **captions)


def signal_figures(evidence: Evidence) -> Iterator[Figure]:
    """Draw the largest injection of one signal everywhere, and the smallest of another one.

    The signals are the paper's where the study has them. The main configuration is in both figures, unless
    both would show the same toys.
    """
    everywhere = main_first(evidence.summary)
    unlinearised = [
        c
        for c in everywhere
        if c == evidence.summary.main or (c.treatment is Treatment.PROFILED and c.kind == "contrastive")
    ]
    for test in quoted_first(evidence.summary):
        drawn: set[str] = set()
        for signal, configurations, most in (("hpm", everywhere, True), ("lq", unlinearised, False)):
            figure = _signal_figure(evidence, test, signal, configurations, most, drawn)
            if figure is not None:
                drawn |= {panel.name for panel in figure.panels}
                yield figure


def _signal_figure(
    evidence: Evidence,
    test: str,
    wanted: str,
    configurations: Sequence[ConfigurationSummary],
    most: bool,
    drawn: Set[str],
) -> Figure | None:
    """Draw `wanted` or else the first signal, at the largest or smallest injection, but no panel again."""
    panels, shown = [], None
    for configuration in configurations:
        injections = evidence.summary.injections(configuration.configuration)
        if not injections:
            continue
        signals = [signal for signal, _ in injections]
        drawn_signal = wanted if wanted in signals else signals[0]
        mine = [i for i in injections if i[0] == drawn_signal]
        injection = sorted(mine, key=lambda i: i[1])[-1 if most else 0]
        if _signal_name(test, configuration, injection) in drawn:
            continue
        found = _signal_panel(evidence, test, configuration, injection)
        if found is not None:
            panels.append(found)
            shown = shown or (signal_label(injection[0]).text, share(injection[1], configuration.expected))
    if shown is None:
        return None
    values = {"signal": shown[0], "share": shown[1], "test": test_label(test)}
    name = f"signal_{'most' if most else 'least'}_{test}"
    return Figure(name, panels=tuple(panels), **texts("figures", "signal", **values))


def _signal_name(test: str, configuration: ConfigurationSummary, injection: Injection) -> str:
    signal, injected = injection
    return slug(f"signal_{test}_{configuration.configuration}_{signal}_{injected:g}")


def _signal_panel(
    evidence: Evidence, test: str, configuration: ConfigurationSummary, injection: Injection
) -> Panel | None:
    signal, injected = injection
    name, names = configuration.configuration, evidence.summary.shape_names
    background, signals = evidence.toys(test, name), evidence.toys(test, name, signal, injected)
    if not signals or evidence.summary.points[0] not in background:
        return None
    edges = binning([*background.values(), *signals.values()])
    with drawing((2.4,)) as (canvas, (axes,)):
        _draw_background(axes, background, names, edges, law_of(evidence.summary, test, name))
        for number, (nu, t) in enumerate(signals.items()):
            label = f"{signal_label(signal).tex}, {nu_label(nu, names).tex}"
            step(axes, histogram(t, edges).density, edges, line_style(number, COLD), label)
        axes.set_ylabel("density")
        axes.set_xlabel("$t$")
        _label_panel(axes, configuration, 1.6)
        alt = (
            f"t of toys with and without {share(injected, configuration.expected)} of "
            f"{signal_label(signal).text}, {test_label(test)}, {configuration_title(configuration)}: "
            f"{_found(evidence.summary, test, name, injection)}"
        )
        return panel(_signal_name(test, configuration, injection), alt, canvas)


def _found(summary: Summary, test: str, configuration: str, injection: Injection) -> str:
    """Say how significant the median toy with the signal is, at every nu."""
    key = {"test": test, "configuration": configuration, "signal": injection[0], "injected": injection[1]}
    lines = select(summary.significance, **key, null="R_0")
    names = summary.shape_names
    told = (
        f"{'at least ' if line.saturated else ''}{line.z:.2f} at {nu_label(line.nu, names).text}"
        for line in lines
    )
    return f"median Z {', '.join(told)}" if lines else "no significance yet"
