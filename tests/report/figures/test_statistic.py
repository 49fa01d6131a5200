"""Distributions of t on given axes."""

import pytest
import report_world
from matplotlib.figure import Figure

from covad.report.figures.statistic import draw_closure, law_of, signal_figures


@pytest.fixture(scope="module")
def evidence():
    return report_world.evidence((("covariant", "profiled", 1),), tests=("network", "convex"), checked=False)


def _labels(axes):
    return axes.get_legend_handles_labels()[1]


@pytest.mark.parametrize(("test", "law"), [("network", r"$\chi^2_{45}$"), ("convex", r"the law of $t$")])
def test_closure_is_drawn_on_given_axes_with_every_nu_and_the_law(evidence, test, law):
    axes = Figure().subplots()
    background = evidence.toys(test, "covariant-profiled")
    drawn = draw_closure(
        axes, background, evidence.summary.shape_names, law_of(evidence.summary, test, "covariant-profiled")
    )
    assert drawn is axes
    assert set(_labels(axes)) == {r"$\nu = 0$", r"$\nu = +1\sigma$", r"$\nu = -1\sigma$", law}
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("$t$", "density")


def test_ratios_get_axes_of_their_own_and_the_label_of_t(evidence):
    top, bottom = Figure().subplots(2)
    draw_closure(top, evidence.toys("network", "covariant-profiled"), ("jets",), ratios=bottom)
    assert (top.get_xlabel(), bottom.get_xlabel()) == ("", "$t$")
    assert len(bottom.containers) == 2  # error bars at +1 and -1 sigma
    assert not any("chi" in label for label in _labels(top))


def test_without_a_null_there_is_no_law(evidence):
    assert law_of(evidence.summary, "network", "nowhere") is None


@pytest.mark.parametrize(
    ("injections", "figures"),
    [((("a4l", 50.0),), 1), ((("a4l", 50.0), ("a4l", 100.0)), 2), ((("hpm", 50.0), ("lq", 50.0)), 2)],
)
def test_no_panel_of_signals_is_drawn_twice(monkeypatch, injections, figures):
    monkeypatch.setattr("covad.report.figures.canvas.Canvas.savefig", report_world.write_nothing)
    drawn = list(signal_figures(report_world.evidence(injections=injections, checked=False)))
    names = [panel.name for figure in drawn for panel in figure.panels]
    assert len(drawn) == figures
    assert len(set(names)) == len(names)
