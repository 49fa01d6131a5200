"""Statistical limits are 5 standard errors unless stated: false alarms once in two million per check."""

from dataclasses import replace

import numpy as np
import pytest
from toy_world import (
    CHEAP,
    latent_pools,
    latent_sample,
    small_draw,
    small_ensemble,
    weighted_pool,
    weighted_pools,
)

from covad.errors import PlanError, TooFewEventsError
from covad.nplm.convex.convex import columns
from covad.nplm.dataset import Response
from covad.nplm.smoothing import smooth
from covad.toys import latent_world as latent
from covad.toys.drawing import LATENT_VERSION, LatentSource, PoolSource, assemble, pool_offset
from covad.toys.ensembles import Ensemble, Request, Treatment
from covad.toys.pool_files import write_pools
from covad.toys.pools import LatentEvents, Pool, Pools
from covad.toys.run import run_toys
from covad.toys.store import ToyStore
from covad.toys.toy import run_toy

PRIOR = (-1.5, -0.25, 0.5, 2.0)


@pytest.fixture
def pool_source(tmp_path):
    write_pools(tmp_path / "pools", latent_pools(prior=PRIOR))
    return PoolSource.open(tmp_path / "pools")


def pool_ensemble(source, **changes):
    return Ensemble(small_draw(**changes), CHEAP, source, 1)


def datasets(ensemble, n):
    return [ensemble.source.draw(ensemble.draw, ensemble.seeds(i)) for i in range(n)]


def test_the_latent_world_is_the_one_of_its_version():
    """If these numbers change, raise LATENT_VERSION, so that stored toys are not mixed with new ones."""
    dataset = datasets(small_ensemble(), 1)[0]
    assert LATENT_VERSION == 2
    assert dataset.reference[0] == pytest.approx([0.9638, -1.6797, -0.765, -0.3277], abs=2e-4)
    assert len(dataset.data) == 195


@pytest.mark.parametrize("kind", ["latent", "pools"])
def test_numbers_of_events_are_poisson(kind, pool_source):
    source = LatentSource(1) if kind == "latent" else pool_source
    plain = Ensemble(small_draw(expected=100), CHEAP, source, 1)
    n = np.array([len(d.data) for d in datasets(plain, 400)])
    assert abs(n.mean() - 100) < 5 * 10 / np.sqrt(400)
    # the variance of a Poisson variable has the relative error sqrt(2 / n)
    assert abs(n.var() / 100 - 1) < 5 * np.sqrt(2 / 400)


@pytest.mark.parametrize("kind", ["latent", "pools"])
@pytest.mark.parametrize("nu_norm", [-2.0, 3.0])
def test_the_true_yield_moves_the_data_and_what_was_measured_of_it(kind, nu_norm, pool_source):
    """sigma_N = 0.1: the expectation, which is in the weights, knows nothing of it."""
    source = LatentSource(1) if kind == "latent" else pool_source
    drawn = datasets(
        Ensemble(small_draw(expected=100, n_reference=50, nu_norm=nu_norm), CHEAP, source, 1), 400
    )
    n, mean = np.array([len(d.data) for d in drawn]), 100 * np.exp(0.1 * nu_norm)
    assert abs(n.mean() - mean) < 5 * np.sqrt(mean / 400)
    assert abs(n.var() / mean - 1) < 5 * np.sqrt(2 / 400)
    measured = np.array([d.normalisation.measured for d in drawn])
    assert abs(measured.mean() - 0.1 * nu_norm) < 5 * 0.1 / np.sqrt(400)
    assert abs(measured.std() / 0.1 - 1) < 5 / np.sqrt(800)
    assert drawn[0].weights.sum() == pytest.approx(100)


def test_the_latent_prior_is_normal_in_every_nuisance_and_in_the_yield():
    ensemble = Ensemble(small_draw(nu=(0.0, 0.0), prior=True), CHEAP, LatentSource(2), 1)
    truths = [ensemble.source.throw(ensemble.draw, ensemble.seeds(i)) for i in range(1000)]
    values = np.array([(*truth.nu, truth.nu_norm) for truth in truths])
    # mean 0, spread 1 and no correlation: nine numbers, each within 5 standard errors
    assert np.abs(values.mean(axis=0)).max() < 5 / np.sqrt(1000)
    assert np.abs(np.cov(values.T) - np.eye(3)).max() < 5 * np.sqrt(2 / 1000)
    again = ensemble.source.throw(ensemble.draw, ensemble.seeds(7))
    assert again == truths[7]


def test_a_prior_toy_throws_its_truth_measures_around_it_and_stores_it():
    toys = [run_toy(small_ensemble(expected=30, n_reference=50, prior=True), i) for i in range(100)]
    truth = np.array([(*toy.true_nu, toy.true_norm / 0.1) for toy in toys])
    assert len(np.unique(truth, axis=0)) == 100
    measured = np.array([(*toy.measured, toy.measured_norm / 0.1) for toy in toys])
    assert np.abs((measured - truth).mean(axis=0)).max() < 5 / np.sqrt(100)
    assert np.abs((measured - truth).var(axis=0) - 1).max() < 5 * np.sqrt(2 / 100)
    # n_data is Poisson around the yield of that truth
    mean = 30 * np.exp(truth[:, 1] * 0.1)
    pull = (np.array([toy.n_data for toy in toys]) - mean) / np.sqrt(mean)
    assert abs(pull.mean()) < 5 / np.sqrt(100)
    assert run_toy(small_ensemble(expected=30, n_reference=50, prior=True), 5).t == toys[5].t


def test_other_toys_store_their_truth_too():
    toy = run_toy(small_ensemble(nu=(1.0,), nu_norm=-2), 0)
    assert (toy.true_nu, toy.true_norm) == ((1.0,), pytest.approx(-0.2))
    toy = run_toy(small_ensemble(normalisation_sigma=None, prior=True), 0)
    assert toy.true_norm == 0.0


def test_prior_toys_of_pools_draw_from_the_pool_of_their_truth(pool_source):
    pools = latent_pools(prior=PRIOR)
    rows = {nu: {row.tobytes() for row in pool.sample.z} for nu, pool in pools.prior.items()}
    ensemble = pool_ensemble(pool_source, prior=True)
    seen, pulls = set(), []
    for index in range(60):
        truth = pool_source.throw(ensemble.draw, ensemble.seeds(index))
        dataset = pool_source.draw(truth, ensemble.seeds(index))
        assert all(row.tobytes() in rows[truth.nu] for row in dataset.data)
        mean = truth.expected_background * pools.prior[truth.nu].yield_ratio
        pulls.append((len(dataset.data) - mean) / np.sqrt(mean))
        seen.add(truth.nu)
    assert seen == {(nu,) for nu in PRIOR}  # one is left out of 60 throws once in 8 million
    assert abs(np.mean(pulls)) < 5 / np.sqrt(60)
    toys = [run_toy(ensemble, index) for index in (3, 3)]
    assert toys[0].t == toys[1].t
    assert toys[0].true_nu in seen


def test_pools_that_cannot_serve_the_largest_yield_are_refused(pool_source):
    """2000 events at nu = 0 and 500 at each point of the prior, 4 sigma_N and 6 standard deviations up."""
    for draw in (small_draw(expected=1400), small_draw(expected=1400, nu_norm=2), small_draw(prior=True)):
        pool_source.check(draw)
    with pytest.raises(
        TooFewEventsError, match=r"'data' has \d+ events at nu = \[0.0\], but toys may need 2151"
    ):
        pool_source.check(small_draw(expected=1400, nu_norm=3))
    with pytest.raises(
        TooFewEventsError, match=r"the pool 'prior' has .* events at a point of the prior, but"
    ):
        pool_source.check(small_draw(expected=300, prior=True))
    pool_source.check(small_draw(expected=300, prior=True, normalisation_sigma=None))


def test_pools_without_points_of_the_prior_say_what_to_do(tmp_path):
    write_pools(tmp_path, latent_pools())
    ensemble = pool_ensemble(PoolSource.open(tmp_path), prior=True)
    source, draw = ensemble.source, ensemble.draw
    for ask in (
        lambda: source.throw(draw, ensemble.seeds(0)),
        lambda: source.check(draw),
        lambda: pool_offset(ensemble),
    ):
        with pytest.raises(PlanError, match="there are no pools for toys of the prior; set prior to false"):
            ask()


def test_the_offset_of_small_pools_of_the_prior_averages(pool_source):
    """Quarters of the data: half the spread of each, as four means that are independent have."""
    shares = [
        pool_offset(pool_ensemble(pool_source, expected=100, prior=prior)).share * (1 / 100 + 1 / 1000)
        for prior in (False, True)
    ]
    reference = 1 / 2000
    assert (shares[1] - reference) / (shares[0] - reference) == pytest.approx(2.0, rel=0.1)
    more = pool_offset(pool_ensemble(pool_source, expected=100, nu_norm=3)).share
    assert more > pool_offset(pool_ensemble(pool_source, expected=100)).share


@pytest.mark.parametrize(("kind", "name"), [("latent", "signal"), ("pools", "bump")])
def test_the_signal_is_poisson_on_top(kind, name, pool_source):
    source = LatentSource(1) if kind == "latent" else pool_source
    draw = small_draw(expected=20, n_reference=50, signal=name, injected=80)
    n = np.array([len(d.data) for d in datasets(Ensemble(draw, CHEAP, source, 1), 400)])
    assert abs(n.mean() - 100) < 5 * 10 / np.sqrt(400)
    assert abs(n.var() / 100 - 1) < 5 * np.sqrt(2 / 400)


def test_auxiliary_values_are_thrown_around_the_truth():
    drawn = datasets(small_ensemble(nu=(2.0,), expected=30, n_reference=5), 1000)
    measured = np.array([d.measured[0] for d in drawn])
    norm = np.array([d.normalisation.measured for d in drawn])
    for values, centre, sigma in ((measured, 2.0, 1.0), (norm, 0.0, 0.1)):
        assert abs(values.mean() - centre) < 5 * sigma / np.sqrt(1000)
        assert abs(values.std() / sigma - 1) < 5 / np.sqrt(2000)


def test_the_expected_yield_is_in_the_weights():
    dataset = datasets(small_ensemble(), 1)[0]
    assert dataset.weights.sum() == pytest.approx(200)


def test_without_nuisances_the_test_knows_none():
    dataset = datasets(small_ensemble(treatment=Treatment.NONE, nu=(1.0,)), 1)[0]
    assert dataset.n_nuisances == 0
    assert dataset.normalisation is None
    assert dataset.measured.shape == (0,)


def test_a_known_yield_has_no_normalisation():
    dataset = datasets(small_ensemble(normalisation_sigma=None), 1)[0]
    assert dataset.normalisation is None
    assert dataset.n_nuisances == 1


def test_two_nuisances():
    ensemble = Ensemble(small_draw(nu=(1.0, -1.0)), CHEAP, LatentSource(2), 1)
    dataset = datasets(ensemble, 1)[0]
    assert dataset.n_nuisances == 2
    assert dataset.data_response.linear.shape == (len(dataset.data), 2)


def test_nu_shifts_the_data_and_not_the_reference():
    """The response is odd in nu: its mean over tilted data moves by nu * E[g^2]."""
    at = {
        nu: np.concatenate(
            [d.data_response.linear[:, 0] for d in datasets(small_ensemble(nu=(nu,), expected=2000), 20)]
        )
        for nu in (-3.0, 3.0)
    }
    difference = at[3.0].mean() - at[-3.0].mean()
    error = np.hypot(*(g.std() / np.sqrt(len(g)) for g in at.values()))
    expected = 6 * np.square(at[3.0]).mean()
    assert difference == pytest.approx(expected, abs=5 * error)
    assert difference > 5 * error


def test_pool_events_are_never_twice_in_a_toy(pool_source):
    for dataset in datasets(pool_ensemble(pool_source, signal="bump", injected=50), 20):
        together = np.concatenate([dataset.reference, dataset.data])
        assert len(np.unique(together, axis=0)) == len(together)


def test_pool_rows_keep_their_response(pool_source):
    for dataset in datasets(pool_ensemble(pool_source, nu=(1.0,), signal="bump", injected=50), 3):
        np.testing.assert_array_equal(dataset.data_response.linear, latent.response(dataset.data))
        np.testing.assert_array_equal(dataset.reference_response.linear, latent.response(dataset.reference))


def test_pool_events_are_all_drawn_alike(pool_source):
    """200 toys of 200 from 2000: every row about 20 times; the largest of 2000 binomial pulls below 6."""
    reference = latent_pools().reference.sample.z
    place = {row.tobytes(): i for i, row in enumerate(reference)}
    counts = np.zeros(len(reference))
    for dataset in datasets(pool_ensemble(pool_source, n_reference=200), 200):
        np.add.at(counts, [place[row.tobytes()] for row in dataset.reference], 1)
    assert counts.sum() == 200 * 200
    assert np.abs((counts - 20) / np.sqrt(20 * 0.9)).max() < 6


def test_yield_ratio_scales_the_expectation(pool_source):
    n = {
        nu: np.mean([len(d.data) for d in datasets(pool_ensemble(pool_source, nu=(nu,)), 300)])
        for nu in (1.0, -1.0)
    }
    error = np.sqrt(200 / 300)
    assert n[1.0] == pytest.approx(220, abs=5 * error)
    assert n[-1.0] == pytest.approx(180, abs=5 * error)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nu": (0.5,)}, "no pool of data at nu"),
        ({"nu": (0.0, 0.0)}, "2 values"),
        ({"signal": "dip", "injected": 3}, "no pool of the signal 'dip'"),
        ({"nu": (-1.0,), "signal": "bump", "injected": 3}, "no pool of bump at nu"),
        ({"response_order": 2}, "quadratic"),
    ],
)
def test_what_the_pools_lack_is_named(changes, message, pool_source):
    with pytest.raises(PlanError, match=message):
        datasets(pool_ensemble(pool_source, **changes), 1)


def test_a_pool_that_is_too_small_is_named(pool_source):
    with pytest.raises(TooFewEventsError, match="2000"):
        datasets(pool_ensemble(pool_source, n_reference=2001), 1)


@pytest.mark.parametrize(
    "changes", [{"signal": "bump", "injected": 3}, {"nu": (1.0, 1.0)}, {"response_order": 2}]
)
def test_what_the_latent_world_lacks_is_named(changes):
    with pytest.raises(PlanError):
        datasets(small_ensemble(**changes), 1)


def test_offset_of_finite_pools(pool_source):
    ensemble = pool_ensemble(pool_source)
    sizes = pool_source.pool_sizes(ensemble.draw)
    offset = pool_offset(ensemble)
    assert offset.share == pytest.approx((1 / sizes.reference + 1 / sizes.data) / (1 / 200 + 1 / 1000))
    assert offset.t == pytest.approx(offset.share * np.sqrt(2 * round(CHEAP.capacity)))
    assert not offset.tolerable
    assert pool_offset(replace(ensemble, draw=small_draw(expected=10))).tolerable
    assert pool_offset(small_ensemble()).t == 0


def test_toys_of_finite_pools_are_offset_but_not_biased(tmp_path):
    """The mean of t over 60 pairs of pools is that of fresh events, within 4 standard errors (6e-5).

    Drawn with replacement, it would be larger by more than twice that. The means differ between pools as
    predicted: their variance within a factor of two, where 60 pools leave 18 %.
    """
    settings = CHEAP.chosen(LatentSource(1))
    fresh = np.array([run_toy(small_ensemble(settings), i).t for i in range(800)])
    toys = np.array([_toys_of_pools(tmp_path / str(seed), settings, seed) for seed in range(60)])
    means = toys.mean(axis=1)
    error = np.hypot(means.std() / np.sqrt(len(means)), fresh.std() / np.sqrt(len(fresh)))
    assert abs(means.mean() - fresh.mean()) < 4 * error
    share = (1 / 1200 + 1 / 400) / (1 / 1000 + 1 / 200)
    assert 8 * error < 0.8 * share * fresh.mean()
    common = means.var() - toys.var(axis=1, ddof=1).mean() / toys.shape[1]
    assert 0.5 < common / (share**2 * fresh.var()) < 2


def _toys_of_pools(folder, settings, seed):
    rng = np.random.default_rng(seed)
    reference, data = (Pool(latent_sample(latent.background(n, rng))) for n in (1200, 400))
    write_pools(folder, Pools(reference, latent.background(10, rng), {(0.0,): data}))
    ensemble = replace(small_ensemble(settings), source=PoolSource.open(folder))
    return [run_toy(ensemble, index).t for index in range(10)]


def test_pools_that_cannot_serve_the_toys_are_refused_at_once(pool_source, tmp_path):
    for changes in ({"n_reference": 2001}, {"expected": 1950.0}, {"signal": "bump", "injected": 290.0}):
        request = Request(pool_ensemble(pool_source, **changes), 1)
        with pytest.raises(TooFewEventsError, match="but toys may need"):
            run_toys([request], ToyStore(tmp_path), lambda blocks: iter(()))
    pool_source.check(pool_ensemble(pool_source).draw)


@pytest.fixture
def weighted_source(tmp_path):
    write_pools(tmp_path / "pools", weighted_pools())
    return PoolSource.open(tmp_path / "pools")


def test_a_weighted_reference_enters_with_its_weights_and_the_expected_yield(weighted_source):
    pool = weighted_pools().reference
    place = {row.tobytes(): weight for row, weight in zip(pool.sample.z, pool.weights, strict=True)}
    for dataset in datasets(pool_ensemble(weighted_source), 3):
        weights = np.array([place[row.tobytes()] for row in dataset.reference])
        np.testing.assert_allclose(dataset.weights, 200 * weights / weights.sum(), rtol=1e-12)
        assert len(np.unique(dataset.reference, axis=0)) == 1000
    ensemble = pool_ensemble(weighted_source)
    assert run_toy(ensemble, 4).t == run_toy(ensemble, 4).t


def test_weighted_toys_are_drawn_from_the_weighted_density(weighted_source):
    """Data have the density of the weights: their mean z is the weighted mean, within 5 standard errors."""
    drawn = datasets(pool_ensemble(weighted_source, expected=300), 50)
    data = np.concatenate([d.data for d in drawn])
    means = np.array([d.weights @ d.reference / 200 for d in datasets(pool_ensemble(weighted_source), 50)])
    exact = latent.background(200_000, np.random.default_rng(3)).mean(axis=0)
    # all toys share the pools: 2000 reference events of an effective share of a half, the data accepted
    there = weighted_pools()
    assert np.abs(data.mean(axis=0) - exact).max() < 5 * 1.2 / np.sqrt(len(there.data[0.0,]))
    assert np.abs(means.mean(axis=0) - exact).max() < 5 * 1.2 / np.sqrt(there.reference.effective)


def test_the_convex_test_is_chosen_for_what_the_reference_is_worth(weighted_source, tmp_path):
    """Fewer effective events: more noise, so that wider bumps give the same capacity."""
    share = weighted_source.reference_share
    assert share == pytest.approx(weighted_pools().reference.effective / 2000)
    assert 0.2 < share < 0.6
    assert LatentSource(1).reference_share == 1.0
    events = weighted_source.basis_events()
    found = CHEAP.chosen(weighted_source).test
    assert found.basis.width == CHEAP.choose(events, share).basis.width
    assert found.basis.width > CHEAP.choose(events).basis.width
    assert CHEAP.build(weighted_source).basis.width == found.basis.width


def test_the_offset_of_weighted_pools_counts_effective_events(weighted_source):
    there = weighted_pools()
    accepted, worth = len(there.data[0.0,]), there.reference.effective
    share = pool_offset(pool_ensemble(weighted_source)).share
    own = 1 / 200 + 1 / (1000 * there.reference.effective_share)
    assert share == pytest.approx((1 / accepted + 1 / worth) / own)


@pytest.mark.slow
def test_signs_of_weights_bias_toys_as_predicted(tmp_path):
    """The mean of t over 300 pairs of smoothed pools, against fresh events: within 4 standard errors (6e-5).

    The noise of the signs makes it larger by the share b, in all degrees of freedom but that of the yield.
    """
    settings = CHEAP.chosen(LatentSource(1))
    fresh = np.array([run_toy(small_ensemble(settings), i).t for i in range(3000)])
    means, excess, offsets = [], [], []
    for seed in range(300):
        rng = np.random.default_rng(1000 + seed)
        reference, data = (signed_pool(4000, settings, rng) for _ in range(2))
        data = data.unweighted(seed)
        own = 1 / 200 + 1 / (1000 * reference.effective_share)
        more = own + reference.signed_variance + data.signed_variance
        excess.append((fresh.mean() - 1) * (more / (1 / 200 + 1 / 1000) - 1))
        write_pools(tmp_path / str(seed), Pools(reference, latent.background(10, rng), {(0.0,): data}))
        ensemble = replace(small_ensemble(settings, seed), source=PoolSource.open(tmp_path / str(seed)))
        means.append(np.mean([run_toy(ensemble, index).t for index in range(6)]))
        offsets.append(pool_offset(ensemble).t)
    error = np.hypot(np.std(means) / np.sqrt(len(means)), fresh.std() / np.sqrt(len(fresh)))
    assert abs(np.mean(means) - fresh.mean() - np.mean(excess)) < 4 * error
    assert np.mean(excess) > 6 * error
    # the offset is told for all degrees of freedom, that of the yield included
    bias = np.mean(means) - fresh.mean()
    assert bias < np.mean(offsets) < 4 * bias


def signed_pool(n, settings, rng):
    z, weights = latent.signed_background(n, rng)
    events = latent_sample(z)
    smoothed = smooth(columns(settings.test.basis, z, events.response, normalisation=True), weights).weights
    return Pool(replace(events, weights=smoothed), signed=weights)


def test_weighted_pools_that_cannot_serve_the_toys_are_refused_with_the_numbers(tmp_path):
    there = weighted_pools()
    write_pools(tmp_path, there)
    accepted = len(there.data[0.0,])
    source = PoolSource.open(tmp_path)
    source.check(small_draw())
    needed = 2 * accepted + 6 * np.sqrt(2 * accepted)
    with pytest.raises(
        TooFewEventsError,
        match=rf"the pool 'data' has {accepted} events of equal weight, accepted of 20000, at nu = \[0.0\], "
        rf"but toys may need {needed:.0f}: use 2\.\d times as many events \(source\.splits\.data\),",
    ):
        source.check(small_draw(expected=2 * accepted))


def test_too_small_parts_of_the_prior_tell_by_how_much_the_whole_split_must_grow(tmp_path):
    """The cost of a pool at a point of the prior is that of a part of the data."""
    there = weighted_pools()
    rng = np.random.default_rng(7)
    part = weighted_pool(1000, rng, 0.5).unweighted(1)
    write_pools(tmp_path, replace(there, prior={(0.3,): part}))
    draw = replace(small_draw(), prior=True)
    needed = draw.largest.expected_background
    needed += 6 * np.sqrt(needed)
    times = np.ceil(10 * needed / len(part)) / 10
    assert times > 1.0
    with pytest.raises(
        TooFewEventsError,
        match=rf"the pool 'prior' has {len(part)} events of equal weight, accepted of 1000, at a point of "
        rf"the prior, but toys may need {needed:.0f}: use {times:.1f} times as many events "
        r"\(source\.splits\.data\), or set prior to false, or smaller sizes",
    ):
        PoolSource.open(tmp_path).check(draw)


def test_a_reference_of_too_uneven_weights_is_refused(tmp_path):
    write_pools(
        tmp_path, replace(weighted_pools(), reference=weighted_pool(2000, np.random.default_rng(6), 2.5))
    )
    with pytest.raises(
        TooFewEventsError, match=r"'reference' are too uneven: 1000 events are worth \d+, and"
    ):
        PoolSource.open(tmp_path).check(small_draw())


def correlated_draw(**changes):
    return small_draw(nu=(1.0, -2.0), correlation=((1.0, 0.9), (0.9, 1.0)), **changes)


def test_auxiliary_values_are_thrown_with_their_correlation():
    """500 toys; limits of 4 standard errors. The normalisation is thrown apart."""
    ensemble = Ensemble(correlated_draw(), CHEAP, LatentSource(2), 1)
    few = LatentEvents(np.zeros((3, 4), np.float32), Response(np.zeros((3, 2), np.float32)))
    toys = [assemble(ensemble.draw, few, few, ensemble.seeds(index)) for index in range(500)]
    measured = np.array([[*toy.measured, toy.normalisation.measured / 0.1] for toy in toys])
    np.testing.assert_allclose(measured.mean(axis=0), [1.0, -2.0, 0.0], atol=4 / np.sqrt(500))
    correlations = np.corrcoef(measured.T)
    assert np.arctanh(correlations[0, 1]) == pytest.approx(np.arctanh(0.9), abs=4 / np.sqrt(500))
    assert np.abs(correlations[2, :2]).max() < 4 / np.sqrt(500)
    np.testing.assert_allclose(measured.std(axis=0), 1.0, atol=4 / np.sqrt(1000))
    np.testing.assert_array_equal(toys[0].correlation, ensemble.draw.correlation)


def test_a_test_without_nuisances_knows_no_correlation():
    draw = correlated_draw(treatment=Treatment.NONE)
    ensemble = Ensemble(draw, CHEAP, LatentSource(2), 1)
    toy = ensemble.source.draw(draw, ensemble.seeds(0))
    assert (toy.correlation, toy.n_nuisances) == (None, 0)
