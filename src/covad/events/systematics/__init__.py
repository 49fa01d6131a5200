"""Systematic uncertainties: each changes events by nu, in units of its sigma, in a way of its kind.

- `built_in`, `users`: a shift of the objects, by covad or by a function of the user;
- `varied`: other objects of the same events, from their file;
- `built_in_weights`, `weights`: other weights of the same events, by covad, from their file or by a function
  of the user;
- `normalisation`: a factor for all events of some processes;
- `samples`: other events in the place of those of one process.

All answer `shift(events, nu)` with a Variation. Entries of one name are one `Nuisance`. `shift_events`
composes several, then applies the selection to what came out, because cuts act on measured objects; so nu may
change which events pass, and the yield ratio is part of the result.
"""

from covad.events.systematics.built_in import (
    BUILT_IN,
    JetEnergyResolution,
    JetEnergyScale,
    LeptonEnergyScale,
    MetSoftScale,
)
from covad.events.systematics.built_in_weights import BUILT_IN_WEIGHTS, BuiltInWeights
from covad.events.systematics.make import make_nuisances, make_systematic
from covad.events.systematics.normalisation import ProcessNormalisation
from covad.events.systematics.nuisance import Nuisance, Restricted
from covad.events.systematics.samples import Alternative, SeparateSamples
from covad.events.systematics.shifting import (
    SelectionMarginError,
    Shifted,
    Shifting,
    relative_yield,
    shift_events,
    unchanged_partners,
)
from covad.events.systematics.users import UserSystematic
from covad.events.systematics.variation import BadEventError, Systematic, Variation, in_sample
from covad.events.systematics.varied import VariedObjects
from covad.events.systematics.weights import UserWeights, WeightColumns

__all__ = [
    "BUILT_IN",
    "BUILT_IN_WEIGHTS",
    "Alternative",
    "BadEventError",
    "BuiltInWeights",
    "JetEnergyResolution",
    "JetEnergyScale",
    "LeptonEnergyScale",
    "MetSoftScale",
    "Nuisance",
    "ProcessNormalisation",
    "Restricted",
    "SelectionMarginError",
    "SeparateSamples",
    "Shifted",
    "Shifting",
    "Systematic",
    "UserSystematic",
    "UserWeights",
    "Variation",
    "VariedObjects",
    "WeightColumns",
    "in_sample",
    "make_nuisances",
    "make_systematic",
    "relative_yield",
    "shift_events",
    "unchanged_partners",
]
