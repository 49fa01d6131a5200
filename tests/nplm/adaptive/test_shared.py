"""p of the members from shared moments, against the exact sums at the same nuisances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri_exp

from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.adaptive.law import AdaptiveNull, adaptive_nulls, sketched_null
from covad.nplm.adaptive.members import AdaptiveFit, choose_members
from covad.nplm.adaptive.shared import ReferenceSample, SharedMoments, _kind, _slopes
from covad.nplm.dataset import Dataset, Float64, Normalisation, Response
from covad.nplm.likelihood import join_nuisances, nuisance_slopes
from covad.nplm.settings import AdaptiveSettings, Sizes
from covad.nplm.statistic import likelihood_ratio
from covad.toys import latent_world as latent
from covad.toys.latent_world import LatentWorld

SIZES = Sizes(expected=2_000.0, reference=10_000)
SETTINGS = AdaptiveSettings(capacities=(6.0, 15.0), bumps=(20, 50), spreads=(3.0,), together=(3.0, 30.0))
MEMBERS = choose_members(latent.background(5_000, np.random.default_rng(1)), SETTINGS, SIZES)
WORLD = LatentWorld(SIZES.reference, SIZES.expected)
N_SAMPLE = 15_000
#: Difference in Z that is allowed up to 5 sigma.
LIMIT = 0.02


def tails(z: np.ndarray) -> np.ndarray:
    """A response that moves events from the core to the tails: 0.1 of the density per sigma."""
    distance = np.minimum(np.square(z).sum(axis=1), 14.0)
    return (0.1 * (distance - 4.7) / 3.5)[:, None].astype(np.float32)


def bent(z: np.ndarray) -> np.ndarray:
    """A curvature of the response to one nuisance, half as large as its slope and of another shape."""
    return (0.05 * np.tanh(z[:, 1]))[:, None, None].astype(np.float32)


def toy(kind: str) -> tuple[Dataset, ReferenceSample]:
    """Return a toy, and a sample of the density of its reference."""
    nuisances = {"ten nuisances": 10, "three nuisances": 3, "no nuisance": 0}.get(kind, 1)
    sigma = 0.1 if nuisances else None
    world = replace(WORLD, n_nuisances=nuisances, normalisation_sigma=sigma)
    dataset = world.toy(np.random.default_rng(2))
    z, weights = latent.background(N_SAMPLE, np.random.default_rng(3)), None
    response = latent.response(z, nuisances)
    if kind == "tails":
        response = tails(z)
        dataset = replace(
            dataset,
            reference_response=Response(tails(dataset.reference)),
            data_response=Response(tails(dataset.data)),
        )
    if kind == "quadratic":
        sample = Response(tails(z), bent(z))
        dataset = replace(
            dataset,
            reference_response=Response(tails(dataset.reference), bent(dataset.reference)),
            data_response=Response(tails(dataset.data), bent(dataset.data)),
        )
        return dataset, ReferenceSample(z, sample)
    if kind == "weights":
        z, weights = latent.weighted_background(N_SAMPLE, np.random.default_rng(3), 0.3, 0.3)
        response = latent.response(z, nuisances)
    return dataset, ReferenceSample(z, Response(response), weights)


def exact(dataset: Dataset, sample: ReferenceSample, nu: Float64 | None) -> AdaptiveNull:
    """Return the null at `nu` by sums over the whole sample."""
    weights = sample.shares() * dataset.weights.sum()
    large = replace(dataset, reference=sample.z, weights=weights, reference_response=sample.response)
    return adaptive_nulls(MEMBERS, large, nu, n_reference=len(dataset.weights)).at_yield()


@pytest.mark.parametrize("sigmas", [-1.5, 0.0, 1.0])
@pytest.mark.parametrize(
    "kind",
    ["one nuisance", "no nuisance", "three nuisances", "ten nuisances", "tails", "quadratic", "weights"],
)
def test_z_of_the_members_is_that_of_the_exact_sums(kind: str, sigmas: float) -> None:
    dataset, sample = toy(kind)
    shared = SharedMoments(MEMBERS, sample)
    k = dataset.n_nuisances
    nu = np.append(sigmas * (-1.0) ** np.arange(k), 0.1 * sigmas) if k else np.zeros(0)
    null = exact(dataset, sample, nu)
    for z in (0.0, 1.0, 3.0, 5.0):
        t = np.array([each.law.isf(float(stats.norm.sf(z))) for each in null.nulls])
        log_p = shared.log_p(t, dataset, nu)
        assert log_p is not None
        np.testing.assert_allclose(-ndtri_exp(log_p), z, atol=LIMIT)


def test_entries_of_the_response_combine_to_its_slopes() -> None:
    """Of three nuisances whose quadratic terms mix them."""
    rng = np.random.default_rng(4)
    dataset = replace(WORLD, n_nuisances=3).toy(rng)

    def mixing(linear: np.ndarray) -> Response:
        mixed = rng.normal(size=(len(linear), 3, 3)).astype(np.float32)
        return Response(linear, mixed + mixed.swapaxes(1, 2))

    response = mixing(dataset.reference_response.linear)
    data = mixing(dataset.data_response.linear)
    dataset = replace(dataset, reference_response=response, data_response=data)
    shared, nu = (
        SharedMoments(MEMBERS, ReferenceSample(dataset.reference, response)),
        np.array([1.0, -2.0, 0.5, 0.1]),
    )
    first = MEMBERS.basis.n_columns
    entries = shared._columns(slice(None), _kind(dataset))[:, first - 1 :]
    found = (entries @ _slopes(dataset, nu))[:, 1:]
    np.testing.assert_allclose(found, nuisance_slopes(response, nu), atol=1e-5)


def test_the_yield_alone_would_not_do() -> None:
    """The limit can be missed: at the right yield, but with the density of nu = 0, Z is off by more."""
    dataset, sample = toy("tails")
    nu = np.array([-1.5, 0.0])
    null = exact(dataset, sample, nu)
    growth = float(sample.shares() @ np.exp(sample.response.linear[:, 0] * nu[0]))
    t = np.array([each.law.isf(float(stats.norm.sf(3.0))) for each in null.nulls])
    log_p = SharedMoments(MEMBERS, sample).log_p(t, dataset, np.array([0.0, np.log(growth)]))
    assert log_p is not None
    assert (np.abs(-ndtri_exp(log_p) - 3.0) > LIMIT).all()


def test_what_shared_moments_do_not_hold_for_is_left_to_the_toy() -> None:
    dataset, sample = toy("one nuisance")
    shared, t, nu = SharedMoments(MEMBERS, sample), np.full(len(MEMBERS), 20.0), np.zeros(2)
    assert shared.log_p(t, dataset, nu) is not None
    assert shared.log_p(t, dataset, np.array([10.0, 0.0])) is None, "the density changes too much"
    free = replace(dataset, normalisation=Normalisation(np.inf))
    assert shared.log_p(t, free, nu) is None
    parts = dataset.reference_response, dataset.data_response
    bent = [Response(part.linear, np.zeros((len(part.linear), 1, 1), np.float32)) for part in parts]
    curved = replace(dataset, reference_response=bent[0], data_response=bent[1])
    assert shared.log_p(t, curved, nu) is None
    outcome = likelihood_ratio(curved, AdaptiveTest(MEMBERS, shared), seed=0)
    assert isinstance(outcome.tau, AdaptiveFit)
    own = sketched_null(MEMBERS, curved, join_nuisances(outcome.delta, curved))
    np.testing.assert_allclose(outcome.tau.log_p, own.log_p(outcome.tau.member_t))


def test_a_fit_takes_the_shared_law() -> None:
    dataset, sample = toy("one nuisance")
    shared = SharedMoments(MEMBERS, sample)
    outcome = likelihood_ratio(dataset, AdaptiveTest(MEMBERS, shared), seed=0)
    assert isinstance(outcome.tau, AdaptiveFit)
    expected = shared.log_p(outcome.tau.member_t, dataset, join_nuisances(outcome.delta, dataset))
    np.testing.assert_array_equal(outcome.tau.log_p, expected)
    alone = likelihood_ratio(dataset, AdaptiveTest(MEMBERS), seed=0)
    assert isinstance(alone.tau, AdaptiveFit)
    np.testing.assert_allclose(outcome.tau.member_t, alone.tau.member_t, atol=1e-3)
    np.testing.assert_allclose(outcome.tau.log_p, alone.tau.log_p, atol=0.5)


def test_toys_of_weighted_events_share_the_next_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their references have sums of weights of their own; it was computed anew for each of them."""
    dataset, sample = toy("weights")
    computed = []
    monkeypatch.setattr("covad.nplm.adaptive.shared.mean_shift", lambda *_: computed.append(1) or 0.05)
    shared, t = SharedMoments(MEMBERS, sample), np.full(len(MEMBERS), 20.0)
    found = []
    for sum_of_weights in (1.0, 1.003, 0.996):
        sized = replace(dataset, weights=sum_of_weights * dataset.weights)
        found.append(shared.log_p(t, sized, np.zeros(2)))
    assert len(computed) == len(MEMBERS)
    np.testing.assert_allclose(found[1], found[0], atol=0.1)
