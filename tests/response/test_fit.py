from dataclasses import replace

import numpy as np
import pytest
import torch
from response_world import SLOPE, make_pairs, truth

from covad.embedding.embed import Embedded
from covad.errors import CovadError, TrainingError
from covad.response.fit import FittedResponse, Pairs, batch_loss, fit_response, validation_loss, whiten
from covad.response.model import ResponseModel, ResponseShape, polynomial
from covad.response.settings import FitSettings

SHAPE = ResponseShape(n_dimensions=2, n_nuisances=1, hidden=(32, 32))
SETTINGS = FitSettings(epochs=6, batch=2048, learning_rate=5e-3, seed=1)


def slow_loss(model: ResponseModel, pairs: Pairs, nu: tuple[float, ...]) -> float:
    """log E_0[e^f] - E_nu[f], event by event."""
    weight = polynomial(np.array(nu), model.shape.order)
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
    with pytest.raises(TrainingError, match="event-matched"):
        Pairs.align(one, {(1.0,): one})


def test_weight_variations_are_refused() -> None:
    """Their events do not move: the response would be zero."""
    nominal = Embedded(np.zeros((2, 1), np.float32), np.arange(2), np.ones(2), 1.0)
    heavier = replace(nominal, weights=np.array([1.0, 1.2]), yield_ratio=1.1)
    with pytest.raises(TrainingError, match="not on events with other weights"):
        Pairs.align(nominal, {(1.0,): heavier})
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
