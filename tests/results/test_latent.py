"""Marginals as figures show them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import report_world

from covad.nplm.dataset import Response
from covad.results.latent import LatentSpace, Marginal, marginals
from covad.toys.pools import LatentEvents, Pool


@pytest.fixture(scope="module")
def marginal():
    evidence = report_world.evidence((("covariant", "profiled", 1),), injections=())
    (found,) = evidence.marginals("covariant_linear")
    return found


def test_marginals_have_outer_edges_and_ascending_nu(marginal):
    assert marginal.edges.tolist() == [-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5]
    assert [line.nu for line in marginal.shifted] == [(-2.0,), (-1.0,), (1.0,), (2.0,)]
    assert marginal.largest_shift == 2.0
    assert marginals(None, None) == []


def test_outer_edges_of_a_weighted_reference_are_by_its_weights():
    z = np.arange(1000, dtype=np.float32)[:, None]
    weights = np.where(z[:, 0] < 500, 1e-9, 1.0)
    edges = []
    for found in (None, weights):
        sample = LatentEvents(z, Response.none(1000), found)
        pools = SimpleNamespace(reference=Pool(sample))
        space = LatentSpace(pools, np.zeros(1), np.ones(1))
        edges.append(space.reference_quantiles(0, [0.001, 0.999]).tolist())
    assert edges == [pytest.approx([0.999, 998.001]), [500.0, 999.0]]


def test_densities_integrate_to_one(marginal):
    density = marginal.density(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    assert density @ np.diff(marginal.edges) == pytest.approx(1.0)


def test_empty_bins_have_no_log_ratio(marginal):
    ratio = marginal.log_ratio(np.array([0.0, *marginal.nominal[1:]]))
    assert np.isnan(ratio[0])
    assert ratio[1:].tolist() == [0.0] * 5


def test_a_bin_against_nu_goes_through_the_origin(marginal):
    nu, empirical, error, modelled = marginal.along_nuisance(0, 0)
    assert nu.tolist() == [-2.0, -1.0, 0.0, 1.0, 2.0]
    assert (empirical[2], error[2], modelled[2]) == (0.0, 0.0, 0.0)
    line = marginal.shifted[0]
    assert empirical[0] == pytest.approx(np.log(line.observed[0] / line.nominal[0]))
    assert error[0] == pytest.approx(line.uncertainty[0] / line.observed[0])
    assert modelled[0] == pytest.approx(np.log(line.predicted[0] / line.nominal[0]))


def test_a_bin_leaves_other_nuisances_out_and_marks_empty_ones(marginal):
    first, second, *_ = marginal.shifted
    along_other = replace(first, nu=(0.0, 1.0))
    empty = replace(second, nu=(1.0, 0.0), observed=(0.0, *second.observed[1:]))
    two = Marginal(0, "z0", marginal.edges, (along_other, empty))
    nu, empirical, *_ = two.along_nuisance(0, 0)
    assert nu.tolist() == [0.0, 1.0]
    assert np.isnan(empirical[1])


def test_a_signal_on_top_raises_its_own_bins(marginal):
    counts = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 50.0])
    assert marginal.with_signal(counts, 0.01).tolist() == pytest.approx([1.0] * 5 + [1.06])
