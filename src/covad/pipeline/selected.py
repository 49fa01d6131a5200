"""How many events of every role pass the cuts: counted once, in the stage `events`, before any training."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from covad.errors import FileFormatError, StudyError, TooFewEventsError
from covad.events.layout import Events
from covad.events.observables import Observables
from covad.events.processes import BACKGROUND
from covad.events.systematics import (
    Alternative,
    BadEventError,
    Shifted,
    Shifting,
    in_sample,
    shift_events,
)
from covad.events.systematics.variation import of_processes
from covad.pipeline.encoder import training_rows
from covad.pipeline.sizes import check_needs
from covad.pipeline.spaces import made_observables
from covad.runs.collisions import CollisionData, check_code
from covad.runs.selected import CountAt, SelectedEvents, WeightedCountAt, WeightSums, read_selected
from covad.settings import Nu
from covad.storage.ledger import Product
from covad.storage.records import write_record
from covad.toys.truths import nu_text

log = logging.getLogger(__name__)


def check_selected(data: CollisionData) -> None:
    """Count the selected events of every role once, and raise if they are too few."""
    product = data.products.selected()
    if product.make_room():
        log.info("stage events: counting the events that pass the cuts")
        check_code(data)
        write_record(product.path, _count(data))
        data.note(product)
    _check(data, product)


def check_counted(data: CollisionData) -> None:
    """Raise if a changed study needs more events than were counted for the run before."""
    with suppress(FileFormatError):  # the stage `events` counts again
        product = data.products.selected()
        if product.made:
            _check(data, product)


def _check(data: CollisionData, product: Product) -> None:
    """Raise if the events that were counted are too few."""
    counts = read_selected(product)
    if counts is not None:
        check_needs(data, counts)
        _check_processes(counts)


def _count(data: CollisionData) -> SelectedEvents:
    """Shift and select all events that have a role, in one pass over the files of each sample."""
    points, roles, own = data.study.points, list(data.rows), _own_observables(data)
    centre = tuple(0.0 for _ in data.systematics)
    weighing = any(nuisance.weighs for nuisance in data.systematics)
    with data.open(BACKGROUND) as files:
        role_of = np.full(len(files), -1, dtype=np.int8)
        for number, rows in enumerate(data.rows.values()):
            role_of[rows] = number
        used = np.flatnonzero(role_of >= 0)
        process = np.empty(len(files), dtype=np.int16)
        nominal = np.zeros(len(roles), dtype=np.int64)
        passed = np.zeros(len(files), dtype=bool)
        shifted = dict.fromkeys(points, 0)
        sums: dict[tuple[str, Nu], WeightSums] = defaultdict(WeightSums)
        start = 0
        for events in files.pieces(used):
            rows = used[start : start + len(events)]
            start += len(events)
            process[rows] = events.process
            with in_sample(BACKGROUND, rows):
                _try_every_event(data, events)
                selected = shift_events(events, data.systematics, centre, data.selection)
                _try_observables(own, selected)
            passing = selected.rows
            nominal += np.bincount(role_of[rows][passing], minlength=len(roles))
            passed[rows[passing]] = True
            if events.weights is not None or weighing:
                for number, role in enumerate(roles):
                    kept, offered = role_of[rows][passing] == number, role_of[rows] == number
                    weights = WeightSums.of(selected.weights[kept], events.event_weights[offered])
                    sums[role, centre] += weights
            mine = role_of[rows] == roles.index("data")
            with in_sample(BACKGROUND, rows[mine]):
                shifting = Shifting(events[mine], data.systematics, data.selection)
                for nu in points:
                    at_nu = shifting.at(nu)
                    if nu != centre:
                        _try_observables(own, at_nu)
                    shifted[nu] += _counting(at_nu, weighing)
                    if (events.weights is not None or weighing) and nu != centre:
                        sums["data", nu] += WeightSums.of(at_nu.weights, events.event_weights[mine])
        names = files.process_names
    for name in data.source.separate_samples:
        _try_sample(data, name)
    for other in data.alternatives("data"):
        for nu in (nu for nu in points if other.factor(nu)):
            for at_nu in shifted_alternatives(data, other, nu):
                shifted[nu] += _counting(at_nu, weighing)
                sums["data", nu] += WeightSums.of(other.factor(nu) * at_nu.weights, np.zeros(0))
    counts = [
        _count_at(role, centre, int(n), sums)
        for role, n in zip(roles, nominal, strict=True)
        if role != "data"
    ]
    counts += [_count_at("data", nu, n, sums) for nu, n in shifted.items()]
    for name in data.study.signals:
        counts += _count_signal(data, name)
    folds = range(data.source.folds) if data.source.learned else ()
    parts = [training_rows(data, fold) for fold in folds]

    def processes(rows: NDArray[np.int64]) -> dict[str, int]:
        return {name: int((process[rows] == code).sum()) for code, name in enumerate(names)}

    return SelectedEvents(
        tuple(counts),
        {name: n for name, n in processes(np.flatnonzero(passed)).items() if n},
        tuple(processes(training) for training, _ in parts),
        tuple(processes(validation) for _, validation in parts),
    )


def _try_every_event(data: CollisionData, events: Events) -> None:
    """Raise if a file or a function of the user spoils one event: the trial has seen a few only."""
    for nuisance in data.systematics:
        for effect in nuisance.doubtful:
            for nu in (1.0, -1.0):
                effect.shift(events, nu)


def _own_observables(data: CollisionData) -> list[Observables]:
    """Return the observables that are functions of the user: built-in ones are finite for every event."""
    return [found for found in made_observables(data).values() if found.function is not None]


def _try_observables(observables: Sequence[Observables], shifted: Shifted) -> None:
    """Raise if a function of the user fails, or is not finite for one of the selected events."""
    for found in observables:
        try:
            found(shifted.events.layout, shifted.events.particles)
        except BadEventError as failure:
            raise failure.numbered(shifted.rows) from failure


def _try_sample(data: CollisionData, name: str) -> None:
    """Raise if a separate sample has an event that cannot be, or that is of another process."""
    process, start = data.source.separate_processes[name], 0
    with data.open(name) as files:
        rows = np.arange(len(files))
        for events in files.pieces(rows):
            with in_sample(name, rows[start : start + len(events)]):
                refuse_other_processes(events, process)
                _try_every_event(data, events)
            start += len(events)


def refuse_other_processes(events: Events, process: str) -> None:
    """Raise BadEventError if an event of a separate sample is of another process than it stands for."""
    mine = of_processes(events, [process])
    if not mine.all():
        raise BadEventError(
            f"source.systematics takes its events for '{process}', but of another process is event",
            int(np.argmin(mine)),
        )


def _counting(shifted: Shifted, weighing: bool) -> int:
    """Return the number of selected events; those that systematics leave no weight do not count."""
    return int(np.count_nonzero(shifted.weights)) if weighing else len(shifted.events)


def shifted_alternatives(data: CollisionData, other: Alternative, nu: Nu) -> Iterator[Shifted]:
    """Yield the selected events of a separate sample at nu, piece by piece."""
    for events in other.pieces():
        with in_sample(other.sample, np.arange(len(events))):
            yield shift_events(events, data.acting, nu, data.selection)


def _count_at(
    role: str, nu: Nu, n_events: int, sums: Mapping[tuple[str, Nu], WeightSums]
) -> WeightedCountAt | CountAt:
    if (role, nu) in sums:
        return WeightedCountAt(role, nu, n_events, sums[role, nu])
    return CountAt(role, nu, n_events)


def _count_signal(data: CollisionData, name: str) -> list[WeightedCountAt | CountAt]:
    weighing, own = any(nuisance.weighs for nuisance in data.systematics), _own_observables(data)
    selected = dict.fromkeys(data.study.points, 0)
    sums: dict[tuple[str, Nu], WeightSums] = defaultdict(WeightSums)
    with data.open(name) as files:
        rows = np.arange(len(files))
        start = 0
        for events in files.pieces(rows):
            with in_sample(name, rows[start : start + len(events)]):
                _try_every_event(data, events)
                shifting = Shifting(events, data.acting, data.selection)
                for nu in selected:
                    at_nu = shifting.at(nu)
                    _try_observables(own, at_nu)
                    selected[nu] += _counting(at_nu, weighing)
                    if events.weights is not None or weighing:
                        sums[name, nu] += WeightSums.of(at_nu.weights, events.event_weights)
            start += len(events)
    for (_, nu), found in sums.items():
        if selected[nu] and found.total <= 0:
            raise StudyError(
                f"source.signals.{name}: the weights of its {selected[nu]} selected events at "
                f"{nu_text(nu, data.source.nuisances)} add up to {found.total:g}, which is no shape: "
                "simulate more events"
            )
    return [_count_at(name, nu, n, sums) for nu, n in selected.items()]


def _check_processes(counts: SelectedEvents) -> None:
    """Raise if a process has too few events in a part of the encoder's split: the loss pulls two together."""
    for fold, parts in enumerate(zip(counts.training, counts.validation, strict=True)):
        for part, key in zip(parts, ("training", "validation"), strict=True):
            for name, n in part.items():
                if n == 1 or (key == "training" and n == 0 and parts[1][name]):
                    raise TooFewEventsError(
                        f"source.splits.encoder: the process '{name}' has {n} of {sum(part.values())} events "
                        f"for the {key} of fold {fold}, but two are needed: raise it"
                    )
