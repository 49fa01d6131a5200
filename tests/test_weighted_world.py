"""The weighted world stands for the mix, and its negative control does not."""

import numpy as np
import pytest
from scipy.stats import chi2
from weighted_world import (
    RAW_SHARES,
    effective_share,
    expected_yields,
    negative_share,
    signed_weights,
    write_unweighted,
    write_weighted,
)

from covad.events.files import open_events
from covad.events.processes import BACKGROUND_MIX
from covad.simulation.simulate import Simulation

N_EVENTS = 30_000
#: Bins of HT in GeV; the last has no end.
EDGES = np.array([-1, 1, 25, 40, 60, 90, 130, 200, np.inf])


def binned(events, weights):
    """Return sums of weights and of their squares in bins of HT."""
    ht = events.objects("jet")[..., 0].sum(axis=1, dtype=np.float64)
    return [np.histogram(ht, EDGES, weights=w)[0] for w in (weights, weights**2)]


def read(path):
    with open_events(path) as source:
        (events,) = source.chunks()
        return events, source.sum_of_weights


def shares_of_ht(paths):
    """Return the distribution of HT of weighted files, in the mix of the study, with its variances."""
    content = np.zeros((2, len(EDGES) - 1))
    for path in paths:
        events, _ = read(path)
        scale = expected_yields(1.0)[path.stem] / events.weights.sum()
        content += binned(events, scale * events.weights)
    return content


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """The distribution of HT of the unweighted mix, with its variances."""
    events, _ = read(write_unweighted(tmp_path_factory.mktemp("mix") / "mix.h5", N_EVENTS, seed=11))
    assert events.weights is None
    return np.array(binned(events, np.full(N_EVENTS, 1 / N_EVENTS)))


def p_of_difference(first, second):
    """The chance of such a difference; both are normalised, which takes one degree of freedom."""
    difference, variance = first[0] - second[0], first[1] + second[1]
    return chi2(len(difference) - 1).sf((difference**2 / variance).sum())


def test_weighted_files_have_the_density_of_the_mix(tmp_path, mixed):
    """False alarms: 1 in 1000, with a fixed seed."""
    assert p_of_difference(shares_of_ht(write_weighted(tmp_path, 2 * N_EVENTS, seed=12)), mixed) > 1e-3


def test_files_without_signs_have_another(tmp_path, mixed):
    paths = write_weighted(tmp_path, 2 * N_EVENTS, seed=12, signs=False)
    assert all((read(path)[0].weights > 0).all() for path in paths)
    assert p_of_difference(shares_of_ht(paths), mixed) < 1e-12


def test_files_have_wrong_shares_and_know_their_sums(tmp_path):
    numbers = {}
    for path in write_weighted(tmp_path, 20_000, seed=13):
        events, sums = read(path)
        numbers[path.stem] = len(events)
        assert events.process_counts() == {path.stem: len(events)}
        error = np.sqrt((events.weights**2).sum())
        assert sums == {path.stem: pytest.approx(events.weights.sum(), abs=5 * error)}
    assert numbers == {process: round(20_000 * share) for process, share in RAW_SHARES.items()}
    assert max(abs(RAW_SHARES[process] / mix - 1) for process, mix in BACKGROUND_MIX.items()) > 1


def test_the_share_of_negative_weights_grows_with_ht_and_the_mean_stays_one():
    """Each number within 4 standard deviations: false alarms 1 in 4000, with a fixed seed."""
    (events,) = Simulation("ttbar", 10_000, 14).blocks()
    p = negative_share(events)
    assert p.min() >= 0.05
    assert p.max() == pytest.approx(0.40, abs=0.01)
    throws = np.array([signed_weights(events, np.random.default_rng(i)) for i in range(50)])
    for part in (p < np.median(p), p >= np.median(p)):
        for found, expected in ((throws < 0, p[part].mean()), (throws, 1.0)):
            means = found[:, part].mean(axis=1)
            error = means.std(ddof=1) / np.sqrt(len(means))
            assert means.mean() == pytest.approx(expected, abs=4 * error)


def test_the_effective_share_is_that_of_the_files(tmp_path):
    content = shares_of_ht(write_weighted(tmp_path, N_EVENTS, seed=15))
    assert effective_share() == pytest.approx(content[0].sum() ** 2 / content[1].sum() / N_EVENTS, rel=0.1)
