"""The exponential of the kernels against numpy's in double precision."""

import numpy as np
import pytest
from numba import njit

from covad.nplm.network.kernels import RANGE, exponential


@njit
def _fill(x, out):
    for i in range(x.size):
        out[i] = exponential(x[i])


@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 1.2e-7), (np.float64, 1e-15)])
def test_close_to_the_true_exponential(dtype, error):
    x = np.linspace(-20.0, 20.0, 200_001).astype(dtype)
    out = np.empty_like(x)
    _fill(x, out)
    np.testing.assert_allclose(out.astype(np.float64), np.exp(x.astype(np.float64)), rtol=error)


def test_float32_is_unbiased_where_it_is_used():
    x = np.linspace(-1.0, 1.0, 100_001).astype(np.float32)
    out = np.empty_like(x)
    _fill(x, out)
    assert abs(np.mean(out / np.exp(x.astype(np.float64)) - 1.0)) < 2e-9


def test_float32_clips_instead_of_overflowing():
    x = np.array([-1e30, -200.0, 200.0, 1e30], dtype=np.float32)
    out = np.empty_like(x)
    _fill(x, out)
    np.testing.assert_allclose(out, np.exp([-RANGE, -RANGE, RANGE, RANGE]), rtol=1e-5)
