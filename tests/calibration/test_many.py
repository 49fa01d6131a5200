"""Many nuisances at once, and correlated auxiliary measurements.

Seeds are fixed. With others, a check of type-I errors raises a false alarm once in a hundred runs, pulls of
fifty nuisances once in a hundred and fifty (4 standard errors each), a Kolmogorov-Smirnov test once in a
thousand, healthy toys of the controls once in a thousand each.
"""

import time

import numpy as np
import pytest
from calibration.many import (
    ManyNuisances,
    all_pulls,
    constraints,
    drop,
    p_by_law,
    pulls_of_sum,
    t_of,
    type_one_errors,
)
from scipy.stats import ks_2samp, kstest

from covad.nplm.convex.law import analytic_null
from covad.nplm.fit import Status
from covad.nplm.likelihood import join_nuisances
from covad.nplm.network.network import NetworkTest
from covad.nplm.network.search import ONE_START
from covad.nplm.statistic import likelihood_ratio
from covad.toys.latent_world import LatentWorld

RARE = 1e-3
#: Of one family of type-I errors.
FAMILY_WISE = 0.01
#: Nuisances that are dropped in turns, and by how many sigma they act.
DROPPED, ACTING = (0, 1, 2, 3, 7), 3.0
PAPER_CLIP = 1.27


def small(k):
    return ManyNuisances(LatentWorld(n_reference=10_400, expected=2_000.0, n_nuisances=k), bumps=30)


def paper(k):
    return ManyNuisances(LatentWorld(n_nuisances=k))


def told(error):
    return f"{error.sigma:.0f} sigma {error.rate:.4f} (p {error.p:.2f})"


def check_calibration(many, n_toys, sigmas):
    """Return the outcomes, after all that they have to show at nu = 0."""
    outcomes = many.outcomes(n_toys)
    assert all(outcome.status is Status.CONVERGED for outcome in outcomes)
    t = np.array([outcome.t for outcome in outcomes])
    law = many.null().law
    p = p_by_law(law, t)
    errors = type_one_errors(p, sigmas)
    found = all_pulls(many, [outcome.delta for outcome in outcomes])
    k = many.world.n_nuisances
    ks = kstest(p, "uniform").pvalue
    error, reach = t.std() / np.sqrt(n_toys), found[0].width_error
    widths = [pull.width for pull, left in zip(found, constraints(many), strict=False) if left < 0.95]
    print(f"K = {k}, {n_toys} toys: mean t {t.mean():.3f} +- {error:.3f}, law {law.mean:.3f}, KS {ks:.3f}")
    print("  type I:", *map(told, errors))
    print(f"  pulls of {len(widths)} constrained: {min(widths):.3f} to {max(widths):.3f}, +- {reach:.3f}")
    assert ks > RARE
    assert min(error.p for error in errors) > FAMILY_WISE / len(errors)
    assert [number for number, pull in enumerate(found) if not pull.within(4.0)] == []


@pytest.mark.parametrize(("k", "toys"), [(10, 200), (50, 120)])
def test_t_of_small_toys_follows_its_law_and_all_pulls_are_normal(k, toys):
    check_calibration(small(k), toys, (1.0, 2.0))


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 10, 50])
def test_t_follows_its_law_and_all_pulls_are_normal(k):
    """2000 toys of the paper's size."""
    check_calibration(paper(k), 2000, (1.0, 2.0, 3.0))


def test_the_world_has_nuisances_that_the_data_constrain_and_others():
    errors = constraints(paper(50))
    assert (errors < 0.9).sum() >= 10
    assert (errors > 0.98).sum() >= 20


def check_prior(many, n_toys, sigmas=(1.0, 2.0)):
    """The p that is quoted, by the law at the fitted nuisances, over the prior of all of them."""
    p = []
    for _, toy in many.toys_of_the_prior(n_toys):
        outcome = likelihood_ratio(toy, many.test, 0)
        p.append(analytic_null(many.test, toy, join_nuisances(outcome.delta, toy)).law.sf(outcome.t))
    errors = type_one_errors(np.array(p), sigmas)
    print(f"K = {many.world.n_nuisances}, prior, {n_toys} toys:", *map(told, errors))
    assert kstest(p, "uniform").pvalue > RARE
    assert min(error.p for error in errors) > FAMILY_WISE / len(errors)


def test_the_quoted_p_of_small_toys_is_right_over_the_prior_of_all_nuisances():
    check_prior(small(10), 60)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "toys", "sigmas"), [(10, 500, (1.0, 2.0)), (50, 2000, (1.0, 2.0, 3.0))])
def test_the_quoted_p_is_right_over_the_prior_of_all_nuisances(k, toys, sigmas):
    check_prior(paper(k), toys, sigmas)


def check_dropped(many, n_toys, dropped, acting):
    for k in dropped:
        found = drop(many, k, acting, n_toys)
        power = found.healthy.power_to_notice(found.expected, RARE)
        means = found.mean, found.expected.mean, found.healthy.mean
        print("nuisance {} dropped: mean t {:.2f}, {:.2f} predicted, {:.2f} healthy".format(k + 1, *means))
        assert power > 0.99, k
        assert found.noticed(RARE), k
        low, high = found.expected.limits(RARE)
        assert low <= found.mean <= high, k


def test_a_dropped_nuisance_is_noticed_in_small_toys():
    check_dropped(small(10), 80, (0, 1), 5.0)


@pytest.mark.slow
def test_each_of_five_dropped_nuisances_is_noticed():
    check_dropped(paper(10), 300, DROPPED, ACTING)


def check_network(world, n_toys):
    """No law here: t at nu = 0 and at truths of the prior must agree. Pulls are those of the fits at 0."""
    test, many = NetworkTest(PAPER_CLIP, search=ONE_START), ManyNuisances(world)
    clock = time.process_time()
    outcomes = many.outcomes(n_toys, test)
    seconds = (time.process_time() - clock) / n_toys
    nominal = np.array([outcome.t for outcome in outcomes])
    found = all_pulls(many, [outcome.delta for outcome in outcomes])
    widths = [pull.width for pull, left in zip(found, constraints(many), strict=False) if left < 0.95]
    reach = found[0].width_error
    print(f"network, K = {world.n_nuisances}: {seconds:.2f} s of CPU a toy, with its events")
    print(f"  pulls of {len(widths)} constrained: {min(widths):.3f} to {max(widths):.3f}, +- {reach:.3f}")
    assert all(outcome.status is not Status.FAILED for outcome in outcomes)
    assert [number for number, pull in enumerate(found) if not pull.within(4.0)] == []
    thrown = t_of(test, (toy for _, toy in many.toys_of_the_prior(n_toys)))
    p = ks_2samp(nominal, thrown).pvalue
    means = nominal.mean(), thrown.mean()
    print("network, K = {}: mean t {:.2f} at 0, {:.2f} over the prior".format(world.n_nuisances, *means))
    assert p > RARE


def test_t_of_the_network_does_not_depend_on_many_true_nuisances_in_small_toys():
    check_network(LatentWorld(n_reference=5_200, expected=1_000.0, n_nuisances=10), 12)


@pytest.mark.slow
@pytest.mark.parametrize("k", [10, 50])
def test_t_of_the_network_does_not_depend_on_many_true_nuisances(k):
    check_network(LatentWorld(n_nuisances=k), 150)


def check_correlated(world, n_toys):
    """Pulls of the sum of two nuisances, whose errors add up if they are correlated."""
    right, wrong = (pulls_of_sum(world, n_toys, with_matrix) for with_matrix in (True, False))
    print(f"width of the pulls: {right.width:.3f} with the matrix, {wrong.width:.3f} without")
    assert right.within(4.0)
    assert wrong.width > 1.0 + 5.0 * wrong.width_error


CORRELATED = np.array([[1.0, 0.9], [0.9, 1.0]])


def test_correlated_measurements_need_their_matrix_in_small_toys():
    check_correlated(LatentWorld(5_200, 1_000.0, 2, correlation=CORRELATED), 500)


@pytest.mark.slow
def test_correlated_measurements_need_their_matrix():
    """1000 events leave much to the auxiliary measurements: 1.18 is predicted without the matrix."""
    check_correlated(LatentWorld(5_200, 1_000.0, 2, correlation=CORRELATED), 2000)
    check_calibration(ManyNuisances(LatentWorld(n_nuisances=2, correlation=CORRELATED)), 1000, (1.0, 2.0))
