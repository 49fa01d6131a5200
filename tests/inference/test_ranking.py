"""The ranking of nuisances: shares of the average, worst direction, pruning, and the spread of heads."""

from dataclasses import replace

import numpy as np
import pytest

from covad.errors import InferenceError
from covad.inference import ranking
from covad.inference.misfit import Misfit
from covad.inference.prior_average import Measurement, PriorAverage
from covad.inference.ranking import (
    PRUNED_INFORMATION,
    PRUNED_SHIFT,
    TrainingSpread,
    rank_nuisances,
)
from covad.inference.shifts import ScalableNull, predicted_shift
from covad.response.grid import response_grid

N_BASIS, K, EXPECTED = 6, 4, 5000.0
#: Sizes of the response of each nuisance: the last is known to nobody.
SIZES = np.array([0.1, 0.05, 0.02, 1e-4])
COLUMNS = np.concatenate([np.ones(N_BASIS), SIZES])


def null(rng: np.random.Generator) -> ScalableNull:
    phi = np.column_stack([rng.normal(size=(4000, N_BASIS - 1)), np.ones(4000)])
    g = SIZES * (phi[:, :K] + rng.normal(size=(4000, K)))
    columns = np.column_stack([phi, g]).astype(np.float32)
    ridge = np.array([50.0] * (N_BASIS - 1) + [0.0] * (K + 1))
    auxiliary = np.array([0.0] * N_BASIS + [1.0] * K)
    return ScalableNull.of(columns, np.zeros(4000), ridge, auxiliary, N_BASIS)


def measured(first: np.ndarray, noise: float = 0.0, seed: int = 1) -> Measurement:
    """Misfits that are linear in nu, with noise that is common to all points."""
    rng = np.random.default_rng(seed)
    at = null(np.random.default_rng(7))
    rows = noise * COLUMNS * rng.normal(size=(64, K, N_BASIS + K))
    found = first + np.einsum("b,bkc->kc", rng.normal(size=64), rows)
    grid = response_grid(K)
    misfits = {nu: Misfit(np.array(nu) @ found, np.einsum("k,bkc->bc", nu, rows), 1000) for nu in grid}
    return Measurement(misfits, dict.fromkeys([(0.0,) * K, *grid], at))


def some_misfits() -> np.ndarray:
    """A share of each effect, in the units of the columns."""
    share = SIZES * np.array([0.02, 0.2, 0.05, 0.05])
    return np.outer(share, COLUMNS) * np.random.default_rng(3).normal(size=(K, N_BASIS + K))


def test_the_ranking_adds_up_to_the_average() -> None:
    given = measured(some_misfits())
    found = rank_nuisances(given, EXPECTED)
    shifts = [entry.misfit.shift for entry in found.nuisances]
    assert shifts == sorted(shifts, reverse=True)
    assert found.nuisances[0].nuisance == 1
    assert sum(shifts) == pytest.approx(found.average.shift, rel=1e-6)
    assert found.average.shift == pytest.approx(given.averaged(EXPECTED).shift)
    assert found.leading(2)[0] == 1
    # a linear misfit moves t on average over the prior by what it does at one sigma
    one = predicted_shift(given.misfits[0.0, 1.0, 0.0, 0.0], given.central, EXPECTED)
    assert shifts[0] == pytest.approx(one.shift, rel=1e-6)


def test_the_worst_direction_is_the_worst() -> None:
    given = measured(some_misfits())
    found = rank_nuisances(given, EXPECTED)
    worst = np.array(found.worst_direction)
    assert np.linalg.norm(worst) == pytest.approx(1.0)
    slopes = np.stack([given.slope(k).delta for k in range(K)])

    def shift(direction: np.ndarray) -> float:
        return predicted_shift(
            Misfit(direction @ slopes, np.zeros((2, N_BASIS + K)), 1), given.central, EXPECTED
        ).shift

    assert found.worst_shift == pytest.approx(shift(worst), rel=1e-6)
    for direction in np.random.default_rng(4).normal(size=(50, K)):
        assert shift(direction / np.linalg.norm(direction)) <= found.worst_shift * (1 + 1e-9)


def test_the_noise_of_fresh_events_is_subtracted() -> None:
    """The mean over 200 samples is the truth, within four standard errors."""
    exact = rank_nuisances(measured(some_misfits()), EXPECTED)
    noisy = [rank_nuisances(measured(some_misfits(), 2e-4, seed), EXPECTED) for seed in range(200)]
    for k in range(K):
        expected = next(entry.misfit.shift for entry in exact.nuisances if entry.nuisance == k)
        found = [entry.misfit.shift for n in noisy for entry in n.nuisances if entry.nuisance == k]
        assert np.mean(found) == pytest.approx(expected, abs=4 * np.std(found) / np.sqrt(200) + 1e-12)


def test_what_nobody_knows_is_pruned() -> None:
    found = rank_nuisances(measured(some_misfits()), EXPECTED)
    assert found.pruned == (3,)
    for entry in found.nuisances:
        scale = SIZES[entry.nuisance]
        assert entry.information == pytest.approx(2 * EXPECTED * scale**2, rel=0.2)
        assert (entry.information <= PRUNED_INFORMATION) == entry.pruned
    left_out = {entry.nuisance: entry.left_out.shift for entry in found.nuisances}
    assert left_out[0] > left_out[1] > left_out[2] > left_out[3]
    assert left_out[3] < PRUNED_SHIFT < left_out[0]
    # its whole effect is what moves t, and not the misfit alone
    assert left_out[0] > 10 * next(e.misfit.shift for e in found.nuisances if e.nuisance == 0)


def test_pairs_measured_apart_add_to_the_average() -> None:
    given = measured(some_misfits())
    mixed = Misfit(
        0.003 * COLUMNS * np.random.default_rng(5).normal(size=N_BASIS + K), np.zeros((2, N_BASIS + K)), 500
    )
    crossed = replace(given, crossed={(0, 2): mixed})
    found = rank_nuisances(crossed, EXPECTED)
    (pair,) = found.pairs
    assert pair.pair == (0, 2)
    assert pair.misfit.shift == pytest.approx(predicted_shift(mixed, given.central, EXPECTED).shift)
    assert found.average.shift == pytest.approx(given.averaged(EXPECTED).shift + pair.misfit.shift)


def test_samples_have_the_prior_that_exists() -> None:
    grid = response_grid(3, (), [(1.0, -1.0, 2.0, -2.0), (1.0, -1.0), (1.0,)])
    average = PriorAverage.over(grid)
    assert average.weights.tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 12, 1 / 12, 0.5, 0.5, 1.0])
    assert not average.mixed[-1].any()  # one side has no even part
    assert np.linalg.eigvalsh(np.diag(average.weights) + average.mixed)[0] > -1e-12
    with pytest.raises(InferenceError, match="number 1 is shifted at no point"):
        PriorAverage.alone([(1.0, 0.0)], 1)


def test_the_spread_of_heads_is_what_their_difference_does() -> None:
    """Heads that differ by a known misfit; noise of halves does not add (four standard errors)."""
    rng, at = np.random.default_rng(8), null(np.random.default_rng(7))
    misfits = 0.003 * COLUMNS * rng.normal(size=(3, K, N_BASIS + K))
    misfits -= misfits.mean(axis=0)
    exact = TrainingSpread.of((misfits, misfits), at, EXPECTED, bootstrap=True)
    expected = sum(
        predicted_shift(Misfit(head[0], np.zeros((2, N_BASIS + K)), 1), at, EXPECTED).shift
        for head in misfits
    )
    assert exact.shifts[0] == pytest.approx(expected / 2)
    assert exact.average == pytest.approx(sum(exact.shifts))
    noisy = [
        TrainingSpread.of(
            tuple(misfits + 0.003 * COLUMNS * rng.normal(size=misfits.shape) for _ in range(2)),
            at,
            EXPECTED,
            True,
        ).average
        for _ in range(300)
    ]
    assert np.mean(noisy) == pytest.approx(exact.average, abs=4 * np.std(noisy) / np.sqrt(300))
    with pytest.raises(InferenceError, match="has no spread"):
        TrainingSpread.of((misfits[:1], misfits[:1]), at, EXPECTED, True)


def test_a_column_of_the_basis_cannot_be_left_out() -> None:
    with pytest.raises(InferenceError, match="column 2 is one of the 6 of the basis"):
        null(np.random.default_rng(7)).without(2)


def test_the_worst_direction_of_a_correlated_prior_is_one_sigma_of_it() -> None:
    correlation = np.eye(K)
    correlation[0, 1] = correlation[1, 0] = 0.9
    given = replace(measured(some_misfits()), correlation=correlation)
    found = rank_nuisances(given, EXPECTED)
    worst, precision = np.array(found.worst_direction), np.linalg.inv(correlation)
    assert worst @ precision @ worst == pytest.approx(1.0)
    slopes = np.stack([given.slope(k).delta for k in range(K)])

    def shift(direction: np.ndarray) -> float:
        misfit = Misfit(direction @ slopes, np.zeros((2, N_BASIS + K)), 1)
        return predicted_shift(misfit, given.central, EXPECTED).shift

    assert found.worst_shift == pytest.approx(shift(worst), rel=1e-6)
    for direction in np.random.default_rng(4).normal(size=(50, K)):
        unit = direction / np.sqrt(direction @ precision @ direction)
        assert shift(unit) <= found.worst_shift * (1 + 1e-9)


def test_what_ends_at_one_sigma_is_left_out_of_the_worst_direction() -> None:
    given = measured(some_misfits())
    kept = {nu: misfit for nu, misfit in given.misfits.items() if abs(nu[1]) <= 1.0}
    found = rank_nuisances(replace(given, misfits=kept), EXPECTED, names=("a", "b", "c", "d"))
    assert found.nuisances[0].nuisance == 1  # by far the worst
    assert found.discrete == (1,)
    assert found.worst_direction[1] == 0.0
    assert np.linalg.norm(found.worst_direction) == pytest.approx(1.0)
    up, down = found.worst_points(2.0)
    assert down == tuple(0.0 - x for x in up)
    assert np.linalg.norm(up) == pytest.approx(2.0, abs=0.002)
    assert found.pruned_names == ("d",)
    samples = {nu: misfit for nu, misfit in given.misfits.items() if max(map(abs, nu)) <= 1.0}
    assert rank_nuisances(replace(given, misfits=samples), EXPECTED).worst_points(2.0) == ()


@pytest.mark.parametrize("r", [0.0, 0.5, -0.8])
def test_the_average_over_a_correlated_prior_is_that_of_its_points(r: float) -> None:
    """Of a misfit of second order in two nuisances, against 400 000 thrown points (four standard errors)."""
    rng, correlation = np.random.default_rng(6), np.array([[1.0, r], [r, 1.0]])
    first, second = 0.01 * rng.normal(size=(2, 3)), 0.01 * rng.normal(size=(2, 2, 3))
    second = second + second.transpose(1, 0, 2)

    def delta(nu: np.ndarray) -> np.ndarray:
        return nu @ first + 0.5 * np.einsum("...k,...l,klc->...c", nu, nu, second)

    points = response_grid(2)
    average = PriorAverage.over(points, correlation)
    deltas = np.array([delta(np.array(nu)) for nu in points])
    found = float(average.weights @ np.square(deltas).sum(axis=1))
    found += float(np.einsum("pq,pc,qc->", average.mixed, deltas, deltas))
    thrown = rng.normal(size=(400_000, 2)) @ np.linalg.cholesky(correlation).T
    values = np.square(delta(thrown)).sum(axis=1)
    assert found == pytest.approx(values.mean(), abs=4 * values.std() / np.sqrt(400_000))


def test_leaving_out_a_column_forgets_its_correlated_measurement() -> None:
    """The precision of the others is the inverse of their own block of the covariance."""
    correlation = np.eye(K)
    correlation[0, 1] = correlation[1, 0] = 0.7
    auxiliary = np.zeros((N_BASIS + K, N_BASIS + K))
    auxiliary[N_BASIS:, N_BASIS:] = np.linalg.inv(correlation)
    without = replace(null(np.random.default_rng(7)), auxiliary=auxiliary).without(N_BASIS + 1)
    assert without.auxiliary[N_BASIS:, N_BASIS:] == pytest.approx(np.eye(K - 1))


@pytest.mark.parametrize("linked", ["by the response", "by the prior"])
def test_what_is_pruned_together_is_judged_together(linked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nuisances that do the same absorb each other in a test that has one of them."""
    rng = np.random.default_rng(11)
    phi = np.column_stack([rng.normal(size=(4000, N_BASIS - 1)), np.ones(4000)])
    g = 0.05 * phi[:, [0, 0 if linked == "by the response" else 1]]
    precision, correlation = np.eye(2), None
    if linked == "by the prior":
        correlation = np.array([[1.0, 0.9], [0.9, 1.0]])
        g[:, 1] = 0.02 * phi[:, 0]
        precision = np.linalg.inv(correlation)
    auxiliary = np.zeros((N_BASIS + 2, N_BASIS + 2))
    auxiliary[N_BASIS:, N_BASIS:] = precision
    at = ScalableNull.of(
        np.column_stack([phi, g]).astype(np.float32),
        np.zeros(4000),
        np.array([50.0] * (N_BASIS - 1) + [0.0] * 3),
        auxiliary,
        N_BASIS,
    )
    grid = response_grid(2, ())
    exact = Misfit(np.zeros(N_BASIS + 2), np.zeros((2, N_BASIS + 2)), 1000)
    given = Measurement(
        dict.fromkeys(grid, exact), dict.fromkeys([(0.0, 0.0), *grid], at), correlation=correlation
    )
    monkeypatch.setattr(ranking, "PRUNED_INFORMATION", np.inf)
    alone = {entry.nuisance: entry.left_out.high for entry in rank_nuisances(given, EXPECTED).nuisances}
    monkeypatch.setattr(ranking, "PRUNED_SHIFT", 1.01 * sum(alone.values()))
    assert len(rank_nuisances(given, EXPECTED).pruned) == 1
    both = at.without(N_BASIS, N_BASIS + 1).at(EXPECTED)
    effect = at.per_event.information[N_BASIS:, :N_BASIS]
    prior = np.eye(2) if correlation is None else correlation
    together = EXPECTED**2 * np.trace(prior @ effect @ both.form @ effect.T) / both.law.std
    monkeypatch.setattr(ranking, "PRUNED_SHIFT", 1.01 * together)
    assert rank_nuisances(given, EXPECTED).pruned == (0, 1)
