"""Figures of a run or an observation on matplotlib Axes: yours, or new ones. Each function returns the Axes.

The report draws with the same functions.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from covad.errors import UnknownNameError
from covad.inference.verdict import FEWEST_TOYS
from covad.observed.result import Observation
from covad.report.evidence import Evidence
from covad.report.figures.canvas import headroom, legend
from covad.report.figures.excess import draw_observable
from covad.report.figures.frontier import Where, draw_frontier, shown_reaches
from covad.report.figures.nuisances import SHOWN, draw_correlations, draw_impacts, draw_pulls
from covad.report.figures.statistic import draw_closure
from covad.report.figures.study import draw_power
from covad.report.names import signal_label
from covad.results.overview import calibration_of, law_of
from covad.results.run import Run
from covad.results.summary import select
from covad.study import Configuration
from covad.study.plan import default_test, main_configuration

__all__ = ["closure", "correlations", "excess", "frontier", "impacts", "power", "pulls"]


def closure(
    run: Run, configuration: str | None = None, *, test: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw t of background-only toys at every nu: they lie on each other where the test closes.

    t is that at the nominal yield where nuisances are profiled, and R_0 has the toys of all yields.
    `configuration` is a slug or a label, by default the main one; `test` is by default the convex one.
    """
    _refuse_others(run, Run, "a run, from covad.open_run")
    chosen, test = _configuration(run, configuration), test or default_test(run.study)
    background = Evidence(run.summary, run.t_at_nominal_yield).toys(test, chosen.slug)
    if not background or any(next(iter(background))):
        raise UnknownNameError(
            f"'{chosen.label}' has fewer than {FEWEST_TOYS} toys of the test '{test}' at nu = 0: "
            "`covad run` makes what is missing"
        )
    axes = ax or plt.subplots()[1]
    draw_closure(axes, background, run.summary.shape_names, law_of(run.summary, test, chosen.slug))
    axes.set_title(f"{test}, {chosen.label}", loc="left")
    headroom(axes)
    legend(axes)
    return axes


def power(
    run: Run,
    configuration: str | None = None,
    *,
    signal: str | None = None,
    injected: float | None = None,
    test: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the power to find a signal against the threshold, at every nu.

    By default the first signal of the study at its largest yield, in the main configuration.
    """
    _refuse_others(run, Run, "a run, from covad.open_run")
    chosen, test = _configuration(run, configuration), test or default_test(run.study)
    null = calibration_of(run.summary.power, test, chosen.slug)
    curves = select(run.summary.power, test=test, configuration=chosen.slug, null=null)
    signal = signal or next(iter(run.study.signals), None)
    curves = [curve for curve in curves if curve.signal == signal]
    injected = max((curve.injected for curve in curves), default=None) if injected is None else injected
    known = sorted({(curve.signal, curve.injected) for curve in curves})
    curves = [curve for curve in curves if curve.injected == injected]
    if signal is None or not curves:
        there = ", ".join(f"{yields:g} events of {name}" for name, yields in known) or "nothing"
        raise UnknownNameError(
            f"'{chosen.label}' has no power of the test '{test}' for the signal '{signal}' at that yield "
            f"(it has: {there})"
        )
    axes = ax or plt.subplots()[1]
    draw_power(axes, curves, run.summary.shape_names)
    label = signal_label(signal).tex
    axes.set_title(f"{label}, {injected:g} events: {test}, {chosen.label}", loc="left")
    legend(axes, where="upper right")
    return axes


def frontier(run: Run, *, sigma: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw the closure reach of learned spaces against their signal-free power, and what the rule chooses.

    The reach is that averaged over the prior, or the smallest at +-`sigma`. Without `covad tune-power` it is
    drawn against alpha.
    """
    _refuse_others(run, Run, "a run, from covad.open_run")
    found = run.summary.frontier
    if found is None or not found.points:
        raise UnknownNameError("the run has no learned spaces of several alphas whose reach is known")
    known, where = list(shown_reaches(found)), Where(None if sigma is None else float(sigma))
    if where not in known:
        there = ", ".join(f"{each.sigma:g}" for each in known if each.sigma is not None)
        raise UnknownNameError(f"the run has no reach at {sigma:g} sigma (it has: {there or 'the average'})")
    axes = draw_frontier(ax or plt.subplots()[1], found, where)
    axes.set_title(f"closure reach {where.label}", loc="left")
    legend(axes)
    return axes


def excess(
    observation: Observation,
    observable: str | None = None,
    *,
    test: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw an observable of the events of largest h over what is expected in their region.

    By default the last observable, the scalar sum of momenta, and the test that `observation.p` is of.
    """
    _refuse_others(observation, Observation, "an observation, from covad.test")
    result = observation.result(test) if test else observation.tests[0]
    found = result.excess
    if found is None:
        raise UnknownNameError(f"the test '{result.test}' of {observation.file} found no region")
    by_name = {comparison.name: comparison for comparison in found.observables}
    if observable is not None and observable not in by_name:
        raise UnknownNameError(
            f"{observation.file} has no observable '{observable}' (it has: {', '.join(by_name)})"
        )
    axes = ax or plt.subplots()[1]
    draw_observable(axes, by_name[observable or list(by_name)[-1]])
    axes.set_title(f"{observation.file}: {found.n_top} events of largest h", loc="left")
    return axes


def pulls(observation: Observation, *, shown: int = SHOWN, ax: Axes | None = None) -> Axes:
    """Draw the fitted nuisances minus their auxiliary values, with post-fit sigmas, without and with h.

    They are in units of the pre-fit sigma; those of largest impact come first, and only `shown` are there.
    """
    _refuse_others(observation, Observation, "an observation, from covad.test")
    if not observation.nuisances:
        raise UnknownNameError(f"the test '{observation.label}' of {observation.file} fits no nuisances")
    return draw_pulls(ax or plt.subplots()[1], observation, shown)


def impacts(observation: Observation, *, shown: int = SHOWN, ax: Axes | None = None) -> Axes:
    """Draw the change of Z of the convex test as a nuisance is held at its fitted value -+ 1 sigma.

    Bars by the post-fit sigma are filled, those by the pre-fit sigma open; the largest come first.
    """
    _refuse_others(observation, Observation, "an observation, from covad.test")
    if not observation.impacts:
        raise UnknownNameError(
            f"{observation.file} has no impacts: they need a convex or an adaptive test that profiles "
            "nuisances, and an answer of this version of covad"
        )
    return draw_impacts(ax or plt.subplots()[1], observation.impacts, shown)


def correlations(observation: Observation, *, shown: int = SHOWN, ax: Axes | None = None) -> Axes:
    """Draw the correlations of the nuisances of the fit without h, in per cent; the strongest if many."""
    _refuse_others(observation, Observation, "an observation, from covad.test")
    if observation.correlations is None:
        raise UnknownNameError(
            f"{observation.file} has no correlations: they need a test that profiles nuisances, and an "
            "answer of this version of covad"
        )
    return draw_correlations(ax or plt.subplots()[1], observation.correlations, shown)


def _configuration(run: Run, name: str | None) -> Configuration:
    return main_configuration(run.study) if name is None else run.study.configuration(name)


def _refuse_others(value: object, kind: type, what: str) -> None:
    if not isinstance(value, kind):
        raise UnknownNameError(f"{what} is needed to draw this, not {value!r}")
