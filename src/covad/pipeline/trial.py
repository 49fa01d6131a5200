"""A trial with a few events of every sample: what would fail after hours, or be wrong, is said at once."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from covad.errors import StudyError, TooFewEventsError, UnknownNameError
from covad.events.layout import UNLABELLED, Events
from covad.events.margins import find_thin_margins
from covad.events.observables import Observables
from covad.events.processes import BACKGROUND, BACKGROUND_MIX, PROCESS_NAMES, process_code
from covad.events.soundness import check_ratios, check_soundness
from covad.events.systematics import (
    BadEventError,
    Nuisance,
    Shifted,
    Shifting,
    Systematic,
    UserSystematic,
    UserWeights,
    in_sample,
)
from covad.events.systematics.variation import of_processes
from covad.pipeline.encoder import check_learned
from covad.pipeline.fingerprints import refuse_copied_files
from covad.pipeline.selected import refuse_other_processes
from covad.pipeline.sizes import Efficiencies, check_needs
from covad.pipeline.spaces import made_observables
from covad.runs.collisions import CollisionData
from covad.runs.selected import WeightSums
from covad.settings import Nu
from covad.simulation.detector import Detector
from covad.simulation.parametric.variants import find_variant
from covad.simulation.simulate import Simulation
from covad.study.plan import n_prior_points
from covad.study.systematics import SamplesEntry

log = logging.getLogger(__name__)

#: Events of each sample that are shifted and selected.
TRIED = 4000
#: The largest |nu| that encoder and response learn from, and that of a truth from its prior in all but 0.3 %.
LEARNED_NU, PRIOR_NU = 2.0, 3.0
#: What both sides of a systematic may raise weights by, on average, or lower them by.
ONE_SIDED = 0.1
#: Ratio of momenta that tells MeV from GeV, and no generator from another.
OTHER_UNITS = 100.0
#: Events of the basis split in which an observable must differ from its most frequent value, on average.
_OTHERS = 5.0


def _refuse_repeated_points(data: CollisionData) -> None:
    """Raise StudyError if points of the prior have different chances: toys throw each of them alike."""
    discrete = all(nuisance.discrete for nuisance in data.systematics)
    if discrete and data.source.correlation is not None and n_prior_points(data.study):
        raise StudyError(
            "source.correlations: all systematics are separate samples, and toys of the prior throw their "
            "signs independently: set prior to false, or leave the correlations out"
        )


def check_collisions(data: CollisionData) -> None:
    """Raise an error if samples, files or systematics of the study cannot be, before any work starts."""
    _refuse_repeated_points(data)
    for name, sample in data.samples.items():
        process = data.source.separate_processes.get(name, name)
        if sample.simulate is not None and name != BACKGROUND:
            process_code(process)
        if sample.variant is not None:
            find_variant(process, sample.variant)
    given = {name: sample for name, sample in data.samples.items() if sample.files}
    layouts, processes = {}, {}
    for name in given:
        with data.open_files(name, verify=False, columns=data.columns) as files:
            layouts[name], processes[name] = files.layout, files.process_names
            if name == BACKGROUND and len(files) < data.source.splits.total:
                raise TooFewEventsError(
                    f"{data.paths(name)[0]}: source.background has {len(files)} events, "
                    f"but the splits ask for {data.source.splits.total}: add files, or lower source.splits"
                )
            if name in data.source.separate_samples:
                _check_roles(data, name, len(files))
    if len(set(layouts.values())) > 1:
        raise StudyError(
            f"the samples {', '.join(layouts)} have different event layouts: write their files alike"
        )
    refuse_copied_files(data)
    _check_processes(data, processes)
    _check_simulated(data)


def _check_roles(data: CollisionData, name: str, n_events: int) -> None:
    """Raise TooFewEventsError if a separate sample has no event for one of its roles."""
    for role, rows in data.alternative_rows(n_events).items():
        if not len(rows):
            raise TooFewEventsError(
                f"source.systematics: the sample '{name}' has {n_events} events, of which none is left for "
                f"the role {role}: give it more events"
            )


def _check_processes(data: CollisionData, in_files: Mapping[str, tuple[str, ...]]) -> None:
    """Raise UnknownNameError if systematics act on processes that no sample has."""
    labels = {name: entry.label or name for name, entry in data.source.background.processes.items()}
    found: dict[str, tuple[str, ...]] = {}
    for name in data.samples:
        names = in_files.get(name, PROCESS_NAMES)
        found[name] = tuple(labels.get(each, each) for each in names) if name == BACKGROUND else names
    everywhere = dict.fromkeys(name for names in found.values() for name in names)
    for number, entry in enumerate(data.source.systematics):
        key, known = f"source.systematics.{number}.only", everywhere
        if isinstance(entry, SamplesEntry):
            key, known = f"source.systematics.{number}.process", dict.fromkeys(found[BACKGROUND])
        for process in entry.processes:
            if process not in known:
                there = ", ".join(known) or "none"
                if process in labels:
                    there += f", and {process} is trained as {labels[process]}"
                raise UnknownNameError(f"{key}: there is no process '{process}' (there are {there})")
        for name in entry.samples:
            if entry.processes[0] not in found[name]:
                there = ", ".join(found[name]) or "no processes"
                raise StudyError(
                    f"{data.paths(name)[0]}: source.systematics takes its events for '{entry.processes[0]}', "
                    f"but it has {there}: write their process into the file"
                )


def _check_simulated(data: CollisionData) -> None:
    """Raise StudyError if systematics need columns of simulated events, which have none."""
    for name, sample in data.samples.items():
        for group, column, only in (c for nuisance in data.systematics for c in nuisance.columns):
            if sample.simulate is None or (only and not set(only) & set(_simulated_processes(data, name))):
                continue
            what = "weights" if group == "weights" else "varied objects"
            raise StudyError(
                f"source.systematics: asks for the {what} '{column}', which the simulated events of "
                f"'{name}' do not have: give a function, or files"
            )


def _simulated_processes(data: CollisionData, name: str) -> tuple[str, ...]:
    if name == BACKGROUND:
        return tuple(BACKGROUND_MIX)
    return (data.source.separate_processes.get(name, name),)


def try_events(data: CollisionData) -> None:
    """Shift and select a few events of every sample, and see whether enough of all will be left."""
    tried: dict[str, int] = {}
    passed: dict[str, dict[Nu, int]] = {}
    sums: dict[str, dict[Nu, WeightSums]] = {}
    weighing = any(nuisance.weighs for nuisance in data.systematics)
    observables, background = made_observables(data), None
    for name in data.samples:
        events, numbers = _some_events(data, name)
        if background is None:  # it comes first
            background = events
            check_learned(data, events.layout)
        unlabelled = (events.process == UNLABELLED).any()
        if name == BACKGROUND and data.source.learned and unlabelled:
            raise StudyError(
                "source.background: has events without a process label, which the encoder needs to learn "
                "from: label them, or leave them out"
            )
        with in_sample(name, numbers):
            if name in data.source.separate_samples:
                refuse_other_processes(events, data.source.separate_processes[name])
                _check_units(background, events, data.source.separate_processes[name])
            _check_users_code(data, events)
            at_points = _at_points(data, events)
            counted = {nu: len(shifted.events) for nu, shifted in at_points.items()}
            _try_observables(observables, data, name, at_points)
            if not any(counted.values()) and _is_own(data, name):
                raise TooFewEventsError(f"none of {len(events)} events passes source.cuts: loosen them")
            if name not in data.source.separate_samples:
                tried[name], passed[name] = len(events), counted
                if events.weights is not None or weighing:
                    sums[name] = {
                        nu: WeightSums.of(shifted.weights, events.event_weights)
                        for nu, shifted in at_points.items()
                    }
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


def _try_observables(
    observables: Mapping[str, Observables], data: CollisionData, sample: str, at_points: Mapping[Nu, Shifted]
) -> None:
    """Raise if an observable fails, is not finite, depends on other events, or says nothing."""
    centre = tuple(0.0 for _ in data.systematics)
    for found in observables.values():
        for nu, shifted in at_points.items():
            layout, particles = shifted.events.layout, shifted.events.particles
            try:
                values = found.check(layout, particles) if nu == centre else found(layout, particles)
            except BadEventError as failure:
                raise failure.numbered(shifted.rows) from failure
            if sample == BACKGROUND and nu == centre and len(values):
                _refuse_constant(found, values, data.source.splits.basis)


def _refuse_constant(observables: Observables, values: NDArray[np.float32], n_basis: int) -> None:
    """Raise if an observable is one and the same number, or hardly ever another one."""
    for name, column in zip(observables.names, values.T, strict=True):
        distinct, counts = np.unique(column, return_counts=True)
        other = 1.0 - counts.max() / len(column)
        if other * n_basis < _OTHERS:
            raise StudyError(
                f"{observables.where}: observable '{name}' is {distinct[counts.argmax()]:g} in "
                f"{counts.max()} of {len(column)} background events that pass the cuts, which says nothing: "
                "leave it out"
            )


def _is_own(data: CollisionData, name: str) -> bool:
    """Return whether the trial has events of the sample's own kind: those of Pythia take too long to make."""
    sample = data.samples[name]
    return sample.simulate is None or sample.engine == "parametric"


def _at_points(data: CollisionData, events: Events) -> dict[Nu, Shifted]:
    """Return the selected events at every nu of the study."""
    shifting = Shifting(events, data.acting, data.selection)
    return {nu: shifting.at(nu) for nu in data.study.points}


def _try_shifts(data: CollisionData, events: Events, background: bool) -> None:
    """Shift by one sigma of every nuisance; say which does nothing to the background, raise if all do."""
    centre = [0.0] * len(data.systematics)
    shifting = Shifting(events, data.systematics, data.selection)
    nominal, idle = shifting.at(centre), []
    for k, nuisance in enumerate(data.systematics):
        moved = [shifting.at([*centre[:k], sign, *centre[k + 1 :]]) for sign in (1.0, -1.0)]
        if not any(_differ(nominal, shifted) for shifted in moved):
            idle.append(nuisance.name)
        elif background:
            if not nuisance.discrete and not _differ(*moved):
                log.warning(
                    "source.systematics: '%s' does the same to all events at nu = +1 and -1, which a "
                    "response of order 1 cannot describe: is 'down' the other side?",
                    nuisance.name,
                )
            if len(nuisance.effects) > 1:
                _warn_of_idle_entries(nuisance, events)
        if background and nuisance.weighs:
            _warn_of_yield(nuisance.without_samples, events)
        if background and nuisance.moves:
            _warn_of_size(nuisance.without_samples, events)
    if not background or not idle:
        return
    what = f"changes none of {len(events)} background events: raise its sigma, or leave it out"
    if len(idle) == len(data.systematics):
        raise StudyError(f"source.systematics: '{idle[0]}' {what}")
    for name in idle:
        log.warning("source.systematics: '%s' %s", name, what)


def _check_units(background: Events, events: Events, process: str) -> None:
    """Raise StudyError if a separate sample has other units than the events that it stands for."""
    nominal = background[np.flatnonzero(of_processes(background, [process]))]
    for collection in events.layout.collections:
        scales = [e.objects(collection.name)[..., 0] for e in (nominal, events)]
        filled = [scale[scale > 0] for scale in scales]
        if not all(map(len, filled)):
            continue
        expected, found = (float(np.median(scale)) for scale in filled)
        if not 1.0 / OTHER_UNITS < found / expected < OTHER_UNITS:
            raise StudyError(
                f"the median {collection.features[0]} of {collection.name} is {found:.3g}, and "
                f"{expected:.3g} in the background's events of '{process}', whose place it takes: are the "
                "units the same?"
            )


def _warn_of_yield(nuisance: Nuisance, events: Events) -> None:
    """Warn if both sides raise the weights, or both lower them: columns may be factors, and no weights."""
    up, down = (
        np.ones(len(events)) if found is None else found
        for found in (nuisance.shift(events, nu).weights for nu in (1.0, -1.0))
    )
    concerned = (up != 1.0) | (down != 1.0)
    sizes = np.abs(events.event_weights)[concerned]
    if not sizes.any():
        return
    high, low = (float(np.average(side[concerned], weights=sizes)) for side in (up, down))
    if min(high, low) > 1.0 + ONE_SIDED or max(high, low) < 1.0 - ONE_SIDED:
        log.warning(
            "source.systematics: '%s' multiplies the weights by %.3g on average at nu = +1, and by %.3g at "
            "-1: both sides must be whole weights of the events, and no factors to them; are they?",
            nuisance.name,
            high,
            low,
        )


def _differ(nominal: Shifted, shifted: Shifted) -> bool:
    return not np.array_equal(nominal.events.particles, shifted.events.particles) or not np.array_equal(
        nominal.weights, shifted.weights
    )


def _warn_of_idle_entries(nuisance: Nuisance, events: Events) -> None:
    """Warn of an entry that does nothing, while others of its name do."""
    for number, effect in enumerate(nuisance.effects):
        nominal, *moved = (effect.shift(events, nu) for nu in (0.0, 1.0, -1.0))
        if all(
            np.array_equal(nominal.events.particles, found.events.particles)
            and np.array_equal(nominal.total_weights, found.total_weights)
            for found in moved
        ):
            log.warning(
                "source.systematics: entry %d of '%s' changes none of %d background events",
                number + 1,
                nuisance.name,
                len(events),
            )


def _check_margins(data: CollisionData, events: Events) -> None:
    """Raise or warn if shifts lift events over the cuts from where the sample has none.

    The margin has to last to the largest |nu| of the study, to the two sigma that the response is learned
    from, and to three, which a truth that is thrown from its prior exceeds in 0.3 % of the toys. Nuisances
    that move nothing lift nothing.
    """
    acting = data.acting
    shifting = Shifting(events, acting, data.selection)
    for k, nuisance in enumerate(acting):
        if not nuisance.moves:
            continue
        largest, prior = 1.0, 1.0  # of separate samples, which are there up to one sigma
        if not data.systematics[k].discrete:
            largest, prior = max(LEARNED_NU, *(abs(nu[k]) for nu in data.study.points)), PRIOR_NU
        for nu in (largest, -largest):
            point = [0.0] * len(acting)
            point[k] = nu
            shifting.at(point)  # refuses what the filter has cut
        for margin in find_thin_margins(nuisance, events, data.selection, max(largest, prior)):
            log.warning("source.cuts: %s; raise the cut, or use a sample with a lower threshold", margin)


def _warn_of_size(systematic: Systematic, events: Events) -> None:
    """Warn if one sigma moves objects by more than they differ: per cent may be taken for a share."""
    varied = systematic.shift(events, 1.0)
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
    for nuisance in data.systematics:
        for effect, only in nuisance.acting:
            rows = np.flatnonzero(of_processes(given, only)) if only else np.arange(len(given))
            check = {UserSystematic: check_soundness, UserWeights: check_ratios}.get(type(effect))
            if check is not None and len(rows):
                try:
                    check(effect, given[rows])
                except BadEventError as failure:
                    raise failure.numbered(rows) from failure
        given = nuisance.shift(given, 0.0).events


def _some_events(data: CollisionData, name: str) -> tuple[Events, NDArray[np.int64]]:
    """Read events from all over the files, which may be sorted; simulate some of a sample without files.

    Also return their numbers in the sample.
    """
    sample = data.samples[name]
    if sample.simulate is not None:
        detector = Detector(lepton_filter=sample.lepton_filter)
        process = data.source.separate_processes.get(name, name)
        simulation = Simulation(
            process, min(TRIED, sample.simulate), 0, detector=detector, variant=sample.variant
        )
        events = next(iter(simulation.blocks()))
        return events, np.arange(len(events))
    with data.open(name, verify=False) as files:
        rows = np.unique(np.linspace(0, len(files) - 1, TRIED).astype(np.int64))
        return files.read(rows), rows
