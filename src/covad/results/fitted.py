"""The true nuisances of background toys: the fitted ones beside them, and what t does with them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from covad.inference.coverage import PriorDependence, SharedPools, prior_dependence
from covad.inference.nuisances import nuisances_of_toys
from covad.results.collect import Group
from covad.results.summary import NuisanceSummary
from covad.study import Study
from covad.study.plan import nuisance_names
from covad.toys.drawing import point_offset
from covad.toys.ensembles import Treatment

#: Columns of the toys: the truth, and the fits without and with h; shapes, then the normalisation.
_COLUMNS = (("true_nu", "true_norm"), ("nu_delta", "nu_norm_delta"), ("nu_tau", "nu_norm_tau"))


def fitted_nuisances(study: Study, group: Group) -> Iterator[NuisanceSummary]:
    """Compare fitted and true nuisances of background toys, in units of sigma."""
    if group.configuration.treatment is Treatment.NONE:
        return
    sigma, names = study.normalisation, nuisance_names(study)
    for prior, toys in ((False, group.null), (True, group.prior)):
        if toys is None or not names:
            continue
        columns = []
        for shape, norm in _COLUMNS:
            values = toys.column(shape)
            if sigma is not None:
                values = np.column_stack([values, toys.column(norm) / sigma])
            columns.append(values)
        found = nuisances_of_toys(names, *columns)
        yield NuisanceSummary(group.test, group.configuration.slug, prior, found)


def dependence_on_truth(study: Study, group: Group) -> PriorDependence | None:
    """Regress t of the prior ensemble on its truth, in units of sigma; None if it has no toys."""
    if group.prior is None:
        return None
    shape, sigma = group.prior.column("true_nu"), study.normalisation
    truth = shape
    if sigma is not None:
        truth = np.column_stack([shape, group.prior.column("true_norm") / sigma])
    null = group.null_t
    mean, std = float(null.mean()), float(null.std(ddof=1))
    if group.analytic is not None:
        mean, std = group.analytic.law.mean, group.analytic.law.std
    _, pool = np.unique(shape, axis=0, return_inverse=True)
    shared = SharedPools(pool.reshape(-1), point_offset(group.ensemble))
    return prior_dependence(group.t(group.prior), truth, nuisance_names(study), mean, std, shared)
