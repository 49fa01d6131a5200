"""The latent world against its analytic densities, with limits at a false-alarm rate of 1e-6 a check."""

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from covad.errors import DatasetError
from covad.toys import latent_world as latent

N = 200_000
FRACTIONS = np.array([0.59, 0.34, 0.07])
MEANS = np.array([[-0.6, 0.3, 0.0, 0.4], [1.0, -0.8, 0.5, -0.6], [0.2, 1.3, -1.8, -0.5]])
SPREADS = np.array([[0.7, 0.9, 0.8, 1.0], [0.8, 0.6, 1.0, 0.7], [0.4, 0.5, 0.4, 0.6]])
RARE = 1e-6


def conditional_cdfs(z):
    """F(z_k | z_1 .. z_{k-1}): independent and uniform if, and only if, z follows the mixture."""
    posterior = np.tile(FRACTIONS, (len(z), 1))
    out = np.empty(z.shape)
    for k in range(z.shape[1]):
        pulls = (z[:, k, None] - MEANS[:, k]) / SPREADS[:, k]
        out[:, k] = (posterior * norm.cdf(pulls)).sum(axis=1)
        posterior *= norm.pdf(pulls) / SPREADS[:, k]
        posterior /= posterior.sum(axis=1, keepdims=True)
    return out


@pytest.fixture(scope="module")
def uniforms():
    return conditional_cdfs(latent.background(N, np.random.default_rng(20)).astype(np.float64))


def pearson_p(first, second, bins=16):
    """Of two columns against the uniform law in the square."""
    counts, _, _ = np.histogram2d(first, second, bins=bins, range=[[0, 1], [0, 1]])
    expected = len(first) / bins**2
    return chi2.sf(np.square(counts - expected).sum() / expected, bins**2 - 1)


@pytest.mark.parametrize("k", range(latent.N_DIMENSIONS))
def test_the_background_follows_the_mixture(uniforms, k):
    assert kstest(uniforms[:, k], "uniform").pvalue > RARE


def test_the_features_depend_on_each_other_as_in_the_mixture(uniforms):
    pairs = [(i, j) for i in range(4) for j in range(i)]
    assert min(pearson_p(uniforms[:, i], uniforms[:, j]) for i, j in pairs) > RARE


@pytest.mark.parametrize("lag", [1, 2, latent._CHUNK // 2, latent._CHUNK])
def test_events_do_not_depend_on_each_other(uniforms, lag):
    """The lag of half a chunk is that of values which share a radius."""
    assert min(pearson_p(uniforms[lag:, k], uniforms[:-lag, k]) for k in range(4)) > RARE


def test_a_wider_feature_would_be_seen():
    """The checks have power: 2 % are enough."""
    z = latent.background(N, np.random.default_rng(21)).astype(np.float64)
    z[:, 0] *= 1.02
    assert kstest(conditional_cdfs(z)[:, 0], "uniform").pvalue < RARE


@pytest.mark.parametrize("n_nuisances", [1, 3])
def test_the_response_is_bounded_and_as_defined(n_nuisances):
    z = latent.background(1000, np.random.default_rng(22))
    g = latent.response(z, n_nuisances)
    first = 0.06 * np.tanh(z.astype(np.float64) @ [0.9, -0.5, 0.2, 0.0] + 0.1)
    assert g.shape == (1000, n_nuisances)
    assert g[:, 0] == pytest.approx(first, abs=1e-7)


def test_the_first_three_nuisances_stay_what_they_were():
    z = latent.background(1000, np.random.default_rng(24))
    directions = np.array([[0.9, -0.5, 0.2, 0.0], [0.0, 0.6, 0.7, -0.4], [0.3, 0.2, -0.5, 0.8]], np.float32)
    for k in (1, 2, 3):
        g = z @ directions[:k].T
        g += np.array([0.1, -0.2, 0.0], np.float32)[:k]
        np.testing.assert_array_equal(
            latent.response(z, k), np.tanh(g) * np.array([0.06, 0.04, 0.03], np.float32)[:k]
        )


def test_fifty_nuisances_are_bounded_and_none_is_another():
    z = latent.background(20_000, np.random.default_rng(25))
    g = latent.response(z, latent.MOST_NUISANCES)
    assert np.abs(g).max(axis=0).sum() < 0.65  # thinning stays efficient
    correlation = np.corrcoef(g.T.astype(np.float64))
    assert np.abs(correlation - np.eye(len(correlation))).max() < 0.98


def test_more_nuisances_than_there_are_are_refused():
    with pytest.raises(DatasetError, match="the latent world has 50 nuisances, not 51"):
        latent.LatentWorld(100, 20.0, n_nuisances=51).toy(np.random.default_rng(26))


def test_a_tilt_by_fifty_nuisances_has_the_yield_of_the_tilt():
    """False alarms of 5 standard errors: once in two million."""
    rng = np.random.default_rng(27)
    nu = rng.normal(size=50)
    ratio = np.exp(latent.response(latent.background(N, rng), 50).astype(np.float64) @ nu)
    tilted = latent.tilted_background(float(N), nu, rng)
    assert abs(len(tilted) - N * ratio.mean()) < 5 * np.sqrt(N * ratio.mean() + N * ratio.var())


@pytest.mark.parametrize("nu", [-2.0, 1.0])
def test_the_tilted_background_is_the_exponential_tilt(nu):
    """Yield and density of n(z|0) e^{nu g}: weighted back by e^{-nu g}, it is the nominal mixture."""
    rng = np.random.default_rng(23)
    nominal = latent.background(N, rng)
    yield_ratio = np.exp(nu * latent.response(nominal)).astype(np.float64)
    tilted = latent.tilted_background(float(N), np.array([nu]), rng)
    error = np.sqrt(N * yield_ratio.mean() + N * yield_ratio.var())
    assert abs(len(tilted) - N * yield_ratio.mean()) < 5 * error
    weights = np.exp(-nu * latent.response(tilted)[:, 0].astype(np.float64))
    bins = np.floor(10 * conditional_cdfs(tilted.astype(np.float64))[:, 0]).astype(int).clip(0, 9)
    counts = np.bincount(bins, weights)
    assert chi2.sf(np.square(counts - N / 10).sum() / (N / 10), 10) > RARE


@pytest.mark.parametrize(
    ("draw", "negative"),
    [
        (lambda rng: latent.weighted_background(N, rng, spread=0.8), 0.0),
        (lambda rng: latent.weighted_background(N, rng, spread=0.5, tilt=0.7), 0.0),
        (lambda rng: latent.signed_background(N, rng), 0.26),
        (lambda rng: latent.signed_background(N, rng, uneven=3.0), 0.09),
    ],
    ids=["log-normal", "tilted", "signed", "uneven signs"],
)
def test_weighted_samples_have_the_density_of_the_background(draw, negative):
    """In 16 equally probable bins of each coordinate the sums of weights are flat, errors by sum w^2."""
    z, weights = draw(np.random.default_rng(30))
    assert z.shape == (N, 4)
    assert (weights < 0).mean() == pytest.approx(negative, abs=0.01)
    for column in conditional_cdfs(z.astype(np.float64)).T:
        bins = np.minimum((16 * column).astype(int), 15)
        share = np.bincount(bins, weights, 16) / weights.sum()
        variance = np.bincount(bins, weights**2, 16) / weights.sum() ** 2
        assert chi2.sf(np.sum((share - 1 / 16) ** 2 / variance), 15) > RARE


def test_the_share_of_negative_weights_grows_along_the_first_coordinate():
    z, weights = latent.signed_background(N, np.random.default_rng(31))
    assert (weights < 0)[z[:, 0] < -2].mean() == pytest.approx(0.06, abs=0.02)
    assert (weights < 0)[z[:, 0] > 2].mean() == pytest.approx(0.39, abs=0.02)
    assert set(np.unique(weights)) == {-1.0, 1.0}
