"""Systematic uncertainties: each shifts events by nu, in units of its sigma.

A systematic answers `shift(events, nu)` with a Variation: objects that move, as in all systematics of this
module and those that a study can name. The same events with other weights, and other events from a varied
simulation, fit that answer too and can be shifted and counted, but the response is not fitted to them.
`shift_events` composes several systematics, then applies the selection to what came out, because cuts act on
measured objects; so nu may change which events pass, and the yield ratio is part of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from traceback import extract_tb
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from covad.errors import CovadError, EventContentError, StudyError, UnknownNameError
from covad.events.fingerprints import mix
from covad.events.layout import Events
from covad.events.selection import Selection, leading_scale
from covad.events.users_code import load_function


class BadEventError(EventContentError):
    """What a systematic made of one event cannot be; `event` is its place among those that were given."""

    def __init__(self, what: str, event: int) -> None:
        super().__init__(what, event)
        self.what, self.event = what, event

    def __str__(self) -> str:
        return f"{self.what} {self.event}"

    def numbered(self, numbers: NDArray[np.int64]) -> BadEventError:
        """Return the error with the number that the event has elsewhere, in its file for instance."""
        return BadEventError(self.what, int(numbers[self.event]))


@dataclass(frozen=True)
class Variation:
    """What one systematic makes of events, before the selection.

    `weights` multiply the events (None: all one). `matched` says that event i comes from event i of the
    input; it is False for a separately simulated sample, whose weights then carry its yield.
    """

    events: Events
    weights: NDArray[np.float64] | None = None
    matched: bool = True

    def __post_init__(self) -> None:
        if self.weights is None:
            return
        if self.weights.shape != (len(self.events),):
            raise EventContentError(
                f"{len(self.events)} events need as many weights, not {self.weights.shape}"
            )
        bad = ~(np.isfinite(self.weights) & (self.weights >= 0))
        if bad.any():
            event = int(np.argmax(bad))
            raise BadEventError(f"the weight {self.weights[event]} is not finite or negative in event", event)
        if len(self.weights) and not self.weights.any():
            raise EventContentError("all weights are zero")


@dataclass(frozen=True)
class Shifted:
    """Selected events at nu: the input row of each, its weight, and the yield that nu = 0 has.

    `weights` are those of the events themselves, with their sign, times what the systematics multiply them
    by. `rows` is None for a separately simulated sample: its events come from no event of the input. The
    yields of the pieces of a sample add up, at nu and at nu = 0; their ratios do not.
    """

    events: Events
    rows: NDArray[np.int64] | None
    weights: NDArray[np.float64]
    nominal_yield: float

    @property
    def yield_ratio(self) -> float:
        """The yield relative to nu = 0."""
        return relative_yield(float(self.weights.sum()), self.nominal_yield)


def relative_yield(shifted: float, nominal: float) -> float:
    """Return the yield at nu in units of that at nu = 0."""
    if nominal == 0:
        raise EventContentError("no event passes the selection at nu = 0: loosen source.cuts")
    if nominal < 0:
        raise EventContentError(
            f"the weights of the events that pass the selection at nu = 0 add up to {nominal:.4g}, and a "
            "negative yield has no density: add events, or loosen source.cuts"
        )
    return shifted / nominal


@contextmanager
def in_sample(name: str, numbers: NDArray[np.int64]) -> Iterator[None]:
    """Say whatever goes wrong with the sample, and a bad event with its number there."""
    try:
        yield
    except BadEventError as failure:
        raise StudyError(f"sample '{name}': {failure.numbered(numbers)}") from failure
    except CovadError as failure:
        raise StudyError(f"sample '{name}': {failure}") from failure


class Systematic(Protocol):
    """A source of uncertainty. `nu` counts in units of `sigma`; nu = 0 is the nominal sample."""

    @property
    def name(self) -> str: ...
    @property
    def sigma(self) -> float: ...
    def shift(self, events: Events, nu: float) -> Variation: ...


class SelectionMarginError(CovadError):
    """The sample was cut so tightly that events which a shift would lift over the selection are missing."""


def shift_events(
    events: Events, systematics: Sequence[Systematic], nu: Sequence[float], selection: Selection | None = None
) -> Shifted:
    """Apply the systematics in order, each by its own nu, then the selection."""
    if len(systematics) != len(nu):
        raise CovadError(f"{len(systematics)} systematics need as many values of nu, not {len(nu)}")
    chosen = selection or Selection()
    varied = _compose(events, systematics, nu)
    if varied.matched:
        _check_margin(events, varied.events, chosen)
    selected, rows = chosen.apply(varied.events)
    nominal = _compose(events, systematics, [0.0] * len(nu))
    nominal_yield = float(_weights(nominal)[chosen.triggers(nominal.events)].sum())
    return Shifted(selected, rows if varied.matched else None, _weights(varied)[rows], nominal_yield)


def _compose(events: Events, systematics: Sequence[Systematic], nu: Sequence[float]) -> Variation:
    """Apply one after the other; a varied sample brings its own events, so it must come first."""
    total = Variation(events)
    for position, (systematic, value) in enumerate(zip(systematics, nu, strict=True)):
        step = systematic.shift(total.events, float(value))
        if position and not step.matched:
            raise CovadError(f"'{systematic.name}' brings its own events: it must be the first systematic")
        weights = step.weights if total.weights is None else total.weights * _factors(step)
        total = Variation(step.events, weights, total.matched and step.matched)
    return total


def _factors(variation: Variation) -> NDArray[np.float64]:
    return np.ones(len(variation.events)) if variation.weights is None else variation.weights


def _weights(variation: Variation) -> NDArray[np.float64]:
    """Return the weights of the events, with their sign, times what the systematics multiply them by."""
    if variation.weights is None or variation.events.weights is None:
        return variation.events.event_weights if variation.weights is None else variation.weights
    return variation.events.weights * variation.weights


def _check_margin(before: Events, after: Events, selection: Selection) -> None:
    """Raise SelectionMarginError if the sample was cut so tightly that events are missing after the shift."""
    floor = before.provenance.get("lepton_filter")
    if floor is None or not selection.trigger:
        return
    if not isinstance(floor, int | float):
        raise EventContentError(
            f"the provenance of the events has lepton_filter {floor!r}, which is no number"
        )
    old = leading_scale(before, selection.trigger)
    new = leading_scale(after, selection.trigger)
    filled = old > 0
    rise = float((new[filled] / old[filled]).max(initial=1.0))
    cut = selection.trigger_minimum
    if floor * rise > cut * (1 + 1e-5):
        raise SelectionMarginError(
            f"the sample holds only events with a lepton above {floor:g} GeV, but this shift scales leptons "
            f"by up to {rise:.4f}, and the trigger cuts at {cut:g} GeV: use a sample with a lepton filter "
            f"below {cut / rise:.2f} GeV, or raise the trigger cut"
        )


def _planar(objects: NDArray[np.float32], phi: int) -> NDArray[np.float64]:
    """Return the vector sum in the transverse plane, events x (px, py)."""
    pt, angle = objects[..., 0].astype(np.float64), objects[..., phi].astype(np.float64)
    return np.stack([(pt * np.cos(angle)).sum(axis=1), (pt * np.sin(angle)).sum(axis=1)], axis=1)


def _add_to_met(
    events: Events, particles: NDArray[np.float32], change: NDArray[np.float64], met: str
) -> None:
    """Add a transverse vector to the missing momentum, in place."""
    slot, phi = events.layout.slots(met), events.layout.column("phi")
    total = _planar(particles[:, slot], phi) + change
    particles[:, slot.start, 0] = np.hypot(total[:, 0], total[:, 1])
    particles[:, slot.start, phi] = np.arctan2(total[:, 1], total[:, 0])


@dataclass(frozen=True)
class JetEnergyScale:
    """pt -> e^{sigma nu} pt for all jets (the paper's nuisance); MET stays unless `propagate_to_met`."""

    sigma: float = 0.025
    name: str = "jet_energy_scale"
    collection: str = "jet"
    propagate_to_met: bool = False
    met: str = "met"

    def shift(self, events: Events, nu: float) -> Variation:
        particles = events.particles.copy()
        slots = events.layout.slots(self.collection)
        particles[:, slots, 0] *= np.float32(np.exp(self.sigma * nu))
        if self.propagate_to_met:
            phi = events.layout.column("phi")
            change = _planar(events.particles[:, slots], phi) - _planar(particles[:, slots], phi)
            _add_to_met(events, particles, change, self.met)
        return Variation(events.with_particles(particles))


@dataclass(frozen=True)
class LeptonEnergyScale:
    """pt -> e^{sigma nu} pt for electrons and muons. It moves events across the trigger threshold."""

    sigma: float = 0.01
    name: str = "lepton_energy_scale"
    collections: tuple[str, ...] = ("electron", "muon")

    def shift(self, events: Events, nu: float) -> Variation:
        particles = events.particles.copy()
        for collection in self.collections:
            particles[:, events.layout.slots(collection), 0] *= np.float32(np.exp(self.sigma * nu))
        return Variation(events.with_particles(particles))


@dataclass(frozen=True)
class MetSoftScale:
    """Scale of the soft recoil, all that is measured outside the listed objects: soft -> e^{sigma nu} soft.

    The soft term is what balances MET and objects, -(MET + sum of objects), so no extra input is needed.
    """

    sigma: float = 0.1
    name: str = "met_soft_scale"
    met: str = "met"

    def shift(self, events: Events, nu: float) -> Variation:
        soft = -_planar(events.particles, events.layout.column("phi"))
        particles = events.particles.copy()
        _add_to_met(events, particles, -np.expm1(self.sigma * nu) * soft, self.met)
        return Variation(events.with_particles(particles))


@dataclass(frozen=True)
class JetEnergyResolution:
    """Smearing of jets by sqrt(c^2 - 1) times their relative resolution, c = 1 + excess + sigma nu.

    As experiments do, the nominal sample is smeared already (c > 1 at nu = 0), so that nu can go both ways; c
    stops at 1, where nothing is smeared. The random number of a jet is a hash of its direction and `seed`: it
    does not depend on nu, on other shifts of pt, or on the order of calls, so samples at different nu match.
    """

    sigma: float = 0.05
    name: str = "jet_energy_resolution"
    collection: str = "jet"
    excess: float = 0.10
    stochastic: float = 0.8
    constant: float = 0.05
    seed: int = 0

    def shift(self, events: Events, nu: float) -> Variation:
        particles = events.particles.copy()
        jets = particles[:, events.layout.slots(self.collection)]
        present = jets[..., 0] > 0
        pt = jets[present][:, 0].astype(np.float64)
        scale = max(1.0, 1.0 + self.excess + self.sigma * nu)
        width = np.sqrt(scale**2 - 1) * np.hypot(self.stochastic / np.sqrt(pt), self.constant)
        factor = np.maximum(1 + width * _directional_normal(jets[present], self.seed), 0.1)
        jets[..., 0][present] = pt * factor
        tidy, _ = events.layout.tidy(particles)
        return Variation(events.with_particles(tidy))


def _directional_normal(objects: NDArray[np.float32], seed: int) -> NDArray[np.float64]:
    """Return a normal number per object, from the seed and the bits of all features but the first."""
    state = np.full(len(objects), np.uint64(seed % 2**64), dtype=np.uint64)
    for column in range(1, objects.shape[1]):
        bits = np.ascontiguousarray(objects[:, column]).view(np.uint32).astype(np.uint64)
        state = mix(state + bits)
    uniform = [(mix(state + np.uint64(k)) >> np.uint64(11)) * 2.0**-53 for k in (1, 2)]
    return np.asarray(np.sqrt(-2 * np.log1p(-uniform[0])) * np.cos(2 * np.pi * uniform[1]))


@dataclass(frozen=True)
class UserSystematic:
    """A function `f(events, amount) -> Events`, where amount = sigma nu in the function's own units.

    It is given read-only arrays: an in-place change would reach whoever else uses these events.
    """

    name: str
    sigma: float
    function: Callable[[Events, float], Events] = field(repr=False)

    def shift(self, events: Events, nu: float) -> Variation:
        varied = self._call(_read_only(events), self.sigma * nu)
        who = f"systematic '{self.name}'"
        if not isinstance(varied, Events):
            raise CovadError(f"{who} must return Events, not {type(varied).__name__}")
        if type(varied.particles) is not np.ndarray:
            kind = type(varied.particles).__name__
            raise CovadError(f"{who} must return particles as a plain numpy array, not a {kind}")
        if varied.layout != events.layout:
            raise CovadError(f"{who} must return events of the layout that it was given")
        if len(varied) < len(events):
            event = _first_forgotten(events, varied)
            raise BadEventError(
                f"{who} returned {len(varied)} of {len(events)} events, but must keep all, because cuts come "
                "afterwards; the first that is missing seems to be event",
                event,
            )
        if len(varied) > len(events):
            raise CovadError(f"{who} returned {len(varied)} events for {len(events)}, but must add none")
        moved = varied.process != events.process
        if moved.any() or varied.process_names != events.process_names:
            raise BadEventError(
                f"{who} must keep the order of the events and their processes, but changed that of event",
                int(np.argmax(moved)),
            )
        if varied.weights is not None and not np.array_equal(varied.weights, events.event_weights):
            raise BadEventError(
                f"{who} must move objects and keep the weights, but changed that of event",
                int(np.argmax(varied.weights != events.event_weights)),
            )
        if (found := events.layout.first_bad(varied.particles)) is not None:
            raise BadEventError(f"{who}: {found[1]} at the amount {self.sigma * nu:g} in event", found[0])
        tidy, _ = varied.layout.tidy(varied.particles)
        return Variation(
            replace(varied, particles=tidy, weights=events.weights, variations=events.variations)
        )

    def _call(self, events: Events, amount: float) -> Any:
        """Call the function; whatever it raises becomes one sentence with its line, `sys.exit` as well.

        Only KeyboardInterrupt passes: it is the user's Ctrl-C.
        """
        try:
            return self.function(events, amount)
        except KeyboardInterrupt:
            raise
        except BaseException as failure:
            place = extract_tb(failure.__traceback__)[1:2] or extract_tb(failure.__traceback__)[:1]
            line = f"({place[0].filename}, line {place[0].lineno})"
            if isinstance(failure, ValueError) and "read-only" in str(failure):
                raise CovadError(
                    f"systematic '{self.name}' changes the events that it was given {line}: "
                    "change a copy, `particles = events.particles.copy()`"
                ) from failure
            reason = " ".join(str(failure).split())
            raise CovadError(
                f"systematic '{self.name}' ended in {type(failure).__name__}: {reason} {line}"
            ) from failure


def _read_only(events: Events) -> Events:
    """Return a copy of the events that cannot be written to, not even by setting the flag back."""
    return replace(
        events,
        particles=_frozen(events.particles),
        process=_frozen(events.process),
        weights=None if events.weights is None else _frozen(events.weights),
        variations={name: _frozen(weights) for name, weights in events.variations.items()},
    )


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)


def _first_forgotten(before: Events, after: Events) -> int:
    """Return the first event after which all others have more in common with their follower."""
    n = len(after)
    filled = after.particles != 0
    stayed, came = (
        ((after.particles == given.particles) & filled).sum(axis=(1, 2))
        for given in (before[:n], before[1 : n + 1])
    )
    left = np.flatnonzero(came > stayed)
    return int(left[0]) if len(left) else n


def unchanged_partners(nominal: Shifted, shifted: Shifted) -> NDArray[np.int64]:
    """Return for every shifted event its position in `nominal` if all its objects are the same, or -1."""
    if nominal.rows is None or shifted.rows is None:
        raise CovadError("event-matched systematics are needed here, not separately simulated samples")
    last = max(int(s.rows.max(initial=-1)) for s in (nominal, shifted) if s.rows is not None)
    position = np.full(last + 2, -1)
    position[nominal.rows] = np.arange(len(nominal.rows))
    partner = position[shifted.rows]
    same = (nominal.events.particles[partner] == shifted.events.particles).all(axis=(1, 2))
    return np.where(same, partner, -1)


BUILT_IN: dict[str, type[Any]] = {
    "jet_energy_scale": JetEnergyScale,
    "lepton_energy_scale": LeptonEnergyScale,
    "met_soft_scale": MetSoftScale,
    "jet_energy_resolution": JetEnergyResolution,
}


def make_systematic(description: Mapping[str, Any], folder: Path | None = None) -> Systematic:
    """Build a systematic from its entry in a study file.

    Built in: {name: jet_energy_scale, sigma: 0.025, ...options}. A user's own:
    {name: my_scale, function: my_module:my_shift, sigma: 0.02}, where my_module is importable or lies in
    `folder` (that of the study file), and my_shift(events, amount) returns the shifted events.
    """
    settings = dict(description)
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise CovadError("a systematic of the study file has no name: give it the key name")
    sigma = settings.get("sigma", 1.0)
    if type(sigma) not in (int, float) or not 0 < sigma < math.inf:
        raise CovadError(f"systematic '{name}': sigma must be a positive number, not {sigma!r}")
    if "function" in settings:
        if set(settings) != {"function", "sigma"}:
            raise CovadError(f"systematic '{name}' takes exactly the keys name, function and sigma")
        return UserSystematic(name, float(sigma), load_function(str(settings["function"]), folder))
    if name not in BUILT_IN:
        raise UnknownNameError(
            f"unknown systematic '{name}' (built in: {', '.join(BUILT_IN)}; "
            "your own needs the key 'function: module:function')"
        )
    kind = BUILT_IN[name]
    options = {f.name: f.default for f in fields(kind) if f.name != "name"}
    for key in settings:
        if key not in options:
            raise CovadError(
                f"systematic '{name}' has no option '{key}' (it has {', '.join(sorted(options))})"
            )
    made: Systematic = kind(**{key: _option(name, key, v, options[key]) for key, v in settings.items()})
    return made


def _option(name: str, key: str, value: Any, default: Any) -> Any:
    """Return an option in the type of its default; lists and whole numbers are converted."""
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(value)
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if type(value) is not type(default):
        kind = "list" if isinstance(default, tuple) else type(default).__name__
        raise CovadError(f"systematic '{name}': {key} must be of type {kind}, not {value!r}")
    return value
