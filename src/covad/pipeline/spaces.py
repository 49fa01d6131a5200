"""Stage `spaces`: maps from events to z. Encoders are trained; of others it is written down what they are."""

from __future__ import annotations

import logging

from covad.embedding.spaces import JoinedSpace, ObservableSpace
from covad.events.observables import Observables
from covad.events.processes import BACKGROUND
from covad.messages import counted
from covad.pipeline.encoder import train_missing
from covad.runs.collisions import CollisionData
from covad.runs.models import load_space
from covad.study import spaces as entries

log = logging.getLogger(__name__)
#: Events that are kept with a function of the user, to tell later whether it still says the same.
_KEPT = 100


def make_missing(data: CollisionData, workers: int) -> None:
    """Make every space that is not there whole."""
    train_missing(data, workers)
    written = [
        name
        for name, fold in data.products.models
        if name not in data.source.learned and data.products.space(name, fold).make_room()
        if write_space(data, name, fold)
    ]
    if written:
        log.info("stage spaces: %s with nothing to train", counted(len(written), "space"))


def write_space(data: CollisionData, name: str, fold: int) -> bool:
    """Write down which observables or spaces a space is made of."""
    entry, product = data.source.spaces[name], data.products.space(name, fold)
    if isinstance(entry, entries.ObservablesSpace):
        with data.open(BACKGROUND) as files:
            kept, _ = data.selection.apply(files.read(data.rows["basis"][:_KEPT]))
        space = ObservableSpace(kept.layout, made_observables(data)[name])
        space.save(product.path, entry.function, kept.particles)
    elif isinstance(entry, entries.JoinedSpace):
        JoinedSpace({part: load_space(data, part, fold) for part in entry.of}).save(product.path)
    data.note(product)
    return True


def made_observables(data: CollisionData) -> dict[str, Observables]:
    """Return the observables of all spaces that have some, with the functions of the user loaded."""
    return {
        name: Observables.make(entry.columns, entry.function, data.source.folder, f"source.spaces.{name}")
        for name, entry in data.source.observables.items()
    }
