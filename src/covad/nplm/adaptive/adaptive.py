"""The adaptive test: convex tests over several widths and ridges, and the smallest of their p-values.

t = -2 log min_j p_j, with p_j by the law of member j at the nuisances of the fit without h. Its own law
follows from the score that all members share (`covad.nplm.adaptive.law`). h is that of the member which saw
most.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from covad.nplm.adaptive.law import AdaptiveNulls, adaptive_nulls, sketched_null
from covad.nplm.adaptive.members import AdaptiveFit, Members
from covad.nplm.convex.basis import StackedBasis, evaluate
from covad.nplm.dataset import Dataset, Float32, Float64
from covad.nplm.fit import Fit, Seed, Status
from covad.nplm.likelihood import join_nuisances


@dataclass(frozen=True)
class AdaptiveTest:
    """The smallest p over `members`."""

    members: Members

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
            sketched = sketched_null(self.members, dataset, nu)
        else:
            problem = family.problem(dataset)
            fits = problem.fits(null)
            linear = dataset.reference_response.quadratic is None  # else the columns depend on nu
            sketched = sketched_null(self.members, dataset, nu, problem.reference if linear else None)
        t = np.array([fit.value - null.value for fit in fits])
        log_p = sketched.log_p(t)
        member = int(np.argmin(log_p))
        best = fits[member]
        return AdaptiveFit(
            value=best.value,
            nu=best.nu,
            nu_norm=best.nu_norm,
            status=Status.worst(*(fit.status for fit in fits)),
            evaluations=sum(fit.evaluations for fit in fits),
            seconds=time.process_time() - clock,
            parameters=self.members.spread_out(member, best.parameters),
            active_bounds=0,
            h_data=best.h_data,
            h_reference=best.h_reference,
            member=member,
            member_t=t,
            log_p=log_p,
        )

    def nulls(
        self,
        sample: Dataset,
        nu: Float64 | None = None,
        n_reference: int | None = None,
        further: Float64 | None = None,
    ) -> AdaptiveNulls:
        """Return the law of t for datasets like `sample`; see `covad.nplm.adaptive.law`."""
        return adaptive_nulls(self.members, sample, nu, n_reference, further)
