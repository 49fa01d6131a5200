import json
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import truncnorm
from toy_world import CHEAP, Mishap, small_draw, small_ensemble

from covad.errors import PlanError
from covad.storage.digests import canonical
from covad.toys.drawing import LatentSource
from covad.toys.ensembles import (
    BLOCK,
    LARGEST_THROW,
    Block,
    Draw,
    Ensemble,
    Request,
    Shard,
    Stream,
    Treatment,
    contiguous,
    draw_recipe,
    prior_points,
)
from covad.toys.tests import TunedNetwork

CHANGES = {
    "nu": (1.0,),
    "expected": 300.0,
    "n_reference": 999,
    "treatment": Treatment.NONE,
    "space": "other",
    "normalisation_sigma": 0.2,
    "response_order": 2,
    "nu_norm": 1.0,
    "prior": True,
}


def numbers(ensemble, index=0):
    return np.random.default_rng(ensemble.seeds(index).data).random(4).tolist()


@pytest.mark.parametrize("key", CHANGES)
def test_every_part_of_the_draw_changes_identity_and_seeds(key):
    ours, other = small_ensemble(), small_ensemble(**{key: CHANGES[key]})
    assert ours.identity != other.identity
    assert numbers(ours) != numbers(other)


def test_signal_stream_seed_and_source_change_the_toys_too():
    ours = small_ensemble()
    others = [
        small_ensemble(signal="signal", injected=5),
        small_ensemble(stream=Stream.SCAN),
        small_ensemble(seed=2),
    ]
    assert len({e.identity for e in [ours, *others]}) == 4
    assert len({tuple(numbers(e)) for e in [ours, *others]}) == 4
    assert replace(ours, source=LatentSource(2)).identity != ours.identity


def test_tests_and_clips_see_the_same_datasets():
    wide, narrow = small_ensemble(TunedNetwork(clip=2.0)), small_ensemble(TunedNetwork(clip=1.9))
    assert numbers(wide) == numbers(narrow) == numbers(small_ensemble(CHEAP))
    assert len({wide.identity, narrow.identity, small_ensemble(CHEAP).identity}) == 3


def test_identity_is_stable_between_versions():
    """A changed hash would orphan every stored toy; raise TOY_SCHEMA if the toys themselves change."""
    network = small_ensemble(TunedNetwork(clip=1.5))
    assert network.identity == "c138d501731d13453151"
    assert network.seeds(7).number == 2482625229359884100
    assert small_ensemble().identity == "cf6184192b037b65524d"


def test_convex_fits_beside_a_quadratic_response_have_another_identity():
    """Their climb ends at other digits than it did; toys of a linear response, and of the network, stay."""
    for test in (CHEAP, TunedNetwork(clip=1.5)):
        linear = small_ensemble(test)
        bent = replace(linear, draw=replace(linear.draw, response_order=2))
        assert "climb" not in linear.describe()
        assert ("climb" in bent.describe()) == (test is CHEAP)


EXAMPLES = [
    (
        Ensemble(
            Draw("covariant", Treatment.PROFILED, 10_000, 52_000, (0,)),
            TunedNetwork(clip=1.4),
            LatentSource(1),
            seed=7,
        ),
        (348739605, 487674485, 1778526594, 2959662725, 1492356522, 2397634340, 2383657762, 2499362531),
        "85c49678e85e6d246e07",
    ),
    (
        Ensemble(
            Draw("contrastive", Treatment.NONE, 200.5, 4000, (1, -0.5), "signal", 30, 2, None),
            TunedNetwork(clip=0.75, hidden=(2,), starts=3, hops=2),
            LatentSource(2),
            seed=8,
            stream=Stream.SCAN,
        ),
        (944988650, 2076888471, 1247054313, 2710542038, 936061032, 3587463694, 1086330557, 3726686584),
        "6c57a801ce065bc0c559",
    ),
]


@pytest.mark.parametrize(("ensemble", "words", "identity"), EXAMPLES)
def test_seeds_and_identities_are_pinned(ensemble, words, identity):
    """Whatever the fields are called: other words would reseed every toy of every study."""
    assert ensemble._seed_words == words
    assert ensemble.identity == identity


def test_yield_and_prior_enter_the_recipe_only_where_they_are_asked_for():
    """All toys of studies without them keep seeds and identities."""
    usual = {
        *("embedding", "treatment", "expected", "n_reference", "nu", "signal", "injected"),
        *("response_order", "normalisation_sigma"),
    }
    assert draw_recipe(small_draw()).keys() == usual
    assert draw_recipe(small_draw(nu_norm=-0.0)).keys() == usual
    assert draw_recipe(small_draw(nu_norm=-1.5)) == draw_recipe(small_draw()) | {"nu_norm": -1.5}
    assert draw_recipe(small_draw(prior=True)) == draw_recipe(small_draw()) | {"prior": True}


def test_the_stream_of_the_truth_comes_after_those_of_older_toys():
    seeds = small_ensemble().seeds(3)
    streams = (seeds.reference, seeds.data, seeds.auxiliary, seeds.fit, seeds.truth)
    assert [stream.spawn_key[-1] for stream in streams] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nu_norm": 1.0, "normalisation_sigma": None}, r"nu_N = 1 sigma needs the sigma of a normalisation"),
        (
            {"nu_norm": -2, "normalisation_sigma": np.inf},
            r"nu_N = -2 sigma needs the sigma of a normalisation",
        ),
        ({"prior": True, "signal": "signal", "injected": 5}, "toys with a signal have one truth"),
    ],
)
def test_truths_that_cannot_be_drawn_are_refused(changes, said):
    with pytest.raises(PlanError, match=said):
        small_draw(**changes)


def test_the_true_yield_grows_with_nu_norm():
    draw = small_draw(nu_norm=2, normalisation_sigma=0.3)
    assert draw.true_norm == pytest.approx(0.6)
    assert draw.expected_background == pytest.approx(200 * np.exp(0.6))
    assert draw.largest == draw
    assert small_draw(prior=True).largest.expected_background == pytest.approx(200 * np.exp(0.4))
    for sigma in (None, np.inf):
        known = small_draw(prior=True, normalisation_sigma=sigma)
        assert (known.true_norm, known.expected_background, known.largest) == (0.0, 200.0, known)


def test_points_of_the_prior_fill_it_evenly():
    """Of 64 points one lies in each of 64 equally probable intervals of every nuisance."""
    points = np.array(prior_points(64, 3, seed=5))
    assert points.shape == (64, 3)
    assert np.abs(points).max() < LARGEST_THROW
    shares = truncnorm.cdf(points, -LARGEST_THROW, LARGEST_THROW)
    for share in shares.T:
        assert sorted(np.floor(64 * share).astype(int)) == list(range(64))
    assert prior_points(64, 3, seed=5) == tuple(map(tuple, points.tolist()))
    assert prior_points(64, 3, seed=6) != prior_points(64, 3, seed=5)
    assert prior_points(0, 3, seed=5) == ()


STRONG = ((1.0, 0.9, 0.0), (0.9, 1.0, 0.3), (0.0, 0.3, 1.0))


def test_correlated_points_of_the_prior_have_unit_width_and_the_correlation():
    """Of 512 points, far better than at random; the limits are those of 512 random ones."""
    points = np.array(prior_points(512, 3, seed=5, correlation=STRONG))
    assert np.abs(points).max() <= LARGEST_THROW
    np.testing.assert_allclose(np.cov(points.T), STRONG, atol=0.1)
    alone = np.array(prior_points(512, 3, seed=5))
    np.testing.assert_array_equal(points[:, 0], alone[:, 0])
    assert not np.array_equal(points[:, 1], alone[:, 1])


def test_discrete_nuisances_are_one_or_minus_one_with_equal_chance():
    points = np.array(prior_points(64, 3, seed=5, discrete=[2]))
    usual = np.array(prior_points(64, 3, seed=5))
    np.testing.assert_array_equal(points[:, :2], usual[:, :2])
    np.testing.assert_array_equal(points[:, 2], np.sign(usual[:, 2]))
    assert points[:, 2].sum() == 0
    # the sign of a Gaussian keeps 0.3 sqrt(2 / pi) of the correlation
    tied = np.array(prior_points(512, 3, seed=5, correlation=STRONG, discrete=[2]))
    assert set(tied[:, 2]) == {-1.0, 1.0}
    assert np.mean(tied[:, 1] * tied[:, 2]) == pytest.approx(0.3 * np.sqrt(2 / np.pi), abs=0.1)


def test_points_of_discrete_nuisances_alone_do_not_repeat():
    found = prior_points(64, 2, seed=5, discrete=[0, 1])
    assert sorted(found) == [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)]


def test_a_correlation_is_part_of_the_toys():
    usual = small_draw(nu=(0.0, 0.0))
    tied = replace(usual, correlation=[[1, 0.5], [0.5, 1]])
    assert draw_recipe(tied) == draw_recipe(usual) | {"correlation": ((1.0, 0.5), (0.5, 1.0))}
    ours, other = (Ensemble(draw, CHEAP, LatentSource(2), 1) for draw in (usual, tied))
    assert ours.identity != other.identity
    assert numbers(ours) != numbers(other)


@pytest.mark.parametrize(
    ("correlation", "said"),
    [
        (((1.0,),), r"has shape \(1, 1\), \(2, 2\) was expected"),
        (((1.0, 1.0), (1.0, 1.0)), "is not positive definite"),
        (((1.0, 0.2), (0.3, 1.0)), "is not symmetric"),
        (((1.0, 0.2), (0.2,)), "correlation: "),
    ],
)
def test_a_matrix_that_cannot_be_is_refused(correlation, said):
    with pytest.raises(PlanError, match=said):
        small_draw(nu=(0.0, 0.0), correlation=correlation)


@dataclass(frozen=True)
class LaterDraw(Draw):
    weighted: bool = False
    corrections: tuple[str, ...] = field(default_factory=tuple)


class LaterNetwork(TunedNetwork):
    momentum: float = 0.0


@dataclass(frozen=True)
class LaterEnsemble(Ensemble):
    importance: float = 1.0


@pytest.mark.parametrize(("ensemble", "words", "identity"), EXAMPLES)
def test_a_field_that_is_added_counts_only_where_it_differs_from_its_default(ensemble, words, identity):
    draw, test = LaterDraw(**vars(ensemble.draw)), LaterNetwork(**vars(ensemble.test))
    later = LaterEnsemble(draw, test, ensemble.source, ensemble.seed, ensemble.stream)
    assert (later._seed_words, later.identity) == (words, identity)
    for changes in ({"weighted": True}, {"corrections": ("jes",)}):
        other = replace(later, draw=replace(draw, **changes))
        assert other._seed_words != words
        assert other.identity != identity
    for other in (replace(later, test=test.changed(momentum=0.9)), replace(later, importance=2.0)):
        assert other._seed_words == words
        assert other.identity != identity


def test_one_value_has_one_identity():
    assert small_draw(nu=(-0.0,), expected=200) == small_draw(nu=(0,), expected=200.0)


def test_toys_and_their_parts_have_different_random_numbers():
    ensemble = small_ensemble()
    seeds = [ensemble.seeds(i) for i in range(200)]
    streams = [s for seed in seeds for s in (seed.reference, seed.data, seed.auxiliary, seed.fit)]
    first = {int(s.generate_state(1, np.uint64)[0]) for s in streams} | {s.number for s in seeds}
    assert len(first) == 5 * len(seeds)


def test_seeds_of_compared_ensembles_are_uncorrelated():
    """Correlation of 2000 paired uniforms: |r| < 5 / sqrt(2000) fails by chance once in two million."""
    a, b = small_ensemble(), small_ensemble(nu=(1.0,))
    pairs = np.array([[numbers(e, i)[0] for e in (a, b)] for i in range(2000)])
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 5 / np.sqrt(2000)


@settings(max_examples=60, deadline=None)
@given(toys=st.lists(st.integers(0, 95), min_size=1, max_size=4), total=st.integers(1, 6))
def test_shards_share_all_toys_among_them(toys, total):
    requests = [Request(small_ensemble(seed=n), count) for n, count in enumerate(toys)]
    blocks = [b for number in range(1, total + 1) for b in Shard(number, total).blocks(requests)]
    found = [(b.ensemble.seed, i) for b in blocks for i in range(b.start, b.stop)]
    assert sorted(found) == [(n, i) for n, count in enumerate(toys) for i in range(count)]
    assert all(b.start // BLOCK == (b.stop - 1) // BLOCK for b in blocks)


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", "1/2/3"])
def test_a_shard_that_cannot_be(text):
    with pytest.raises(PlanError, match="shard"):
        Shard.parse(text)


def test_a_shard_is_counted_from_one():
    with pytest.raises(PlanError, match="no shard 0 of 3: shards are written I/N, with I from 1 to N"):
        Shard.parse("0/3")


@given(st.sets(st.integers(0, 60)))
def test_ranges_cover_the_indices(indices):
    ranges = list(contiguous(sorted(indices)))
    assert {i for start, stop in ranges for i in range(start, stop)} == indices
    assert all(a[1] < b[0] for a, b in pairwise(ranges))


@pytest.mark.parametrize(
    "changes",
    [
        {"expected": 0},
        {"expected": float("nan")},
        {"n_reference": 0},
        {"signal": "signal"},
        {"injected": 3.0},
        {"signal": "signal", "injected": -1.0},
        {"response_order": 3},
    ],
)
def test_a_draw_that_cannot_be(changes):
    with pytest.raises(PlanError):
        small_draw(**changes)


def test_descriptions_are_plain_data():
    for test in (CHEAP, TunedNetwork(clip=2.0), Mishap("nan")):
        described = small_ensemble(test).describe()
        assert json.loads(canonical(described)) == json.loads(json.dumps(described))
    with pytest.raises(ValueError):
        canonical({"t": float("nan")})


def test_labels_name_the_toys():
    assert "0 to 9" in Block(small_ensemble(), 0, 10).label
