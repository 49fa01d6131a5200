"""A law is believed as far as the toys have been, and marked beyond."""

import pytest

from covad.results.extrapolated import is_extrapolated


@pytest.mark.parametrize(
    ("z", "null", "n_toys", "expected"),
    [
        (2.80, "chi2", 400, False),  # 400 toys resolve 2.81
        (2.82, "chi2", 400, True),
        (2.82, "analytic", 400, True),
        (2.82, "chi2_45", 400, True),
        (2.82, "analytic", 4000, False),
        (2.82, "R_0", 400, False),
        (9.0, "R_+1,0", 400, False),
        (-3.0, "chi2", 400, False),
    ],
)
def test_beyond_the_toys(z, null, n_toys, expected):
    assert is_extrapolated(z, null, n_toys) is expected
