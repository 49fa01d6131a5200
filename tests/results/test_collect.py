"""Groups of toys by what they are, and their t at the nominal yield."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from covad.inference.joint import JointNull
from covad.results.collect import Group, collect, joint_null
from covad.toys.ensembles import Treatment


@pytest.fixture(scope="module")
def groups(run) -> dict[tuple[str, str], Group]:
    return {(group.test, group.configuration.slug): group for group in collect(run).groups()}


@pytest.fixture(scope="module")
def convex(groups) -> Group:
    return groups["convex", "latent-profiled"]


@pytest.fixture(scope="module")
def network(groups) -> Group:
    return groups["network", "latent-profiled"]


def test_every_ensemble_is_in_its_place(groups):
    for (_, slug), group in groups.items():
        profiled = slug == "latent-profiled"
        assert list(group.yields) == ([-3.0, -1.5, 1.5, 3.0] if profiled else [])
        assert list(group.shifted) == [(1.0,)]
        assert (group.prior is not None) == profiled
        assert all(len(toys.t) == 40 for toys in (group.null, *group.yields.values()))
        if group.prior is not None:
            assert len(set(group.prior.column("true_norm"))) == 40
        for nu_norm, toys in group.yields.items():
            assert set(toys.column("true_norm")) == {0.1 * nu_norm}


def test_t_is_moved_by_the_fitted_yield_of_each_toy(convex, network):
    for group in (convex, network):
        for toys in (
            group.null,
            group.yields[3.0],
            group.shifted[1.0,],
            group.prior,
            *group.signals.values(),
        ):
            moved = group.moments.at_nominal(toys.t, toys.column("log_yield"))
            np.testing.assert_array_equal(group.t(toys), moved)
            assert (moved != toys.t).all()


def test_what_is_drawn_is_t_at_the_nominal_yield(run, groups):
    """Evidence and figures take these values, by the identity of the ensemble."""
    found = collect(run)
    assert found.values.keys() == found.toys.keys()
    for (test, slug), group in groups.items():
        for entry in found.entries:
            if (entry.test, entry.configuration.slug) == (test, slug):
                toys, values = found.toys[entry.ensemble.identity], found.values[entry.ensemble.identity]
                np.testing.assert_array_equal(values, group.t(toys))
                assert (values != toys.t).all() == (slug == "latent-profiled")


def test_the_convex_test_moves_t_by_its_law_and_the_network_by_its_toys(convex, network):
    """The law is known to 6 sigma_N, toys where they were fitted."""
    assert [convex.moments.covers(x) for x in (-0.61, -0.6, 0.6, 0.61)] == [False, True, True, False]
    fitted = np.concatenate([toys.column("log_yield") for toys in (network.null, *network.yields.values())])
    assert network.moments.covers(fitted.max())
    assert not network.moments.covers(fitted.max() + 0.001)
    law = convex._analytic.at_yield(0.2).law
    assert convex.moments.at_nominal(law.mean, 0.2) == pytest.approx(convex.analytic.law.mean, rel=1e-3)


def test_yields_far_apart_differ_in_t_and_not_in_t_at_the_nominal_yield(convex, network):
    """+-3 sigma_N of 0.1: by the law of the convex test means differ by 0.4 standard deviations.

    40 toys each: a difference of 5 standard errors, sqrt(2 / 40) standard deviations each, is a false alarm.
    """
    for group in (convex, network):
        low, high = (group.yields[x] for x in (-3.0, 3.0))
        assert (group.t(high).mean() - group.t(low).mean()) / group.null_t.std() < 5 * np.sqrt(2 / 40)
        assert high.t.mean() - low.t.mean() > group.t(high).mean() - group.t(low).mean()
    law = [convex._analytic.at_yield(x).law for x in (-0.3, 0.3)]
    assert law[1].mean - law[0].mean > 0.3 * convex.analytic.law.std


def test_the_null_is_made_of_toys_at_all_yields(convex, network):
    for group in (convex, network):
        assert len(group.null_t) == 200
        everywhere = np.concatenate([group.t(toys) for toys in (group.null, *group.yields.values())])
        np.testing.assert_array_equal(np.sort(group.nulls["R_0"].t), np.sort(everywhere))
        np.testing.assert_array_equal(np.sort(group.nulls["R_+1"].t), np.sort(group.t(group.shifted[1.0,])))
        law = group.nulls[group.law_name]
        assert law.n_toys == 200
    assert (convex.quoted, network.quoted) == ("analytic", "R_0")


def test_without_a_fitted_yield_t_stays(groups, network):
    for test in ("network", "convex"):
        plain = groups[test, "latent-none"]
        assert plain.ensemble.draw.treatment is Treatment.NONE
        assert plain.moments is None
        np.testing.assert_array_equal(plain.t(plain.null), plain.null.t)
        np.testing.assert_array_equal(plain.null_t, plain.null.t)
    alone = replace(network, yields={})
    assert alone.moments is None
    np.testing.assert_array_equal(alone.null_t, network.null.t)


def test_p_of_the_null_toys_is_by_the_law_or_by_their_rank(convex, network):
    expected = {(x, i) for x in (-3.0, -1.5, 0.0, 1.5, 3.0) for i in range(40)}
    law, rank = convex.null_p(), network.null_p()
    assert law.keys() == rank.keys() == expected
    t = dict(zip((toy.index for toy in convex.yields[1.5].done), convex.t(convex.yields[1.5]), strict=True))
    assert law[1.5, 7] == pytest.approx(float(convex.analytic.law.sf(t[7])))
    # every rank once: t of different toys differ
    assert sorted(round(200 * p) for p in rank.values()) == list(range(1, 201))
    moved = network.t(network.null)
    largest = network.null.done[int(np.argmax(moved))].index
    assert rank[0.0, largest] == min(rank[0.0, i] for i in range(40))


def test_the_joint_null_pairs_the_same_toys(convex, network):
    null = joint_null(convex, network)
    assert isinstance(null, JointNull)
    first, second = convex.null_p(), network.null_p()
    expected = [-np.log(min(first[key], second[key])) for key in first]
    np.testing.assert_allclose(null.t, np.sort(expected))
    np.testing.assert_array_equal(joint_null(network, convex).t, null.t)
    # the datasets are the same: the tests agree more than independent ones would (5 standard errors)
    z = [norm.isf(np.clip([each[key] for key in first], 1e-3, 1 - 1e-3)) for each in (first, second)]
    assert np.corrcoef(*z)[0, 1] > 5 / np.sqrt(200)


def test_the_joint_null_has_only_toys_that_both_tests_have(convex, network):
    """A toy whose fit failed in one of them says nothing about both."""
    fewer = replace(network.null, toys=network.null.toys[:30])
    null = joint_null(convex, replace(network, null=fewer))
    assert len(null.t) == 190
