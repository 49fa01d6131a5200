"""The yield in the response: its constants, and toys of the convex test that close with them alone."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from convex_world import bumps
from response_world import CUT, SLOPE, cut_pairs, cut_yield
from scipy.stats import norm

from covad.errors import TrainingError
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.convex.law import analytic_null
from covad.nplm.dataset import Dataset, Normalisation, Response
from covad.nplm.statistic import likelihood_ratio
from covad.response.fit import fit_response, yield_constants
from covad.response.model import ResponseModel, ResponseShape
from covad.response.pairs import Pairs
from covad.response.settings import FitSettings

EXPECTED, N_REFERENCE, N_TOYS = 4000, 20_000, 40


class Linear(ResponseModel):
    """Columns that are linear in z, with a wrong constant."""

    def __init__(self, slopes: np.ndarray, order: int, constant: float = 0.0) -> None:
        super().__init__(ResponseShape(2, len(slopes), order))
        self.slopes, self.constant = slopes, constant

    def columns(self, z: np.ndarray, batch: int = 0) -> np.ndarray:
        columns = np.full((len(z), self.shape.n_columns), self.constant)
        columns[:, : len(self.slopes)] += z.astype(np.float64) @ self.slopes.T
        return columns


def log_yield_of(model: ResponseModel, constants: np.ndarray, pairs: Pairs, nu: tuple[float, ...]) -> float:
    """log E_0[e^f], with the constants added."""
    columns = model.columns(pairs.nominal[pairs.nominal_passes]).astype(np.float64) + constants
    return float(np.log(np.exp(columns @ model.shape.polynomial(np.array(nu))).mean()))


def test_a_linear_response_has_the_odd_part_of_the_yield() -> None:
    pairs, model = cut_pairs(200_000, seed=1), Linear(np.array([[SLOPE, 0.0]]), 1, constant=0.7)
    constants = yield_constants(model, pairs)
    up, down = (log_yield_of(model, constants, pairs, (nu,)) for nu in (1.0, -1.0))
    assert up - down == pytest.approx(pairs.log_yield((1.0,)) - pairs.log_yield((-1.0,)), abs=1e-12)
    assert pairs.log_yield((1.0,)) == pytest.approx(np.log(cut_yield(1.0)), abs=0.003)
    # the true constant is zero; five standard errors of E_0[g] and of the events that cross the cut
    assert constants[0] + 0.7 == pytest.approx(0.0, abs=0.003)
    # what is left is even: half the square of the shift
    left = [log_yield_of(model, constants, pairs, (nu,)) - pairs.log_yield((nu,)) for nu in (1.0, -1.0)]
    assert left == pytest.approx([0.5 * SLOPE**2] * 2, abs=0.003)
    assert left[0] == pytest.approx(left[1], abs=1e-12)


def correlated_pairs(n_events: int, covariance: np.ndarray, seed: int) -> Pairs:
    """Two correlated dimensions, each with a shift of its own, and a cut in the first."""
    z = np.random.default_rng(seed).multivariate_normal([0, 0], covariance, n_events)
    axes = np.eye(2)
    grid = [s * axis for axis in axes for s in (1, -1)]
    grid += [s * axes[0] + r * axes[1] for s in (1, -1) for r in (1, -1)]
    moved = {tuple(nu.tolist()): (z + SLOPE * nu).astype(np.float32) for nu in grid}
    return Pairs(z.astype(np.float32), z[:, 0] > CUT, moved, {nu: x[:, 0] > CUT for nu, x in moved.items()})


def test_a_quadratic_response_has_the_yield_at_one_sigma_and_of_the_planes() -> None:
    """log n(z|nu)/n(z|0) = 0.1 nu.P.z - 0.005 nu.P.nu, P the inverse covariance: -0.01 P is that of D."""
    covariance = np.array([[1.0, 0.6], [0.6, 1.0]])
    precision = np.linalg.inv(covariance)
    pairs = correlated_pairs(400_000, covariance, seed=1)
    model = Linear(SLOPE * precision, 2, constant=0.2)
    constants = yield_constants(model, pairs)
    for nu in ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)):
        assert log_yield_of(model, constants, pairs, nu) == pytest.approx(pairs.log_yield(nu), abs=1e-12)
    # five standard errors of the second difference of the numbers of events
    expected = [0.0, 0.0, *(-(SLOPE**2) * precision[np.triu_indices(2)])]
    assert constants + 0.2 == pytest.approx(expected, abs=0.0035)


@pytest.mark.parametrize("order", [1, 2])
def test_fitted_responses_have_the_yield(order: int) -> None:
    pairs, shape = cut_pairs(5000, seed=2), ResponseShape(2, 1, order, hidden=(8,))
    model = fit_response(pairs, shape, FitSettings(epochs=1, batch=1024, seed=1, fits=2)).model
    up, down = (log_yield_of(model, np.zeros(shape.n_columns), pairs, (nu,)) for nu in (1.0, -1.0))
    true_up, true_down = pairs.log_yield((1.0,)), pairs.log_yield((-1.0,))
    assert true_up - true_down > 0.1
    assert up - down == pytest.approx(true_up - true_down, abs=1e-6)
    if order == 2:
        assert up == pytest.approx(true_up, abs=1e-6)


def test_yields_that_are_not_there_are_refused() -> None:
    pairs = cut_pairs(1000, seed=1)
    model = Linear(np.array([[SLOPE, 0.0]]), 1)
    with pytest.raises(TrainingError, match=r"the yield at nu = \[1.0\] needs the sample"):
        yield_constants(model, replace(pairs, passes={(2.0,): pairs.passes[(2.0,)]}))
    nothing = {nu: np.zeros_like(passes) for nu, passes in pairs.passes.items()}
    with pytest.raises(TrainingError, match="no event passes the selection"):
        yield_constants(model, replace(pairs, passes=nothing))


@pytest.fixture(scope="module")
def fitted() -> ResponseModel:
    shape = ResponseShape(n_dimensions=2, n_nuisances=1, hidden=(16, 16))
    return fit_response(cut_pairs(60_000, seed=1), shape, FitSettings(epochs=4, batch=2048, seed=1)).model


def selected(expected: float, nu: float, rng: np.random.Generator) -> np.ndarray:
    """A Poisson number of events above the cut, `expected` at nu = 0."""
    z = rng.normal(size=(rng.poisson(expected / norm.sf(CUT)), 2)) + np.array([SLOPE * nu, 0.0])
    return z[z[:, 0] > CUT].astype(np.float32)


def toy(model: ResponseModel, nu: float, sigma: float | None, rng: np.random.Generator) -> Dataset:
    reference, data = selected(1.1 * N_REFERENCE, 0.0, rng)[:N_REFERENCE], selected(EXPECTED, nu, rng)
    assert len(reference) == N_REFERENCE
    return Dataset(
        reference=reference,
        data=data,
        weights=np.full(N_REFERENCE, EXPECTED / N_REFERENCE),
        reference_response=Response(model.columns(reference)),
        data_response=Response(model.columns(data)),
        measured=rng.normal([nu], 1.0),
        normalisation=None if sigma is None else Normalisation(sigma, rng.normal(0.0, sigma)),
    )


def shift_of_t(model: ResponseModel, test: ConvexTest, nu: float, sigma: float | None) -> float:
    """The mean of t at nu less that of the law, in standard deviations of the law."""
    law = analytic_null(test, toy(model, 0.0, sigma, np.random.default_rng(0))).law
    toys = (toy(model, nu, sigma, np.random.default_rng([1, number])) for number in range(N_TOYS))
    return float((np.mean([likelihood_ratio(each, test, 0).t for each in toys]) - law.mean) / law.std)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.005, None])
def test_toys_close_with_the_yield_in_the_response_and_not_without(
    fitted: ResponseModel, sigma: float | None
) -> None:
    """Limits of four standard errors, 0.63: a false alarm once in 16 000, and the shift without is above 2.

    It is N d^2 / (1 + N sigma^2) with d = 0.06, in units of the law's standard deviation.
    """
    z = selected(20_000, 0.0, np.random.default_rng(3))
    test = bumps(z, 20, seed=1, width=1.0)
    error = 1.0 / np.sqrt(N_TOYS)
    for nu in (1.0, -1.0):
        assert abs(shift_of_t(fitted, test, nu, sigma)) < 4 * error
    centred = deepcopy(fitted)
    centred.offset = centred.offset + torch.from_numpy(centred.columns(z).mean(axis=0))
    assert shift_of_t(centred, test, 1.0, sigma) > 1.5
