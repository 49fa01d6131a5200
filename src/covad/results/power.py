"""How powerful tests are against anomalies nobody tuned for, and beside yardsticks: as a run keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from covad.inference.significance import Significance
from covad.runs.directory import RunDirectory
from covad.storage.records import Record, restore
from covad.toys.anomalies import CHANGED_EVENTS, RANDOM_BUMPS

#: In the run directory: what `covad tune-power` and `covad bench power` found.
FOLDER = "power"
TUNING = f"{FOLDER}/tuning.json"
YARDSTICKS = f"{FOLDER}/yardsticks.json"


@dataclass(frozen=True)
class FamilyPower(Record):
    """Power at Z = 2 on average over a family of anomalies, by the formula and by toys, where there are any.

    `false_alarms` are toys without anomaly beyond Z = 2, of as many.
    """

    family: str
    anomalies: int
    formula: float | None
    toys: int
    found: int
    false_alarms: int

    @property
    def power(self) -> float | None:
        """Return the share of toys in which the anomaly was found; the formula's without toys."""
        return self.found / self.toys if self.toys else self.formula


@dataclass(frozen=True)
class SettingPower(Record):
    """The power of one test with its settings, in one space."""

    space: str
    test: str
    families: tuple[FamilyPower, ...]
    capacity: float | None = None
    bumps: int | None = None
    spread: float | None = None

    @property
    def mean(self) -> float | None:
        """Return the power on average over the families; None if one of them has none."""
        return _mean(self.families)

    @property
    def mean_of_processes(self) -> float | None:
        """Return the same over processes that were left out, or are signals of the study."""
        others = (RANDOM_BUMPS, CHANGED_EVENTS)
        return _mean([family for family in self.families if family.family not in others])

    @property
    def mean_of_bumps(self) -> float | None:
        """Return the power against random bumps, which are others in every space."""
        return _mean([family for family in self.families if family.family == RANDOM_BUMPS])

    @property
    def name(self) -> str:
        """Return what people call the test: 'adaptive', 'convex, capacity 45, spread 3'."""
        if self.bumps is None or self.capacity is None or self.spread is None:
            return self.test
        return f"{self.test}, capacity {self.capacity:g}, spread {self.spread:g}"


def _mean(families: Sequence[FamilyPower]) -> float | None:
    powers = [family.power for family in families]
    known = [power for power in powers if power is not None]
    return sum(known) / len(known) if known and len(known) == len(powers) else None


@dataclass(frozen=True)
class PowerTuning(Record):
    """What `covad tune-power` found in one run; `notes` say what it could not ask."""

    seed: int
    settings: tuple[SettingPower, ...]
    notes: tuple[str, ...]
    made_of: Mapping[str, str] = field(default_factory=dict)  # digests of what power depends on, by space

    @property
    def ranked(self) -> tuple[SettingPower, ...]:
        """Return the settings, those of the largest power first; those without one come last."""
        return tuple(sorted(self.settings, key=lambda s: -1.0 if s.mean is None else s.mean, reverse=True))


@dataclass(frozen=True)
class YardstickLine(Record):
    """One test or yardstick on toys of one kind: how many are beyond Z = 2 of its null toys at nu = 0.

    `target` is the signal that it knows, with its expected events; without `signal` the toys are background,
    and `found` are false alarms.
    """

    name: str
    target: tuple[str, float] | None
    signal: str | None
    injected: float
    nu: tuple[float, ...]
    toys: int
    found: int | None  # None: the null toys are too few to resolve Z = 2
    median: Significance | None  # None for background, and for too few toys

    @property
    def rate(self) -> float | None:
        return None if self.found is None else self.found / self.toys


@dataclass(frozen=True)
class Ceiling(Record):
    """Z that a search would expect which knew the signal and all nuisances; `limited`: at least that."""

    name: str
    signal: str
    injected: float
    expected_z: float
    limited: bool


@dataclass(frozen=True)
class YardstickTable(Record):
    """What `covad bench power` found in one configuration of a run."""

    configuration: str  # its slug
    made_of: tuple[str, ...]  # identities of the background ensembles whose toys it saw
    null_toys: int
    lines: tuple[YardstickLine, ...]
    ceilings: tuple[Ceiling, ...]
    trials: float | None  # of the best of 1-D tests, at Z = 2
    notes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line.name for line in self.lines))

    @property
    def signals(self) -> tuple[tuple[str, float], ...]:
        """Return the signals with their expected events."""
        found = ((line.signal, line.injected) for line in self.lines if line.signal is not None)
        return tuple(dict.fromkeys(found))

    def select(self, name: str, signal: str | None, injected: float = 0.0) -> tuple[YardstickLine, ...]:
        """Return the lines of a yardstick on toys of one kind, at every nu."""
        wanted = (name, signal, injected)
        return tuple(line for line in self.lines if (line.name, line.signal, line.injected) == wanted)

    def ceiling(self, name: str, signal: str, injected: float) -> Ceiling | None:
        for each in self.ceilings:
            if (each.name, each.signal, each.injected) == (name, signal, injected):
                return each
        return None


def read_yardsticks(directory: RunDirectory) -> YardstickTable | None:
    """Return what `covad bench power` kept in a run, None if it was not called."""
    content = directory.read(YARDSTICKS)
    path = str(directory.path / YARDSTICKS)
    return None if content is None else restore(YardstickTable, content, path)


def read_tuning(directory: RunDirectory) -> PowerTuning | None:
    """Return what `covad tune-power` kept in a run, None if it was not called."""
    content = directory.read(TUNING)
    return None if content is None else restore(PowerTuning, content, str(directory.path / TUNING))
