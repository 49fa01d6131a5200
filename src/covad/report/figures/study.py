"""How the encoders were trained, how W was found, and the power curves (fig:power_curves_emp_n50, _n100)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.stats import norm

from covad.report.evidence import Configuration, Evidence, Line
from covad.report.figures.canvas import COLD, GREY, WARM, Figure, Panel, drawing, legend, line_style, panel
from covad.report.names import nu_label, null_label, share, signal_label, slug, test_label
from covad.report.paper.tables import calibration_of, ordered
from covad.report.texts import texts

_LOSSES = (("contrastive", "SupCon", COLD[1]), ("covariance", r"$L_\mathrm{cov}$", WARM[0]))
_POWER_LABELS = {"0.5 %": "fig:power_curves_emp_n50", "1 %": "fig:power_curves_emp_n100"}


def training_figure(evidence: Evidence) -> Figure | None:
    panels = [_training_panel(e) for e in evidence.lines("embeddings") if len(e["history"]) > 1]
    if not panels:
        return None
    return Figure("training", panels=tuple(panels), **texts("figures", "training"))


def _training_panel(embedding: Line) -> Panel:
    steps = [line["step"] for line in embedding["history"]]
    with drawing((1.2, 1.2)) as (canvas, axes):
        for ax, (key, label, colour) in zip(axes, _LOSSES, strict=True):
            ax.plot(steps, [line[key] for line in embedding["history"]], color=colour, marker=".")
            ax.set_ylabel(label)
        title = rf"{embedding['name']}, $\alpha$ = {embedding['alpha']:g}, fold {embedding['fold']}"
        axes[0].set_title(title, loc="left", pad=3, fontsize=8)
        axes[-1].set_xlabel("step")
        name = slug(f"training_{embedding['name']}_{embedding['fold']}")
        return panel(name, f"Losses of the embedding {embedding['name']} during training", canvas)


def clip_scan(evidence: Evidence) -> Figure | None:
    """One panel per configuration whose W was tuned."""
    by_name = {c.name: c for c in evidence.configurations}
    panels = [
        _scan_panel(line, by_name[line["configuration"]], evidence)
        for line in evidence.lines("clips")
        if line["scan"] and line["configuration"] in by_name
    ]
    if not panels:
        return None
    return Figure("clip_scan", panels=tuple(panels), **texts("figures", "clip_scan"))


def _scan_panel(line: Line, configuration: Configuration, evidence: Evidence) -> Panel:
    scan = sorted(line["scan"], key=lambda point: point["clip"])
    clip, mean, error = (np.array([point[key] for point in scan]) for key in ("clip", "mean", "error"))
    null = evidence.line("nulls", test="network", configuration=configuration.name)
    with drawing((2.0,)) as (canvas, (axes,)):
        axes.errorbar(
            clip, mean, error, color=COLD[1], marker="o", linestyle="-", linewidth=0.8, label="scan"
        )
        if null is not None:
            axes.axhline(
                null["dof"], color=GREY, linestyle="--", label=rf"mean of $\chi^2_{{{null['dof']}}}$"
            )
        axes.axvline(line["clip"], color=WARM[0], label=f"W = {line['clip']:.4g}")
        if line["error"]:
            width = line["error"]
            axes.axvspan(line["clip"] - width, line["clip"] + width, color=WARM[0], alpha=0.2, linewidth=0)
        axes.set_title(configuration.short, loc="left", pad=3, fontsize=8)
        axes.set_xlabel("W")
        axes.set_ylabel("mean of $t$")
        legend(axes)
        return panel(
            slug(f"clip_scan_{configuration.name}"), f"Mean of t against W, {configuration.title}", canvas
        )


def power_figures(evidence: Evidence) -> Iterator[Figure]:
    """One figure per test and injected share, a panel per signal and profiled configuration."""
    profiled = [c for c in evidence.configurations if c.treatment == "profiled"]
    for test in evidence.tests:
        shares = dict.fromkeys(
            share(injected, c.expected) for c in profiled for _, injected in evidence.injections(c)
        )
        for part in sorted(shares, key=lambda text: float(text.split()[0])):
            if figure := _power_figure(evidence, test, part, profiled):
                yield figure


def _power_figure(
    evidence: Evidence, test: str, part: str, configurations: Sequence[Configuration]
) -> Figure | None:
    panels = []
    for configuration in configurations:
        null = calibration_of(evidence, "power", test, configuration)
        for signal, injected in ordered(evidence.injections(configuration)):
            if share(injected, configuration.expected) != part:
                continue
            key = {"test": test, "configuration": configuration.name, "null": null}
            curves = evidence.lines("power", **key, signal=signal, injected=injected)
            if curves:
                panels.append(_power_panel(curves, configuration, signal))
    if not panels:
        return None
    label = _POWER_LABELS.get(part, "the power curves")
    values = {"share": part, "test": test_label(test), "label": label}
    return Figure(slug(f"power_{test}_{part}"), panels=tuple(panels), **texts("figures", "power", **values))


def _power_panel(curves: Sequence[Line], configuration: Configuration, signal: str) -> Panel:
    first = curves[0]
    with drawing((2.0,)) as (canvas, (axes,)):
        for number, curve in enumerate(curves):
            z, power, low, high = (
                np.array(curve[key], dtype=np.float64) for key in ("z_alpha", "power", "low", "high")
            )
            good = np.isfinite(power)
            style = line_style(number, COLD)
            axes.plot(z[good], power[good], label=nu_label(curve["nu"]).tex, **style)
            axes.fill_between(z[good], low[good], high[good], color=style["color"], alpha=0.18, linewidth=0)
        z = np.array(first["z_alpha"], dtype=np.float64)
        axes.plot(z, norm.sf(z), color=GREY, linestyle="--", linewidth=0.9, label="false alarms")
        axes.set_xlim(0.0, 4.0)
        axes.set_ylim(0.0, 1.08)
        axes.set_xlabel(rf"$Z_\alpha$ against {null_label(first['null']).tex}")
        axes.set_ylabel("power")
        axes.set_title(f"{signal_label(signal).tex}: {_short(configuration)}", loc="left", pad=3, fontsize=8)
        legend(axes, where="upper right")
        parts = (first["test"], configuration.name, signal, f"{first['injected']:g}")
        alt = f"Power against Z_alpha for {signal}, {first['test']}, {configuration.title}"
        return panel(slug("power_" + "_".join(parts)), alt, canvas)


def _short(configuration: Configuration) -> str:
    """Fits above a panel; all power curves are of profiled configurations."""
    parts = [configuration.embedding]
    if configuration.order == 2:
        parts.append("quadratic response")
    if configuration.own_sizes:
        parts.append(f"{configuration.expected:g} events")
    return ", ".join(parts)
