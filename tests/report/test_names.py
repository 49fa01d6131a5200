"""Points and nulls in the report: Unicode for the page, mathtext for figures."""

import pytest
from matplotlib.figure import Figure

from covad.report.formats.latex import latex
from covad.report.names import nu_label, null_label, point_label
from covad.toys.truths import point_name

THREE = ("jet_scale", "soft-term", "qcd_rate")
#: As many as the preset 'analysis' has.
MANY = tuple(f"scale_{k}" for k in range(26))
LAST = (0.0,) * 25 + (-1.0,)


@pytest.mark.parametrize(
    ("nu", "names", "text", "tex"),
    [
        ((-1.0,), ("jets",), "ν = −1σ", r"$\nu = -1\sigma$"),
        ((0.0,), ("jets",), "ν = 0", r"$\nu = 0$"),
        ((0.0, 0.0, 0.0), THREE, "ν = 0", r"$\nu = 0$"),
        (
            (-2.0, 0.0, 1.0),
            THREE,
            "jet_scale = −2σ, qcd_rate = +1σ",
            r"jet_scale = $-2\sigma$, qcd_rate = $+1\sigma$",
        ),
        ((0.0, 0.5, 0.0), THREE, "soft-term = +0.5σ", r"soft-term = $+0.5\sigma$"),
        (LAST, MANY, "scale_25 = −1σ", r"scale_25 = $-1\sigma$"),
    ],
)
def test_a_point_is_labelled_by_the_nuisances_that_are_not_0(nu, names, text, tex):
    found = nu_label(nu, names)
    assert (found.text, found.tex) == (text, tex)
    label = Figure().text(0.5, 0.5, found.tex)
    label.figure.draw_without_rendering()


def test_nulls_are_labelled_by_their_points():
    one, three = null_label("R_+1"), null_label(point_name((0.0, 0.0, 1.0), THREE))
    assert (one.text, one.tex) == ("R(ν = +1σ)", r"toys at $\nu = +1\sigma$")
    assert (three.text, three.tex) == ("R(qcd_rate = +1σ)", r"toys at qcd_rate = $+1\sigma$")


def test_yields_and_directions_have_labels_of_their_own():
    shifted, worst = point_label("nu_N = -1.5 sigma"), point_label("+2 sigma along the worst direction")
    assert (shifted.text, shifted.tex) == ("ν_N = −1.5σ", r"$\nu_N = -1.5\sigma$")
    assert worst.text == worst.tex == "+2 sigma along the worst direction"


def test_latex_has_names_with_underscores():
    assert r"jet\_scale = " in latex(nu_label((1.0, 0.0, 0.0), THREE).text)
