"""The adaptive test: convex tests over several widths and ridges, and the smallest of their p-values.

t = -2 log min_j p_j, with p_j by the law of member j at the nuisances of the fit without h. Its own law
follows from the score that all members share (`covad.nplm.adaptive.law`). h is that of the member which saw
most.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from covad.nplm.adaptive.law import AdaptiveNulls, adaptive_nulls, sketched_null
from covad.nplm.adaptive.members import AdaptiveFit, Members
from covad.nplm.adaptive.shared import SharedMoments
from covad.nplm.convex.basis import StackedBasis, evaluate
from covad.nplm.dataset import Dataset, Float32, Float64
from covad.nplm.fit import Fit, Seed, Status
from covad.nplm.likelihood import join_nuisances


@dataclass(frozen=True)
class AdaptiveTest:
    """The smallest p over `members`. Toys of one source have `shared` moments for p of the members."""

    members: Members
    shared: SharedMoments | None = field(default=None, compare=False, repr=False)

    @property
    def basis(self) -> StackedBasis:
        """Return the columns of all members."""
        return self.members.basis

    @property
    def n_parameters(self) -> int:
        return self.basis.n_columns

    def h(self, parameters: Float64, z: Float32) -> Float64:
        """Return h(z) of each event, summed in float64."""
        return np.asarray(evaluate(self.basis, z).astype(np.float64) @ parameters)

    def fit(self, dataset: Dataset, null: Fit, seed: Seed) -> AdaptiveFit:
        """Fit every member, and take p of each by its law at the nuisances of `null`."""
        clock = time.process_time()
        nu, family = join_nuisances(null, dataset), self.members.family
        if family is None:
            fits = tuple(test.fit(dataset, null, seed) for test in self.members.tests)
            t = np.array([fit.value - null.value for fit in fits])
            log_p = self.log_p(t, dataset, nu)
            member = int(np.argmin(log_p))
            best, ends = fits[member], [(fit.status, fit.evaluations) for fit in fits]
        else:
            problem = family.problem(dataset)
            gram = None if self.shared is None else self.shared.information(dataset, nu)
            maxima = problem.maxima(null, gram)
            t = np.array([2.0 * maximum.value - null.value for maximum in maxima])
            linear = dataset.reference_response.quadratic is None  # else the columns depend on nu
            log_p = self.log_p(t, dataset, nu, problem.reference if linear else None)
            member = int(np.argmin(log_p))
            best = problem.fit_of(member, maxima[member])
            ends = [(maximum.status, maximum.evaluations) for maximum in maxima]
        return AdaptiveFit(
            value=best.value,
            nu=best.nu,
            nu_norm=best.nu_norm,
            status=Status.worst(*(status for status, _ in ends)),
            evaluations=sum(evaluations for _, evaluations in ends),
            seconds=time.process_time() - clock,
            parameters=self.members.spread_out(member, best.parameters),
            active_bounds=0,
            h_data=best.h_data,
            h_reference=best.h_reference,
            member=member,
            member_t=t,
            log_p=log_p,
        )

    def log_p(self, t: Float64, dataset: Dataset, nu: Float64, x: Float32 | None = None) -> Float64:
        """Return log p of the members at `nu`: from shared moments, or from the dataset's own reference."""
        log_p = None if self.shared is None else self.shared.log_p(t, dataset, nu)
        return sketched_null(self.members, dataset, nu, x).log_p(t) if log_p is None else log_p

    def nulls(
        self,
        sample: Dataset,
        nu: Float64 | None = None,
        n_reference: int | None = None,
        further: Float64 | None = None,
    ) -> AdaptiveNulls:
        """Return the law of t for datasets like `sample`; see `covad.nplm.adaptive.law`."""
        return adaptive_nulls(self.members, sample, nu, n_reference, further)
