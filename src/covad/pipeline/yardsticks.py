"""`covad bench power`: the tests of a run beside yardsticks, on the same toys, with the same calibration."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy.stats import norm

from covad.errors import UnfinishedRunError
from covad.inference.significance import EmpiricalNull, median_z
from covad.nplm.dataset import Float32, Float64
from covad.pipeline.wide_pools import WidePools, with_inputs
from covad.results import RunToys, collect
from covad.results.power import FOLDER, YARDSTICKS, Ceiling, YardstickLine, YardstickTable
from covad.runs.collisions import CollisionData, derived_seed
from covad.settings import Nu
from covad.storage.digests import content_digest
from covad.storage.records import plain
from covad.storage.sealed import read_sealed, write_sealed
from covad.study import Collisions, Configuration
from covad.study.plan import draws, main_configuration
from covad.toys.drawing import PoolSource, draw_from
from covad.toys.ensembles import Draw, Ensemble, Source, draw_recipe
from covad.toys.pool_files import open_verified
from covad.yardsticks.cells import ProfiledCells
from covad.yardsticks.observables import BestObservable, observables_of, trials
from covad.yardsticks.supervised import OutOfFold, SupervisedCeiling
from covad.yardsticks.two_sample import TwoSampleClassifier
from covad.yardsticks.yardstick import (
    INPUTS,
    SCORES,
    SeenToy,
    Target,
    Yardstick,
    Z,
    boosted_trees,
)

log = logging.getLogger(__name__)

#: Raise it with every change of what a yardstick computes: kept numbers are then computed anew.
VERSION = 2
#: The threshold at which powers are compared, and the largest |nu| at which signals are drawn.
_Z, _NEAR = 2.0, 1.0
#: Toys that a median needs to have an interval.
_MEDIAN = 10
#: Toys after which what was computed is kept.
_KEPT = 25


@dataclass(frozen=True)
class Bench:
    """The toys of one configuration, and the yardsticks that see them."""

    run: RunToys
    configuration: Configuration
    source: Source
    wide: WidePools | None  # None if every toy has fresh events
    yardsticks: tuple[Yardstick, ...]
    notes: tuple[str, ...]

    def toy(self, ensemble: Ensemble, index: int) -> SeenToy:
        """Return toy `index` of an ensemble of the run, with all columns that there are."""
        seeds = ensemble.seeds(index)
        if self.wide is not None:
            return self.wide.seen(draw_from(self.wide.pools, ensemble.draw, seeds))
        dataset = self.source.draw(ensemble.draw, seeds)
        return SeenToy(dataset, {Z: dataset.reference}, {Z: dataset.data})


def bench_power(
    path: Path, toys: int, configuration: str | None = None, signal_toys: int | None = None
) -> YardstickTable:
    """Put yardsticks beside the tests of a run, and keep the table in RUN/power/yardsticks.json.

    `toys` are those of every background ensemble, and of signals unless `signal_toys` are told. What they
    give is kept, too: a bench that was stopped goes on.
    """
    boosted_trees(0)  # says what is missing before anything is read
    run = collect(path)
    wanted = (
        main_configuration(run.study) if configuration is None else run.study.configuration(configuration)
    )
    bench = _prepare(run, wanted)
    values: dict[tuple[str, Target | None], dict[Draw, Float64]] = {}
    of_signals = toys if signal_toys is None else signal_toys
    for ensemble in _ensembles(bench):
        wanted_toys = toys if ensemble.draw.signal is None else of_signals
        for yardstick, t in _computed(bench, ensemble, wanted_toys).items():
            values.setdefault((yardstick.name, yardstick.target), {})[ensemble.draw] = t
    for test, by_draw in _of_run(run, wanted, toys, of_signals).items():
        values[test, None] = by_draw
    table = _table(bench, values)
    write_sealed(path / YARDSTICKS, plain(table))
    return table


def _near(run: RunToys, configuration: Configuration) -> list[Draw]:
    """Return background within one sigma, nu = 0 first, then signals."""
    found = [d for d in draws(run.study, configuration) if not (d.nu_norm or d.prior)]
    near = [draw for draw in found if max(map(abs, draw.nu), default=0.0) <= _NEAR]
    # a study may list nu = 0 anywhere
    return sorted(near, key=lambda draw: (draw.signal is not None, any(draw.nu)))


def _ensembles(bench: Bench) -> Iterator[Ensemble]:
    """Yield the ensembles of the run's toys; which test they are of does not matter to the events."""
    near = _near(bench.run, bench.configuration)
    known: dict[Draw, Ensemble] = {}
    for entry in bench.run.entries:
        if entry.configuration == bench.configuration and entry.ensemble is not None:
            known.setdefault(entry.draw, entry.ensemble)
    for draw in near:
        if draw in known:
            yield known[draw]


def _of_run(
    run: RunToys, configuration: Configuration, toys: int, of_signals: int
) -> dict[str, dict[Draw, Float64]]:
    """Return t of the first toys of the run's own tests."""
    near = set(_near(run, configuration))
    found: dict[str, dict[Draw, Float64]] = {}
    for entry in run.entries:
        if entry.configuration != configuration or entry.draw not in near or entry.ensemble is None:
            continue
        t = run.values.get(entry.ensemble.identity)
        if t is not None:
            some = toys if entry.draw.signal is None else of_signals
            found.setdefault(entry.test, {})[entry.draw] = t[:some]
    return found


def _prepare(run: RunToys, configuration: Configuration) -> Bench:
    """Choose cells and bins, and train the classifiers that know signals: from events that are no data."""
    study = run.study
    entries = [e for e in run.entries if e.configuration == configuration and e.ensemble is not None]
    if not entries or entries[0].ensemble is None:
        raise UnfinishedRunError(
            f"{run.directory.path}: '{configuration.label}' has no toys yet; `covad run` goes on"
        )
    source, expected = entries[0].ensemble.source, entries[0].draw.expected
    notes: list[str] = []
    yardsticks: list[Yardstick] = [ProfiledCells.of(source.basis_events(), expected)]
    if not isinstance(source, PoolSource):
        notes.append("no supervised ceiling and no inputs: every toy has fresh events of the latent world")
        yardsticks += [BestObservable.of(source.basis_events(), expected), TwoSampleClassifier(Z)]
        return Bench(run, configuration, source, None, tuple(yardsticks), tuple(notes))
    nus = tuple(dict.fromkeys(draw.nu for draw in _near(run, configuration)))
    wide = WidePools.of_z(open_verified(source.directory, source.digest), nus)
    if isinstance(study.source, Collisions):
        log.info("bench power: reading the inputs of all events of the pools")
        wider = with_inputs(wide, CollisionData.of_run(study, run.directory))
        if wider is None:
            notes.append(
                "yardsticks see z alone: the events have weights, and pools do not keep their inputs"
            )
        wide = wider or wide
    kinds = [kind for kind in (Z, INPUTS) if kind in wide.widths]
    reference = wide.columns(wide.pools.reference.sample.z)
    yardsticks.append(BestObservable.of(observables_of(reference), expected))
    yardsticks += [TwoSampleClassifier(kind) for kind in kinds]
    wide, ceilings = _supervised(wide, run, configuration, kinds)
    return Bench(run, configuration, source, wide, (*yardsticks, *ceilings), tuple(notes))


def _supervised(
    wide: WidePools, run: RunToys, configuration: Configuration, kinds: Sequence[str]
) -> tuple[WidePools, list[SupervisedCeiling]]:
    """Train a classifier for every signal and kind of columns, and score all pools with it.

    One half of the reference is trained on, the other gives the density of the background.
    """
    near = _near(run, configuration)
    centre, expected = near[0].nu, near[0].expected
    targets = [Target(d.signal, d.injected) for d in near if d.signal is not None and d.nu == centre]
    names = list(dict.fromkeys(target.signal for target in targets))
    if not names:
        return wide, []
    pools, position, made = wide.pools, 0, []
    columns: dict[tuple[str, Nu], list[Float32]] = {}
    equal = pools.reference.unweighted(derived_seed(run.study, "yardsticks"))
    reference = wide.columns(equal.sample.z)
    width = len(names) * len(kinds)

    def halves(name: str, nu: Nu, n_events: int) -> np.ndarray:
        return wide.halves.get((name, nu), np.arange(n_events) % 2)

    for name in names:
        log.info("bench power: training a classifier that knows %s", name)
        for kind in kinds:
            x = reference[kind]
            signal = wide.columns(pools.signal(name, centre).sample.z)[kind]
            of_signal = halves(name, centre, len(signal))
            folds = OutOfFold.train(
                x[::2], signal, of_signal, derived_seed(run.study, "yardsticks", name, kind)
            )
            scores = folds.score(x[1::2], np.arange(len(x[1::2])) % 2), folds.score(signal, of_signal)
            made += [
                SupervisedCeiling.of(target, kind, position, scores, expected)
                for target in targets
                if target.signal == name
            ]
            for role, at in (("data", pools.data), (name, pools.signals[name])):
                for nu, pool in at.items():
                    there = columns.setdefault((role, nu), [np.zeros((len(pool), 1), np.float32)] * width)
                    events = wide.columns(pool.sample.z)[kind]
                    there[position] = folds.score(events, halves(role, nu, len(pool)))[:, None]
            position += 1
    return wide.with_columns(SCORES, {key: np.hstack(each) for key, each in columns.items()}, width), made


def _computed(bench: Bench, ensemble: Ensemble, toys: int) -> dict[Yardstick, Float64]:
    """Return the statistics of the first toys of an ensemble; what was computed before is read."""
    draw = ensemble.draw
    mine = [
        y
        for y in bench.yardsticks
        if y.target is None or draw.signal is None or y.target == Target(draw.signal, draw.injected)
    ]
    # all pools: classifiers are trained on those of signals, too
    what = [VERSION, version("scikit-learn"), ensemble.source.digest, ensemble.seed, draw_recipe(draw)]
    kinds = sorted(bench.wide.widths) if bench.wide is not None else []
    path = bench.run.directory.path / FOLDER / "toys" / f"{content_digest([*what, kinds])[:20]}.json"
    kept = (read_sealed(path, "delete it: it is computed anew") or {}).get("values", {})
    keys = {y: "/".join([y.name, *([] if y.target is None else [str(y.target)])]) for y in mine}
    done = min((len(kept.get(key, ())) for key in keys.values()), default=0)
    values = {y: list(kept.get(key, ()))[:done] for y, key in keys.items()}
    if done < toys:
        where = "background" if draw.signal is None else f"{draw.injected:g} events of {draw.signal}"
        log.info("bench power: %d toys of %s at nu = %s", toys - done, where, list(draw.nu))
    for index in range(done, toys):
        toy = bench.toy(ensemble, index)
        for yardstick in mine:
            values[yardstick].append(yardstick.statistic(toy, ensemble.seeds(index).fit))
        if (index + 1) % _KEPT == 0 or index + 1 == toys:
            write_sealed(path, {"values": {keys[y]: found for y, found in values.items()}})
    return {y: np.array(found[:toys]) for y, found in values.items()}


def _table(bench: Bench, values: dict[tuple[str, Target | None], dict[Draw, Float64]]) -> YardstickTable:
    """Calibrate every test by its own null toys at nu = 0, and count what is beyond Z = 2."""
    null_draw = _near(bench.run, bench.configuration)[0]
    rate = float(norm.sf(_Z))
    lines, n_null, of_best = [], 0, None
    for (name, target), by_draw in values.items():
        if null_draw not in by_draw:
            continue
        null = EmpiricalNull(by_draw[null_draw], "R_0")
        n_null = max(n_null, len(null.t))
        if name == BestObservable.name and null.resolves(rate):
            of_best = trials(by_draw[null_draw], rate)
        for draw, t in by_draw.items():
            lines.append(
                YardstickLine(
                    name=name,
                    target=None if target is None else (target.signal, target.injected),
                    signal=draw.signal,
                    injected=draw.injected,
                    nu=draw.nu,
                    toys=len(t),
                    found=int(np.count_nonzero(null.rejects(t, rate))) if null.resolves(rate) else None,
                    median=median_z(t, null) if draw.signal is not None and len(t) >= _MEDIAN else None,
                )
            )
    ceilings = [
        Ceiling(y.name, y.target.signal, y.target.injected, y.expected_z, y.limited)
        for y in bench.yardsticks
        if isinstance(y, SupervisedCeiling)
    ]
    notes = list(bench.notes)
    if any(line.found is None for line in lines):
        notes.append(f"{n_null} null toys do not resolve Z = 2, 43 do: powers and rates are not known")
    return YardstickTable(
        configuration=bench.configuration.slug,
        made_of=tuple(sorted(e.identity for e in _ensembles(bench) if e.draw.signal is None)),
        null_toys=n_null,
        lines=tuple(lines),
        ceilings=tuple(ceilings),
        trials=of_best,
        notes=tuple(notes),
    )
