"""Power curves: on given axes, and for every configuration."""

from dataclasses import replace

import report_world
from matplotlib.figure import Figure

from covad.report.figures import study as study_figures
from covad.results.summary import select


def test_power_is_drawn_on_given_axes_up_to_where_toys_resolve_it():
    summary = report_world.evidence((("covariant", "profiled", 1),), checked=False).summary
    curves = select(summary.power, signal="hpm", injected=50.0, null="R_0")
    axes = Figure().subplots()
    assert study_figures.draw_power(axes, curves, summary.shape_names) is axes
    *drawn, alarms = axes.get_lines()
    assert [line.get_label() for line in drawn] == [
        r"$\nu = 0$",
        r"$\nu = +1\sigma$",
        r"$\nu = -1\sigma$",
    ]
    assert all(max(line.get_xdata()) < 2.14 for line in drawn)  # 60 toys resolve 2.14
    assert alarms.get_ydata()[0] == 0.5
    assert axes.get_xlabel() == r"$Z_\alpha$ against toys at $\nu = 0$"


def test_a_configuration_without_the_papers_null_keeps_its_power_panels(monkeypatch):
    monkeypatch.setattr("covad.report.figures.canvas.Canvas.savefig", report_world.write_nothing)
    told = report_world.evidence(
        (("covariant", "profiled", 1), ("contrastive", "profiled", 1)),
        injections=(("hpm", 50.0),),
        checked=False,
    )
    power = tuple(
        line
        for line in told.summary.power
        if line.configuration != "contrastive-profiled" or line.null == "R_0"
    )
    shown = []
    monkeypatch.setattr(
        study_figures, "panel", lambda name, alt, canvas: shown.append(canvas.axes[0].get_xlabel())
    )
    (figure,) = study_figures.power_figures(replace(told.summary, power=power))
    assert shown == [r"$Z_\alpha$ against toys at $\nu = +1\sigma$", r"$Z_\alpha$ against toys at $\nu = 0$"]
    assert "R₀ for a configuration without them" in figure.caption
