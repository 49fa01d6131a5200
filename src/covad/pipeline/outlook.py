"""What a run would keep, make anew and compute: told before it starts, and all that `--dry-run` does."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from covad.errors import CovadError, FileFormatError
from covad.events.processes import BACKGROUND
from covad.pipeline.claim import changed_keys
from covad.runs.directory import RunDirectory
from covad.runs.products import LEARNING_STAGES, Products
from covad.runs.sources import open_sources
from covad.runs.tuned import read_clips
from covad.storage.json_files import as_read
from covad.storage.ledger import Product, versions_by_stage
from covad.storage.versions import Versions, told_differences
from covad.study import Collisions, Study
from covad.study.changes import changes
from covad.study.plan import Sources, plan
from covad.toys.drawing import PoolSource
from covad.toys.ensembles import Request
from covad.toys.pool_files import MANIFEST

log = logging.getLogger(__name__)

#: What parts of recipes stand for: keys of the study file, or products.
_MEANING = {
    "adaptive.expected": "sizes.expected",
    "adaptive.reference": "sizes.reference",
    "convex.expected": "sizes.expected",
    "convex.reference": "sizes.reference",
    "draw.expected": "sizes.expected",
    "draw.n_reference": "sizes.reference",
    "draw.normalisation_sigma": "normalisation",
    "draw.correlation": "source.correlations",
    "correlation": "source.correlations",
    "background": "source.background.processes",
    "luminosity": "source.luminosity",
    "encoder": "the space",
    "response": "the response",
    "events": "the events",
    "smoothed_for": "the tests that weights are smoothed for",
    "convex.network": "tests.network",
    "recipes": "this version of covad makes them in another way",
}
#: Settings that are mappings, by the first part of their keys in recipes.
_SECTIONS = {
    "background": "source.background",
    "adaptive": "tests.adaptive",
    "convex": "tests.convex",
    "network": "tests.network",
    "response": "source.response",
}
#: The beginning of settings of one of the tests that weights are smoothed for.
_NUMBERED = re.compile(r"^smoothed_for\.\d+\.")


def outlook(study: Study, directory: RunDirectory, source: str | None) -> list[str]:
    """Return a line on the study, if it has changed, and one per stage; nothing is written.

    Raise StudyError if the run cannot go on with the study.
    """
    found = changed_keys(directory, study, source)
    lines = [f"the study has changed: {'; '.join(map(str, found))}"] if found else []
    try:
        return lines + list(_stages(Products(study, directory)))
    except FileFormatError as failure:  # of a note, without which nobody knows what its product is
        return [*lines, f"{failure}; what it tells of is made anew, and what depends on that"]


def _stages(products: Products) -> Iterator[str]:
    """Say of every stage what it keeps and what it makes."""
    if isinstance(products.study.source, Collisions):
        yield f"events: {_samples(products)}"
    sources = _likely_sources(products)
    for stage, parts in _shared(products, sources).items():
        yield f"{stage}: {_told(parts)}"
    there, asked = _toys(products, sources)
    unknown = products.study.worst_direction and len(products.worst) < len(products.study.spaces)
    further = ", and those along the worst direction, which the checks will find" if unknown else ""
    yield f"toys: {there} are there, {asked - there} are computed{further}"


def _samples(products: Products) -> str:
    """Say of which samples the events are known and of which not, and whether they are counted."""
    known = products.directory.read("events.json") or {}
    wanted = (BACKGROUND, *products.study.signals)
    new = [sample for sample in wanted if sample not in known]
    told = [f"{len(wanted) - len(new)} samples kept"] if len(new) < len(wanted) else []
    told += [f"new: {', '.join(new)}"] if new else []
    if products.has_yields and _fate(products.yields())[0] != "kept":
        told.append("the yields of their processes are counted")
    if _fate(products.selected())[0] != "kept":
        told.append("those that pass the cuts are counted")
    return ", ".join(told)


def _shared(products: Products, sources: Sources) -> dict[str, list[Product]]:
    """Return what the stages from the spaces to tune make."""
    learning = LEARNING_STAGES[1:] if isinstance(products.study.source, Collisions) else ()
    return {stage: products.of_stage(stage, sources) for stage in (*learning, "tune")}


def warn_of_versions(products: Products) -> None:
    """Say that something is made from products, or beside some, that other versions made."""
    with suppress(FileFormatError):  # a damaged note: its product is made anew
        stages = _shared(products, open_sources(products.study, products.directory, verify=False))
        if all(part.made for parts in stages.values() for part in parts):
            return
    there = versions_by_stage(products.directory.path)
    if told := told_differences((v for made in there.values() for v in made), Versions.here()):
        log.warning(
            "models, pools or tests here were made with %s: results equal to the last bit are not promised",
            told,
        )


def _told(parts: Iterable[Product]) -> str:
    """Say what of a stage is kept, comes back, is made anew and why, or is made for the first time."""
    groups: dict[str, list[str]] = {"kept": [], "brought back": [], "made anew": [], "made": []}
    reasons: set[str] = set()
    for part in parts:
        fate, why = _fate(part)
        groups[fate].append(part.name)
        reasons |= why
    told = []
    for fate, names in groups.items():
        if names:
            because = f" ({', '.join(sorted(reasons))})" if fate == "made anew" and reasons else ""
            told.append(f"{len(names)} {fate}{because}")
    return ", ".join(told) or "nothing to do"


def _fate(part: Product) -> tuple[str, set[str]]:
    """Return what happens to a product, and which keys are the reason if it is made anew.

    All files of a product are read, as a run does: a damaged one is not kept.
    """
    note = None
    with suppress(FileFormatError):  # damaged: it is made anew
        if part.whole():
            return "kept", set()
        if part.made:
            return "made anew", {"damaged"}
        if part.noted_aside() is not None:
            return "brought back", set()
        note = part.noted()
    if note is None:
        return ("made anew", {"damaged"}) if part.path.exists() else ("made", set())
    if part.recipe is None:
        return "made anew", {"what it is made from"}
    return "made anew", set(_differing(note.recipe, dict(part.recipe))) or {"files are missing"}


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of the study file by which two recipes differ."""
    for change in changes(before, as_read(after)):
        key = _NUMBERED.sub("convex.", change.key)
        section, _, rest = key.partition(".")
        named = f"{_SECTIONS.get(section, section)}.{rest}" if rest else section
        yield _MEANING.get(key, named)


def _likely_sources(products: Products) -> Sources:
    """Return what toys will be drawn from, as far as it is known now.

    Pools that are made anew for other nu or signals will have the same events at those that stay.
    """
    study, directory = products.study, products.directory
    sources = dict(open_sources(study, directory, verify=False))
    for where in study.spaces if isinstance(study.source, Collisions) else ():
        pools = products.pools(where)
        with suppress(FileFormatError):
            note = None if where in sources else pools.noted()
            if note is None or pools.recipe is None or not (pools.path / MANIFEST).exists():
                continue
            differing = {key.partition(".")[0] for key in _differing(note.recipe, dict(pools.recipe))}
            if differing <= {"nu", "signals"}:
                sources[where] = PoolSource.open(pools.path, verify=False)
    return sources


def _toys(products: Products, sources: Sources) -> tuple[int, int]:
    """Return how many toys of the plan are stored, and how many it has."""
    study = products.study
    entries = plan(study, sources, read_clips(products, sources), worst=products.worst)
    known = []
    for entry in entries:
        if entry.ensemble is not None:
            with suppress(CovadError):  # its pool is not there yet
                _ = entry.ensemble.identity
                known.append(Request(entry.ensemble, entry.toys))
    counts = products.directory.toys.counts(known)
    return sum(count.done + count.failed for count in counts), sum(entry.toys for entry in entries)
