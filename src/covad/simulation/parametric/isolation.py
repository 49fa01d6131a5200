"""Lepton isolation, as at particle level of the generator that the simulator is tuned to."""

from __future__ import annotations

import numpy as np

from covad.simulation.kinematics import BoolArray, FloatArray, FourMomentum, delta_phi
from covad.simulation.parametric.products import Jets

#: A lepton is isolated if all that lies within this distance in eta and phi
ISOLATION_CONE = 0.3
#: carries less than this share of its pt.
ISOLATION_SHARE = 0.45


def isolated(leptons: FourMomentum, sprays: Jets) -> BoolArray:
    """Leptons, (N, k), without much momentum of hadrons or other leptons around them.

    A lepton that is not there is not isolated.
    """
    pt, eta, phi = leptons.pt, leptons.eta, leptons.phi
    spray_pt, spray_eta, spray_phi, event = sprays.p.pt, sprays.p.eta, sprays.p.phi, sprays.event
    around = np.zeros(pt.shape)
    for k in range(pt.shape[1]):
        near = _near(eta[event, k] - spray_eta, phi[event, k], spray_phi)
        around[:, k] += np.bincount(event, spray_pt * near, minlength=len(pt))
        for other in range(k):
            close = _near(eta[:, k] - eta[:, other], phi[:, k], phi[:, other])
            around[:, k] += close * pt[:, other]
            around[:, other] += close * pt[:, k]
    return np.asarray(around < ISOLATION_SHARE * pt)


def _near(delta_eta: FloatArray, phi_1: FloatArray, phi_2: FloatArray) -> BoolArray:
    return np.asarray(delta_eta**2 + delta_phi(phi_1, phi_2) ** 2 < ISOLATION_CONE**2)
