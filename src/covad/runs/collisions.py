"""The collisions of a study: files that are there or are simulated first, and which rows serve for what."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from covad.errors import StudyError, TooFewEventsError
from covad.events.files import Columns, FileSet, label_file
from covad.events.layout import Events
from covad.events.processes import BACKGROUND
from covad.events.selection import Selection
from covad.events.splits import disjoint_splits, split_folds
from covad.events.systematics import Alternative, Nuisance, make_nuisances
from covad.events.systematics.samples import sides
from covad.events.users_code import code_digests
from covad.runs.counting import count_yields
from covad.runs.directory import RunDirectory
from covad.runs.products import Products
from covad.runs.separate import SeparateYields, read_separate
from covad.runs.yields import YieldTable, read_yields
from covad.storage.digests import content_digest
from covad.storage.ledger import Product
from covad.study import Collisions, SampleEntry, Study
from covad.study.systematics import SamplesEntry

#: Simulated events per file: what a kill can cost.
EVENTS_PER_FILE = 500_000
#: Roles whose events are needed away from nu = 0, where separate samples take the place of a process.
ALTERNATIVE_ROLES = ("response", "check", "data")
#: Tables of yields by what they were counted from: files are read once as long as nothing touches them.
_counted: dict[str, YieldTable] = {}
#: The way out for those whose events are refused as copies.
COARSE = (
    "if the features are so coarse that different events can be alike, set source.duplicates to 'allowed'"
)


def derived_seed(study: Study, *purpose: str) -> int:
    """Return a seed of its own for every purpose, from the study's."""
    digest = hashlib.sha256("/".join([str(study.seed), *purpose]).encode()).digest()
    return int.from_bytes(digest[:4], "little")


@dataclass(frozen=True)
class CollisionData:
    """The events of a study as the stages see them."""

    study: Study
    source: Collisions
    directory: RunDirectory

    @classmethod
    def of(cls, study: Study, directory: RunDirectory) -> CollisionData:
        if not isinstance(study.source, Collisions):
            raise TypeError("this study does not start from collisions")
        return cls(study, study.source, directory)

    @classmethod
    def of_run(cls, study: Study, directory: RunDirectory) -> CollisionData:
        """Return the events with systematics that are loaded, and whose code is still that of the run."""
        data = cls.of(study, directory)
        _ = data.systematics
        check_code(data)
        return data

    def note(self, product: Product, files: Iterable[Path] | None = None) -> None:
        """Note a product that was made with the systematics, if their code has not changed meanwhile."""
        check_code(self)
        product.note(files)

    @cached_property
    def systematics(self) -> tuple[Nuisance, ...]:
        """The nuisances in the order of nu: entries of one name are one."""
        return make_nuisances([entry.description for entry in self.source.systematics], self.source.folder)

    @property
    def acting(self) -> tuple[Nuisance, ...]:
        """The nuisances as they act on any events: separate samples take the place of background alone."""
        return tuple(nuisance.without_samples for nuisance in self.systematics)

    @cached_property
    def columns(self) -> Columns:
        """Return what the systematics need of event files beside the events."""
        found: dict[str, dict[str, frozenset[str] | None]] = {"weights": {}, "varied": {}}
        for group, name, only in (column for nuisance in self.systematics for column in nuisance.columns):
            before = found[group].get(name, frozenset())
            found[group][name] = None if before is None or not only else before | frozenset(only)
        return Columns(**found)

    @property
    def products(self) -> Products:
        return Products(self.study, self.directory)

    @property
    def selection(self) -> Selection:
        return self.source.cuts

    @property
    def samples(self) -> dict[str, SampleEntry]:
        """Return the background, the signals that the study injects, and separate samples of systematics."""
        signals = {s: self.source.signals[s] for s in self.study.signals}
        return {BACKGROUND: self.source.background} | signals | self.source.separate_samples

    def paths(self, name: str) -> tuple[Path, ...]:
        sample = self.samples[name]
        if sample.simulate is None:
            return sample.files
        files = range(-(-sample.simulate // EVENTS_PER_FILE))
        return tuple(self.directory.events / f"{name}_{number}.h5" for number in files)

    def open(self, name: str, verify: bool = True) -> FileSet:
        """Open a sample; `verify` compares every row that is read with its fingerprint.

        The events of the background have the weights that the study expects of their processes, and all
        events the columns that the systematics need.
        """
        if name != BACKGROUND or not self.source.background.processes:
            return self._open(name, verify, columns=self.columns)
        table = self.yields or read_yields(self.products.yields())
        return self._open(name, verify, table.scales, table.labels, self.columns)

    def open_files(self, name: str, verify: bool = True, columns: Columns | None = None) -> FileSet:
        """Open a sample whose events have the weights and the labels that stand in its files."""
        processes = self.source.background.processes if name == BACKGROUND else {}
        return self._open(name, verify, dict.fromkeys(processes, 1.0) or None, columns=columns)

    def _open(
        self,
        name: str,
        verify: bool,
        scales: Mapping[str, float] | None = None,
        labels: Mapping[str, str] | None = None,
        columns: Columns | None = None,
    ) -> FileSet:
        """Open the files of a sample.

        Given files that no run has noted yet are met for the first time, and read by another process first.
        """
        foreign = bool(self.samples[name].files) and not self._noted
        known = self.fingerprints(name)["row"] if verify else None
        return FileSet(
            self.paths(name), known, foreign=foreign, scales=scales, labels=labels, columns=columns
        )

    @cached_property
    def yields(self) -> YieldTable | None:
        """Return what is expected of every process: from yields.json, else counted in a pass over the files.

        None if neither the study nor the files say more than that every event counts once, and before events
        that are to be simulated have been counted.
        """
        products = self.products
        if self._noted and not products.has_yields:
            return None
        if products.yields().whole():
            table = read_yields(products.yields())
        elif self.source.background.simulate is not None:
            return None
        else:
            with self.open_files(BACKGROUND, verify=False) as files:
                if not files.weighted:
                    return None
            table = self.count_yields()
        return table if table.given else table.of(self.study.sizes.expected)

    def count_yields(self) -> YieldTable:
        """Return the table as yields.json has it, counted again if the files have changed since."""
        paths = self.paths(BACKGROUND)
        states = [path.stat() for path in (*paths, *filter(None, map(label_file, paths)))]
        key = content_digest(
            {
                "paths": [str(path.absolute()) for path in paths],
                "states": [[state.st_ino, state.st_size, state.st_ctime_ns] for state in states],
                "cuts": self.selection.model_dump(mode="json"),
                "background": self.source.background.model_dump(mode="json"),
                "luminosity": self.source.luminosity,
            }
        )
        if key not in _counted:
            with self.open_files(BACKGROUND, verify=False) as files:
                _counted[key] = count_yields(self.source, files, self.selection)
        return _counted[key]

    @cached_property
    def _noted(self) -> bool:
        return (self.directory.path / "events.json").exists()

    def fingerprints(self, name: str) -> NDArray[np.void]:
        """Return the fingerprints of all rows of a sample, in the order of its files."""
        found: NDArray[np.void] = np.load(self.products.fingerprints(name).verified(), mmap_mode="r")
        return found

    @cached_property
    def rows(self) -> dict[str, NDArray[np.int64]]:
        """Split the background into rows per role; those of the encoder are divided into folds later."""
        sizes = self.source.splits.model_dump()
        with self.open_files(BACKGROUND, verify=False) as files:
            return disjoint_splits(len(files), sizes, derived_seed(self.study, "pools"))

    def alternatives(self, role: str, part: int = 0, parts: int = 1) -> list[Alternative]:
        """Return the separate samples that belong to the events of a role, or to one of equal parts of them.

        They have the weights that they have in the place of the process among those events.
        """
        found = []
        for entry in self.source.systematics:
            if not isinstance(entry, SamplesEntry):
                continue
            factors = sides(entry.one_sided).values()
            for name, by_nu in zip(entry.samples, factors, strict=True):
                pieces = partial(self._alternative_pieces, name, entry.process, role, part, parts)
                found.append(Alternative(self.source.nuisances.index(entry.name), by_nu, pieces, name))
        return found

    def _alternative_pieces(
        self, name: str, process: str, role: str, part: int, parts: int
    ) -> Iterator[Events]:
        with self.open_files(name, verify=False) as files:
            rows = self.alternative_rows(len(files))[role]
        # files may be sorted
        shuffled = np.random.default_rng(derived_seed(self.study, "parts", name)).permutation(rows)
        mine = np.sort(np.array_split(shuffled, parts)[part])
        if not len(mine):
            raise TooFewEventsError(
                f"source.systematics: the sample '{name}' has {len(rows)} events for the role {role}, which "
                f"is too few for {parts} parts: give it more events"
            )
        with self.open_files(BACKGROUND, verify=False) as background:
            share = len(self.rows[role]) / parts / len(background)
        scale = self.separate.scale(name) * share * self.separate.events(name) / len(mine)
        with self._open(name, True, {process: scale}, columns=self.columns) as files:
            yield from files.pieces(mine)

    def alternative_rows(self, n_events: int) -> dict[str, NDArray[np.int64]]:
        """Split a separate sample into rows per role, in proportion to the background's.

        Only these roles have events away from nu = 0 that samples take the place of.
        """
        sizes = {role: getattr(self.source.splits, role) for role in ALTERNATIVE_ROLES}
        total = sum(sizes.values())
        shares = {role: n_events * size // total for role, size in sizes.items()}
        return disjoint_splits(n_events, shares, derived_seed(self.study, "alternatives"))

    @cached_property
    def separate(self) -> SeparateYields:
        """Return what the events of the separate samples count, as the stage `events` has found."""
        return read_separate(self.products.separate())

    def encoder_folds(self) -> list[NDArray[np.int64]]:
        return split_folds(self.rows["encoder"], self.source.folds, derived_seed(self.study, "folds"))


def users_code(data: CollisionData) -> str | None:
    """Digest the code of the user's functions, None without any: an edit makes another study."""
    found: dict[str, str] = {}
    for entry in (*data.source.systematics, *data.source.observables.values()):
        function = getattr(entry, "function", None)
        if function is not None:
            found |= code_digests(function, data.source.folder)
    return content_digest(found)[:20] if found else None


def check_code(data: CollisionData) -> None:
    """Refuse functions of the user whose code is not what it was when the models were made."""
    made_with = (data.directory.origin() or {}).get("source_digest")
    if users_code(data) != made_with:
        raise StudyError(
            f"{data.directory.path}: the code of the systematics or observables has changed since the run "
            "was made; bring it back, or run the study in another directory"
        )


def sample_of_file(directory: RunDirectory, sha256: str) -> str | None:
    """Return the sample of the run that a file of this digest belongs to, None if it belongs to none."""
    for sample, notes in (directory.read("events.json") or {}).items():
        if any(note["sha256"] == sha256 for note in notes):
            return str(sample)
    return None
