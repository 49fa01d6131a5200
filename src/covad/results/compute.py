"""Compute the summary of a run from its toys, checks and clips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from covad import __version__
from covad.embedding.metrics import read_history
from covad.errors import FileFormatError
from covad.inference.closure import ClosureTests, closure_tests, corrected, false_positives
from covad.inference.coverage import PriorDependence
from covad.inference.goodness import (
    FEWEST_PER_BIN,
    PEARSON_DOF,
    PEARSON_DOF_QUADRATIC,
    chi2_law,
    one_sample,
)
from covad.inference.power import power_curve
from covad.inference.significance import median_z
from covad.inference.verdict import judge
from covad.nplm.adaptive.smallest_p import SmallestP
from covad.nplm.convex.generalised_chi2 import GeneralisedChi2
from covad.nplm.dataset import Float64
from covad.results.collect import Group, RunToys
from covad.results.fitted import dependence_on_truth, fitted_nuisances
from covad.results.frontier import read_frontier
from covad.results.manifest import Manifest, ToyVersions
from covad.results.spaces import FoldSummary, SpaceSummary, TrainingSummary
from covad.results.summary import (
    SUMMARY_SCHEMA,
    ClipSummary,
    ClosureSummary,
    ConfigurationSummary,
    EnsembleSummary,
    NullLaw,
    NullSummary,
    PriorSummary,
    ProcessShare,
    SignalPower,
    SignalSignificance,
    Summary,
    ToyCounts,
    read_summary,
)
from covad.runs.checks import read_checks
from covad.runs.directory import space_name
from covad.runs.products import Products
from covad.runs.selected import read_selected
from covad.runs.smoothing import read_smoothing
from covad.runs.sources import open_sources
from covad.runs.tuned import read_clip_choices, read_clips
from covad.runs.yields import YieldTable, read_yields
from covad.storage.records import restore
from covad.study import Collisions
from covad.study.plan import Entry, main_configuration, sizes_of
from covad.toys.truths import point_name

#: Thresholds of the power curves.
POWER_THRESHOLDS = np.linspace(0.0, 5.0, 51)


def current_summary(run: RunToys) -> Summary:
    """Return the summary that the run keeps if it can be read and was made of the same; else compute it."""
    try:
        kept = read_summary(run.directory.path)
    except FileFormatError:  # it is not there, damaged, or of another layout
        return summarise(run)
    return replace(kept, manifest=_manifest(run)) if kept.made_of == run.made_of else summarise(run)


def summarise(run: RunToys) -> Summary:
    """Compute what the toys that are there say; ensembles without toys are left out of the statements."""
    groups, seed = list(run.groups()), run.study.seed
    ensembles = tuple(_ensemble(run, entry) for entry in run.entries)
    dependences = [dependence_on_truth(run.study, group) for group in groups]
    counts = ("requested", "done", "failed", "missing")
    return Summary(
        schema=SUMMARY_SCHEMA,
        covad=__version__,
        made_of=run.made_of,
        study=run.study,
        manifest=_manifest(run),
        processes=tuple(_processes(run)),
        yields=_yields(run),
        main_configuration=main_configuration(run.study).slug,
        configurations=tuple(_configurations(run)),
        trainings=tuple(_trainings(run)),
        spaces=tuple(_spaces(run)),
        frontier=read_frontier(run.directory),
        clips=tuple(_clips(run)),
        ensembles=ensembles,
        nulls=tuple(_null(group, seed) for group in groups),
        closure=tuple(
            line
            for group, found in zip(groups, dependences, strict=True)
            for line in _closure(group, seed, found)
        ),
        prior=tuple(
            PriorSummary(group.test, group.configuration.slug, found)
            for group, found in zip(groups, dependences, strict=True)
            if found is not None
        ),
        nuisances=tuple(line for group in groups for line in fitted_nuisances(run.study, group)),
        significance=tuple(line for group in groups for line in _significance(group)),
        power=tuple(line for group in groups for line in _power(group)),
        toy_versions=_toy_versions(run),
        toys=ToyCounts(**{key: sum(getattr(line, key) for line in ensembles) for key in counts}),
    )


def _manifest(run: RunToys) -> Manifest | None:
    """Return None while no stage has taken long enough to be noted."""
    content = run.directory.read("manifest.json")
    return None if content is None else restore(Manifest, content, str(run.directory.path / "manifest.json"))


def _toy_versions(run: RunToys) -> tuple[ToyVersions, ...]:
    """Count all toys by the versions that computed them, the most frequent first."""
    found = Counter(versions for toys in run.toys.values() for versions in toys.versions)
    return tuple(ToyVersions(versions, number) for versions, number in found.most_common())


def _yields(run: RunToys) -> YieldTable | None:
    """Return what is expected of every process, as far as it is counted."""
    if not isinstance(run.study.source, Collisions):
        return None
    products = Products(run.study, run.directory)
    if not products.has_yields or not products.yields().made:
        return None
    table = read_yields(products.yields())
    return table if table.given else table.of(run.study.sizes.expected)


def _processes(run: RunToys) -> Iterator[ProcessShare]:
    """Share the expected events of the study among the processes as the selected samples have them."""
    if not isinstance(run.study.source, Collisions):
        return
    if (table := _yields(run)) is not None:
        for line in table.processes:
            yield ProcessShare(line.process, line.selected, run.study.sizes.expected * table.share(line))
        return
    selected = read_selected(Products(run.study, run.directory).selected())
    counted = {} if selected is None else selected.processes
    total = sum(counted.values())
    for process, events in sorted(counted.items(), key=lambda found: found[1], reverse=True):
        yield ProcessShare(process, events, run.study.sizes.expected * events / total)


def _configurations(run: RunToys) -> Iterator[ConfigurationSummary]:
    source = run.study.source
    for configuration in run.study.configurations:
        space, sizes = configuration.space or "", sizes_of(run.study, configuration)
        yield ConfigurationSummary(
            configuration=configuration.slug,
            label=configuration.label,
            space=space,
            treatment=configuration.treatment,
            order=configuration.order,
            expected=sizes.expected,
            reference=sizes.reference,
            kind=source.spaces[space].sort if isinstance(source, Collisions) else None,
            own_sizes=sizes != run.study.sizes,
        )


def _trainings(run: RunToys) -> Iterator[TrainingSummary]:
    source = run.study.source
    if not isinstance(source, Collisions):
        return
    products = Products(run.study, run.directory)
    for name, fold in products.models:
        if (learned := source.learned.get(name)) is not None:
            yield TrainingSummary(name, learned.alpha, fold, read_history(products.space(name, fold)))


def _spaces(run: RunToys) -> Iterator[SpaceSummary]:
    source = run.study.source
    if not isinstance(source, Collisions):
        return
    for space in run.study.spaces:
        products = Products(run.study, run.directory)
        folds = {fold: read_checks(products.checks(space, fold)) for fold in range(source.folds)}
        checks = folds[source.fold]
        if checks is None:
            continue
        yield SpaceSummary(
            name=space_name(space),
            space=space[0],
            order=space[1],
            yields=checks.yields,
            reach=checks.reach,
            probe=checks.probe,
            linearity=checks.linearity,
            validation=tuple(comparison.summary for comparison in checks.comparisons),
            folds=tuple(
                FoldSummary(fold, found.probe, found.reach)
                for fold, found in folds.items()
                if found is not None
            ),
            smoothing=read_smoothing(products.pools(space)),
            closure_over_prior=checks.prior,
            training_spread=checks.spread,
        )


def _clips(run: RunToys) -> Iterator[ClipSummary]:
    products, sources = Products(run.study, run.directory), open_sources(run.study, run.directory)
    tuned = read_clip_choices(products, sources)
    for slug, clip in read_clips(products, sources).items():
        choice = tuned.get(slug)
        yield ClipSummary(
            configuration=slug,
            clip=clip,
            error=None if choice is None else choice.clip_error,
            scan=() if choice is None else choice.scan,
        )


def _ensemble(run: RunToys, entry: Entry) -> EnsembleSummary:
    draw, ensemble = entry.draw, entry.ensemble
    toys = None if ensemble is None else run.toys[ensemble.identity]
    t = np.zeros(0) if toys is None else toys.t

    def moment(statistic: Callable[[Float64], Any]) -> float | None:
        return float(statistic(t)) if len(t) > 1 else None

    return EnsembleSummary(
        requested=entry.toys,
        done=len(t),
        failed=0 if toys is None else toys.failed,
        missing=entry.toys if toys is None else toys.missing,
        test=entry.test,
        configuration=entry.configuration.slug,
        space=draw.space,
        treatment=draw.treatment,
        order=draw.response_order,
        expected=draw.expected,
        reference=draw.n_reference,
        nu=draw.nu,
        nu_norm=draw.nu_norm,
        prior=draw.prior,
        along_worst=entry.along_worst,
        signal=draw.signal,
        injected=draw.injected,
        identity=None if ensemble is None else ensemble.identity,
        unconverged=0 if toys is None else sum(toy.status == "unconverged" for toy in toys.done),
        mean=moment(np.mean),
        std=moment(lambda x: np.std(x, ddof=1)),
        median=moment(np.median),
        seconds_per_toy=None if toys is None or not toys.done else float(toys.column("seconds").mean()),
    )


def _bins(group: Group, n_toys: int) -> tuple[int, ...]:
    """Return Pearson's degrees of freedom that so many toys allow."""
    wanted = PEARSON_DOF if group.configuration.order == 1 else PEARSON_DOF_QUADRATIC
    return tuple(dof for dof in wanted if n_toys >= FEWEST_PER_BIN * (dof + 1))


def _null(group: Group, seed: int) -> NullSummary:
    """Compare R_0 with chi2 (network) or the analytic law (of tests that know theirs)."""
    t, bins = group.null_t, _bins(group, len(group.null_t))
    if group.analytic is None:
        dof = round(group.capacity)
        distribution = chi2_law(dof)
        moments = (float(dof), float(np.sqrt(2.0 * dof)), float(dof), ())
        table: tuple[tuple[float, float], ...] = ()
    else:
        law = distribution = group.analytic.law
        weights = tuple(law.weights.tolist()) if isinstance(law, GeneralisedChi2) else ()
        moments = (law.mean, law.std, law.effective_dof, weights)
        table = law.tabulated.pairs if isinstance(law, SmallestP) else ()
    name = group.law_name
    return NullSummary(
        test=group.test,
        configuration=group.configuration.slug,
        capacity=group.capacity,
        n_toys=len(t),
        mean=float(t.mean()),
        std=float(t.std(ddof=1)),
        law=NullLaw(
            name,
            *moments,
            goodness=one_sample(t, distribution, seed, bins),
            false_positives=false_positives(t, group.nulls[name], "R_0"),
            table=table,
        ),
        signs=group.signs,
    )


def _closure(group: Group, seed: int, dependence: PriorDependence | None = None) -> Iterator[ClosureSummary]:
    """Judge every planned ensemble of background by the law, where there is one, or by R_0.

    R_0 and other yields are among the points that have to close; where the null is made of their toys, each
    is held against the others. What t depends on over the prior has a say, too. Goodness of fit stands beside
    it; whether the network's toys follow chi2 is another matter.
    """
    ensembles = {point_name(nu, group.names): toys for nu, toys in group.shifted.items()}
    points = {name: group.t(toys) for name, toys in ensembles.items()}
    against_null, against_chi2 = _goodness(group, points, seed)
    ensembles |= {point_name((), (), along_worst=along): toys for along, toys in group.worst.items()}
    if group.prior is not None:
        ensembles[point_name((), (), prior=True)] = group.prior
    apart = group.yields_apart()
    if group.analytic is not None or apart:
        ensembles = {"R_0": group.null, **ensembles, **group.at_yields}
    ensembles |= group.lacking
    points = {name: apart[name][0] if name in apart else group.t(toys) for name, toys in ensembles.items()}
    if not points:
        return
    closure = judge(
        points,
        group.nulls[group.quoted],
        failed={name: toys.failed for name, toys in ensembles.items()},
        own_nulls={name: null for name, (_, null) in apart.items()},
        dependence=dependence,
        obstacle=group.yields_obstacle,
    )
    for name, found in closure.points.items():
        yield ClosureSummary(
            test=group.test,
            configuration=group.configuration.slug,
            point=name,
            n_toys=len(points[name]),
            verdict=closure.verdict,
            reason=closure.reason,
            against_null=against_null.get(name, ()),
            against_chi2=against_chi2.get(name, ()),
            median_shift=found.median_shift,
            false_positives=found.false_positives,
        )


def _goodness(group: Group, shifted: Mapping[str, Float64], seed: int) -> tuple[ClosureTests, ClosureTests]:
    """Test every R_nu against R_0, and against chi2 where the network's clip was tuned to that."""
    if not shifted:
        return {}, {}
    bins = _bins(group, min(len(t) for t in (group.null_t, *shifted.values())))
    against_null = closure_tests(shifted, group.null_t, seed, bins)
    if group.analytic is not None:
        return against_null, {}
    law = chi2_law(round(group.capacity))
    return against_null, corrected({name: one_sample(t, law, seed, bins) for name, t in shifted.items()})


def _significance(group: Group) -> Iterator[SignalSignificance]:
    for (nu, signal, injected), toys in group.signals.items():
        for t, null in group.with_nulls(toys, nu):
            yield SignalSignificance(
                **vars(median_z(t, null)),
                test=group.test,
                configuration=group.configuration.slug,
                nu=nu,
                signal=signal,
                injected=injected,
                n_toys=len(toys.t),
            )


def _power(group: Group) -> Iterator[SignalPower]:
    for (nu, signal, injected), toys in group.signals.items():
        for t, null in group.with_nulls(toys, nu):
            curve = power_curve(t, null, POWER_THRESHOLDS)
            measured = zip(curve.power, curve.resolved, strict=True)
            yield SignalPower(
                test=group.test,
                configuration=group.configuration.slug,
                nu=nu,
                signal=signal,
                injected=injected,
                n_toys=len(toys.t),
                null=null.name,
                z_alpha=tuple(POWER_THRESHOLDS.tolist()),
                power=tuple(float(p) if resolved else None for p, resolved in measured),
                low=tuple(curve.low.tolist()),
                high=tuple(curve.high.tolist()),
            )
