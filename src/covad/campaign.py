"""Which ensembles a study asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from covad.study import PoolDirectory, Study
from covad.toys.alternatives import ConvexSettings, NetworkSettings
from covad.toys.draw import LatentSource, PoolSource
from covad.toys.plan import AlternativeSettings, Draw, Ensemble, Request, Source, Stream, Treatment

#: W per treatment, as far as it is known.
Clips = Mapping[Treatment, float]


@dataclass(frozen=True)
class Entry:
    """One line of the plan; the ensemble is None while the clip of its network is not chosen."""

    test: str
    draw: Draw
    ensemble: Ensemble | None


def open_source(study: Study, verify: bool = True) -> Source:
    """The events that the study draws from; `verify` reads pools once and compares their digests."""
    if isinstance(study.source, PoolDirectory):
        return PoolSource.open(study.source.path, verify)
    return LatentSource(study.source.nuisances)


def fixed_clips(study: Study) -> dict[Treatment, float]:
    """The clips that the study file itself gives."""
    network = study.tests.network
    if network is None or network.clip == "tune":
        return {}
    return dict.fromkeys(study.treatments, network.clip)


def clips_to_tune(study: Study, known: Clips) -> list[Treatment]:
    """W depends on what the test knows about the nuisances, so each treatment has its own."""
    return [] if study.tests.network is None else [t for t in study.treatments if t not in known]


def null_draw(study: Study, treatment: Treatment) -> Draw:
    """R_0: background at the central nuisances."""
    return Draw(
        embedding=study.source.embedding if isinstance(study.source, PoolDirectory) else "latent",
        treatment=treatment,
        expected=study.sizes.expected,
        n_reference=study.sizes.reference,
        nu=tuple(0.0 for _ in study.nu[0]),
        response_order=study.response_order,
        normalisation_sigma=study.normalisation,
    )


def draws(study: Study) -> Iterator[Draw]:
    """Background at every nu, and signals on top.

    Without nuisances in the test, signals are drawn at nu = 0 only: elsewhere the background alone alarms.
    """
    for treatment in study.treatments:
        null = null_draw(study, treatment)
        for nu in study.nu:
            yield _with(null, nu)
        for nu in study.nu if treatment is Treatment.PROFILED else (null.nu,):
            for signal, yields in study.signals.items():
                for injected in yields:
                    yield _with(null, nu, signal, injected)


def _with(null: Draw, nu: tuple[float, ...], signal: str | None = None, injected: float = 0.0) -> Draw:
    return Draw(**{**vars(null), "nu": nu, "signal": signal, "injected": injected})


def network_settings(study: Study, source: Source, clip: float) -> NetworkSettings:
    """The network test at a given W."""
    network = study.tests.network
    if network is None:
        raise ValueError("the study has no network test")
    widths = (source.n_features, *network.hidden, 1)
    return NetworkSettings(widths=widths, clip=clip, starts=network.starts, hops=network.hops)


def convex_settings(study: Study, model: str | None = None) -> ConvexSettings | None:
    """The convex test, with its features if they are chosen already."""
    convex = study.tests.convex
    return None if convex is None else ConvexSettings(**convex.model_dump(), model=model)


def plan(study: Study, source: Source, clips: Clips, model: str | None = None) -> list[Entry]:
    """All ensembles of the study; `model` holds the features of the convex test."""
    convex = convex_settings(study, model)
    entries = []
    for draw in draws(study):
        if study.tests.network is not None:
            clip = clips.get(draw.treatment)
            network = None if clip is None else network_settings(study, source, clip)
            entries.append(Entry("network", draw, _ensemble(study, source, draw, network)))
        if convex is not None:
            entries.append(Entry("convex", draw, _ensemble(study, source, draw, convex)))
    return entries


def _ensemble(
    study: Study, source: Source, draw: Draw, settings: AlternativeSettings | None
) -> Ensemble | None:
    return None if settings is None else Ensemble(draw, settings, source, study.seed, Stream.TOYS)


def requests(study: Study, entries: list[Entry]) -> list[Request]:
    """The toys that can be run now."""
    return [Request(entry.ensemble, study.toys) for entry in entries if entry.ensemble is not None]
