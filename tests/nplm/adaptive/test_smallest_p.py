"""The law of the smallest p: closed forms, and counts among draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from covad.nplm.adaptive.smallest_p import DRAWS, MemberTail, SmallestP
from covad.nplm.convex.generalised_chi2 import GeneralisedChi2

#: p at which closed forms are compared: from the bulk to 6 sigma.
P = np.array([0.5, 0.1, 1e-2, 1e-3, 1e-5, 1e-7, 1e-9])


def law_of(*weights: np.ndarray) -> SmallestP:
    """Forms that are diagonal, with these weights of each axis."""
    return SmallestP.of([np.diag(w) for w in weights], [GeneralisedChi2(w[w > 0]) for w in weights])


@pytest.fixture(scope="module")
def apart() -> SmallestP:
    """Two forms that have nothing in common."""
    one = np.array([1.0, 0.7, 0.4, 0.1, 0.0, 0.0, 0.0])
    return law_of(one, one[::-1].copy())


def test_independent_forms(apart: SmallestP) -> None:
    """1 - (1 - p)^2; five errors of each of seven values: a false alarm in 250 000."""
    t = -2.0 * np.log(P)
    expected = -np.expm1(2.0 * np.log1p(-P))
    assert (np.abs(apart.sf(t) / expected - 1.0) < 5.0 * apart.relative_error(t) + 0.003).all()
    assert apart.relative_error(t)[P < 1e-2].max() < 0.05


def test_a_form_that_stands_twice_has_one_trial() -> None:
    weights = np.array([1.0, 0.5, 0.2])
    law = law_of(weights, weights)
    t = -2.0 * np.log(P)
    np.testing.assert_allclose(law.sf(t)[P < 1e-4], P[P < 1e-4], rtol=1e-6)
    np.testing.assert_allclose(law.sf(t), P, rtol=0.25)


def test_forms_that_overlap_agree_with_counts_where_there_are_many() -> None:
    """At T with 3000 draws beyond it: tilted draws and counts, within 5 of both errors."""
    law = law_of(
        np.array([1.0, 1.0, 0.0, 0.3]), np.array([0.0, 1.0, 1.0, 0.3]), np.array([0.5, 0.5, 0.5, 0.5])
    )
    t = float(np.sort(-2.0 * law.draws.min(axis=1))[-3000])
    found = law.trials(t)
    counted = 3000 / DRAWS * np.exp(0.5 * t)
    assert abs(found.value - counted) < 5.0 * np.hypot(found.error, counted / 3000**0.5)
    assert 1.0 <= found.value <= law.bound == 3


def test_tilted_draws_have_the_probability_that_the_law_has() -> None:
    """Weights of tilted draws, with their constant, add up to p of the member itself."""
    law = law_of(np.array([1.0, 0.8, 0.3, 0.3]), np.array([0.0, 0.2, 1.0, 1.0]))
    form, tail, log_p = law.forms[0], law.tails[0], float(np.log(stats.norm.sf(5.0)))
    s = form.tilt(tail.threshold(log_p))
    u = np.random.default_rng(3).standard_normal((40_000, 4), dtype=np.float32)
    tilted, log_weights = form.tilted(u, s)
    constant = -0.5 * np.log1p(-2.0 * s * form.weights).sum()
    weights = np.exp(log_weights + constant) * (tail(form.t(tilted)) <= log_p)
    error = weights.std() / len(weights) ** 0.5
    assert error < 0.03 * weights.mean()
    assert abs(weights.mean() - np.exp(log_p)) < 5.0 * error


def test_the_table_falls_and_ends_with_bonferronis_bound(apart: SmallestP) -> None:
    t = np.linspace(0.0, 200.0, 2001)
    assert (np.diff(apart.sf(t)) <= 0.0).all()
    assert apart.sf(0.0) == 1.0
    np.testing.assert_allclose(apart.sf(t) + apart.cdf(t), 1.0)
    np.testing.assert_allclose(apart.sf(200.0), 2.0 * np.exp(-100.0))


def test_moments_are_those_of_draws(apart: SmallestP) -> None:
    """T of two independent p: mean 3, since -log min is exponential in half the time plus one more."""
    assert apart.mean == pytest.approx(2.0 * (1.0 + 0.5), abs=5.0 * 2.3 / DRAWS**0.5)
    assert apart.effective_dof == pytest.approx(2.0 * (apart.mean / apart.std) ** 2)


def test_the_tabulated_tail_is_that_of_the_law() -> None:
    law = GeneralisedChi2(np.array([1.0, 0.9, 0.5, 0.5, 0.1, 0.01]))
    tail, t = MemberTail(law), np.linspace(0.5, 80.0, 200)
    np.testing.assert_allclose(tail(t), law.log_sf(t), atol=2e-3)
    assert tail.threshold(-20.0) == pytest.approx(law.isf(float(np.exp(-20.0))), rel=1e-3)
    assert tail(np.array(1e4)) == pytest.approx(float(law.log_sf(1e4)), rel=0.01)
