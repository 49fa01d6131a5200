from dataclasses import replace

import numpy as np
import pytest
from response_world import SLOPE, make_pairs, signed_pairs, split_into_signs

from covad.errors import CovadError
from covad.response.linearity import Linearity, linearity
from covad.response.pairs import Pairs
from covad.response.validate import AdaptiveCells, MarginalBins

SIZES = (1.0, 2.0)


def bins(pairs: Pairs, n_bins: int = 12) -> list[MarginalBins]:
    return [MarginalBins.build(pairs.nominal, 0, n_bins)]


def moved(n_events: int, seed: int, shift: object) -> Pairs:
    """A standard normal dimension of which every event is moved by `shift(z, nu)`."""
    z = np.random.default_rng(seed).normal(size=(n_events, 1)).astype(np.float32)
    everything = np.ones(n_events, bool)
    grid = [(s * size,) for size in SIZES for s in (-1, 1)]
    return Pairs(
        z,
        everything,
        {nu: shift(z, nu[0]).astype(np.float32) for nu in grid},
        dict.fromkeys(grid, everything),
    )


def test_a_moving_gaussian_is_linear_and_its_effect_known() -> None:
    """z -> z + 0.1 nu has log r = 0.1 nu z + const: linear in nu, with the effect 0.1 |nu| rms(z)."""
    pairs = moved(200_000, 1, lambda z, nu: z + SLOPE * nu)
    for result in linearity(pairs, (1.0,), SIZES, bins(pairs, 20)):
        assert result.effect == pytest.approx(SLOPE * result.size, rel=0.03)  # bins average within
        # three standard deviations, one-sided: a false alarm once in 700; the bins see a little curvature
        assert result.departure < 3 * result.departure_uncertainty + (0.01 * result.effect) ** 2


def test_an_even_shift_is_all_departure() -> None:
    """z -> z + 0.1 nu^2: log r = 0.1 nu^2 z, even in nu."""
    pairs = moved(200_000, 2, lambda z, nu: z + SLOPE * nu**2)
    first, second = linearity(pairs, (1.0,), SIZES, bins(pairs, 20))
    assert np.sqrt(first.departure) == pytest.approx(SLOPE, rel=0.05)
    assert np.sqrt(second.departure) == pytest.approx(4 * SLOPE, rel=0.1)
    assert first.relative > 10  # infinite if noise leaves no linear effect at all
    assert linear_part_of_both(0.01) == pytest.approx(10, rel=0.1)


def linear_part_of_both(slope: float) -> float:
    """Relative departure of z -> z + slope nu + 0.1 nu^2 at 1 sigma."""
    pairs = moved(200_000, 2, lambda z, nu: z + slope * nu + SLOPE * nu**2)
    result = linearity(pairs, (1.0,), SIZES, bins(pairs, 20))[0]
    low, high = result.relative_interval
    assert low < result.relative < high
    return result.relative


def test_uncertainty_is_the_scatter_of_repeated_samples() -> None:
    """Half of the events move; 40 samples: their standard deviation is known to 11 %."""
    results = []
    for seed in range(40):
        pairs = make_pairs(20_000, seed=seed)
        results.append(linearity(pairs, (1.0,), SIZES, [AdaptiveCells.build(pairs.nominal, 4)])[1])
    departures = np.array([r.departure for r in results])
    stated = np.mean([r.departure_uncertainty for r in results])
    assert departures.std(ddof=1) == pytest.approx(stated, rel=0.4)
    # log r = 0.1 nu z1 - (0.1 nu)^2/2 for half of the events: the constant of that half departs, +-0.01 at 2
    assert departures.mean() == pytest.approx(0.01**2, abs=4 * stated / np.sqrt(40))


def test_several_divisions_are_averaged_and_gaps_named() -> None:
    pairs = make_pairs(20_000, seed=3)
    one = [MarginalBins.build(pairs.nominal, d, 8) for d in range(2)]
    alone = [linearity(pairs, (1.0,), SIZES, [b])[1].effect ** 2 for b in one]
    both = linearity(pairs, (1.0,), SIZES, one)[1].effect ** 2
    assert both == pytest.approx(np.mean(alone), rel=0.02)
    with pytest.raises(CovadError, match=r"nu = \(-3\.0,\)"):
        linearity(pairs, (1.0,), (3.0,), one)
    few = replace(pairs, nominal=np.zeros_like(pairs.nominal))
    with pytest.raises(CovadError, match="a cell is empty"):
        linearity(few, (1.0,), SIZES, one)


def test_a_departure_below_zero_by_luck_still_has_an_upper_end():
    lucky = Linearity(size=1.0, effect=0.02, departure=-3e-6, departure_uncertainty=1e-6)
    assert lucky.relative < 0
    assert lucky.relative_interval == pytest.approx((0.0, 0.05))


def test_weighted_cells_are_sums_of_events():
    """Ones are as none; copies of +2 and -1 that stay in their block are one event each."""
    pairs = make_pairs(20_000, seed=4)
    cells = [AdaptiveCells.build(pairs.nominal, 3)]
    plain = linearity(pairs, (1.0,), SIZES, cells)
    ones = linearity(replace(pairs, weights=np.ones(20_000)), (1.0,), SIZES, cells)
    twice = pairs.take(np.repeat(np.arange(20_000), 2))
    copies = linearity(replace(twice, weights=np.tile([2.0, -1.0], 20_000)), (1.0,), SIZES, cells)
    for found in (ones, copies):
        assert [vars(f) for f in found] == [pytest.approx(vars(p)) for p in plain]
    elsewhere = linearity(split_into_signs(pairs), (1.0,), SIZES, cells)
    assert elsewhere[1].departure_uncertainty > 1.5 * plain[1].departure_uncertainty


def test_signed_weights_show_the_effect_of_the_density():
    """Half of the events move by 0.1: the effect of 100 000 effective ones, in 16 cells, within 10 %."""
    plain, signed = make_pairs(100_000, seed=5), signed_pairs(300_000, seed=5)
    cells = [AdaptiveCells.build(plain.nominal, 4)]
    effects = [linearity(pairs, (1.0,), SIZES, cells)[1].effect for pairs in (plain, signed)]
    assert effects[1] == pytest.approx(effects[0], rel=0.1)
    with pytest.raises(CovadError, match="its weights add up to nothing"):
        linearity(replace(signed, weights=-np.ones(300_000)), (1.0,), SIZES, cells)
