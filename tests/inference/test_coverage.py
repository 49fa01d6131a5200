"""The regression of t on the truth of the prior ensemble, on toys whose dependence is known."""

from __future__ import annotations

import numpy as np
import pytest

from covad.errors import InferenceError
from covad.inference.coverage import SharedPools, prior_dependence
from covad.storage.records import plain, restore
from covad.toys.ensembles import prior_points

MEAN, STD = 45.0, 9.5
NAMES = ("jes", "jer", "nu_N")


def toys(rng: np.random.Generator, n: int, slope: float = 0.0, square: float = 0.0, product: float = 0.0):
    nu = rng.normal(size=(n, 3))
    y = rng.standard_normal(n) + slope * nu[:, 2] + square * nu[:, 0] ** 2 + product * nu[:, 0] * nu[:, 1]
    return MEAN + STD * y, nu


def test_healthy_toys_show_no_dependence():
    """False-alarm rate: each line fails with a chance of 0.001; p is uniform over 200 repetitions."""
    rng = np.random.default_rng(16)
    found = [prior_dependence(*toys(rng, 400), NAMES, MEAN, STD) for _ in range(200)]
    p = np.sort([each.p for each in found])
    assert np.abs(p - (np.arange(200) + 0.5) / 200).max() < 1.95 / np.sqrt(200)
    pulls = np.array([each.shift / each.shift_error for each in found])
    assert abs(pulls.mean()) < 3.3 / np.sqrt(200)


@pytest.mark.parametrize(
    ("what", "term", "slope"),
    [({"slope": 0.3}, "nu_N", 0.3), ({"square": 0.3}, "jes^2", 0.3), ({"product": 0.3}, "jes jer", 0.3)],
)
def test_the_term_that_t_depends_on_is_found(what, term, slope):
    """With 1000 toys an effect of 0.3 has six standard errors and more."""
    found = prior_dependence(*toys(np.random.default_rng(1), 1000, **what), NAMES, MEAN, STD)
    assert found.p < 1e-4
    assert found.strongest is not None
    assert found.strongest.term == term
    assert abs(found.strongest.slope - slope) < 4.0 * found.strongest.error


def test_the_shift_is_the_average_over_the_prior():
    """E[nu^2] = 1: a square moves the mean by its coefficient."""
    found = prior_dependence(*toys(np.random.default_rng(2), 4000, square=0.2), NAMES, MEAN, STD)
    assert found.shift == pytest.approx(0.2, abs=4.0 * found.shift_error)


def test_a_nuisance_that_has_two_values_has_no_square():
    """Its square is 1 in every toy, and would be taken for the constant."""
    t, nu = toys(np.random.default_rng(4), 1000, slope=0.3)
    nu[:, 0] = np.sign(nu[:, 0])
    found = prior_dependence(t, nu, NAMES, MEAN, STD)
    assert found.left_out == ""
    assert [term.term for term in found.terms] == [
        *NAMES,
        *("jer^2", "nu_N^2"),
        *("jes jer", "jes nu_N", "jer nu_N"),
    ]
    assert found.strongest is not None
    assert found.strongest.term == "nu_N"


def test_terms_that_are_too_many_are_left_out_and_named():
    rng = np.random.default_rng(3)
    nu, names = rng.normal(size=(300, 12)), [f"nu_{k}" for k in range(12)]
    found = prior_dependence(rng.normal(size=300), nu, names, 0.0, 1.0)
    assert len(found.terms) == 24
    assert found.left_out == "products: 66 terms are too many for 300 toys"


def test_a_truth_of_another_shape_is_refused():
    with pytest.raises(InferenceError, match="20 toys of 3 nuisances have truths of shape"):
        prior_dependence(np.zeros(20), np.zeros((20, 2)), NAMES, MEAN, STD)


def test_it_survives_json():
    found = prior_dependence(*toys(np.random.default_rng(4), 100), NAMES, MEAN, STD)
    assert restore(type(found), plain(found), "here") == found


def test_terms_that_a_few_points_cannot_tell_apart_are_left_out():
    """64 points of ten nuisances, as pools have: 1 + 10 + 10 + 45 terms are more than they tell."""
    rng = np.random.default_rng(5)
    nu, names = rng.normal(size=(64, 10))[rng.integers(64, size=2000)], [f"nu_{k}" for k in range(10)]
    found = prior_dependence(rng.normal(size=2000), nu, names, 0.0, 1.0)
    assert found.left_out == "products: 45 terms are too many for the points of the prior"
    assert max(term.error for term in found.terms) < 0.2
    assert np.isfinite(found.shift_error)


@pytest.mark.parametrize("n", [30, 50, 100])
def test_few_toys_alarm_no_more_often_than_they_should(n):
    """Toys of a chi2 and points of the prior as pools have them, 600 repetitions.

    The shares of p below 0.05, all terms together and of the smallest of the corrected ones, stay below
    0.05 + 4 of their standard errors: false-alarm rate 3e-5 each.
    """
    rng = np.random.default_rng([6, n])
    points = rng.normal(size=(64, 1))
    found = []
    for _ in range(600):
        nu = np.column_stack([points[rng.integers(64, size=n)], rng.normal(size=n)])
        found.append(prior_dependence(rng.chisquare(45, n), nu, ("jes", "nu_N"), 45.0, 90.0**0.5))
    most = 0.05 + 4.0 * np.sqrt(0.05 * 0.95 / 600)
    assert np.mean([each.p < 0.05 for each in found]) < most
    assert np.mean([each.strongest.p < 0.05 for each in found]) < most


def test_toys_that_are_too_few_for_any_term_are_told():
    rng = np.random.default_rng(7)
    found = prior_dependence(rng.normal(size=12), rng.normal(size=(12, 3)), NAMES, 0.0, 1.0)
    assert (found.terms, found.p) == ((), 1.0)
    assert found.left_out == "first order: 3 terms are too many for 12 toys"


MANY, N_TOYS, N_POINTS, OFFSET = 24, 1200, 64, 0.1


def many(rng: np.random.Generator, square: float = 0.0):
    """Toys of 24 nuisances at 64 points, each with a pool that moves t by a tenth of its spread."""
    points = np.array(prior_points(N_POINTS, MANY, seed=3))
    pool = rng.integers(N_POINTS, size=N_TOYS)
    nu = points[pool]
    y = (rng.chisquare(20, N_TOYS) - 20) / np.sqrt(40) + OFFSET * rng.normal(size=N_POINTS)[pool]
    return y + square * nu[:, 3] ** 2, nu, pool


def test_offsets_of_pools_are_no_dependence_on_many_nuisances():
    """p < 0.05 in 7.5 of 150 repetitions; more than 18 have a chance of 0.0003. Unknown offsets give 30."""
    rng, names = np.random.default_rng(5), [f"n{k}" for k in range(MANY)]
    known, unknown = [], []
    for _ in range(150):
        y, nu, pool = many(rng)
        known.append(prior_dependence(y, nu, names, 0.0, 1.0, SharedPools(pool, OFFSET)).p)
        unknown.append(prior_dependence(y, nu, names, 0.0, 1.0).p)
    assert sum(np.array(known) < 0.05) <= 18 < sum(np.array(unknown) < 0.05)


def test_a_square_among_many_nuisances_is_found():
    """0.3 standard deviations per square of one of 24 has five standard errors and more at 1200 toys."""
    y, nu, pool = many(np.random.default_rng(8), square=0.3)
    names = [f"n{k}" for k in range(MANY)]
    found = prior_dependence(y, nu, names, 0.0, 1.0, SharedPools(pool, OFFSET))
    assert found.p < 1e-4
    assert found.strongest is not None
    assert found.strongest.term == "n3^2"
    assert len(found.terms) == 2 * MANY
    assert found.left_out.startswith("products")


def test_separate_samples_have_no_squares():
    rng = np.random.default_rng(9)
    nu = np.column_stack([rng.normal(size=300), rng.choice([-1.0, 1.0], 300), np.ones(300)])
    found = prior_dependence(rng.normal(size=300), nu, ["a", "b", "c"], 0.0, 1.0)
    assert [term.term for term in found.terms] == ["a", "b", "a^2", "a b"]
