"""The misfit of the response: weights, pairing, blocks, covariance."""

from dataclasses import replace

import numpy as np
import pytest

from covad.errors import InferenceError
from covad.inference.misfit import MatchedEvents, Misfit

NU = (1.0,)


def measured(*blocks: MatchedEvents) -> Misfit:
    return Misfit.matched({NU: block} for block in blocks)[NU]


def covariance(misfit: Misfit) -> np.ndarray:
    return misfit.noise.T @ misfit.noise


def paired_events(rng: np.random.Generator, n: int) -> MatchedEvents:
    """Two Gaussian columns and a constant; the shift moves each event a little, the response is wrong."""
    z = rng.normal(size=(n, 2))
    nominal, shifted = (np.column_stack([x, np.ones(n)]).astype(np.float32) for x in (z, 1.05 * z + 0.02))
    return MatchedEvents(nominal, shifted, 0.03 * z[:, 0])


def test_weights_carry_the_yield():
    rng = np.random.default_rng(11)
    x = np.column_stack([rng.normal(size=5000), np.ones(5000)]).astype(np.float32)
    passes = (rng.uniform(size=5000) < 0.9).astype(np.float64)
    misfit = measured(MatchedEvents(x, x, np.zeros(5000), shifted_weights=passes))
    # the constant column loses 10 % of its events; binomial error
    assert misfit.delta[1] == pytest.approx(passes.mean() - 1.0)
    assert np.sqrt(covariance(misfit)[1, 1]) == pytest.approx(np.sqrt(0.09 / 5000), rel=0.1)


def test_bad_input_is_named():
    x = np.ones((50, 3), dtype=np.float32)
    with pytest.raises(InferenceError, match="as many rows"):
        MatchedEvents(x, x[:10], np.zeros(50))
    with pytest.raises(InferenceError, match="as many rows"):
        MatchedEvents(x, x, np.zeros(50), np.ones(4))
    with pytest.raises(InferenceError, match="too few for the misfit"):
        measured(MatchedEvents(x[:2], x[:2], np.zeros(2)))
    with pytest.raises(InferenceError, match="too few"):
        Misfit.matched([])
    with pytest.raises(InferenceError, match="not finite"):
        measured(MatchedEvents(x, x, np.full(50, np.nan)))


def test_blocks_give_the_same_as_one():
    events = paired_events(np.random.default_rng(12), 4000)
    parts = (
        MatchedEvents(events.nominal[rows], events.shifted[rows], events.log_ratio[rows])
        for rows in (slice(0, 1500), slice(1500, None))
    )
    whole, joined = measured(events), measured(*parts)
    assert joined.delta == pytest.approx(whole.delta, rel=1e-9, abs=1e-12)
    assert joined.noise == pytest.approx(whole.noise, rel=1e-9, abs=1e-15)


def test_the_covariance_is_that_of_repeated_samples():
    rng = np.random.default_rng(13)
    misfits = [measured(paired_events(rng, 500)) for _ in range(400)]
    found = np.var([misfit.delta for misfit in misfits], axis=0)
    stated = np.mean([np.diag(covariance(misfit)) for misfit in misfits], axis=0)
    # four standard errors of a variance, for the two columns that fluctuate
    assert found[:2] == pytest.approx(stated[:2], rel=4 * np.sqrt(2 / 400))


def test_the_noise_of_batches_is_that_of_events():
    events = paired_events(np.random.default_rng(14), 20_000)
    found = covariance(measured(events))
    d = events.shifted - events.nominal * np.exp(events.log_ratio)[:, None]
    exact = np.cov(d, rowvar=False) / len(d)
    # a variance from 512 batches: four standard errors
    assert np.diag(found)[:2] == pytest.approx(np.diag(exact)[:2], rel=4 * np.sqrt(2 / 512))


def test_misfits_of_the_same_events_know_what_they_have_in_common():
    events = paired_events(np.random.default_rng(15), 3000)
    twice = MatchedEvents(
        events.nominal, events.nominal + 2 * (events.shifted - events.nominal), 2 * events.log_ratio
    )
    once, other = Misfit.matched([{(1.0,): events, (2.0,): twice}]).values()
    joint = np.sum(once.noise[:, 0] * other.noise[:, 0])
    alone = [np.square(misfit.noise[:, 0]).sum() for misfit in (once, other)]
    # twice the shift of the same events is twice the misfit to first order, noise included
    assert joint / np.sqrt(np.prod(alone)) > 0.99


def with_weights(events: MatchedEvents, weights: np.ndarray) -> MatchedEvents:
    return replace(events, nominal_weights=weights, shifted_weights=weights)


def test_signed_weights_are_sums_of_events():
    """Ones are as none; copies of +2 and -1 in one batch are one event, elsewhere they have more noise."""
    events = paired_events(np.random.default_rng(16), 4096)
    plain, ones = measured(events), measured(with_weights(events, np.ones(4096)))
    assert ones.delta == pytest.approx(plain.delta)
    assert ones.noise == pytest.approx(plain.noise)
    copies = np.concatenate([np.arange(4096)] * 2)  # 4096 is a multiple of the number of batches
    for order, noisier in ((copies, False), (np.random.default_rng(1).permutation(copies), True)):
        both = MatchedEvents(events.nominal[order], events.shifted[order], events.log_ratio[order])
        seen = np.zeros(4096, bool)
        weights = np.empty(8192)
        for place, event in enumerate(order):
            weights[place], seen[event] = (-1.0 if seen[event] else 2.0), True
        found = measured(with_weights(both, weights))
        assert found.delta == pytest.approx(plain.delta)
        ratio = np.diag(covariance(found))[:2] / np.diag(covariance(plain))[:2]
        # sum w^2 is five times as large; a variance from 512 batches, five standard errors
        assert ratio == pytest.approx(
            [5.0 if noisier else 1.0] * 2, rel=5 * np.sqrt(4 / 512) if noisier else 1e-6
        )


def test_the_covariance_of_signed_weights_is_that_of_repeated_samples():
    rng = np.random.default_rng(17)
    misfits = []
    for _ in range(400):
        events = paired_events(rng, 1500)
        misfits.append(measured(with_weights(events, np.where(rng.random(1500) < 0.2, -1.0, 1.5))))
    found = np.var([misfit.delta for misfit in misfits], axis=0)
    stated = np.mean([np.diag(covariance(misfit)) for misfit in misfits], axis=0)
    # four standard errors of a variance, for the two columns that fluctuate
    assert found[:2] == pytest.approx(stated[:2], rel=4 * np.sqrt(2 / 400))


def test_weights_that_add_up_to_nothing_are_refused():
    events = paired_events(np.random.default_rng(18), 100)
    with pytest.raises(InferenceError, match="the weights of 100 fresh events add up to -100"):
        measured(with_weights(events, -np.ones(100)))
