"""The toys of a run, by what they are: null, shifted background, signal; and the nulls that they make."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.stats import rankdata

from covad import __version__
from covad.inference.joint import JointNull
from covad.inference.significance import AnalyticNull, Chi2Null, EmpiricalNull, Null
from covad.inference.signs import SignNoise, SignOffset
from covad.inference.verdict import FEWEST_TOYS
from covad.inference.yields import FEWEST_PER_YIELD, NullMoments
from covad.nplm.adaptive.adaptive import AdaptiveTest
from covad.nplm.convex.convex import ConvexTest
from covad.nplm.dataset import Dataset, Float64
from covad.nplm.nulls import NullOfT, NullsOfT
from covad.results.power import TUNING
from covad.results.summary import SUMMARY_SCHEMA
from covad.runs.directory import RunDirectory
from covad.runs.products import Products
from covad.runs.sources import open_sources
from covad.runs.tuned import read_bases, read_clips
from covad.settings import Nu
from covad.storage.digests import digest_once
from covad.storage.ledger import FOLDER
from covad.study import Configuration, Study
from covad.study.plan import Entry, plan, requests, shape_names
from covad.toys.blocks import STORE_SCHEMA
from covad.toys.drawing import PoolSource
from covad.toys.ensembles import Ensemble, Treatment
from covad.toys.pool_files import open_pools
from covad.toys.pools import Pools
from covad.toys.store import EnsembleToys
from covad.toys.truths import point_name, point_text

#: The study, the notes of the products that a summary reads, and the power of its spaces.
_READ = ("study.json", f"{FOLDER}/**/*.json", TUNING)
#: Products of which a summary shows nothing if they are gone, though their notes are still there.
_SHOWN = ("selected.json", "yields.json", "models/**/*", "checks/**/*")
#: Sigma of the normalisation up to which the law of t is taken at the fitted yield, and the least log yield:
#: shape nuisances change the yield too.
_SIGMAS_OF_LAW, _LEAST_RANGE = 6.0, 0.3
#: Parts of the toys of every yield: each is moved by what the others say.
_PARTS = 10
#: Reference events from which the moments of the analytic null are estimated, in units of a toy's.
_MOMENT_SAMPLE = 4


@dataclass(frozen=True)
class Group:
    """All ensembles of one test in one configuration."""

    test: str
    configuration: Configuration
    null: EnsembleToys  # R_0
    yields: dict[float, EnsembleToys]  # background at other true yields, by nu_N in units of its sigma
    shifted: dict[Nu, EnsembleToys]
    worst: dict[float, EnsembleToys]  # background along the worst direction, by sigma
    prior: EnsembleToys | None  # background at truths thrown from the prior
    signals: dict[tuple[Nu, str, float], EnsembleToys]
    ensemble: Ensemble  # of R_0
    names: tuple[str, ...]  # of the nuisances in nu
    lacking: dict[str, EnsembleToys] = field(default_factory=dict)  # planned background with too few toys

    @property
    def capacity(self) -> float:
        return self.ensemble.test.capacity

    @cached_property
    def analytic(self) -> NullOfT | None:
        """Return the null of a test that knows it without toys, at nu = 0; None for the network."""
        return None if self._analytic is None else self._analytic.at_yield()

    @cached_property
    def analytic_of_data(self) -> NullOfT | None:
        """Return the same for observed data, to which the signs of the reference's weights are noise.

        Toys of the adaptive test keep p of their members by the law of toys: it stays the same.
        """
        noise = None if self._pools is None else SignNoise.of(self._pools.reference)
        if noise is None or self._analytic is None or not self._analytic.moves:
            return self.analytic
        test, dataset = self._sample
        further = noise.in_test(test, dataset)
        return test.nulls(dataset, n_reference=self.ensemble.draw.n_reference, further=further).at_yield()

    @cached_property
    def signs(self) -> SignOffset | None:
        """Return how much larger t of null toys is than that of observed data; None without signs."""
        if self._pools is None:
            return None
        draw, data = self.ensemble.draw, self._pools.background(self.ensemble.draw.nu)
        return SignOffset.of(
            self._pools.reference, data, draw.n_reference, draw.expected_background, self.capacity
        )

    @property
    def _pools(self) -> Pools | None:
        source = self.ensemble.source
        return open_pools(source.directory, source.digest) if isinstance(source, PoolSource) else None

    @cached_property
    def _analytic(self) -> NullsOfT | None:
        if not self.ensemble.test.has_law:
            return None
        test, dataset = self._sample
        return test.nulls(dataset, n_reference=self.ensemble.draw.n_reference)

    @cached_property
    def _sample(self) -> tuple[ConvexTest | AdaptiveTest, Dataset]:
        """Return a test that knows its law, and a dataset with a large reference for it."""
        test = self.ensemble.test.build(self.ensemble.source)
        if not isinstance(test, ConvexTest | AdaptiveTest):
            raise TypeError(f"the {self.test} test knows no law of t")
        draw = self.ensemble.draw
        sizes = self.ensemble.source.pool_sizes(draw)
        most = draw.n_reference * _MOMENT_SAMPLE
        sample = replace(draw, n_reference=most if sizes is None else min(most, sizes.events))
        return test, self.ensemble.source.draw(sample, self.ensemble.seeds(0))

    @cached_property
    def moments(self) -> NullMoments | None:
        """Return how the null of t moves with the yield; None if the test fits no yield, or no toys tell."""
        draw = self.ensemble.draw
        if draw.treatment is Treatment.NONE:
            return None
        if self._analytic is not None:
            largest = max(_SIGMAS_OF_LAW * (draw.normalisation_sigma or 0.0), _LEAST_RANGE)
            return NullMoments.of_nulls(self._analytic, largest)
        toys = (self.null, *self.yields.values())
        if not self.yields or min(len(each.done) for each in toys) < FEWEST_PER_YIELD:
            return None
        t, log_yield = (np.concatenate([each.column(x) for each in toys]) for x in ("t", "log_yield"))
        return NullMoments.of_toys(t, log_yield, n_yields=len(toys))

    def t(self, toys: EnsembleToys) -> Float64:
        """Return t of toys, each moved to the nominal yield by its own fitted one."""
        if self.moments is None:
            return toys.t
        return self.moments.at_nominal(toys.t, toys.column("log_yield"))

    def t_of_data(self, toys: EnsembleToys, nu: Nu) -> Float64:
        """Return t of toys at `nu` as observed data would have it: without the signs of the pool of data.

        What these add to t on average is to what those of the reference add as their variances are.
        """
        t = self.t(toys)
        if self.analytic is None or self.analytic_of_data is None or self._pools is None:
            return t
        reference, data = self._pools.reference.signed_variance, self._pools.background(nu).signed_variance
        if not reference:
            return t
        by_reference = self.analytic_of_data.law.mean - self.analytic.law.mean
        return np.asarray(t - by_reference * data / reference)

    def with_nulls(self, toys: EnsembleToys, nu: Nu) -> Iterator[tuple[Float64, Null]]:
        """Yield t of toys at `nu` with every null; for the law both are those of observed data.

        Toys of the null have the same noise of signs as those with a signal.
        """
        for null in self.nulls.values():
            if self.analytic_of_data is None or null.name != "analytic":
                yield self.t(toys), null
            else:
                n_toys = len(self.null_t)
                yield self.t_of_data(toys, nu), AnalyticNull.of(self.analytic_of_data.law, n_toys)

    @cached_property
    def null_t(self) -> Float64:
        """Return t of the background toys at all yields and nu = 0, moved to the nominal yield."""
        yields = self.yields.values() if self.moments is not None else ()
        return np.concatenate([self.t(toys) for toys in (self.null, *yields)])

    @property
    def at_yields(self) -> dict[str, EnsembleToys]:
        """Return the background toys at nu = 0 by the names of their true yields, R_0 first."""
        return {"R_0": self.null} | {
            point_name((), (), nu_norm): toys for nu_norm, toys in self.yields.items()
        }

    @property
    def yields_obstacle(self) -> str:
        """Return why a null of toys cannot be judged at other yields yet, in words; empty if it can."""
        planned = self.yields or any(name.startswith("nu_N") for name in self.lacking)
        if self.analytic is not None or not planned:
            return ""
        name, toys = min(self.at_yields.items(), key=lambda each: len(each[1].done))
        needed = -(-FEWEST_PER_YIELD * _PARTS // (_PARTS - 1))
        if self.moments is not None and len(toys.done) >= needed:
            return ""
        few = f"{point_text(name)} has only {len(toys.done)} toys"
        return f"{few}, {needed} toys per yield tell how t moves with it"

    def yields_apart(self) -> dict[str, tuple[Float64, EmpiricalNull]]:
        """Return t at the nominal yield of every true yield, with a null that these toys are no part of.

        The null has the toys of all other yields. Every tenth of the toys is moved by mean and spread that
        the other nine tell: moments fitted without a whole yield would have to be extrapolated to it.
        """
        if self.analytic is not None or self.moments is None or self.yields_obstacle:
            return {}
        ensembles = self.at_yields
        which = np.repeat(np.arange(len(ensembles)), [len(toys.done) for toys in ensembles.values()])
        part = np.concatenate([np.arange(len(toys.done)) % _PARTS for toys in ensembles.values()])
        t, y = (np.concatenate([toys.column(x) for toys in ensembles.values()]) for x in ("t", "log_yield"))
        moved = np.empty_like(t)
        for number in range(_PARTS):
            others = part != number
            moments = NullMoments.of_toys(t[others], y[others], n_yields=len(ensembles))
            moved[~others] = moments.at_nominal(t[~others], y[~others])
        return {
            name: (moved[which == k], EmpiricalNull(moved[which != k], "R_0"))
            for k, name in enumerate(ensembles)
        }

    @property
    def quoted(self) -> str:
        """Return the null whose p is quoted: the law of t where it is known, the toys of the network."""
        return "R_0" if self.analytic is None else "analytic"

    def null_p(self) -> dict[tuple[float, int], float]:
        """Return p of every toy of `null_t`, by nu_N and number; ranks are among the others.

        By the law p is that of observed data, which it will be compared with.
        """
        yields = self.yields if self.moments is not None else {}
        nu = self.ensemble.draw.nu
        t = {
            (nu_norm, toy.index): float(value)
            for nu_norm, toys in {0.0: self.null, **yields}.items()
            for toy, value in zip(toys.done, self.t_of_data(toys, nu), strict=True)
        }
        values = np.array(list(t.values()))
        if self.analytic_of_data is not None:
            p = AnalyticNull.of(self.analytic_of_data.law).p(values)
        else:
            p = rankdata(-values, method="max") / len(values)
        return dict(zip(t, p.tolist(), strict=True))

    @property
    def law_name(self) -> Literal["chi2", "analytic"]:
        """Return the null that is a law: chi2 of the network, the analytic one of tests that know theirs."""
        return "chi2" if self.analytic is None else "analytic"

    @cached_property
    def nulls(self) -> dict[str, Null]:
        """Return R_0 (of all yields), R_nu and the law, by their names: nulls of t at the nominal yield."""
        n_toys = len(self.null_t)
        law = (
            Chi2Null(round(self.capacity), n_toys)
            if self.analytic is None
            else AnalyticNull.of(self.analytic.law, n_toys)
        )
        shifted = [
            EmpiricalNull(self.t(toys), point_name(nu, self.names)) for nu, toys in self.shifted.items()
        ]
        return {null.name: null for null in (EmpiricalNull(self.null_t, "R_0"), *shifted, law)}


def joint_null(first: Group, second: Group) -> JointNull:
    """Return the null of the smaller p of two tests, from the background toys that both have."""
    one, other = first.null_p(), second.null_p()
    shared = sorted(one.keys() & other.keys())
    return JointNull([one[key] for key in shared], [other[key] for key in shared])


@dataclass(frozen=True)
class RunToys:
    """A run with its toys loaded."""

    directory: RunDirectory
    study: Study
    entries: list[Entry]
    toys: dict[str, EnsembleToys]  # by identity
    made_of: str = ""  # digest of versions, ensembles, t of all toys, notes of products and what is there

    def groups(self) -> Iterator[Group]:
        """Return the groups whose null has toys."""
        yield from self._groups

    @cached_property
    def _groups(self) -> tuple[Group, ...]:
        found = (self._group(test, c) for c in self.study.configurations for test in self.study.tests_of(c))
        return tuple(group for group in found if group is not None)

    def _group(self, test: str, configuration: Configuration) -> Group | None:
        null, ensemble, prior, names = None, None, None, shape_names(self.study)
        yields, shifted, worst, signals, lacking = {}, {}, {}, {}, {}
        for entry in self.entries:
            if entry.ensemble is None or (entry.test, entry.configuration) != (test, configuration):
                continue
            toys, draw = self.toys[entry.ensemble.identity], entry.draw
            if len(toys.t) < FEWEST_TOYS:
                if draw.signal is None:
                    lacking[point_name(draw.nu, names, draw.nu_norm, draw.prior, entry.along_worst)] = toys
                continue
            if draw.signal is not None:
                signals[draw.nu, draw.signal, draw.injected] = toys
            elif draw.prior:
                prior = toys
            elif draw.nu_norm:
                yields[draw.nu_norm] = toys
            elif entry.along_worst:
                worst[entry.along_worst] = toys
            elif any(draw.nu):
                shifted[draw.nu] = toys
            else:
                null, ensemble = toys, entry.ensemble
        if null is None or ensemble is None:
            return None
        return Group(
            test, configuration, null, yields, shifted, worst, prior, signals, ensemble, names, lacking
        )

    @cached_property
    def values(self) -> dict[str, Float64]:
        """Return t at the nominal yield, of which all results are made, by the identity of the ensemble.

        Ensembles that no result is made of are left out: those of no group, and other yields where t is not
        moved.
        """
        groups = {(group.test, group.configuration.slug): group for group in self.groups()}
        values = {}
        for entry in self.entries:
            group = groups.get((entry.test, entry.configuration.slug))
            if group is None or entry.ensemble is None or (entry.draw.nu_norm and group.moments is None):
                continue
            toys = self.toys[entry.ensemble.identity]
            if len(toys.t) >= FEWEST_TOYS:
                values[entry.ensemble.identity] = group.t(toys)
        return values


def collect(path: Path) -> RunToys:
    """Load all toys of a run that are there."""
    directory = RunDirectory(path)
    notes = [digest_once(file) for name in _READ for file in sorted(directory.path.glob(name))]
    notes += [
        str(file.relative_to(path)) for name in _SHOWN for file in sorted(path.glob(name)) if file.is_file()
    ]
    study = directory.study()
    sources, products = open_sources(study, directory), Products(study, directory)
    clips, bases = read_clips(products, sources), read_bases(products, sources)
    entries = plan(study, sources, clips, bases, products.worst)
    toys = directory.toys.load_all(requests(entries))
    layout = f"covad {__version__}, summary {SUMMARY_SCHEMA}, toys {STORE_SCHEMA}"
    made_of = hashlib.sha256("\n".join([layout, *notes]).encode())
    for identity, found in sorted(toys.items()):
        versions = sorted(str(version) for version in set(found.versions))
        made_of.update(f"{identity} {found.requested} {found.failed} {versions}".encode())
        made_of.update(found.t.tobytes())
    return RunToys(directory, study, entries, toys, made_of.hexdigest())
