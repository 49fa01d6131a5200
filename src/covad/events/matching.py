"""Which events a shift has left as they were: they need not be computed twice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError
from covad.events.systematics import Shifted


def unchanged_partners(nominal: Shifted, shifted: Shifted) -> NDArray[np.int64]:
    """Per event of `shifted`: its position in `nominal` if all its objects are the same there, or -1."""
    if nominal.rows is None or shifted.rows is None:
        raise CovadError("event-matched systematics are needed here, not separately simulated samples")
    last = max(int(s.rows.max(initial=-1)) for s in (nominal, shifted) if s.rows is not None)
    position = np.full(last + 2, -1)
    position[nominal.rows] = np.arange(len(nominal.rows))
    partner = position[shifted.rows]
    same = (nominal.events.particles[partner] == shifted.events.particles).all(axis=(1, 2))
    return np.where(same, partner, -1)
