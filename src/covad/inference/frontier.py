"""The frontier of learned spaces: closure reach against power that no signal tuned, and a rule for alpha.

alpha weighs the loss that makes a space answer simply to the nuisances. What it buys is reach, and what it
may cost is power. The rule, among settings that differ in alpha alone: the smallest alpha whose reach,
averaged over the prior, is at least five times the expected data; if there is none, the alpha of the largest
reach. The reach of a setting is here the lower end of its 68 % interval, which is always a number, and of
several trainings (seeds) the geometric mean of these. So neither luck of a fresh sample nor one lucky
training is enough. Power has no say: the rule can be applied before it is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covad.errors import InferenceError
from covad.inference.reach import Reach
from covad.storage.records import Record

#: The reach that the rule asks for, in units of the expected data.
TIMES_DATA = 5.0


@dataclass(frozen=True)
class FrontierPoint(Record):
    """One learned space: its reach averaged over the prior and at each distance from nu = 0, and its power.

    `setting` says what it differs in from other spaces beside alpha and the seed; `power` is that against
    processes left out, which are the same events in all spaces, `bump_power` against random bumps, which are
    not.
    """

    space: str
    setting: str
    alpha: float
    seed: int
    reach: Reach
    reach_at: tuple[tuple[float, Reach], ...]  # (sigma, the smallest over signs and nuisances)
    power: float | None = None
    bump_power: float | None = None


@dataclass(frozen=True)
class Repeated(Record):
    """A number over trainings that differ in their seed: mean, and standard deviation if there are several.

    Of reaches both are taken in log N, so that `spread` is relative; `bound`: one of them has no upper end
    and enters with its lower one.
    """

    mean: float
    spread: float | None
    bound: bool = False


@dataclass(frozen=True)
class FrontierSetting(Record):
    """Spaces that differ in their seed alone."""

    setting: str
    alpha: float
    spaces: tuple[str, ...]
    reach: Repeated
    reach_at: tuple[tuple[float, Repeated], ...]
    lowest: float  # what the rule looks at: mean of the lower ends of the averaged reach
    power: Repeated | None
    bump_power: Repeated | None


@dataclass(frozen=True)
class AlphaChoice(Record):
    """What the rule says of settings that differ in alpha alone."""

    setting: str
    alpha: float
    lowest: float  # its reach, see `FrontierSetting.lowest`
    wanted: float
    among: tuple[float, ...]

    @property
    def enough(self) -> bool:
        return self.lowest >= self.wanted

    @property
    def text(self) -> str:
        """Say what the rule chooses, and why."""
        whose = f" ({self.setting})" if self.setting else ""
        among = ", ".join(f"{alpha:g}" for alpha in self.among)
        wanted = f"at least {TIMES_DATA:g} times the expected data ({_events(self.wanted)} events)"
        reached = f"{_events(self.lowest)} events or more"
        if self.enough:
            why = f"the smallest of {among} whose prior-averaged reach ({reached}) is {wanted}"
        else:
            why = f"of {among} no prior-averaged reach is {wanted}, and this one is the largest ({reached})"
        return f"by the rule{whose}: alpha = {self.alpha:g}: {why}"


@dataclass(frozen=True)
class Frontier(Record):
    """All learned spaces of a study that lists several alphas.

    `test` is the one whose power is told, None if there is none; `waiting` are spaces without a reach yet.
    """

    expected: float
    points: tuple[FrontierPoint, ...]
    settings: tuple[FrontierSetting, ...]
    choices: tuple[AlphaChoice, ...]
    test: str | None = None
    waiting: tuple[str, ...] = ()

    @property
    def wanted(self) -> float:
        """Return the reach that the rule asks for."""
        return TIMES_DATA * self.expected

    @property
    def has_power(self) -> bool:
        """Return whether every space has a power that can be compared."""
        return bool(self.points) and all(point.power is not None for point in self.points)

    def is_chosen(self, setting: FrontierSetting | FrontierPoint) -> bool:
        chosen = {(choice.setting, choice.alpha) for choice in self.choices}
        return (setting.setting, setting.alpha) in chosen

    @property
    def lines(self) -> tuple[str, ...]:
        """Say what the rule chooses, and what it still waits for."""
        lines = [choice.text for choice in self.choices]
        if self.waiting:
            lines.append(f"the rule for alpha waits for the reach of {', '.join(self.waiting)}")
        return tuple(lines)


def frontier(
    points: Sequence[FrontierPoint], expected: float, test: str | None = None, waiting: Sequence[str] = ()
) -> Frontier:
    """Group trained spaces by setting, and apply the rule to each group that has several alphas.

    Raise InferenceError for an alpha, a reach or expected events that cannot be.
    """
    if not (np.isfinite(expected) and expected > 0):
        raise InferenceError(f"the frontier needs a positive number of expected events, not {expected:g}")
    for point in points:
        if not (np.isfinite(point.alpha) and point.alpha >= 0):
            raise InferenceError(
                f"the space '{point.space}' has the alpha {point.alpha:g}: 0 or more is needed"
            )
        for reach in (point.reach, *(found for _, found in point.reach_at)):
            if not _lower(reach) > 0:
                raise InferenceError(
                    f"the reach of the space '{point.space}' has no lower end above 0 events"
                )
    keys = sorted({(point.setting, point.alpha) for point in points})
    settings = [_setting([p for p in points if (p.setting, p.alpha) == key]) for key in keys]
    choices = []
    for name in dict.fromkeys(setting for setting, _ in keys):
        mine = [found for found in settings if found.setting == name]  # by alpha
        if len(mine) > 1:
            wanted = TIMES_DATA * expected
            enough = [found for found in mine if found.lowest >= wanted]
            chosen = enough[0] if enough else max(mine, key=lambda found: found.lowest)
            among = tuple(found.alpha for found in mine)
            choices.append(AlphaChoice(name, chosen.alpha, chosen.lowest, wanted, among))
    return Frontier(expected, tuple(points), tuple(settings), tuple(choices), test, tuple(waiting))


def _setting(repeats: Sequence[FrontierPoint]) -> FrontierSetting:
    """Join the spaces of one setting."""
    first = repeats[0]
    sizes = [size for size, _ in first.reach_at if all(size in dict(p.reach_at) for p in repeats)]
    return FrontierSetting(
        setting=first.setting,
        alpha=first.alpha,
        spaces=tuple(point.space for point in repeats),
        reach=_mean_reach([point.reach for point in repeats]),
        reach_at=tuple((size, _mean_reach([dict(p.reach_at)[size] for p in repeats])) for size in sizes),
        lowest=float(np.exp(np.mean([np.log(_lower(point.reach)) for point in repeats]))),
        power=_mean_power([point.power for point in repeats]),
        bump_power=_mean_power([point.bump_power for point in repeats]),
    )


def _mean_reach(reaches: Sequence[Reach]) -> Repeated:
    told = [shown_reach(reach) for reach in reaches]
    logs = np.log([n for n, _ in told])
    spread = float(np.std(logs, ddof=1)) if len(logs) > 1 else None
    return Repeated(float(np.exp(logs.mean())), spread, any(bound for _, bound in told))


def _mean_power(powers: Sequence[float | None]) -> Repeated | None:
    """Return None if one of the spaces has no power: a mean of others would not be that of the setting."""
    known = [power for power in powers if power is not None]
    if not known or len(known) < len(powers):
        return None
    return Repeated(float(np.mean(known)), float(np.std(known, ddof=1)) if len(known) > 1 else None)


def shown_reach(reach: Reach) -> tuple[float, bool]:
    """Return the estimate; or the lower end, as a bound, where estimate or upper end are open."""
    bound = reach.n_events is None or reach.interval.high is None
    return (_lower(reach), True) if bound else (float(reach.n_events or 0.0), False)


def _lower(reach: Reach) -> float:
    return reach.interval.low or 0.0


def _events(number: float) -> str:
    """Return three digits, thousands apart."""
    return f"{float(f'{number:.3g}'):,.0f}".replace(",", " ")
