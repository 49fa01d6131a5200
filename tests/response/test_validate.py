import numpy as np
import pytest
from response_world import make_pairs, truth
from scipy import stats

from covad.response.model import ResponseModel, ResponseShape
from covad.response.validate import AdaptiveCells, MarginalBins, compare_counts


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
