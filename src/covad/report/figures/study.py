"""How the encoders were trained, how W was found, and the power curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes

from covad.report.figures.canvas import COLD, GREY, WARM, Figure, Panel, drawing, legend, line_style, panel
from covad.report.figures.statistic import main_first
from covad.report.names import (
    configuration_title,
    nu_label,
    null_label,
    ordered,
    share,
    shown_errors,
    signal_label,
    slug,
    test_label,
)
from covad.report.texts import followed, texts
from covad.results.overview import calibration_of, quoted_first, signs_text
from covad.results.summary import (
    ConfigurationSummary,
    SignalPower,
    Summary,
    select,
)
from covad.toys.ensembles import Treatment

#: Room above and below the covariance loss, so that its ticks stay short where it hardly moves.
_LEAST_LOSS = 0.01
#: Threshold at which alternative texts tell the power.
_TOLD_Z = 2.0


def training_figure(summary: Summary) -> Figure | None:
    """Draw the losses of every encoder."""
    panels = []
    for training in summary.trainings:
        if len(training.history) < 2:
            continue
        steps = [line.step for line in training.history]
        with drawing((1.2, 1.2)) as (canvas, (top, bottom)):
            top.plot(steps, [line.contrastive for line in training.history], color=COLD[1], marker=".")
            top.set_ylabel("contrastive loss")
            losses = [line.covariance for line in training.history]
            bottom.plot(steps, losses, color=WARM[0], marker=".")
            bottom.set_ylim(min(losses) - _LEAST_LOSS, max(losses) + _LEAST_LOSS)
            bottom.set_ylabel("covariance loss")
            bottom.set_xlabel("step")
            title = rf"{training.name}, $\alpha$ = {training.alpha:g}, fold {training.fold}"
            top.set_title(title, loc="left", pad=3, fontsize=8)
            first, last = training.history[0], training.history[-1]
            alt = (
                f"Training of the {training.name} embedding over {last.step} steps: the contrastive loss "
                f"goes from {first.contrastive:.2f} to {last.contrastive:.2f}, the covariance loss from "
                f"{first.covariance:.3f} to {last.covariance:.3f}"
            )
            panels.append(panel(slug(f"training_{training.name}_{training.fold}"), alt, canvas))
    return Figure("training", panels=tuple(panels), **texts("figures", "training")) if panels else None


def clip_scan(summary: Summary) -> Figure | None:
    """Draw the search for W, one panel per configuration whose W was tuned."""
    panels = []
    for line in summary.clips:
        if not line.scan:
            continue
        configuration = summary.configuration(line.configuration)
        points = sorted(line.scan, key=lambda point: point.clip)
        clip, mean, error = np.array([(point.clip, point.mean, point.error) for point in points]).T
        with drawing((2.0,)) as (canvas, (axes,)):
            axes.errorbar(
                clip, mean, error, color=COLD[1], marker="o", linestyle="-", linewidth=0.8, label="scan"
            )
            for null in select(summary.nulls, test="network", configuration=line.configuration):
                dof = round(null.law.effective_dof)
                axes.axhline(dof, color=GREY, linestyle="--", label=rf"mean of $\chi^2_{{{dof}}}$")
            axes.axvline(line.clip, color=WARM[0], label=f"W = {line.clip:.4g}")
            if line.error:
                ends = line.clip - line.error, line.clip + line.error
                axes.axvspan(*ends, color=WARM[0], alpha=0.2, linewidth=0)
            axes.set_title(configuration.label, loc="left", pad=3, fontsize=8)
            axes.set_xlabel("W")
            axes.set_ylabel("mean of $t$")
            legend(axes)
            alt = (
                f"Mean of t against W, {configuration_title(configuration)}: it rises from {mean[0]:.1f} at "
                f"W = {clip[0]:.3g} to {mean[-1]:.1f} at W = {clip[-1]:.3g}; W = {line.clip:.4g} was chosen"
            )
            panels.append(panel(slug(f"clip_scan_{line.configuration}"), alt, canvas))
    return Figure("clip_scan", panels=tuple(panels), **texts("figures", "clip_scan")) if panels else None


def draw_power(axes: Axes, curves: Sequence[SignalPower], names: Sequence[str]) -> Axes:
    """Draw power curves of one signal at several nu, against one null, on given axes.

    `names` are those of the nuisances.
    """
    for number, curve in enumerate(curves):
        z, power, low, high = (
            np.array(values, dtype=np.float64)
            for values in (curve.z_alpha, curve.power, curve.low, curve.high)
        )
        good, style = np.isfinite(power), line_style(number, COLD)
        axes.plot(z[good], power[good], label=nu_label(curve.nu, names).tex, **style)
        axes.fill_between(z[good], low[good], high[good], color=style["color"], alpha=0.18, linewidth=0)
    first = curves[0]
    z = np.array(first.z_alpha)
    axes.plot(z, first.false_alarms, color=GREY, linestyle="--", linewidth=0.9, label="false alarms")
    axes.set_xlim(0.0, 4.0)
    axes.set_ylim(0.0, 1.08)
    axes.set_xlabel(rf"$Z_\alpha$ against {null_label(first.null).tex}")
    axes.set_ylabel("power")
    return axes


def power_figures(summary: Summary) -> Iterator[Figure]:
    """Draw one figure per test and injected share, a panel per signal and configuration.

    Those that profile the nuisances, and the main one.
    """
    shown = [c for c in main_first(summary) if c.treatment is Treatment.PROFILED or c == summary.main]
    injected_shares = {
        share(injected, c.expected): injected / c.expected
        for c in shown
        for _, injected in summary.injections(c.configuration)
    }
    for test in quoted_first(summary):
        for part in sorted(injected_shares, key=lambda text: injected_shares[text]):
            panels = tuple(panel for c in shown for panel in _power_panels(summary, test, part, c))
            if panels:
                captions = followed(
                    texts("figures", "power", share=part, test=test_label(test)),
                    shown_errors(signs_text(summary)),
                )
                yield Figure(slug(f"power_{test}_{part}"), panels=panels, **captions)


def _power_panels(
    summary: Summary, test: str, part: str, configuration: ConfigurationSummary
) -> Iterator[Panel]:
    name = configuration.configuration
    short = [configuration.space]  # fits above a panel; most power curves are of profiled configurations
    short += ["no nuisances"] if configuration.treatment is Treatment.NONE else []
    short += ["quadratic response"] if configuration.order == 2 else []
    short += [f"{configuration.expected:g} events"] if configuration.own_sizes else []
    null = calibration_of(summary.power, test, name)
    mine = select(summary.power, test=test, configuration=name, null=null)
    for signal, injected in ordered(summary.injections(name)):
        curves = select(mine, signal=signal, injected=injected)
        if share(injected, configuration.expected) != part or not curves:
            continue
        with drawing((2.0,)) as (canvas, (axes,)):
            draw_power(axes, curves, summary.shape_names)
            axes.set_title(f"{signal_label(signal).tex}: {', '.join(short)}", loc="left", pad=3, fontsize=8)
            legend(axes, where="upper right")
            alt = (
                f"Power to find {part} of {signal_label(signal).text}, {test_label(test)}, "
                f"{configuration_title(configuration)}: {_power_at(curves, summary.shape_names)}"
            )
            yield panel(slug(f"power_{test}_{name}_{signal}_{injected:g}"), alt, canvas)


def _power_at(curves: Sequence[SignalPower], names: Sequence[str]) -> str:
    """Say the power at a threshold of 2 sigma, which every curve begins below."""
    told = []
    for curve in curves:
        at = min(range(len(curve.z_alpha)), key=lambda k: abs(curve.z_alpha[k] - _TOLD_Z))
        power = curve.power[at]
        said = "not resolved" if power is None else f"{100 * power:.0f} %"
        told.append(f"{said} at {nu_label(curve.nu, names).text}")
    return f"at a threshold of {_TOLD_Z:g} sigma {', '.join(told)}"
