import numpy as np
import pytest

from covad.errors import CovadError
from covad.events.layout import Events, concatenate
from covad.events.processes import BACKGROUND_MIX, PROCESS_NAMES
from covad.simulation.detector import Detector
from covad.simulation.simulate import ENGINES, Simulation


def make(simulation: Simulation) -> Events:
    return concatenate(list(simulation.blocks()))


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_events() -> None:
    first, again, other = (make(Simulation("background", 3000, seed)) for seed in (5, 5, 6))
    assert first.particles.tobytes() == again.particles.tobytes()
    assert np.array_equal(first.process, again.process)
    assert not np.array_equal(first.particles, other.particles)


def test_whole_blocks_do_not_depend_on_how_many_follow() -> None:
    size = ENGINES["parametric"].block_size
    short, long = (make(Simulation("w", n, seed=3)) for n in (size, size + 10))
    assert np.array_equal(short.particles, long.particles[:size])
    assert not np.array_equal(long.particles[:10], long.particles[size:])


def test_the_mix_is_that_of_the_paper() -> None:
    n = 20_000
    counts = make(Simulation("background", n, seed=1)).process_counts()
    for name, share in BACKGROUND_MIX.items():
        error = np.sqrt(n * share * (1 - share))
        assert abs(counts[name] - n * share) < 4.5 * error  # four processes: false alarm 3e-5
    assert sum(counts.values()) == n


@pytest.mark.parametrize("process", [name for name in PROCESS_NAMES if name not in BACKGROUND_MIX])
def test_a_signal_is_labelled_and_triggered(process: str) -> None:
    events = make(Simulation(process, 300, seed=2))
    assert events.process_counts() == {process: 300}
    assert events.process_names == PROCESS_NAMES
    assert Detector().accepts(events.particles).all()


def test_provenance_is_enough_to_make_it_again() -> None:
    sample = Simulation("z", 100, seed=9, detector=Detector(lepton_filter=20.0))
    facts = sample.provenance
    again = Simulation(
        facts["process"], facts["events"], facts["seed"], detector=Detector(**facts["detector"])
    )
    assert np.array_equal(make(sample).particles, make(again).particles)
    assert facts["lepton_filter"] == 20.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("higgs", 10, 0), "unknown process 'higgs'"),
        (("w", 0, 0), "at least one event"),
        (("w", 10, -1), "seed must not be negative"),
        (("w", 10, 0, "geant"), "unknown engine 'geant'"),
    ],
)
def test_impossible_samples_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(CovadError, match=message):
        Simulation(*arguments)
