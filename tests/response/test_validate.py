from dataclasses import replace

import numpy as np
import pytest
from response_world import make_pairs, signed_pairs, split_into_signs, truth
from scipy import stats

from covad.response.model import ResponseModel, ResponseShape
from covad.response.pairs import Pairs
from covad.response.validate import AdaptiveCells, CountComparison, MarginalBins, compare_counts


class Known(ResponseModel):
    """The exact response of the world, times `scale`, in place of a fitted one."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(ResponseShape(2, 1))
        self.scale = scale

    def columns(self, z: np.ndarray, batch: int = 0) -> np.ndarray:
        return z

    def log_ratio(self, columns: np.ndarray, nu: np.ndarray) -> np.ndarray:
        return self.scale * truth(columns, nu[0])


def test_cells_are_equally_filled_and_stable() -> None:
    z = np.random.default_rng(0).normal(size=(4096, 3)).astype(np.float32)
    cells = AdaptiveCells.build(z, depth=5)
    counts = np.bincount(cells.index(z), minlength=len(cells))
    assert len(counts) == 32
    assert counts.min() == counts.max() == 128
    bins = MarginalBins.build(z, 1, 8)
    assert np.bincount(bins.index(z)).tolist() == pytest.approx([512] * 8, abs=1)


def test_discrete_dimensions_leave_no_empty_bins_and_no_slivers() -> None:
    """A number that is 1 in 97 % of the events, one of few values, and one that is mostly its largest."""
    rng = np.random.default_rng(1)
    n = 8000
    rare, jets, full = 1 + (rng.random(n) < 0.03), rng.poisson(1.5, n), 4 - (rng.random(n) < 0.02)
    z = np.column_stack([rare, jets, full, rng.normal(size=n)]).astype(np.float32)
    for dimension, values in enumerate((2, None, 2, 25)):
        bins = MarginalBins.build(z, dimension, 25)
        counts = np.bincount(bins.index(z), minlength=len(bins))
        assert counts.min() > 0
        assert values is None or len(counts) == values
    cells = AdaptiveCells.build(z, 8)
    counts = np.bincount(cells.index(z), minlength=len(cells))
    filled = counts[counts > 0]
    assert len(filled) >= 2**4  # two levels each of the dimensions that can be divided
    assert filled.min() >= 8000 * 0.1**2 * 0.5**2 * 0.9
    assert AdaptiveCells.build(z[:, :1], 3).index(z[:, :1]).max() == 0  # cannot be divided: one cell
    beyond = z + np.float32(100)  # no event falls into a half that was left empty
    assert np.bincount(cells.index(beyond), minlength=len(cells))[counts == 0].sum() == 0
    found = CountComparison((1.0,), *np.array([[5.0, 0.0, 7.0], [6.0, 0.0, 6.0], [5.0, 0.0, 7.0]]), np.eye(3))
    assert found.dof == 1


def test_every_cell_has_enough_effective_events() -> None:
    """Half of the weights cancel at one end of z0: fewer cells than the effective number of all allows."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(16_000, 2)).astype(np.float32)
    weights = np.where(rng.random(16_000) < np.where(z[:, 0] > 0.7, 0.3, 0.0), -1.0, 1.0)

    def smallest(cells: AdaptiveCells) -> float:
        index = cells.index(z)
        total, squares = (np.bincount(index, x) for x in (weights, weights**2))
        return float((total**2 / squares).min())

    assert len(AdaptiveCells.filled(z, None, 7, 500)) == 32
    assert smallest(AdaptiveCells.build(z, 4)) < 500  # 10 000 effective events would allow 16
    cells = AdaptiveCells.filled(z, weights, 7, 500)
    assert 2 < len(cells) < 16
    assert smallest(cells) >= 500
    assert len(AdaptiveCells.filled(z, np.abs(weights), 7, 500)) == 32
    assert len(AdaptiveCells.filled(z, weights, 7, 1e6)) == 2
    assert len(AdaptiveCells.filled(z, np.abs(weights), 3, 500)) == 8


def test_the_exact_response_passes_and_p_values_are_uniform() -> None:
    """Thirty fresh samples: KS p-value of the p-values above 0.001 (false alarm 0.1 %)."""
    p = []
    for seed in range(30):
        pairs = make_pairs(20_000, seed=100 + seed, grid=(1.0,))
        p.append(compare_counts(Known(), pairs, (1.0,), AdaptiveCells.build(pairs.nominal, 4)).p_value)
    assert stats.kstest(p, "uniform").pvalue > 0.001


def test_pairing_makes_the_errors_small() -> None:
    """Half of the events do not move at all, the others little: far below the Poisson error of the counts."""
    pairs = make_pairs(20_000, seed=5, grid=(1.0,))
    result = compare_counts(Known(), pairs, (1.0,), AdaptiveCells.build(pairs.nominal, 4))
    assert (result.uncertainty < 0.5 * np.sqrt(2 * result.observed)).all()


@pytest.mark.parametrize("scale", [0.0, 0.7, 1.3])
def test_a_wrong_response_is_caught(scale: float) -> None:
    pairs = make_pairs(50_000, seed=6, grid=(1.0,))
    for cells in (AdaptiveCells.build(pairs.nominal, 4), MarginalBins.build(pairs.nominal, 0, 10)):
        result = compare_counts(Known(scale), pairs, (1.0,), cells)
        assert result.p_value < 1e-4
        assert result.residual_share == pytest.approx(abs(1 - scale), abs=0.15)


def test_counts_are_conserved() -> None:
    pairs = make_pairs(5000, seed=7, grid=(2.0,))
    result = compare_counts(Known(0.5), pairs, (2.0,), MarginalBins.build(pairs.nominal, 0, 6))
    assert result.observed.sum() == pytest.approx(result.predicted.sum())
    assert result.dof == 5


def compared(pairs: Pairs, cells: AdaptiveCells) -> list[float]:
    found = compare_counts(Known(), pairs, (1.0,), cells)
    return [*found.nominal, *found.observed, *found.predicted]


def test_weighted_counts_are_sums_of_events() -> None:
    """Ones are as none, chi2 too; copies of +2 and -1 are one event, and a weight of 3 is three events."""
    pairs = make_pairs(4000, seed=8, grid=(1.0,))
    cells = AdaptiveCells.build(pairs.nominal, 4)
    plain, ones, threes = (
        compare_counts(Known(), replace(pairs, weights=weights), (1.0,), cells)
        for weights in (None, np.ones(4000), np.full(4000, 3.0))
    )
    assert ones.chi2 == pytest.approx(plain.chi2, rel=1e-9)
    assert ones.residual_share == pytest.approx(plain.residual_share, rel=1e-9)
    assert compared(replace(pairs, weights=np.ones(4000)), cells) == pytest.approx(compared(pairs, cells))
    assert compared(split_into_signs(pairs), cells) == pytest.approx(compared(pairs, cells))
    number = np.random.default_rng(2).integers(0, 4, 4000)
    repeated, weighted = pairs.take(np.repeat(np.arange(4000), number)), replace(pairs, weights=1.0 * number)
    assert compared(weighted, cells) == pytest.approx(compared(repeated, cells))
    assert threes.chi2 == pytest.approx(plain.chi2)  # the unit of weights does not matter


def test_p_values_of_signed_weights_are_uniform() -> None:
    """Thirty fresh samples, a fifth of each effective: KS p-value above 0.001 (false alarm 0.1 %)."""
    p = []
    for seed in range(30):
        pairs = signed_pairs(20_000, seed=200 + seed, grid=(1.0,))
        p.append(compare_counts(Known(), pairs, (1.0,), MarginalBins.build(pairs.nominal, 0, 12)).p_value)
    assert stats.kstest(p, "uniform").pvalue > 0.001
    many = signed_pairs(200_000, 1, (1.0,))
    assert compare_counts(Known(0.0), many, (1.0,), AdaptiveCells.build(many.nominal, 4)).p_value < 1e-4


def test_cells_without_a_positive_sum_do_not_count_in_the_share() -> None:
    found = CountComparison((1.0,), *np.array([[100, 50, -2], [110, 40, 3], [109, 41, 1]], float), np.eye(3))
    effect, misfit, noise = 100 / 100 + 100 / 50, 1 / 100 + 1 / 50, 1 / 100 + 1 / 50
    assert found.residual_share == pytest.approx(np.sqrt(abs(misfit - noise) / effect), abs=1e-6)
    assert replace(found, covariance=np.zeros((3, 3))).residual_share == pytest.approx(
        np.sqrt(misfit / effect)
    )
