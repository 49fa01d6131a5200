"""What the signs of simulated weights add to the law for observed data."""

from dataclasses import replace

import numpy as np
import pytest
from convex_world import bumps

from covad.inference.nuisances import difference_variance, judge_nuisances, nuisance_covariance
from covad.nplm.convex.convex import columns
from covad.nplm.convex.law import analytic_null
from covad.nplm.dataset import Response
from covad.nplm.likelihood import fit_nuisances, join_nuisances, nuisance_slopes
from covad.observed import signs
from covad.observed.signs import SignNoise
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld
from covad.toys.pools import LatentEvents, Pool

EXPECTED = 500.0
TEST = bumps(latent.background(5_000, np.random.default_rng(1)), 6, seed=2)
WORLD = LatentWorld(n_reference=2_600, expected=EXPECTED)


def pool(n=4_000, quadratic=False):
    """A reference whose smoothed weights are its true ones, 1 - 2 eps(z)."""
    z, signed = latent.signed_background(n, np.random.default_rng(3))
    smoothed = 1.0 - 2.0 * (0.05 + 0.35 / (1.0 + np.exp(-1.5 * z[:, 0].astype(np.float64))))
    linear = latent.response(z)
    squares = np.full((n, 1, 1), 0.1, dtype=np.float32) * linear[:, :, None] if quadratic else None
    return Pool(LatentEvents(z, Response(linear, squares), smoothed), signed=signed)


def dataset(**changes):
    return replace(WORLD.toy(np.random.default_rng(4)), **changes)


def direct(x, signed, smoothed, expected):
    """The sum as it is written, event by event."""
    mean = sum(w * row for w, row in zip(smoothed, x, strict=True)) / smoothed.sum()
    terms = (
        (w**2 - s**2) * np.outer(row - mean, row - mean)
        for w, s, row in zip(signed, smoothed, x, strict=True)
    )
    return (expected / smoothed.sum()) ** 2 * sum(terms)


def test_pools_without_signs_have_no_such_noise():
    found = pool()
    assert SignNoise.of(replace(found, signed=None)) is None
    assert SignNoise.of(Pool(LatentEvents(found.sample.z, found.sample.response))) is None


def test_the_covariance_is_the_sum_over_all_events_in_the_columns_of_the_test():
    found, toy = pool(), dataset()
    x = columns(TEST.basis, found.sample.z, found.sample.response, normalisation=True).astype(np.float64)
    noise = SignNoise.of(found).in_test(TEST, toy)
    assert noise.shape == (x.shape[1], x.shape[1])
    assert noise == pytest.approx(direct(x, found.signed, found.weights, EXPECTED), rel=1e-6, abs=1e-6)
    assert np.trace(noise) > 0


def test_that_of_the_nuisances_is_in_their_slopes_at_the_fit():
    found, toy, nu = pool(quadratic=True), dataset(), np.array([0.7, -0.1])
    full = replace(
        toy,
        reference_response=Response(
            toy.reference_response.linear, 0.1 * toy.reference_response.linear[:, :, None]
        ),
        data_response=Response(toy.data_response.linear, 0.1 * toy.data_response.linear[:, :, None]),
    )
    for one, known in ((toy, Response(found.sample.response.linear)), (full, found.sample.response)):
        slopes = nuisance_slopes(known, nu).astype(np.float32).astype(np.float64)
        noise = SignNoise.of(found).in_nuisances(one, nu)
        assert noise == pytest.approx(
            direct(slopes, found.signed, found.weights, EXPECTED), rel=1e-6, abs=1e-6
        )


def test_a_test_without_nuisances_sees_the_signs_in_its_bumps_alone():
    found = pool()
    n = len(dataset().reference)
    toy = dataset(
        reference_response=Response.none(n),
        data_response=Response.none(len(dataset().data)),
        measured=np.zeros(0),
        normalisation=None,
    )
    x = columns(TEST.basis, found.sample.z, Response.none(len(found)), normalisation=False).astype(np.float64)
    noise = SignNoise.of(found).in_test(TEST, toy)
    assert noise == pytest.approx(direct(x, found.signed, found.weights, EXPECTED), rel=1e-6, abs=1e-6)


def test_a_part_of_a_large_pool_stands_for_all_of_it(monkeypatch):
    """Every eighth of 32 000 events: traces agree within 5 standard errors of such a part."""
    found, toy = pool(32_000), dataset()
    whole = np.trace(SignNoise.of(found).in_test(TEST, toy))
    monkeypatch.setattr(signs, "_EVENTS", 4_000)
    part = SignNoise.of(found)
    assert (len(part.events), part.share) == (4_000, 0.125)
    np.testing.assert_array_equal(part.signed, found.signed[::8])
    assert np.trace(part.in_test(TEST, toy)) == pytest.approx(whole, rel=5 * 2 / np.sqrt(4_000))


def test_the_noise_falls_with_the_size_of_the_pool():
    """As one over the number of events, whatever the reference that is drawn from it."""
    toy = dataset()
    small, large = (np.trace(SignNoise.of(pool(n)).in_test(TEST, toy)) for n in (4_000, 16_000))
    assert large == pytest.approx(small / 4, rel=0.1)


def test_the_law_of_t_has_it_in_addition():
    toy = dataset()
    plain = analytic_null(TEST, toy)
    noisy = analytic_null(TEST, toy, further=SignNoise.of(pool()).in_test(TEST, toy))
    assert noisy.law.mean > 1.05 * plain.law.mean


def test_errors_and_pulls_of_nuisances_know_it():
    """Errors grow, pulls shrink by as much, and the fitted values stay."""
    toy = dataset()
    delta = fit_nuisances(toy)
    names = ("scale", "normalisation")
    further = SignNoise.of(pool(1_000)).in_nuisances(toy, join_nuisances(delta, toy))
    plain, agreement = judge_nuisances(toy, delta, names)
    noisy, with_noise = judge_nuisances(toy, delta, names, further)
    for before, after in zip(plain, noisy, strict=True):
        assert (before.fitted, before.auxiliary) == (after.fitted, after.auxiliary)
        assert after.error > before.error
        assert abs(after.pull) < abs(before.pull)
    assert with_noise.chi2 < agreement.chi2
    assert judge_nuisances(toy, delta, names, np.zeros((2, 2))) == (plain, agreement)


def test_what_is_added_to_the_score_is_taken_to_the_nuisances_by_the_curvature():
    """cov = H^-1 (F + C + S + A) H^-1: the difference is H^-1 S H^-1, with S at the yield of the fit."""
    toy, nu, further = dataset(), np.zeros(2), np.array([[40.0, 5.0], [5.0, 90.0]])
    inverse = difference_of(nuisance_covariance, toy, nu, further)
    assert inverse == pytest.approx(difference_of(difference_variance, toy, nu, further), rel=1e-9)
    slopes = nuisance_slopes(toy.reference_response, nu)
    information = (slopes * toy.weights[:, None]).T @ slopes
    curvature = information + np.diag([1.0, 1.0 / toy.normalisation.sigma**2])
    wanted = np.linalg.inv(curvature) @ further @ np.linalg.inv(curvature)
    assert inverse == pytest.approx(wanted, rel=1e-4)


def difference_of(variance, toy, nu, further):
    return variance(toy, nu, further=further) - variance(toy, nu)
