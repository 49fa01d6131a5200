"""Changed events in the spaces of a run: anomalies that are the same in all of them, and need no labels."""

from __future__ import annotations

import numpy as np

from covad.embedding.embed import encode
from covad.errors import CovadError
from covad.events.changes import change_events, changes_there
from covad.events.layout import Events
from covad.events.processes import BACKGROUND
from covad.events.systematics.shifting import Shifting
from covad.events.systematics.variation import BadEventError
from covad.runs.collisions import CollisionData, derived_seed
from covad.runs.models import load_models, response_of
from covad.runs.scale import load_scale
from covad.study.plan import Space
from covad.toys.pools import LatentEvents, Pool

#: Background events that are changed.
_EVENTS = 20_000


def changed_events(data: CollisionData, where: Space) -> dict[str, Pool] | None:
    """Return background events as each change leaves them, selected, in one space; None of weighted ones."""
    space, model = load_models(data, where)
    scale = load_scale(data.products.pools(where))
    with data.open(BACKGROUND) as files:
        if files.weighted:
            return None
        rows, seed = data.rows["data"], derived_seed(data.study, "changes")
        some = np.random.default_rng(seed).choice(rows, min(len(rows), _EVENTS), replace=False)
        read = files.read(np.sort(some))
    centre = tuple(0.0 for _ in data.systematics)
    events = Shifting(read, data.systematics, data.selection).at(centre).events
    found = {}
    for name in changes_there(events.layout):
        rng = np.random.default_rng(derived_seed(data.study, "changes", name))
        others = events.particles[rng.permutation(len(events))]
        particles = change_events(name, events.layout, events.particles, others, rng)
        selected, _ = data.selection.apply(Events.unlabelled(events.layout, particles))
        try:
            z = encode(space, selected.particles)
        except BadEventError as failure:
            raise CovadError(f"{failure.what}, to which the change '{name}' was made") from failure
        found[name] = Pool(LatentEvents(scale(z), response_of(model, z)))
    return found
