"""The network as the test: bad input, statuses, and what a fit promises."""

from dataclasses import replace

import numpy as np
import pytest
from convex_world import Precomputed

from covad.errors import DatasetError
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.dataset import Dataset, Response
from covad.nplm.fit import Status
from covad.nplm.likelihood import fit_nuisances, join_nuisances, log_ratio, nuisance_shift
from covad.nplm.network.network import NetworkTest
from covad.nplm.network.newton import NewtonSettings, climb
from covad.nplm.network.search import ONE_START, Search
from covad.nplm.statistic import likelihood_ratio
from covad.toys.latent_world import LatentWorld

WORLD = LatentWorld(n_reference=6000, expected=1500.0)
QUICK = NetworkTest(clip=1.2, search=Search(starts=2, hops=2))


@pytest.fixture(scope="module")
def dataset():
    return WORLD.toy(np.random.default_rng(11))


@pytest.fixture(scope="module")
def result(dataset):
    return likelihood_ratio(dataset, QUICK, seed=5)


def test_t_is_tau_minus_delta_and_not_negative(result):
    assert result.t == result.tau.value - result.delta.value
    assert result.t >= 0.0
    assert result.status is Status.CONVERGED


def test_t_can_be_computed_again_from_what_is_stored(dataset, result):
    """From the weights with the kernels in float64, and from h of each event with the definition."""
    tau = result.tau
    nu = np.append(tau.nu, tau.nu_norm)
    theta = np.append(tau.parameters, nu)
    again = 2.0 * QUICK.likelihood(dataset, np.float64).value(theta) - result.delta.value
    assert again == pytest.approx(result.t, abs=1e-8)
    norm = dataset.normalisation
    f_data = tau.h_data + nuisance_shift(dataset.data_response, nu)
    f_reference = tau.h_reference + nuisance_shift(dataset.reference_response, nu)
    value = 2.0 * log_ratio(f_data, f_reference, dataset.weights)
    value -= np.sum((tau.nu - dataset.measured) ** 2 - dataset.measured**2)
    value -= ((tau.nu_norm - norm.measured) ** 2 - norm.measured**2) / norm.sigma**2
    assert value - result.delta.value == pytest.approx(result.t, abs=1e-4)


def test_weights_stay_in_the_box_and_active_bounds_are_counted(result):
    weights = np.abs(result.tau.parameters)
    assert weights.max() <= QUICK.clip
    assert result.tau.active_bounds == np.sum(weights == QUICK.clip) > 0


def test_a_signal_raises_t(dataset):
    loud = WORLD.toy(np.random.default_rng(11), expected_signal=150.0)
    assert likelihood_ratio(loud, QUICK, seed=5).t > likelihood_ratio(dataset, QUICK, seed=5).t + 30.0


def test_the_result_depends_on_dataset_and_seed_only(dataset, result):
    likelihood_ratio(WORLD.toy(np.random.default_rng(99)), QUICK, seed=1)
    again = likelihood_ratio(dataset, QUICK, seed=5)
    assert again.t == result.t
    np.testing.assert_array_equal(again.tau.parameters, result.tau.parameters)


@pytest.mark.parametrize("n_nuisances", [0, 1, 2, 3])
@pytest.mark.parametrize("sigma", [None, 0.1])
def test_any_number_of_nuisances(n_nuisances, sigma):
    world = replace(WORLD, n_nuisances=n_nuisances, normalisation_sigma=sigma)
    found = likelihood_ratio(world.toy(np.random.default_rng(1)), replace(QUICK, search=ONE_START), seed=0)
    assert found.t >= 0.0
    assert len(found.tau.nu) == n_nuisances
    assert (found.tau.nu_norm == 0.0) == (sigma is None)


def test_a_quadratic_response_is_profiled():
    plain = WORLD.toy(np.random.default_rng(4))
    rng = np.random.default_rng(5)

    def bent(response):
        size = (len(response.linear), 1, 1)
        return Response(response.linear, rng.normal(0.0, 0.01, size).astype(np.float32))

    curved = replace(
        plain, reference_response=bent(plain.reference_response), data_response=bent(plain.data_response)
    )
    found = likelihood_ratio(curved, replace(QUICK, search=ONE_START), seed=0)
    assert found.status is Status.CONVERGED
    assert found.t == pytest.approx(
        likelihood_ratio(plain, replace(QUICK, search=ONE_START), seed=0).t, abs=15.0
    )


def test_another_nuisance_never_lowers_tau():
    """With the weights of the smaller fit as start: the larger model contains the smaller one."""
    two = replace(WORLD, n_nuisances=2).toy(np.random.default_rng(6))
    responses = [Response(r.linear[:, :1]) for r in (two.reference_response, two.data_response)]
    one = replace(two, reference_response=responses[0], data_response=responses[1], measured=two.measured[:1])
    fit = QUICK.fit(one, fit_nuisances(one), seed=0)
    start = np.concatenate([fit.parameters, fit.nu, [0.0, fit.nu_norm]])
    larger = climb(QUICK.likelihood(two, np.float64), start, QUICK.limits(two), NewtonSettings())
    assert 2.0 * larger.value >= fit.value


def test_h_zero_is_a_candidate():
    """Data that are the reference: nothing to gain, and t is zero, not negative, wherever a climb ended."""
    z = np.random.default_rng(0).normal(size=(4000, 4)).astype(np.float32)
    none = Response.none(4000)
    dataset = Dataset(z, z, np.ones(4000), none, none, np.zeros(0))
    starved = NewtonSettings(budget=1)
    search = Search(starts=1, hops=0, condensed=starved, polish=starved, finish=starved)
    result = likelihood_ratio(dataset, NetworkTest(clip=1.0, search=search), 0)
    assert result.t == 0.0
    assert not result.tau.parameters.any()
    assert not result.tau.h_data.any()


def test_a_network_without_hidden_units_has_one_maximum_and_finds_it(dataset):
    """h = w.z + b is linear in its weights: the convex problem with the basis (z, 1) and no ridge."""
    linear = likelihood_ratio(dataset, NetworkTest(widths=(4, 1), clip=5.0, search=Search(2, 3)), seed=0)
    affine = [
        np.column_stack([z, np.ones(len(z))]).astype(np.float32) for z in (dataset.reference, dataset.data)
    ]
    exact = likelihood_ratio(
        replace(dataset, reference=affine[0], data=affine[1]), ConvexTest(Precomputed(5, 5), 0.0), 0
    )
    assert linear.status is exact.status is Status.CONVERGED
    assert linear.t == pytest.approx(exact.t, abs=1e-3)
    np.testing.assert_allclose(linear.tau.parameters, exact.tau.parameters, atol=2e-3)


def test_out_of_budget_is_a_status_with_a_value(dataset):
    starved = NewtonSettings(budget=2)
    search = Search(starts=1, hops=0, condensed=starved, polish=starved, finish=starved)
    result = likelihood_ratio(dataset, NetworkTest(clip=1.2, search=search), seed=0)
    assert result.status is Status.UNCONVERGED
    assert result.t >= 0.0


@pytest.mark.parametrize("scale", [1e4, 1e20, 1e37])
def test_absurd_features_give_a_status_and_never_nan(dataset, scale):
    with np.errstate(over="ignore"):
        far = replace(dataset, data=(dataset.data / 10 * np.float32(scale)))
    result = likelihood_ratio(far, replace(QUICK, search=ONE_START), seed=0)
    assert isinstance(result.status, Status)
    assert np.isfinite([result.t, *result.tau.nu, *result.tau.parameters]).all()
    assert result.t >= 0.0


def test_weights_beyond_float32_give_a_status(dataset):
    heavy = replace(dataset, weights=dataset.weights * 1e100)
    result = likelihood_ratio(heavy, replace(QUICK, search=ONE_START), seed=0)
    assert result.status is not Status.CONVERGED
    assert np.isfinite(result.t)
    assert result.t >= 0.0


@pytest.mark.parametrize("clip", [0.0, -1.0, np.nan, np.inf])
def test_the_clip_must_be_positive(clip):
    with pytest.raises(DatasetError, match="W must be positive"):
        NetworkTest(clip=clip)


@pytest.mark.parametrize("widths", [(), (4,), (4, 0, 1), (4, 4, 2)])
def test_widths_must_make_a_network(widths):
    with pytest.raises(DatasetError, match="widths"):
        NetworkTest(clip=1.4, widths=widths)


def test_the_number_of_dimensions_must_fit(dataset):
    with pytest.raises(DatasetError, match="4 dimensions, the network takes 3"):
        likelihood_ratio(dataset, NetworkTest(clip=1.4, widths=(3, 4, 1)), seed=0)


@pytest.mark.parametrize(
    "numbers", [{"starts": 0}, {"hops": -1}, {"draws": 0}, {"parents": 0}, {"finished": 0}]
)
def test_a_search_needs_starts(numbers):
    with pytest.raises(DatasetError, match="at least one start"):
        Search(**numbers)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": np.zeros((0, 4), np.float32)}, "data is empty"),
        ({"data": np.full((10, 4), np.nan, np.float32)}, "not finite"),
        ({"data": np.zeros((10, 3), np.float32)}, "3 dimensions, the reference has 4"),
        ({"weights": np.zeros(6000)}, "positive"),
        ({"weights": np.full(6000, -1.0)}, "positive"),
        ({"weights": np.full(6000, np.nan)}, "positive"),
        ({"weights": np.ones(5)}, "as many weights"),
        ({"measured": np.zeros(2)}, "auxiliary values"),
        ({"measured": np.full(1, np.nan)}, "auxiliary values"),
        ({"reference_response": Response(np.zeros((5, 1), np.float32))}, "5, 1"),
    ],
)
def test_bad_datasets_are_refused_by_name(dataset, change, message):
    with pytest.raises(DatasetError, match=message):
        replace(dataset, **change)


def test_start_of_the_nuisances_is_the_delta_fit(dataset):
    null = fit_nuisances(dataset)
    np.testing.assert_array_equal(join_nuisances(null, dataset), [*null.nu, null.nu_norm])
