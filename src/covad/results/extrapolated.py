"""Where a significance rests on a law that no toy of the study has tested."""

from __future__ import annotations

from scipy.stats import norm

#: What the mark says, wherever it is printed.
MARK = "†"
MEANING = "beyond what toys of this study have tested"


def is_extrapolated(z: float, null: str, n_toys: int) -> bool:
    """Whether z against `null` is larger than the n toys of R_0, which the law was held against, can resolve.

    Toys never extrapolate: beyond their last one they give a bound.
    """
    return not null.startswith("R_") and z > float(norm.isf(1.0 / (n_toys + 1)))
