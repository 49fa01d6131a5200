"""The response of nuisances of every kind: shifts, weights, normalisations, samples of their own."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from response_world import Mixture, make_pairs
from scipy import stats

from covad.embedding.embed import Embedded
from covad.errors import CovadError, FileFormatError, TrainingError
from covad.response.fit import (
    _gains,
    batch_losses,
    fit_response,
    one_sided,
    point_losses,
    validation_loss,
    yield_constants,
)
from covad.response.grid import response_grid
from covad.response.linearity import linearity
from covad.response.model import ResponseModel, ResponseShape
from covad.response.pairs import Pairs
from covad.response.settings import FitSettings
from covad.response.validate import AdaptiveCells, compare_counts
from covad.storage.tensors import save_weights

N = 10_000
STEP = np.array([0.08, 0.0, 0.0, 0.0])
RATE = 1.1
SIDES = (1.0, -1.0, 2.0, -2.0)
SETTINGS = FitSettings(epochs=8, batch=512, seed=1)


def log_weight(z: np.ndarray) -> np.ndarray:
    return 0.1 * np.tanh(z[:, 1].astype(np.float64))


def nuisances(n_events: int, seed: int) -> Pairs:
    """A shift, a weight, the normalisation of a process; and the shift as weights, and from samples apart."""
    world = Mixture(n_events, seed)

    def at(k: int, nu: float) -> Embedded:
        match k:
            case 0:
                return world.at_step(nu * STEP)
            case 1:
                return world.at_weights(nu * log_weight(world.z))
            case 2:
                return world.at_normalisation(1, RATE**nu)
            case 3:
                return world.at_weights(Mixture.log_shift(world.z, nu * STEP))
            case _:
                return world.apart(n_events, nu * STEP)

    grid = response_grid(5, sizes=[SIDES, SIDES, SIDES, SIDES, (1.0, -1.0)])
    shifted = {nu: at(k := int(np.flatnonzero(nu)[0]), nu[k]) for nu in grid}
    return Pairs.align(world.embedded(), shifted)


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    return nuisances(N, seed=1)


@pytest.fixture(scope="module")
def columns(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """z of fresh events and the fitted columns there."""
    z = Mixture(20_000, seed=2).z
    return z, fit_response(pairs, ResponseShape(4, 5, hidden=(32, 32), cross=()), SETTINGS).model.columns(z)


def test_pairs_hold_what_each_kind_does(pairs: Pairs) -> None:
    n = N
    assert (len(pairs), pairs.n_matched, int(pairs.extra.sum())) == (3 * n, n, 2 * n)
    shift, weight, rate, apart = ((0.0,) * k + (1.0,) + (0.0,) * (4 - k) for k in (0, 1, 2, 4))
    assert pairs.z[shift] is not pairs.nominal
    assert all(pairs.z[nu] is pairs.nominal for nu in (weight, rate, apart))
    assert set(pairs.factors) == {nu for nu in pairs.z if nu[1] or nu[2] or nu[3]}
    assert pairs.counts(apart)[:n].sum() == 0.0
    assert pairs.counts(apart)[n : 2 * n].tolist() == [1.0] * n
    assert pairs.counts(apart)[2 * n :].sum() == 0.0
    assert pairs.log_yield(apart) == pytest.approx(0.0)
    share = (pairs.counts(rate)[:n] > 1.0).mean()
    assert pairs.log_yield(rate) == pytest.approx(np.log1p((RATE - 1.0) * share))
    part = pairs.take(np.arange(0, len(pairs), 3))
    assert part.z[weight] is part.nominal
    assert np.array_equal(part.counts(weight), pairs.counts(weight)[::3])


def test_the_loss_of_every_kind_is_its_definition(pairs: Pairs) -> None:
    """log E_0[e^f] - E_nu[f], with the weights that events have at nu; what is still is evaluated once."""
    torch.manual_seed(0)
    some = pairs.take(np.sort(np.random.default_rng(1).permutation(len(pairs))[:6000]))
    model = ResponseModel(ResponseShape(4, 5, 2, (16,), cross=()))
    nominal = model.columns(some.nominal[some.nominal_passes]).astype(float)
    weights = some.nominal_counts[some.nominal_passes]
    slow = {}
    for nu in some.z:
        polynomial, counts = model.shape.polynomial(np.array(nu)), some.counts(nu)
        f = model.columns(some.z[nu]).astype(float) @ polynomial
        e0 = weights @ np.exp(nominal @ polynomial) / weights.sum()
        slow[nu] = np.log(e0) - counts @ f / counts.sum()
    found = point_losses(model, some)
    assert list(found) == list(slow)
    assert list(found.values()) == pytest.approx(list(slow.values()), abs=1e-7)
    parts = list(batch_losses(model, some))
    assert len(parts) == 1 + 4  # the nominal events, and four points of the shift
    assert float(sum(parts).detach()) == pytest.approx(validation_loss(model, some), abs=1e-6)


def test_exact_responses_are_found(columns: tuple[np.ndarray, np.ndarray]) -> None:
    z, g = columns
    shift = 0.5 * (Mixture.log_shift(z, STEP) - Mixture.log_shift(z, -STEP))
    rate = np.log(RATE) * Mixture.probability(z, 1)
    # of 9000 events; that of a process is learned from labels, which fluctuate
    for k, (exact, limit) in enumerate([(shift, 0.35), (log_weight(z), 0.2), (rate, 0.4), (shift, 0.3)]):
        error = g[:, k] - exact
        assert error.std() < limit * exact.std(), k
        # the yield is counted; what is left is of second order in g, and the mean over 20 000 events
        assert abs(error.mean()) < 0.01 * exact.std() + 4 * error.std() / np.sqrt(len(z)) + 2e-3, k


def test_a_shift_its_weights_and_a_sample_of_its_own_agree(
    pairs: Pairs, columns: tuple[np.ndarray, np.ndarray]
) -> None:
    z, g = columns
    assert (g[:, 0] - g[:, 3]).std() < 0.35 * g[:, 0].std()
    # unmatched: as far as the scatter of fits to bootstrap samples goes, with five standard errors of it
    settings = SETTINGS.changed(epochs=4, fits=4, bootstrap=True)
    model = fit_response(pairs.of_nuisances([4]), ResponseShape(4, 1, hidden=(32,)), settings).model
    with torch.no_grad():
        heads = model.by_head(torch.from_numpy(z))[:, :, 0].numpy()
    heads -= heads.mean(axis=1, keepdims=True)
    exact = 0.5 * (Mixture.log_shift(z, STEP) - Mixture.log_shift(z, -STEP))
    spread = np.sqrt((heads.std(axis=0, ddof=1) ** 2).mean())
    error = (heads.mean(axis=0) - (exact - exact.mean())).std()
    assert spread > 0.1 * exact.std()  # density ratios of unmatched events are noisy
    assert error < 2.5 * spread


def test_the_counts_of_weights_and_samples_have_the_right_errors() -> None:
    """p-values of the true model are uniform: correlated where events are matched, independent where not."""

    class Known(ResponseModel):
        def __init__(self) -> None:
            super().__init__(ResponseShape(4, 5))

        def columns(self, z: np.ndarray, batch: int = 0) -> np.ndarray:
            return np.stack(
                [Mixture.log_shift(z, STEP), log_weight(z)]
                + [np.log1p((RATE - 1) * Mixture.probability(z, 1))]
                + [Mixture.log_shift(z, STEP)] * 2,
                axis=1,
            )

    p = []
    for seed in range(30):
        sample = nuisances(1500, seed=100 + seed)
        cells = AdaptiveCells.build(sample.nominal[sample.nominal_passes], 3)
        points = [nu for nu in sample.z if max(nu) == 1.0]
        p.append(
            [compare_counts(Known(), sample, nu, cells).p_value for nu in (points[0], points[2], points[4])]
        )
    for column in np.transpose(p):
        assert stats.kstest(column, "uniform").pvalue > 1e-4


def test_the_linearity_of_a_weight_is_exact(pairs: Pairs) -> None:
    """In cells in which the factor is constant; and the samples at +-1 are judged there alone."""
    world = Mixture(20_000, seed=5)
    cells = AdaptiveCells.build(world.z, 2)
    log_factor = 0.1 * (cells.index(world.z) - 1.5)
    weighted = Pairs.align(
        world.embedded(), {(nu,): world.at_weights(nu * log_factor) for nu in (-2.0, -1.0, 1.0, 2.0)}
    )
    for found in linearity(weighted, (1.0,), (1.0, 2.0), [cells]):
        assert found.effect == pytest.approx(found.size * log_factor.std(), rel=0.01)
        assert abs(found.departure) < 1e-12
    (apart,) = linearity(pairs, (0.0, 0.0, 0.0, 0.0, 1.0), (1.0,), [cells])
    # three standard errors; extra events stand at the end of the sample
    assert abs(apart.departure) < 4 * apart.departure_uncertainty
    assert apart.effect > 0


def test_one_side_is_mirrored(pairs: Pairs) -> None:
    world = Mixture(5000, seed=3)
    up = world.at_weights(np.full(5000, 0.05))
    one = Pairs.align(world.embedded(), {(1.0,): up})
    assert one_sided(list(one.z), 1) == {0: 1.0}
    model = fit_response(one, ResponseShape(4, 1, hidden=(8,)), SETTINGS.changed(epochs=2)).model
    g = model.columns(world.z)[:, 0].astype(float)
    assert np.log(np.exp(g).mean()) == pytest.approx(0.05, abs=1e-5)
    shape = ResponseShape(4, 1, 2, (8,), straight=(0,))
    assert shape.n_columns == 1
    assert np.array_equal(shape.polynomial(np.array([-2.0])), [-2.0])
    fitted = fit_response(one, shape, SETTINGS.changed(epochs=1)).model
    assert yield_constants(fitted, one) == pytest.approx([0.0], abs=1e-6)


def test_the_gain_of_extra_events_has_its_error(pairs: Pairs) -> None:
    """Extra events stand last: parts of consecutive rows would hold nothing else."""
    torch.manual_seed(0)
    gains = _gains(ResponseModel(ResponseShape(4, 5, hidden=(8,))), pairs)
    assert len(gains) == 10
    assert np.isfinite(gains).all()


def test_factors_that_cannot_be_are_refused() -> None:
    nominal = Embedded(np.zeros((2, 1), np.float32), np.arange(2), np.array([1.0, 0.0]), 1.0)
    with pytest.raises(TrainingError, match=r"weight 0 has another one at nu = \[1.0\]"):
        Pairs.align(nominal, {(1.0,): replace(nominal, weights=np.ones(2))})
    # an event that passes at nu alone has a weight there, whatever is said of it elsewhere
    there = Embedded(np.ones((1, 1), np.float32), np.array([5]), np.zeros(1), 1.0)
    later = replace(there, weights=np.array([3.0]))
    found = Pairs.align(nominal, {(1.0,): there, (2.0,): later})
    assert found.counts((1.0,))[5] == 0.0
    assert found.counts((2.0,))[5] == 3.0


def test_grids_have_the_points_that_exist() -> None:
    assert len(response_grid(24)) == 96
    assert len(response_grid(3, [(0, 2)])) == 12 + 4
    assert (1.0, 0.0, -1.0) in response_grid(3, [(2, 0)])
    assert response_grid(2, (), [(1.0,), (1.0, -1.0)]) == [(1.0, 0.0), (0.0, 1.0), (0.0, -1.0)]
    with pytest.raises(CovadError, match=r"\(1, 0\) is no pair of 2"):
        ResponseShape(4, 2, 2, cross=((1, 0),))


def test_many_points_are_evaluated_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts add up to what all at once give."""
    torch.manual_seed(0)
    pairs, model = make_pairs(500, seed=1), ResponseModel(ResponseShape(2, 1, hidden=(8,)))
    (whole,) = batch_losses(model, pairs)
    monkeypatch.setattr("covad.response.fit._TOGETHER", 100)
    parts = list(batch_losses(model, pairs))
    assert len(parts) == 5
    assert float(sum(parts).detach()) == pytest.approx(float(whole.detach()), abs=1e-6)


def test_nuisances_that_a_mixed_term_links_share_a_network(tmp_path) -> None:
    shape = ResponseShape(4, 5, 2, (8,), cross=((0, 3), (1, 4)), straight=(2,))
    assert shape.groups == ((0, 3), (1, 4), (2,))
    assert shape.terms == ((0, 0), (0, 3), (1, 1), (1, 4), (3, 3), (4, 4))
    assert [shape.columns_of(group) for group in shape.groups] == [[0, 3, 5, 6, 9], [1, 4, 7, 8, 10], [2]]
    assert shape.of_group((1, 4)) == ResponseShape(4, 2, 2, (8,), cross=((0, 1),))
    assert ResponseShape(4, 3).groups == ((0, 1, 2),)
    torch.manual_seed(0)
    model = ResponseModel(shape, n_heads=2)
    z = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)
    columns = model.columns(z)
    assert columns.shape == (7, 11)
    for place, group in enumerate(shape.groups):
        with torch.no_grad():
            own = sum(head.parts[place](torch.from_numpy(z)) for head in model.heads) / 2
        assert columns[:, shape.columns_of(group)] == pytest.approx(own.numpy(), abs=1e-6)
    model.save(tmp_path / "response.safetensors", {})
    again = ResponseModel.load(tmp_path / "response.safetensors")
    assert again.shape == shape
    assert np.array_equal(again.columns(z), columns)
    full = shape.of_columns(columns[:, 5:])
    assert np.array_equal(full, full.transpose(0, 2, 1))
    nu = np.array([0.3, -1.0, 2.0, 0.5, 1.5])
    expected = columns[:, :5] @ nu + 0.5 * np.einsum("k,nkl,l->n", nu, full, nu)
    assert model.log_ratio(columns, nu) == pytest.approx(expected, abs=1e-5)


def test_a_file_of_a_later_format_is_refused(tmp_path) -> None:
    path = tmp_path / "response.safetensors"
    model = ResponseModel(ResponseShape(2, 1, hidden=(8,)))
    save_weights(path, "response", model.state_dict(), {"response": {}, "heads": 1, "format": 3})
    with pytest.raises(FileFormatError, match="the response has the format 3, and this covad reads 1 and 2"):
        ResponseModel.load(path)
