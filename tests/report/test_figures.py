"""Curves that share a panel can be told apart, and none is left out."""

from dataclasses import replace

import numpy as np
import pytest
import report_world

from covad.report.figures import response as response_figures
from covad.report.figures import study as study_figures
from covad.report.figures.canvas import COLD, WARM, line_style
from covad.results.latent import Marginal


@pytest.mark.parametrize("colours", [WARM, COLD, WARM[:3]], ids=["warm", "cold", "three"])
def test_lines_look_alike_only_after_all_combinations(colours):
    styles = {tuple(line_style(number, colours).values()) for number in range(4 * len(colours))}
    assert len(styles) == 4 * len(colours)


def test_up_to_four_lines_have_dash_patterns_of_their_own():
    assert len({line_style(number, WARM)["linestyle"] for number in range(4)}) == 4


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
    assert shown == [r"$Z_\alpha$ against $R_{\nu=+1\sigma}$", r"$Z_\alpha$ against $R_0$"]
    assert "R₀ for a configuration without them" in figure.caption


def _drawn_labels(monkeypatch, draw):
    """Legend entries of the first panel that is drawn, by colour."""
    found = []

    def keep(name, alt, canvas):
        handles, labels = canvas.axes[0].get_legend_handles_labels()
        found.extend(zip(labels, (handle.get_edgecolor() for handle in handles), strict=True))

    monkeypatch.setattr(response_figures, "panel", keep)
    draw()
    return [(label, colour) for label, colour in found if "sigma" in label]


def test_the_validation_shows_both_signs_of_three_nuisances(monkeypatch):
    rng = np.random.default_rng(1)
    points = [tuple((sign * axis).tolist()) for axis in np.eye(3) for sign in (1.0, -1.0)]
    shifted = tuple(report_world.comparison(nu, rng) for nu in points)
    marginal = Marginal(0, np.linspace(0.0, 1.0, 7), shifted)
    drawn = _drawn_labels(monkeypatch, lambda: response_figures.validation_panel(marginal, "x"))
    assert len({label for label, _ in drawn}) == len({colour for _, colour in drawn}) == 6
