import numpy as np
import pytest
from calibration.limits import NODES, CountLaw, SimulatedNull, mean_of_p, true_rates
from scipy.stats import betabinom, binom, norm

from covad.inference.significance import EmpiricalNull
from covad.inference.yields import NullMoments

ALPHA = float(norm.sf(2.0))
#: t grows with the yield, as that of the convex test with 100 bumps does.
TABLE = np.linspace(-0.3, 0.3, 7)
MOMENTS = NullMoments(TABLE, 45.0 * np.exp(0.33 * TABLE), 9.3 * np.exp(0.33 * TABLE))
NULL = SimulatedNull(MOMENTS, 45.0, dict.fromkeys((-0.3, -0.15, 0.0, 0.15, 0.3), 100))


def test_a_known_rate_is_counted_by_a_binomial():
    law, right = CountLaw(600, np.array([ALPHA])), binom(600, ALPHA)
    assert law.at_least(25) == pytest.approx(right.sf(24))
    assert law.two_sided(25) == pytest.approx(2 * right.sf(24))
    assert law.two_sided(5) == pytest.approx(2 * right.cdf(5))


def test_toys_of_a_null_make_it_beta_binomial():
    """400 equally probable rates end before the Beta does, which costs 4 % of so small a p."""
    null = EmpiricalNull(np.arange(999.0))
    law, right = CountLaw(600, null.true_rates(ALPHA)), betabinom(600, 22, 978)
    assert law.at_least(30) == pytest.approx(right.sf(29), rel=0.05)


@pytest.fixture(scope="module")
def at_the_edge():
    return NULL.p_of_product(np.full(NODES, 0.3))


def test_moments_from_toys_leave_more_open_than_their_ranks_do(at_the_edge):
    """The mean rate is alpha within its own error (5 standard errors) and the bias of few toys, 2 %."""
    rates = true_rates(at_the_edge, norm.sf(1.0))
    by_rank = EmpiricalNull(np.arange(500.0)).true_rates(norm.sf(1.0))
    assert rates.std() > 1.2 * by_rank.std()
    error = 5 * rates.std() / np.sqrt(len(rates))
    assert rates.mean() == pytest.approx(norm.sf(1.0), abs=error + 0.02 * norm.sf(1.0))


def test_the_mean_of_p_tells_raw_t_from_t_at_the_nominal_yield(at_the_edge):
    right, wrong = mean_of_p(at_the_edge, 600), mean_of_p(NULL.p_of_raw(np.full(NODES, 0.3)), 600)
    assert right.mean == pytest.approx(0.5, abs=0.02)
    assert wrong.mean < 0.42
    assert right.power_to_notice(right, 0.001) == pytest.approx(0.001)
