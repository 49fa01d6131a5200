"""The convex test with the p that `covad test` quotes: by the law at the fitted nuisances of the dataset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from covad.nplm.convex.convex import ConvexTest
from covad.nplm.convex.law import analytic_null
from covad.nplm.dataset import Dataset
from covad.nplm.fit import Fit, NplmTest, Seed, TauFit
from covad.nplm.likelihood import join_nuisances
from covad.toys.ensembles import Source
from covad.toys.tests import ChosenConvex


@dataclass(frozen=True)
class QuotedP:
    """Settings of a test whose t is that p, so that workers compute it and the store keeps it."""

    convex: ChosenConvex

    @property
    def capacity(self) -> float:
        return self.convex.capacity

    def describe(self) -> dict[str, Any]:
        return {**self.convex.describe(), "kind": "p of the convex test at the fitted nuisances"}

    def build(self, source: Source) -> NplmTest:
        return _PInPlaceOfT(self.convex.test)


@dataclass(frozen=True)
class _PInPlaceOfT:
    test: ConvexTest

    def fit(self, dataset: Dataset, null: Fit, seed: Seed) -> TauFit:
        fit = self.test.fit(dataset, null, seed)
        law = analytic_null(self.test, dataset, join_nuisances(null, dataset)).law
        return replace(fit, value=null.value + float(law.sf(fit.value - null.value)))
