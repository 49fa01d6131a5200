"""What a detector makes of a collision: resolution, acceptance, missing momentum, slots, lepton filter.

Both engines, the embedded simulator and Pythia, hand over their particle-level objects as `Truth` and are
measured by the same `Detector`, so that a difference between them is one of physics and never of settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import LayoutError, SimulationError
from covad.events.processes import ADC2021_LAYOUT

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

#: Far above any collider, and few enough to hold them in memory.
MOST_PILEUP_JETS = 100


@dataclass(frozen=True)
class Truth:
    """Particle-level objects of N events, momenta in GeV; an absent object has pt 0.

    Leptons are the isolated ones (isolation is the generator's task) and belong to no jet. Jets reach well
    below the detector's threshold, so that resolution can lift them over it. `soft` is the visible rest,
    in neither leptons nor jets. What is invisible balances the sum and need not be stored.
    """

    electrons: FloatArray  #: (N, n, 3): pt, eta, phi
    muons: FloatArray  #: (N, n, 3): pt, eta, phi
    jets: FloatArray  #: (N, n, 3): pt, eta, phi
    soft: FloatArray  #: (N, 2): px, py

    def __post_init__(self) -> None:
        if self.soft.ndim != 2 or self.soft.shape[1] != 2:
            raise LayoutError(f"the soft momenta of N events need shape (N, 2), not {self.soft.shape}")
        for name in ("electrons", "muons", "jets"):
            shape = getattr(self, name).shape
            if len(shape) != 3 or shape[0] != len(self) or shape[2] != 3:
                raise LayoutError(
                    f"the {name} of {len(self)} events need shape ({len(self)}, n, 3), not {shape}"
                )

    def __len__(self) -> int:
        return len(self.soft)


@dataclass(frozen=True)
class Detector:
    """Resolution, acceptance and thresholds; momenta in GeV.

    The defaults are those of the public dataset where it states them (acceptance, thresholds, filter), and
    typical of a general-purpose LHC detector elsewhere.
    """

    jet_pt_min: float = 15.0
    jet_eta_max: float = 4.0
    jet_stochastic: float = 0.8  #: sqrt(GeV): sigma(pt) / pt = stochastic / sqrt(pt) (+) constant
    jet_constant: float = 0.05
    electron_eta_max: float = 3.0
    electron_resolution: float = 0.02  #: sigma(pt) / pt
    electron_efficiency: float = 0.95
    muon_eta_max: float = 2.1
    muon_resolution: float = 0.02  #: sigma(pt) / pt
    muon_efficiency: float = 0.95
    muon_tracking_eta_max: float = 2.4  #: muons beyond it leave nothing and count as missing momentum
    lepton_pt_min: float = 3.0
    lepton_filter: float = 23.0  #: an event needs an electron or a muon above it
    soft_noise: float = 5.0  #: GeV in each of px and py of the visible rest
    pileup_jets: float = 0.0  #: mean number of extra jets above `jet_pt_min` in an event
    pileup_power: float = 5.0  #: their spectrum falls as pt ** -power
    pileup_imbalance: float = 0.5  #: share of a pile-up jet's momentum that its measured recoil lacks

    def __post_init__(self) -> None:
        for name, value in self.describe().items():
            if not (np.isfinite(value) and value >= 0):
                raise SimulationError(
                    f"detector setting '{name}' must be finite and not negative, not {value}"
                )
        for name in ("electron_efficiency", "muon_efficiency", "pileup_imbalance"):
            if getattr(self, name) > 1:
                raise SimulationError(f"detector setting '{name}' is a share and cannot be above 1")
        if self.pileup_power <= 2:
            raise SimulationError(
                "detector setting 'pileup_power' must be above 2, or the mean momentum is infinite"
            )
        if self.pileup_jets > MOST_PILEUP_JETS:
            raise SimulationError(
                f"detector setting 'pileup_jets' is at most {MOST_PILEUP_JETS}, not {self.pileup_jets}"
            )

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data, for provenance."""
        return asdict(self)

    def measure(self, truth: Truth, rng: np.random.Generator) -> NDArray[np.float32]:
        """Return measured events in the public layout, (N, 19, 3); the lepton filter is not applied.

        Missing momentum balances everything that leaves a signal: leptons, all jets (also those below
        threshold or in excess of the slots), pile-up and the soft rest. A lepton that is not identified or
        lies outside its acceptance fills no slot but leaves its signal, except a muon beyond the tracker.
        """
        electrons = _smear_pt(truth.electrons, lambda _: self.electron_resolution, rng)
        muons = _smear_pt(truth.muons, lambda _: self.muon_resolution, rng)
        jets = _smear_pt(
            truth.jets, lambda pt: np.sqrt(self.jet_stochastic**2 / pt + self.jet_constant**2), rng
        )
        soft = truth.soft + self.soft_noise * rng.standard_normal(truth.soft.shape)
        pileup = self._pileup(len(truth), rng)
        traced = np.where(np.abs(muons[..., 1]) < self.muon_tracking_eta_max, muons[..., 0], 0.0)
        visible = soft + _momentum(electrons) + _momentum(muons, traced) + _momentum(jets)
        visible += self.pileup_imbalance * _momentum(pileup)
        px, py = 0.0 - visible.T  # not -visible: the phi of exactly no momentum shall be 0
        met = np.stack([np.hypot(px, py), np.zeros_like(px), np.arctan2(py, px)], axis=1)

        all_jets = np.concatenate([jets, pileup], axis=1)
        keep_electron = rng.random(electrons.shape[:2]) < self.electron_efficiency
        keep_electron &= _inside(electrons, self.lepton_pt_min, self.electron_eta_max)
        keep_muon = rng.random(muons.shape[:2]) < self.muon_efficiency
        keep_muon &= _inside(muons, self.lepton_pt_min, self.muon_eta_max)
        events = np.zeros((len(truth), *ADC2021_LAYOUT.shape), dtype=np.float32)
        events[:, ADC2021_LAYOUT.slots("met")] = met[:, None]
        for name, objects, keep in (
            ("electron", electrons, keep_electron),
            ("muon", muons, keep_muon),
            ("jet", all_jets, _inside(all_jets, self.jet_pt_min, self.jet_eta_max)),
        ):
            # The kept objects fill the slots of their collection, hardest first, blank behind them.
            slots = events[:, ADC2021_LAYOUT.slots(name)]
            order = np.argsort(-np.where(keep, objects[..., 0], 0.0), axis=1)[:, : slots.shape[1]]
            kept = np.where(keep[..., None], objects, 0.0)
            slots[:, : order.shape[1]] = np.take_along_axis(kept, order[..., None], axis=1)
        return events

    def accepts(self, particles: NDArray[np.float32]) -> BoolArray:
        """Return which measured events have an electron or a muon above `lepton_filter`."""
        leading = [particles[:, ADC2021_LAYOUT.slots(name).start, 0] for name in ("electron", "muon")]
        passed: BoolArray = np.maximum(*leading) > self.lepton_filter
        return passed

    def _pileup(self, n_events: int, rng: np.random.Generator) -> FloatArray:
        """Draw jets of other collisions: Poisson in number, a falling spectrum, uniform in eta and phi."""
        if self.pileup_jets == 0:
            return np.zeros((n_events, 0, 3))
        number = rng.poisson(self.pileup_jets, n_events)
        present = np.arange(number.max(initial=0)) < number[:, None]
        jets = np.zeros((*present.shape, 3))
        n_jets = int(present.sum())
        jets[present] = np.column_stack(
            [
                self.jet_pt_min * (1.0 - rng.random(n_jets)) ** (-1.0 / (self.pileup_power - 1.0)),
                rng.uniform(-self.jet_eta_max, self.jet_eta_max, n_jets),
                rng.uniform(-np.pi, np.pi, n_jets),
            ]
        )
        return jets


def overlay_pileup(
    particles: NDArray[np.float32], pileup_jets: float, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Add pile-up jets to measured events, as `Detector.measure` would have done."""
    everything = particles.astype(np.float64)
    electrons, muons, jets = (everything[:, ADC2021_LAYOUT.slots(n)] for n in ("electron", "muon", "jet"))
    soft = -_momentum(everything)
    perfect = Detector(
        jet_stochastic=0.0,
        jet_constant=0.0,
        electron_resolution=0.0,
        electron_efficiency=1.0,
        muon_resolution=0.0,
        muon_efficiency=1.0,
        soft_noise=0.0,
        pileup_jets=pileup_jets,
    )
    return perfect.measure(Truth(electrons, muons, jets, soft), rng)


def _smear_pt(
    objects: FloatArray, resolution: Callable[[FloatArray], float | FloatArray], rng: np.random.Generator
) -> FloatArray:
    """Return objects with measured pt, Gaussian and never negative; `resolution` is relative."""
    measured = objects.copy()
    present = objects[..., 0] > 0
    pt = objects[..., 0][present]
    measured[..., 0][present] = pt * np.maximum(1.0 + resolution(pt) * rng.standard_normal(len(pt)), 0.0)
    return measured


def _inside(objects: FloatArray, pt_min: float, eta_max: float) -> BoolArray:
    """Return which objects are hard and central enough."""
    inside: BoolArray = (objects[..., 0] > pt_min) & (np.abs(objects[..., 1]) < eta_max)
    return inside


def _momentum(objects: FloatArray, pt: FloatArray | None = None) -> FloatArray:
    """Return the vector sum of the transverse momenta of each event, (N, 2)."""
    size = objects[..., 0] if pt is None else pt
    phi = objects[..., 2]
    return np.stack([(size * np.cos(phi)).sum(axis=1), (size * np.sin(phi)).sum(axis=1)], axis=1)
