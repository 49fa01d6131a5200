from dataclasses import replace

import numpy as np
import pytest
from calibration.pulls import pulls
from scipy.stats import kstest, norm, poisson

from covad.inference.nuisances import (
    difference_variance,
    judge_nuisances,
    nuisance_covariance,
    nuisances_of_toys,
    yield_deviation,
)
from covad.nplm.dataset import Dataset, Normalisation, Response
from covad.nplm.likelihood import fit_nuisances
from covad.toys.latent_world import LatentWorld

NAMES = ("first", "second", "normalisation")
WORLD = LatentWorld(n_reference=4000, expected=2000.0, n_nuisances=2)
ONE_NUISANCE = LatentWorld(n_reference=2_000, expected=1_000.0)


def judged(seed: int, nu: tuple[float, ...] = (1.0, -0.5)):
    dataset = WORLD.toy(np.random.default_rng(seed), np.array(nu))
    return dataset, *judge_nuisances(dataset, fit_nuisances(dataset), NAMES)


def test_pulls_are_normal_and_the_compatibility_is_uniform():
    """False alarms of 4 KS tests at 1e-4 each: 4e-4."""
    found = [judged(seed) for seed in range(300)]
    for number in range(3):
        pulls = [nuisances[number].pull for _, nuisances, _ in found]
        assert kstest(pulls, "norm").pvalue > 1e-4
    assert kstest([agreement.p for *_, agreement in found], "uniform").pvalue > 1e-4


def test_without_fluctuations_of_the_reference_the_pull_is_the_usual_one():
    """A^-1 - H^-1 for an infinite reference, which the variance exceeds by little for a large one."""
    dataset = LatentWorld(n_reference=400_000, expected=2000.0, n_nuisances=2).toy(np.random.default_rng(1))
    nu = np.zeros(3)
    columns = np.column_stack([dataset.reference_response.linear, np.ones(400_000)]).astype(np.float64)
    precision = np.array([1.0, 1.0, 100.0])
    information = (columns * dataset.weights[:, None]).T @ columns
    usual = np.diag(1 / precision) - np.linalg.inv(information + np.diag(precision))
    assert difference_variance(dataset, nu) == pytest.approx(usual, rel=0.02, abs=1e-5)


def test_a_wrong_auxiliary_value_is_incompatible():
    """The normalisation is told by 10 %, the number of events by 2 %: five sigma cannot be missed."""
    dataset, *_ = judged(1)
    wrong = type(dataset)(
        **{**vars(dataset), "normalisation": type(dataset.normalisation)(sigma=0.1, measured=0.5)}
    )
    nuisances, agreement = judge_nuisances(wrong, fit_nuisances(wrong), NAMES)
    assert agreement.p < 1e-4
    assert nuisances[2].pull < -4
    assert nuisances[2].auxiliary == pytest.approx(5.0)


def test_a_nuisance_that_does_nothing_is_not_counted():
    dataset, *_ = judged(2)
    responses = {}
    for name in ("reference_response", "data_response"):
        linear = getattr(dataset, name).linear.copy()
        linear[:, 1] = 0
        responses[name] = type(dataset.reference_response)(linear)
    dataset = type(dataset)(**{**vars(dataset), **responses})
    nuisances, agreement = judge_nuisances(dataset, fit_nuisances(dataset), NAMES)
    assert agreement.dof == 2
    assert nuisances[1].fitted == pytest.approx(nuisances[1].auxiliary)
    assert abs(nuisances[1].pull) < 1e-3 or not np.isfinite(nuisances[1].pull)


def many(
    normalisation: Normalisation | None,
    slope: float | None = None,
    measured: float = 0.0,
    n: int = 1300,
    expected: float = 1000.0,
) -> Dataset:
    """Data where 1000 are expected at nu = 0; a nuisance changes the log of the yield by `slope`."""
    k = int(slope is not None)
    return Dataset(
        reference=np.zeros((500, 1), np.float32),
        data=np.zeros((n, 1), np.float32),
        weights=np.full(500, expected / 500),
        reference_response=Response(np.full((500, k), slope or 0.0, np.float32)),
        data_response=Response(np.full((n, k), slope or 0.0, np.float32)),
        measured=np.full(k, measured),
        normalisation=normalisation,
    )


def test_a_yield_is_surprising_by_poisson_and_all_that_changes_it():
    """1300 of 1000: the log yield has the variance 1/N of the data, and that of the nuisances."""
    for changes, dataset in (
        (0.1, many(Normalisation(0.1))),
        (0.2, many(None, 0.2)),
        (np.hypot(0.1, 0.2), many(Normalisation(0.1), 0.2)),
    ):
        assert yield_deviation(dataset) == pytest.approx(
            np.log(1.3) / np.hypot(changes, 1300**-0.5), rel=5e-3
        )
    assert yield_deviation(many(Normalisation(0.1, np.log(1.3)))) == pytest.approx(0.0, abs=1e-9)
    assert yield_deviation(many(None, np.log(1.3), 1.0)) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("sigmas", [-3.0, -1.0, 2.5])
def test_a_yield_is_as_surprising_as_the_truth_that_makes_it(sigmas):
    """nu_N is the log of the yield: +2.5 sigma of 0.3 are 2.1 times the events, not 3.7 sigma."""
    n = round(1e5 * np.exp(0.3 * sigmas))
    assert yield_deviation(many(Normalisation(0.3), n=n, expected=1e5)) == pytest.approx(sigmas, rel=1e-3)


@pytest.mark.parametrize(("n", "expected"), [(1, 10.0), (3, 10.0), (25, 10.0), (160, 200.0)])
def test_without_nuisances_a_number_is_as_surprising_as_by_poisson(n, expected):
    """Half of the probability of n itself is counted, as Z of a continuous number would."""
    below = poisson.cdf(n, expected) - 0.5 * poisson.pmf(n, expected)
    assert yield_deviation(many(None, n=n, expected=expected)) == pytest.approx(norm.ppf(below), abs=0.4)


def test_a_test_without_nuisances_has_none():
    dataset, *_ = judged(3)
    assert judge_nuisances(dataset, fit_nuisances(dataset), ()) == ((), None)


def sample(n_reference=200_000, seed=1):
    world = replace(ONE_NUISANCE, n_reference=n_reference)
    return world.toy(np.random.default_rng(seed))


def test_the_finite_reference_is_part_of_the_error():
    """A reference as large as the data doubles the variance that the data alone would give, or nearly."""
    at_zero = np.zeros(2)
    perfect = nuisance_covariance(sample(), at_zero, n_reference=10**9)[0, 0]
    finite = nuisance_covariance(sample(), at_zero, n_reference=1_000)[0, 0]
    # without auxiliary terms it would be exactly two; they make up a third of the curvature here
    assert 1.5 < finite / perfect < 2.0


def test_a_large_sample_stands_for_a_small_reference():
    small, large = sample(2_000, seed=3), sample(seed=4)
    direct = np.diag(nuisance_covariance(small, np.zeros(2)))
    scaled = np.diag(nuisance_covariance(large, np.zeros(2), n_reference=2_000))
    assert direct == pytest.approx(scaled, rel=0.15)


@pytest.mark.parametrize("nu", [0.0, 2.0])
def test_the_covariance_is_that_of_fits(nu):
    """300 toys; 5 standard errors."""
    rng = np.random.default_rng(5)
    fitted = [fit_nuisances(ONE_NUISANCE.toy(rng, nu)).nu[0] for _ in range(300)]
    sigma = np.sqrt(nuisance_covariance(sample(), np.array([nu, 0.0]), ONE_NUISANCE.n_reference)[0, 0])
    assert pulls(fitted, nu, sigma).within(5.0)


def test_toys_tell_mean_and_width_of_fitted_minus_true_values():
    truth = np.array([[0.0, 1.0], [0.0, -1.0], [0.0, 3.0]])
    without_h = truth + np.array([[0.5, 0.0], [0.5, 1.0], [0.5, -1.0]])
    first, second = nuisances_of_toys(("a", "b"), truth, without_h, truth)
    assert (first.name, first.n_toys, first.mean, first.std) == ("a", 3, 0.5, 0.0)
    assert (second.mean, second.std) == pytest.approx((0.0, 1.0))
    assert (first.mean_with_h, second.std_with_h) == (0.0, 0.0)
    assert first.biased
    assert not second.biased


def test_data_that_tell_nothing_contradict_nothing():
    """As of nuisances that are all left out of the test."""
    dataset = WORLD.toy(np.random.default_rng(3))
    silent = [Response(np.zeros_like(r.linear)) for r in (dataset.reference_response, dataset.data_response)]
    bare = replace(dataset, reference_response=silent[0], data_response=silent[1], normalisation=None)
    found, agreement = judge_nuisances(bare, fit_nuisances(bare), NAMES[:2])
    assert [nuisance.pull for nuisance in found] == [0.0, 0.0]
    assert [nuisance.constraint for nuisance in found] == pytest.approx([1.0, 1.0])
    assert agreement is None
