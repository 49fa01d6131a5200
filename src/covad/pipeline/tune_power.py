"""Power against anomalies that nobody tuned for: the way to choose settings of tests, and spaces."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from covad.errors import PlanError, StudyError, TooFewEventsError, UnfinishedRunError, UnknownNameError
from covad.inference.expected_power import AdaptivePower, SecondOrderPower
from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.convex.capacity import CapacityError
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.dataset import Dataset, Float64
from covad.nplm.fit import Status
from covad.nplm.likelihood import fit_nuisances
from covad.nplm.settings import Sizes
from covad.nplm.statistic import likelihood_ratio
from covad.results.frontier import compared_adaptive, power_digest
from covad.results.power import TUNING, FamilyPower, PowerTuning, SettingPower
from covad.runs.changed import changed_events
from covad.runs.collisions import CollisionData, derived_seed
from covad.runs.directory import RunDirectory
from covad.runs.labels import read_labels
from covad.runs.sources import open_sources
from covad.storage.records import plain
from covad.storage.sealed import write_sealed
from covad.study import Collisions, Configuration, Study
from covad.study.plan import Space, null_draw, one_per_space, sizes_of, space_label
from covad.study.spaces import JoinedSpace
from covad.toys.anomalies import (
    LEFT_OUT_SHARES,
    AnomalyFamily,
    as_signal,
    changed,
    check_sizes,
    left_out,
    random_bumps,
    toy_seeds,
)
from covad.toys.drawing import PoolSource, known_response, largest_number
from covad.toys.ensembles import Draw, Source
from covad.toys.pool_files import open_verified
from covad.toys.pools import LatentEvents, Pool, Pools
from covad.toys.tests import TunedAdaptive, TunedConvex

log = logging.getLogger(__name__)

#: The threshold at which powers are compared.
Z = 2.0
#: The tests that can be compared, by name.
COMPARED = ("convex", "adaptive")
#: Processes that are more of the background than this are no anomalies, nor do they come as more of the data.
_LARGEST_SHARE = 0.2
#: Reference events from which the moments of a null are estimated, in units of a toy's.
_MOMENT_SAMPLE = 4
#: Events of a source without pools, in units of what toys need.
_GATHERED = 4


#: A test by its settings, and as it was chosen for a sample.
Setting = TunedConvex | TunedAdaptive
Chosen = ConvexTest | AdaptiveTest


@dataclass(frozen=True)
class Grid:
    """What is compared: convex tests of these capacities and spreads, and the adaptive test of the study."""

    capacities: tuple[float, ...] = (10.0, 20.0, 45.0, 90.0)
    spreads: tuple[float, ...] = (3.0, 10.0)
    bumps: int | None = None  # None: those of the study
    tests: tuple[str, ...] = COMPARED

    def __post_init__(self) -> None:
        for name in self.tests:
            if name not in COMPARED:
                raise UnknownNameError(
                    f"there is no test '{name}' to compare (there are {', '.join(COMPARED)})"
                )
        for capacity in self.capacities:
            if not (np.isfinite(capacity) and capacity > 1.0):
                raise PlanError(f"a capacity is a number above 1, not {capacity:g}")
        for spread in self.spreads:
            if not 1e-6 <= spread <= 1e6:
                raise PlanError(f"a spread is a number from 1e-6 to 1e6, not {spread:g}")

    def settings(self, study: Study, configuration: Configuration) -> Iterator[tuple[str, Setting]]:
        """Yield the tests with their names; the adaptive one is the study's, or that of the defaults."""
        if "adaptive" in self.tests:
            yield "adaptive", compared_adaptive(study, configuration)
        if "convex" in self.tests:
            yield from self._convex(study, sizes_of(study, configuration))

    def _convex(self, study: Study, sizes: Sizes) -> Iterator[tuple[str, Setting]]:
        usual = study.tests.convex
        bumps = self.bumps or (usual.bumps if usual is not None else TunedConvex(**dict(sizes)).bumps)
        seed = usual.seed if usual is not None else 0
        for capacity in self.capacities:
            if capacity >= bumps:
                log.warning("capacity %g needs more than %d bumps: left out (--bumps)", capacity, bumps)
                continue
            for spread in self.spreads:
                yield (
                    "convex",
                    TunedConvex(bumps=bumps, capacity=capacity, spread=spread, seed=seed, **dict(sizes)),
                )


def tune_power(
    path: Path,
    grid: Grid,
    n_bumps: int = 40,
    toys: int = 0,
    signals: Sequence[str] = (),
    shares: Sequence[float] = LEFT_OUT_SHARES,
    with_changed: bool = False,
) -> PowerTuning:
    """Compare settings in every space of a run, and keep the answer in RUN/power/tuning.json.

    `signals` are those of the study that count as anomalies: processes that were left out of its training.
    `shares` are the yields of processes left out, of the expected events, and of changed events, which are
    anomalies too if `with_changed`.
    With `toys`, as many with and without an anomaly are fitted for each family, the same for all settings.
    """
    if path.is_file():
        raise StudyError(
            f"{path}: is a file, but a space has to be trained first: "
            f"`covad run {path} --out RUN --until pools`, then `covad tune-power RUN`"
        )
    if len(set(shares)) < len(shares) or not all(0.0 < share <= _LARGEST_SHARE for share in shares):
        given = ", ".join(f"{share:g}" for share in shares)
        raise PlanError(
            f"--share {given}: every share must be above 0 and at most {_LARGEST_SHARE:g}, and be given once"
        )
    directory = RunDirectory(path)
    study = directory.study()
    sources = open_sources(study, directory)
    notes: list[str] = []
    lines: list[SettingPower] = []
    made_of: dict[str, str] = {}
    for where, configuration in one_per_space(study).items():
        if where not in sources:
            raise UnfinishedRunError(
                f"{path}: the space '{space_label(where)}' has no pools yet; `covad run` goes on"
            )
        draw, source = null_draw(study, configuration), sources[where]
        made_of[space_label(where)] = power_digest(study, configuration, source)
        background = _background(source, draw)
        families = list(_families(study, directory, background, draw, n_bumps, signals, shares, notes))
        if with_changed and (family := _changed(study, directory, where, background, draw, shares, notes)):
            families.append(family)
        settings = list(grid.settings(study, configuration))
        found: dict[Setting, list[FamilyPower]] = {each: [] for _, each in settings}
        for family in families:
            log.info("tune-power: %s, %s", space_label(where), family.name)
            chosen = _chosen([each for _, each in settings], family, notes)
            for each, power in _family_power(family, chosen, draw, toys, study.seed).items():
                found[each].append(power)
        for name, each in settings:
            if len(found[each]) == len(families):
                keys = ("bumps", "capacity", "spread") if isinstance(each, TunedConvex) else ("capacity",)
                numbers = {key: getattr(each, key) for key in keys}
                lines.append(SettingPower(space_label(where), name, families=tuple(found[each]), **numbers))
    if not lines:
        raise PlanError(f"{path}: none of the settings can be had in its spaces: {'; '.join(notes)}")
    tuning = PowerTuning(study.seed, tuple(lines), tuple(dict.fromkeys(notes)), made_of)
    write_sealed(path / TUNING, plain(tuning))
    return tuning


def _background(source: Source, draw: Draw) -> Pools:
    """Return the pools of a source; of one that has fresh events for every toy, enough of them."""
    if isinstance(source, PoolSource):
        return open_verified(source.directory, source.digest)
    seeds = toy_seeds(0, "background", 0, False)
    large = replace(draw, n_reference=_GATHERED * draw.n_reference, expected=_GATHERED * draw.expected)
    sample = source.draw(large, seeds)
    return Pools(
        Pool(LatentEvents(sample.reference, sample.reference_response)),
        source.basis_events(),
        {draw.nu: Pool(LatentEvents(sample.data, sample.data_response))},
    )


def _families(
    study: Study,
    directory: RunDirectory,
    background: Pools,
    draw: Draw,
    n_bumps: int,
    signals: Sequence[str],
    shares: Sequence[float],
    notes: list[str],
) -> Iterator[AnomalyFamily]:
    yield random_bumps(background, draw, n_bumps, derived_seed(study, "anomalies"))
    for name in signals:
        if name not in study.signals:
            known = ", ".join(study.signals) or "none"
            raise UnknownNameError(f"{directory.path}: the study has no signal '{name}' (it has {known})")
        yield as_signal(background, draw, name, study.signals[name])
    if not isinstance(study.source, Collisions):
        notes.append("no process can be left out: this study does not start from events with labels")
        return
    labels = read_labels(CollisionData.of_run(study, directory), background)
    if labels is None:
        notes.append("no process was left out: the events have weights, and pools do not keep their labels")
        return
    told = "; the encoder was trained with their labels" if study.source.learned else ""
    yields = ", ".join(f"{100 * share:g}" for share in shares)
    notes.append(f"processes were left out of reference and data, and came as {yields} % of the data{told}")
    for process, share in _shares(labels).items():
        if share > _LARGEST_SHARE:
            continue
        family = left_out(background, draw, process, labels, shares)
        try:
            check_sizes(family, draw)
        except TooFewEventsError as few:
            notes.append(f"{process} was not left out: {few}")
            continue
        yield family


def _changed(
    study: Study,
    directory: RunDirectory,
    where: Space,
    background: Pools,
    draw: Draw,
    shares: Sequence[float],
    notes: list[str],
) -> AnomalyFamily | None:
    """Return changed events as a family; None, with a note, where they cannot be had."""
    if not isinstance(study.source, Collisions):
        notes.append("no events were changed: this study does not start from events")
        return None
    found = changed_events(CollisionData.of_run(study, directory), where)
    if found is None:
        notes.append("no events were changed: they have weights")
        return None
    most = largest_number(max(shares) * draw.expected)
    events = {name: pool for name, pool in found.items() if len(pool) >= most}
    notes += [
        f"the change {name} is left out: it leaves {len(pool)} events, and toys may need {most:.0f}"
        for name, pool in found.items()
        if name not in events
    ]
    if not events:
        return None
    yields = ", ".join(f"{100 * share:g}" for share in shares)
    notes.append(f"changed events ({', '.join(events)}) came as {yields} % of the data")
    entry, learned = study.source.spaces[where[0]], study.source.learned
    for name in entry.of if isinstance(entry, JoinedSpace) else where[:1]:
        if name in learned and "changes" in learned[name].kept:
            notes.append(f"{name} was trained with changed events, and shows them better than anything new")
    return changed(background, draw, events, shares)


def _shares(labels: Mapping[str, np.ndarray]) -> dict[str, float]:
    names, counts = np.unique(labels["data"], return_counts=True)
    return {str(name): float(n / counts.sum()) for name, n in zip(names, counts, strict=True)}


def _chosen(settings: Sequence[Setting], family: AnomalyFamily, notes: list[str]) -> dict[Setting, Chosen]:
    """Choose the basis of every setting from the family's own background; leave out what cannot be had."""
    found: dict[Setting, Chosen] = {}
    for each in settings:
        try:
            share = family.background.reference.effective_share
            found[each] = each.choose(family.background.basis, share)
        except CapacityError as failure:
            notes.append(f"{family.name}: a setting was left out: {failure}")
    return found


def _family_power(
    family: AnomalyFamily, chosen: Mapping[Setting, Chosen], draw: Draw, toys: int, seed: int
) -> dict[Setting, FamilyPower]:
    """Return the power of every test against the anomalies of a family.

    The threshold is that of the law, for toys too.
    """
    check_sizes(family, draw)
    wide = min(_MOMENT_SAMPLE * draw.n_reference, len(family.background.reference))
    sample = family.toy(replace(draw, n_reference=wide), toy_seeds(seed, family.name, 0, False), None)
    with_anomaly, without = (_t_of_toys(family, chosen, draw, toys, seed, there) for there in (True, False))
    found = {}
    for key, test in chosen.items():
        order = _second_order(test, sample, draw.n_reference)
        events = [(a.pool.sample, a.injected) for a in family.anomalies]
        powers = [order.power(each.z, known_response(draw, each), n, Z) for each, n in events]
        threshold = order.threshold(Z)
        beyond = [int((t[key] > threshold).sum()) for t in (with_anomaly, without)]
        found[key] = FamilyPower(family.name, len(family.anomalies), float(np.mean(powers)), toys, *beyond)
    return found


def _second_order(test: Chosen, sample: Dataset, n_reference: int) -> SecondOrderPower | AdaptivePower:
    if isinstance(test, AdaptiveTest):
        return AdaptivePower.of(test, sample, n_reference)
    return SecondOrderPower.of(test, sample, n_reference)


def _t_of_toys(
    family: AnomalyFamily,
    chosen: Mapping[Setting, Chosen],
    draw: Draw,
    toys: int,
    seed: int,
    with_anomaly: bool,
) -> dict[Setting, Float64]:
    """Fit all tests to the same toys; every toy has the next anomaly of the family."""
    t = {key: np.zeros(toys) for key in chosen}
    for index in range(toys):
        seeds = toy_seeds(seed, family.name, index, with_anomaly)
        anomaly = family.turn(index, toys) if with_anomaly else None
        dataset = family.toy(draw, seeds, anomaly)
        delta = fit_nuisances(dataset)
        for key, test in chosen.items():
            result = likelihood_ratio(dataset, test, seeds.fit, delta)
            t[key][index] = -np.inf if result.status is Status.FAILED else result.t
    return t
