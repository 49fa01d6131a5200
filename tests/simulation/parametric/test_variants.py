"""Variants of processes: other events of the same process, by name."""

import numpy as np
import pytest

from covad.errors import CovadError, UnknownNameError
from covad.simulation.parametric.variants import VARIANTS
from covad.simulation.simulate import Simulation


def jets_of(process, variant=None):
    """Return the mean number of jets of 16000 events; its standard error is 0.0065."""
    sample = Simulation(process, 16000, 3, variant=variant)
    events = next(sample.blocks())
    assert events.process_names[events.process[0]] == process
    assert sample.provenance.get("variant") == variant
    return float(np.count_nonzero(events.present("jet"), axis=1).mean())


def test_radiation_of_the_variants_goes_both_ways():
    """They differ by 0.067, seven standard errors of the difference: a false alarm in 1e-12 of the seeds."""
    assert jets_of("w", "less_radiation") < jets_of("w", "more_radiation")


@pytest.mark.parametrize(("process", "variant"), [(p, v) for p, each in VARIANTS.items() for v in each])
def test_every_variant_differs_from_its_process(process, variant):
    varied, nominal = (next(Simulation(process, 50, 3, variant=v).blocks()) for v in (variant, None))
    assert (varied.particles != nominal.particles).any()


def test_variants_that_are_not_there():
    with pytest.raises(UnknownNameError, match=r"no variant 'other' of 'w' .*more_radiation"):
        Simulation("w", 10, 0, variant="other")
    with pytest.raises(UnknownNameError, match="no variant 'more_radiation' of 'background'"):
        Simulation("background", 10, 0, variant="more_radiation")
    with pytest.raises(CovadError, match="engine pythia8 has no variants"):
        Simulation("w", 10, 0, engine="pythia8", variant="more_radiation")
