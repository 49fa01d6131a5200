"""The embedded simulator: events from kinematics in plain numpy, tuned to Pythia.

A hard process (`bosons`, `heavy_flavour`, `pairs`, `higgs`) makes leptons and partons, which recoil against
`radiation`; `decays` and `jets` turn them into particle-level objects; `sample` measures and filters them.
"""

from covad.simulation.parametric.sample import generate

__all__ = ["generate"]
