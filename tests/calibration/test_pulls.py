import numpy as np
import pytest
from calibration.pulls import pulls

from covad.errors import InferenceError


def test_pulls_of_normal_values():
    """False alarms of 5 standard errors: once in two million."""
    values = np.random.default_rng(1).normal(2.0, 0.3, 4000)
    found = pulls(values, truth=2.0, sigma=0.3)
    assert found.within(5.0)
    assert found.mean_error == pytest.approx(1 / np.sqrt(4000))
    assert found.width_error == pytest.approx(1 / np.sqrt(2 * 3999))


@pytest.mark.parametrize("change", [{"truth": 2.1}, {"sigma": 0.25}, {"sigma": 0.35}])
def test_a_bias_or_a_wrong_error_is_seen(change):
    values = np.random.default_rng(2).normal(2.0, 0.3, 4000)
    assert not pulls(values, **({"truth": 2.0, "sigma": 0.3} | change)).within(5.0)


def test_an_error_must_be_positive_and_fits_finite():
    with pytest.raises(InferenceError, match="positive"):
        pulls([1.0, 2.0], 0.0, 0.0)
    with pytest.raises(InferenceError, match="not finite"):
        pulls([1.0, np.nan], 0.0, 1.0)
