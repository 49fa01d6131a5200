"""How powerful tests are against anomalies nobody tuned for, and beside yardsticks: as a run keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from covad.storage.records import Record

#: In the run directory: what `covad tune-power` and `covad bench power` found.
FOLDER = "power"
TUNING = f"{FOLDER}/tuning.json"


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
    bumps: int | None
    capacity: float | None
    spread: float | None
    families: tuple[FamilyPower, ...]

    @property
    def mean(self) -> float | None:
        """Return the power on average over the families; None if one of them has none."""
        powers = [family.power for family in self.families]
        known = [power for power in powers if power is not None]
        return sum(known) / len(known) if known and len(known) == len(powers) else None


@dataclass(frozen=True)
class PowerTuning(Record):
    """What `covad tune-power` found in one run; `notes` say what it could not ask."""

    seed: int
    settings: tuple[SettingPower, ...]
    notes: tuple[str, ...]

    @property
    def ranked(self) -> tuple[SettingPower, ...]:
        """Return the settings, those of the largest power first; those without one come last."""
        return tuple(sorted(self.settings, key=lambda s: -1.0 if s.mean is None else s.mean, reverse=True))
