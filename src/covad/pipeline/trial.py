"""A trial with a few events of every sample: what would fail after hours, or be wrong, is said at once."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from covad.errors import StudyError, TooFewEventsError
from covad.events.layout import UNLABELLED, Events
from covad.events.margins import find_thin_margins
from covad.events.processes import BACKGROUND, process_code
from covad.events.soundness import check_soundness
from covad.events.systematics import Systematic, UserSystematic, in_sample, shift_events
from covad.pipeline.fingerprints import refuse_copied_files
from covad.pipeline.sizes import Efficiencies, check_needs
from covad.runs.collisions import CollisionData
from covad.runs.selected import WeightSums
from covad.settings import Nu
from covad.simulation.detector import Detector
from covad.simulation.simulate import Simulation

log = logging.getLogger(__name__)

#: Events of each sample that are shifted and selected.
TRIED = 4000
#: The largest |nu| that encoder and response learn from, and that of a truth from its prior in all but 0.3 %.
LEARNED_NU, PRIOR_NU = 2.0, 3.0


def check_collisions(data: CollisionData) -> None:
    """Raise an error if samples, files or systematics of the study cannot be, before any work starts."""
    _ = data.systematics
    for name, sample in data.samples.items():
        if sample.simulate is not None and name != BACKGROUND:
            process_code(name)
    given = {name: sample for name, sample in data.samples.items() if sample.files}
    layouts = {}
    for name in given:
        with data.open_files(name, verify=False) as files:
            layouts[name] = files.layout
            if name == BACKGROUND and len(files) < data.source.splits.total:
                raise TooFewEventsError(
                    f"{data.paths(name)[0]}: source.background has {len(files)} events, "
                    f"but the splits ask for {data.source.splits.total}: add files, or lower source.splits"
                )
    if len(set(layouts.values())) > 1:
        raise StudyError(
            f"the samples {', '.join(layouts)} have different event layouts: write their files alike"
        )
    refuse_copied_files(data)


def try_events(data: CollisionData) -> None:
    """Shift and select a few events of every sample, and see whether enough of all will be left."""
    tried: dict[str, int] = {}
    passed: dict[str, dict[Nu, int]] = {}
    sums: dict[str, dict[Nu, WeightSums]] = {}
    for name in data.samples:
        events, numbers = _some_events(data, name)
        if name == BACKGROUND and (events.process == UNLABELLED).any():
            raise StudyError(
                "source.background: has events without a process label, which the encoder needs to learn "
                "from: label them, or leave them out"
            )
        with in_sample(name, numbers):
            _check_users_code(data, events)
            tried[name], passed[name], weights = len(events), {}, {}
            for nu in data.study.points:
                shifted = shift_events(events, data.systematics, nu, data.selection)
                passed[name][nu] = len(shifted.events)
                weights[nu] = WeightSums.of(shifted.weights, events.event_weights)
            if events.weights is not None:
                sums[name] = weights
            if not any(passed[name].values()) and _is_own(data, name):
                raise TooFewEventsError(f"none of {len(events)} events passes source.cuts: loosen them")
            _try_shifts(data, events, name == BACKGROUND)
            _check_margins(data, events)
    if data.products.selected().whole():  # the events are counted already
        return
    try:
        check_needs(data, Efficiencies(data, passed, tried, sums))
    except TooFewEventsError as failure:
        if all(_is_own(data, name) for name in data.samples):
            raise
        log.warning(
            "perhaps too few events, by events of the parametric engine; the stage 'events' will count those "
            "of pythia8: %s",
            failure,
        )


def _is_own(data: CollisionData, name: str) -> bool:
    """Return whether the trial has events of the sample's own kind: those of Pythia take too long to make."""
    sample = data.samples[name]
    return sample.simulate is None or sample.engine == "parametric"


def _try_shifts(data: CollisionData, events: Events, background: bool) -> None:
    """Shift by one sigma of every systematic; raise if one does nothing to the background."""
    centre = [0.0] * len(data.systematics)
    nominal = shift_events(events, data.systematics, centre, data.selection)
    for k, systematic in enumerate(data.systematics):
        points = [[*centre[:k], sign, *centre[k + 1 :]] for sign in (1.0, -1.0)]
        moved = [shift_events(events, data.systematics, nu, data.selection) for nu in points]
        changed = [
            not np.array_equal(nominal.events.particles, shifted.events.particles)
            or not np.array_equal(nominal.weights, shifted.weights)
            for shifted in moved
        ]
        if background and not any(changed):
            raise StudyError(
                f"source.systematics: '{systematic.name}' changes none of {len(events)} background events: "
                "raise its sigma, or leave it out"
            )
        if background:
            _warn_of_size(systematic, events)


def _check_margins(data: CollisionData, events: Events) -> None:
    """Raise or warn if shifts lift events over the cuts from where the sample has none.

    The margin has to last to the largest |nu| of the study, to the two sigma that the response is learned
    from, and to three, which a truth that is thrown from its prior exceeds in 0.3 % of the toys.
    """
    for k, systematic in enumerate(data.systematics):
        largest = max(LEARNED_NU, *(abs(nu[k]) for nu in data.study.points))
        for nu in (largest, -largest):
            point = [0.0] * len(data.systematics)
            point[k] = nu
            shift_events(events, data.systematics, point, data.selection)  # refuses what the filter has cut
        for margin in find_thin_margins(systematic, events, data.selection, max(largest, PRIOR_NU)):
            log.warning("source.cuts: %s; raise the cut, or use a sample with a lower threshold", margin)


def _warn_of_size(systematic: Systematic, events: Events) -> None:
    """Warn if one sigma moves objects by more than they differ: per cent may be taken for a share."""
    varied = systematic.shift(events, 1.0)
    if not varied.matched:
        return
    for collection in events.layout.collections:
        before, after = (e.objects(collection.name)[..., 0] for e in (events, varied.events))
        filled = (before > 0) & (after > 0)
        spread = float(before[filled].std()) if filled.any() else 0.0
        moved = float(np.abs(after - before)[filled].mean()) if filled.any() else 0.0
        if moved > spread > 0:
            log.warning(
                "source.systematics: one sigma of '%s' moves %s of %s by %.3g on average, more than its "
                "standard deviation of %.3g; is sigma right?",
                systematic.name,
                collection.features[0],
                collection.name,
                moved,
                spread,
            )


def _check_users_code(data: CollisionData, events: Events) -> None:
    """Check the user's own systematics, each on what those before it make of the events at nu = 0."""
    given = events
    for systematic in data.systematics:
        if isinstance(systematic, UserSystematic):
            check_soundness(systematic, given)
        given = systematic.shift(given, 0.0).events


def _some_events(data: CollisionData, name: str) -> tuple[Events, NDArray[np.int64]]:
    """Read events from all over the files, which may be sorted; simulate some of a sample without files.

    Also return their numbers in the sample.
    """
    sample = data.samples[name]
    if sample.simulate is not None:
        detector = Detector(lepton_filter=sample.lepton_filter)
        events = next(iter(Simulation(name, min(TRIED, sample.simulate), 0, detector=detector).blocks()))
        return events, np.arange(len(events))
    with data.open(name, verify=False) as files:
        rows = np.unique(np.linspace(0, len(files) - 1, TRIED).astype(np.int64))
        return files.read(rows), rows
