"""The processes of the paper from Pythia 8, with particle-level objects from FastJet (extra `pythia`).

Slow, but with real matrix elements, showers and hadronisation: it is what the embedded simulator is tuned to
and checked against. Multiparton interactions are off unless asked for (they make it six times slower).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from covad.errors import MissingExtraError, SimulationError, extra_advice
from covad.events.layout import Events
from covad.events.processes import ADC2021_LAYOUT, PROCESS_NAMES, process_code
from covad.simulation.detector import Detector, Truth

if TYPE_CHECKING:
    from covad.simulation.particle_level import FinalState

MAX_SEED = 900_000_000  #: largest one that Pythia takes

#: 13 TeV proton collisions; particles that fly further than 10 mm count as stable.
COMMON_SETTINGS = (
    "Beams:eCM = 13000.",
    "ParticleDecays:limitTau0 = on",
    "ParticleDecays:tau0Max = 10.",
    "Print:quiet = on",
)

_LEPTONIC = ("onMode = off", "onIfAny = 11 13 15")

#: Hard process and decays. Everything else is Pythia's default.
PROCESS_SETTINGS: dict[str, tuple[str, ...]] = {
    "w": (
        "WeakSingleBoson:ffbar2W = on",
        "PhaseSpace:mHatMin = 30.",
        *(f"24:{how}" for how in _LEPTONIC),
    ),
    "z": (
        "WeakSingleBoson:ffbar2gmZ = on",
        "PhaseSpace:mHatMin = 30.",
        *(f"23:{how}" for how in _LEPTONIC),
    ),
    "ttbar": ("Top:gg2ttbar = on", "Top:qqbar2ttbar = on"),
    "lq": (
        "LeptoQuark:gg2LQLQbar = on",
        "LeptoQuark:qqbar2LQLQbar = on",
        "42:m0 = 80.",
        "42:mMin = 50.",
        "42:0:products = 5 -15",
        "42:chargeType = 2",
    ),
    "a4l": (
        "HiggsSM:all = on",
        "25:m0 = 50.",
        "25:mMin = 10.",
        "25:onMode = off",
        "25:onIfMatch = 23 23",
        "23:mMin = 1.",
        *(f"23:{how}" for how in _LEPTONIC),
    ),
    "h0": ("HiggsSM:all = on", "25:m0 = 60.", "25:mMin = 10.", "25:onMode = off", "25:onIfAny = 15"),
    "hpm": (
        "Higgs:useBSM = on",
        "HiggsBSM:bg2H+-t = on",
        "37:m0 = 60.",
        "37:mMin = 10.",
        "37:onMode = off",
        "37:onIfAny = 15",
    ),
}

#: Processes whose leptons all exist before hadronisation: events without one above this pt (GeV) stop there.
VETOED = ("w", "z", "a4l", "h0")
VETO_LEPTON_PT = 18.0

BATCH_MIN, BATCH_MAX = 32, 512
MAX_EMPTY_BATCHES = 200  #: in a row without an accepted event: the filter is out of reach


@dataclass(frozen=True)
class PythiaSample:
    """Accepted events, and for each the number of the hard collision that it comes from.

    Only QCD uses a hard collision more than once (see `covad.simulation.pythia_qcd`).
    """

    particles: NDArray[np.float32]
    hard_event: NDArray[np.int64]

    @property
    def n_effective(self) -> float:
        """Effective number of independent events: (sum of n)^2 / sum of n^2 over the hard collisions."""
        _, size = np.unique(self.hard_event, return_counts=True)
        return float(size.sum() ** 2 / (size**2).sum()) if len(size) else 0.0


def generate(
    process: str, n_events: int, rng: np.random.Generator, detector: Detector, *, mpi: bool = False
) -> Events:
    """Make `n_events` measured events of a process that pass the lepton filter; they depend on `rng` only."""
    sample = simulate(process, n_events, rng, detector, mpi=mpi)
    provenance = {
        "engine": "pythia8",
        "pythia": pythia_version(),
        "mpi": mpi,
        "detector": detector.describe(),
        "effective_events": sample.n_effective,
    }
    labels = np.full(n_events, process_code(process), dtype=np.int16)
    return Events(ADC2021_LAYOUT, sample.particles, labels, PROCESS_NAMES, provenance)


def simulate(
    process: str, n_events: int, rng: np.random.Generator, detector: Detector, *, mpi: bool = False
) -> PythiaSample:
    """Make events as `generate` does, with the number of the hard collision of each."""
    process_code(process)
    require_pythia()
    if process == "qcd":
        from covad.simulation.pythia_qcd import HeavyFlavourQcd

        return collect(HeavyFlavourQcd(rng, mpi=mpi).batch, n_events, rng, detector)
    pythia = process_generator(process, mpi)
    reseed(pythia, rng)

    def batch(n_wanted: int) -> tuple[Truth, NDArray[np.int64]]:
        from covad.simulation.particle_level import truth_of

        particles = stable_particles(pythia.nextBatch(int(np.clip(n_wanted, BATCH_MIN, BATCH_MAX))))
        return truth_of(particles), np.arange(particles.n_events)

    return collect(batch, n_events, rng, detector)


def collect(
    batch: Callable[[int], tuple[Truth, NDArray[np.int64]]],
    n_events: int,
    rng: np.random.Generator,
    detector: Detector,
) -> PythiaSample:
    """Measure batches of generated events until `n_events` have passed the lepton filter.

    `batch` takes the number still wanted, and returns some events with the numbers of their hard collisions,
    counted from zero in every batch.
    """
    particles = [np.zeros((0, *ADC2021_LAYOUT.shape), dtype=np.float32)]
    hard_event = [np.zeros(0, dtype=np.int64)]
    n_accepted = n_hard = n_empty = 0
    while n_accepted < n_events:
        if n_empty == MAX_EMPTY_BATCHES:
            raise SimulationError(
                f"no event passes the lepton filter of {detector.lepton_filter} GeV: lower it"
            )
        truth, collision = batch(n_events - n_accepted)
        measured = detector.measure(truth, rng)
        accepted = detector.accepts(measured)
        particles.append(measured[accepted])
        hard_event.append(collision[accepted] + n_hard)
        n_accepted += int(accepted.sum())
        n_empty = 0 if accepted.any() else n_empty + 1
        n_hard += int(collision.max(initial=-1)) + 1
    return PythiaSample(np.concatenate(particles)[:n_events], np.concatenate(hard_event)[:n_events])


def stable_particles(batch: Any) -> FinalState:
    """Return the final-state particles of an awkward array of Pythia events."""
    import awkward as ak

    from covad.simulation.particle_level import FinalState

    final = batch.prt[batch.prt.status > 0]
    counts = ak.to_numpy(ak.num(final.id))
    momenta = [ak.to_numpy(ak.flatten(final.p[axis])) for axis in ("px", "py", "pz", "e")]
    return FinalState(
        n_events=len(counts),
        event=np.repeat(np.arange(len(counts)), counts),
        pdg_id=ak.to_numpy(ak.flatten(final.id)).astype(np.int64),
        p=np.stack(momenta, axis=1),
    )


def require_pythia() -> None:
    """Raise MissingExtraError if the optional parts are not installed."""
    try:
        import awkward  # noqa: F401
        import fastjet  # noqa: F401
        import pythia8mc  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"engine 'pythia8' needs the extra 'pythia' ({error}): {extra_advice('pythia')}"
        ) from error


def pythia_version() -> str:
    from importlib.metadata import version

    return version("pythia8mc")


def reseed(pythia: Any, rng: np.random.Generator) -> None:
    """Start Pythia's random numbers from ours, whatever this instance has generated before."""
    pythia.rndm.init(int(rng.integers(1, MAX_SEED)))


@cache
def process_generator(process: str, mpi: bool) -> Any:
    """Return the Pythia instance of a process; initialisation takes a second, so it is kept."""
    return start_pythia(PROCESS_SETTINGS[process], mpi=mpi, lepton_veto=process in VETOED)


def start_pythia(settings: tuple[str, ...], *, mpi: bool = False, lepton_veto: bool = False) -> Any:
    """Return an initialised Pythia instance with the common settings and those given."""
    import pythia8mc

    pythia = pythia8mc.Pythia("", False)
    for setting in (*COMMON_SETTINGS, f"PartonLevel:MPI = {'on' if mpi else 'off'}", *settings):
        if not pythia.readString(setting):
            raise SimulationError(f"Pythia does not know the setting '{setting}'")
    if lepton_veto:
        pythia.setUserHooksPtr(_lepton_veto_hook())
    if not pythia.init():
        raise SimulationError(f"Pythia cannot start with the settings {'; '.join(settings)}")
    return pythia


@cache
def _lepton_veto_hook() -> Any:
    """Return a hook that stops events after the shower unless a charged lepton is above the threshold."""
    import pythia8mc

    class LeptonVeto(pythia8mc.UserHooks):  # type: ignore[misc]
        def canVetoPartonLevel(self) -> bool:  # noqa: N802 (Pythia's name)
            return True

        def doVetoPartonLevel(self, event: Any) -> bool:  # noqa: N802 (Pythia's name)
            return not any(
                abs(particle.id()) in (11, 13, 15) and particle.isFinal() and particle.pT() > VETO_LEPTON_PT
                for particle in event
            )

    return LeptonVeto()
