"""The processes of the events in the pools of a run, which hold z only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from covad.events.layout import UNLABELLED_NAME
from covad.events.processes import BACKGROUND
from covad.events.systematics.shifting import Shifting
from covad.runs.collisions import CollisionData
from covad.toys.pools import Pools

Labels = dict[str, NDArray[np.str_]]
#: Roles whose events are in pools one by one, as long as they have no weights.
_ROLES = ("reference", "data", "basis")


def read_labels(data: CollisionData, pools: Pools) -> Labels | None:
    """Return the process of every event of the pools at nu = 0, by role; None if events have weights.

    With weights the events of a pool are chosen among those of the files, and which is not kept.
    """
    centre = tuple(0.0 for _ in data.systematics)
    found: Labels = {}
    with data.open(BACKGROUND) as files:
        if files.weighted:
            return None
        for role in _ROLES:
            names = []
            for piece in files.pieces(data.rows[role]):
                events = Shifting(piece, data.systematics, data.selection).at(centre).events
                known = np.array([*events.process_names, UNLABELLED_NAME])
                names.append(known[events.process])
            found[role] = np.concatenate(names)
    sizes = {"reference": len(pools.reference), "data": len(pools.data[centre]), "basis": len(pools.basis)}
    return found if all(len(found[role]) == size for role, size in sizes.items()) else None
