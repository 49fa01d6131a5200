"""The test statistic t of one dataset, for any test: tau - Delta (eq:t-decomp), unless it has another one."""

from __future__ import annotations

import time
from dataclasses import dataclass

from covad.nplm.dataset import Dataset
from covad.nplm.fit import Fit, NplmTest, Seed, Status, TauFit
from covad.nplm.likelihood import fit_nuisances


@dataclass(frozen=True)
class Outcome:
    """t with both of its terms; `status` is the worse of the two fits."""

    t: float
    tau: TauFit
    delta: Fit
    status: Status
    seconds: float  # of CPU, without those of a Delta that was given


def likelihood_ratio(dataset: Dataset, test: NplmTest, seed: Seed, delta: Fit | None = None) -> Outcome:
    """Test a dataset against its reference. Without nuisances Delta is zero and t = tau (eq:nplm-t).

    `delta` is what `fit_nuisances` found for the dataset, where it is known already: no test changes it.
    """
    clock = time.process_time()
    if delta is None:
        delta = fit_nuisances(dataset)
    tau = test.fit(dataset, delta, seed)
    return Outcome(
        t=tau.statistic(delta),
        tau=tau,
        delta=delta,
        status=Status.worst(tau.status, delta.status),
        seconds=time.process_time() - clock,
    )
