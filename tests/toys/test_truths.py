"""One key names the truth of an ensemble; sentences and labels follow from it."""

import pytest

from covad.toys.truths import nu_text, point_name, point_text

THREE = ("jet_scale", "soft-term", "qcd_rate")
#: As many as the preset 'analysis' has.
MANY = tuple(f"scale_{k}" for k in range(26))


def shifted(**values):
    return tuple(values.get(name, 0.0) for name in MANY)


@pytest.mark.parametrize(
    ("nu", "names", "key", "text"),
    [
        ((1.0,), ("jets",), "R_+1", "nu = +1"),
        ((0.0,), ("jets",), "R_0", "nu = 0"),
        ((-0.5,), ("nu_1",), "R_-0.5", "nu = -0.5"),
        ((0.0, 0.0, 1.0), THREE, "R_qcd_rate=+1", "qcd_rate = +1"),
        ((-2.0, 0.0, 1.0), THREE, "R_jet_scale=-2,qcd_rate=+1", "jet_scale = -2, qcd_rate = +1"),
        ((0.0, 0.5, 0.0), THREE, "R_soft-term=+0.5", "soft-term = +0.5"),
        ((0.0, 0.0, 0.0), THREE, "R_0", "nu = 0"),
        (shifted(), MANY, "R_0", "nu = 0"),
        (shifted(scale_23=1.0), MANY, "R_scale_23=+1", "scale_23 = +1"),
    ],
)
def test_a_point_is_named_by_the_nuisances_that_are_not_0(nu, names, key, text):
    assert (point_name(nu, names), point_text(key), nu_text(nu, names)) == (key, text, text)


@pytest.mark.parametrize("nu", [(0.0,), shifted()])
@pytest.mark.parametrize(
    ("truth", "name"),
    [
        ({"nu_norm": -1.5}, "nu_N = -1.5 sigma"),
        ({"prior": True}, "prior"),
        ({"along_worst": 2.0}, "+2 sigma along the worst direction"),
    ],
)
def test_other_truths_have_names_of_their_own(nu, truth, name):
    assert point_name(nu, MANY[: len(nu)], **truth) == point_text(name) == name


def test_every_nuisance_needs_a_name():
    with pytest.raises(ValueError, match="zip"):
        point_name((0.0, 1.0), ("jets",))
