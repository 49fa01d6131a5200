from dataclasses import replace

import numpy as np
import pytest
import torch
from response_world import SLOPE, make_pairs, pairs_of, signed_pairs, split_into_signs, truth

from covad.embedding.embed import Embedded
from covad.errors import CovadError, TrainingError
from covad.response.fit import (
    FittedResponse,
    _gains,
    batch_losses,
    fit_response,
    validation_loss,
    weighted_mean,
    whiten,
)
from covad.response.model import ResponseModel, ResponseShape
from covad.response.pairs import Pairs
from covad.response.settings import FitSettings


def batch_loss(model: ResponseModel, pairs: Pairs) -> torch.Tensor:
    return sum(batch_losses(model, pairs), torch.zeros(()))


SHAPE = ResponseShape(n_dimensions=2, n_nuisances=1, hidden=(32, 32))
SETTINGS = FitSettings(epochs=6, batch=2048, learning_rate=5e-3, seed=1)


def slow_loss(model: ResponseModel, pairs: Pairs, nu: tuple[float, ...]) -> float:
    """log E_0[e^f] - E_nu[f], event by event."""
    weight = model.shape.polynomial(np.array(nu))
    f0 = model.columns(pairs.nominal[pairs.nominal_passes]).astype(float) @ weight
    f1 = model.columns(pairs.z[nu][pairs.passes[nu]]).astype(float) @ weight
    return float(np.log(np.exp(f0).mean()) - f1.mean())


@pytest.mark.parametrize("order", [1, 2])
def test_loss_is_its_definition(order: int) -> None:
    torch.manual_seed(0)
    pairs = make_pairs(500, seed=1)
    rng = np.random.default_rng(0)
    pairs = replace(
        pairs,
        nominal_passes=rng.random(500) < 0.9,
        passes={nu: rng.random(500) < 0.8 for nu in pairs.passes},
    )
    model = ResponseModel(replace(SHAPE, order=order))
    everything = {nu: np.ones(500, bool) for nu in pairs.passes}
    for sample in (pairs, replace(pairs, nominal_passes=everything[1.0,], passes=everything)):
        slow = np.mean([slow_loss(model, sample, nu) for nu in sample.z])
        assert float(batch_loss(model, sample).detach()) == pytest.approx(slow, abs=1e-6)


@pytest.fixture(scope="module")
def fitted() -> FittedResponse:
    return fit_response(make_pairs(60_000, seed=1), SHAPE, SETTINGS)


def test_the_known_response_is_found(fitted: FittedResponse) -> None:
    model = fitted.model
    z = np.random.default_rng(9).normal(size=(20_000, 2)).astype(np.float32)
    g, expected = model.columns(z)[:, 0], truth(z, 1.0) + 0.5 * SLOPE**2 * (z[:, 1] > 0)
    residual = g - expected
    assert residual.var() < 0.15 * expected.var()  # a step at z2 = 0, from 54 000 events
    assert abs(g.mean()) < 0.003  # centred on the training sample: 60 000 events of spread 0.07


def test_validation_loss_approaches_that_of_the_truth(fitted: FittedResponse) -> None:
    """At the minimum L(nu) = -KL(R_nu | R_0) = -(0.1 nu)^2 / 4; a linear g gets most of it."""
    best = -np.mean([(SLOPE * nu) ** 2 / 4 for nu in (-2, -1, 1, 2)])
    assert best * 1.15 < fitted.losses[0] < best * 0.8
    assert -fitted.learned.gain == pytest.approx(fitted.losses[0], rel=0.01)
    assert not fitted.learned.nothing


def test_a_response_to_nothing_has_learned_nothing() -> None:
    """Events that stay where they are tell nothing about nu."""
    pairs = make_pairs(3000, seed=1)
    still = replace(pairs, z=dict.fromkeys(pairs.z, pairs.nominal))
    found = fit_response(still, SHAPE, SETTINGS.changed(epochs=1))
    assert found.learned.nothing
    assert found.learned.gain <= 0


def test_the_same_seed_gives_the_same_model() -> None:
    settings = SETTINGS.changed(epochs=1)
    models = [fit_response(make_pairs(5000, seed=1), SHAPE, settings).model for _ in range(2)]
    for a, b in zip(models[0].state_dict().values(), models[1].state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_several_fits_are_averaged() -> None:
    pairs = make_pairs(5000, seed=1)
    found = fit_response(pairs, SHAPE, SETTINGS.changed(epochs=1, fits=3))
    model = found.model
    assert len(found.losses) == len(model.heads) == 3
    white = (torch.from_numpy(pairs.nominal) - model.centre) @ model.whitening
    columns = [head(white) for head in model.heads]
    mean = torch.stack(columns).mean(dim=0) - model.offset
    np.testing.assert_allclose(model.columns(pairs.nominal), mean.detach(), atol=1e-6)
    assert not torch.equal(columns[0], columns[1])


def test_whitened_directions_are_uncorrelated_and_flat_ones_stay_out() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=(5000, 3)).astype(np.float32)
    z[:, 1] = 0.1 * z[:, 1] + 3 * z[:, 0] + 7
    z[:, 2] = 4.0
    centre, matrix = whiten(z)
    white = (z - centre) @ matrix
    expected = np.diag([0.0, 1.0, 1.0])
    np.testing.assert_allclose(np.cov(white.T), expected, atol=1e-3)
    assert np.abs(white.mean(axis=0)).max() < 1e-3


def test_alignment_keeps_events_that_pass_on_one_side_only() -> None:
    nominal = Embedded(np.array([[1.0], [2.0]], np.float32), np.array([0, 2]), np.ones(2), 1.0)
    shifted = Embedded(np.array([[5.0], [3.0]], np.float32), np.array([1, 2]), np.ones(2), 1.0)
    pairs = Pairs.align(nominal, {(1.0,): shifted})
    assert pairs.nominal_passes.tolist() == [True, False, True]
    assert pairs.passes[(1.0,)].tolist() == [False, True, True]
    assert pairs.z[(1.0,)][:, 0].tolist() == [0, 5, 3]


def test_unfit_input_is_refused() -> None:
    one = Embedded(np.zeros((2, 1), np.float32), np.array([0, -1]), np.ones(2), 1.0)
    with pytest.raises(TrainingError, match="at least one shifted"):
        Pairs.align(one, {})
    with pytest.raises(TrainingError, match="nominal events of the response need rows"):
        Pairs.align(one, {(1.0,): one})
    with pytest.raises(CovadError, match="validation_share"):
        FitSettings(validation_share=1.0)
    bad = make_pairs(3000, seed=1)
    bad.z[(1.0,)][:] = np.nan
    with pytest.raises(TrainingError, match="not finite in epoch 0"):
        fit_response(bad, SHAPE, SETTINGS)
    bad.nominal[0] = np.nan
    with pytest.raises(TrainingError, match="nominal events is not finite"):
        fit_response(bad, SHAPE, SETTINGS.changed(validation_share=0.001))


def test_validation_loss_is_the_mean_over_nu() -> None:
    torch.manual_seed(0)
    model, pairs = ResponseModel(SHAPE), make_pairs(1000, seed=2)
    expected = np.mean([slow_loss(model, pairs, nu) for nu in pairs.z])
    assert validation_loss(model, pairs) == pytest.approx(expected, abs=1e-9)


def some_pass(pairs: Pairs) -> Pairs:
    rng = np.random.default_rng(0)
    n = len(pairs)
    return replace(
        pairs,
        nominal_passes=rng.random(n) < 0.9,
        passes={nu: rng.random(n) < 0.8 for nu in pairs.passes},
    )


def losses(model: ResponseModel, pairs: Pairs) -> list[float]:
    return [
        float(batch_loss(model, pairs).detach()),
        validation_loss(model, pairs),
        *(pairs.log_yield(nu) for nu in pairs.passes),
    ]


@pytest.mark.parametrize("everything_passes", [True, False])
def test_weights_are_sums_of_events(everything_passes: bool) -> None:
    """Ones are as none; copies of +2 and -1 are one event, and a weight of 3 is three events."""
    torch.manual_seed(0)
    model, pairs = ResponseModel(replace(SHAPE, order=2)), make_pairs(700, seed=1)
    if not everything_passes:
        pairs = some_pass(pairs)
    plain = losses(model, pairs)
    assert losses(model, replace(pairs, weights=np.ones(700))) == pytest.approx(plain, abs=1e-6)
    assert losses(model, split_into_signs(pairs)) == pytest.approx(plain, abs=1e-6)
    number = np.random.default_rng(2).integers(0, 4, 700)
    repeated, weighted = pairs.take(np.repeat(np.arange(700), number)), replace(pairs, weights=1.0 * number)
    assert losses(model, weighted) == pytest.approx(losses(model, repeated), abs=1e-6)
    assert losses(model, weighted) != pytest.approx(plain, abs=1e-6)


def test_alignment_keeps_weights_and_leaves_out_those_of_one() -> None:
    z = np.zeros((3, 2), np.float32)
    weights = np.array([2.0, -1.0, 0.5])
    assert pairs_of(z, np.ones(3), (1.0,)).weights is None
    assert pairs_of(z, weights, (1.0,)).weights.tolist() == [2.0, -1.0, 0.5]
    # event 1 passes at nu only, event 3 nowhere
    nominal = Embedded(z[:2], np.array([0, 2]), weights[[0, 2]], 1.0)
    shifted = Embedded(z[:2], np.array([1, 4]), np.array([-1.0, 3.0]), 1.0)
    pairs = Pairs.align(nominal, {(1.0,): shifted})
    assert pairs.weights.tolist() == [2.0, -1.0, 0.5, 0.0, 3.0]
    assert pairs.take(np.array([2, 0])).weights.tolist() == [0.5, 2.0]
    assert pairs.nominal_weights.tolist() == [2.0, 0.5]
    assert pairs.n_effective == pytest.approx(2.5**2 / 4.25)


def test_signed_weights_find_the_response(fitted: FittedResponse) -> None:
    """A signed sample of the same density has the same response, within what fits of 16 000 events lack."""
    pairs = signed_pairs(80_000, seed=3)
    assert 0.15 < pairs.n_effective / 80_000 < 0.25
    found = fit_response(pairs, SHAPE, SETTINGS)
    z = np.random.default_rng(9).normal(size=(20_000, 2)).astype(np.float32)
    g, expected = found.model.columns(z)[:, 0], truth(z, 1.0) + 0.5 * SLOPE**2 * (z[:, 1] > 0)
    assert (g - expected).var() < 0.15 * expected.var()  # the limit of the unweighted sample
    # fits differ by what each of them lacks
    assert (g - fitted.model.columns(z)[:, 0]).var() < 0.3 * expected.var()
    assert not found.learned.nothing
    # four standard errors: a false alarm once in 16 000
    assert found.learned.gain == pytest.approx(fitted.learned.gain, abs=4 * found.learned.error)
    ignored = fit_response(replace(pairs, weights=None), SHAPE, SETTINGS).model.columns(z)[:, 0]
    assert (
        ignored - expected
    ).var() > 0.15 * expected.var()  # without the signs it is that of another density


def test_the_error_of_the_gain_is_its_scatter() -> None:
    """30 samples of signed weights, sorted by their process: their spread is known to 13 %."""
    torch.manual_seed(0)
    model, gains = ResponseModel(SHAPE), []
    for seed in range(30):
        pairs = signed_pairs(3000, seed=seed)
        found = _gains(model, pairs.take(np.argsort(pairs.nominal[:, 1] > 0, kind="stable")))
        gains.append((found.mean(), found.std(ddof=1) / np.sqrt(len(found)), -validation_loss(model, pairs)))
    mean, error, whole = np.array(gains).T
    assert np.median(error) == pytest.approx(mean.std(ddof=1), rel=0.5)
    assert mean == pytest.approx(whole, abs=0.3 * np.median(error))


def test_sums_that_are_not_positive_are_refused_in_a_sentence() -> None:
    pairs = make_pairs(3000, seed=1)
    bad = replace(pairs, weights=np.where(np.arange(3000) < 1600, -1.0, 1.0))
    with pytest.raises(TrainingError, match=r"without a positive sum: raise source\.splits\.response"):
        fit_response(bad, SHAPE, SETTINGS)
    with pytest.raises(TrainingError, match=r"add up to -200 at nu = \[1.0\] and to -200 at 0"):
        bad.log_yield((1.0,))
    with pytest.raises(TrainingError, match="without a positive sum"):
        batch_loss(ResponseModel(SHAPE), bad)
    with pytest.raises(TrainingError, match="without a positive sum"):
        weighted_mean(np.ones(2), np.array([1.0, -1.0]))
    # the sum of the weights is positive, that of w e^f is not
    torch.manual_seed(0)
    steep = ResponseModel(SHAPE)
    with torch.no_grad():
        steep.heads[0].layers[-1].weight.mul_(1e3)
    f = steep.columns(pairs.nominal)[:, 0]
    negative = replace(pairs, weights=np.where(f > np.quantile(f, 0.9), -1.0, 1.0))
    with pytest.raises(TrainingError, match="without a positive sum"):
        validation_loss(steep, negative)
    assert not torch.isfinite(batch_loss(steep, negative))


def test_batches_of_signed_weights_are_large_enough() -> None:
    """A twentieth of the events in a batch would have a sum of a few standard errors only."""
    weights = np.where(np.random.default_rng(1).random(8000) < 0.45, -1.0, 1.0)
    pairs = replace(make_pairs(8000, seed=1), weights=weights)
    assert pairs.n_effective < 150
    found = fit_response(pairs, SHAPE, SETTINGS.changed(epochs=2, batch=64))
    assert np.isfinite(found.losses).all()


def test_whitening_counts_by_the_size_of_weights() -> None:
    z = np.random.default_rng(1).normal(size=(500, 2)).astype(np.float32) @ np.float32([[1, 0.5], [0, 2]])
    number = np.random.default_rng(2).integers(1, 4, 500)
    repeated, weighted = whiten(np.repeat(z, number, axis=0)), whiten(z, -1.0 * number)
    assert weighted[0] == pytest.approx(repeated[0])
    assert np.abs(weighted[1]) == pytest.approx(np.abs(repeated[1]), rel=2e-3)  # degrees of freedom
