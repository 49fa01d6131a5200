"""A run that is far enough to test observed events in one of its configurations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from covad.embedding.encoder import Encoder
from covad.errors import StudyError, UnfinishedRunError
from covad.response.model import ResponseModel
from covad.results.collect import FEWEST_TOYS, Group, RunToys
from covad.runs.collisions import CollisionData
from covad.runs.directory import SCALE, RunDirectory, space_name
from covad.runs.models import Standardisation, load_models
from covad.study import Collisions, Configuration, Sizes, Study
from covad.study.plan import Entry, main_configuration, plan, requests, space
from covad.study.sources import NORMALISATION
from covad.toys.drawing import PoolSource
from covad.toys.ensembles import Treatment
from covad.toys.pools import MANIFEST, Pool, open_pools
from covad.toys.store import EnsembleToys


@dataclass(frozen=True)
class FinishedRun:
    """The models, pools and toys of one configuration of a run."""

    data: CollisionData
    configuration: Configuration

    @classmethod
    def open(cls, path: Path, configuration: str | None = None) -> FinishedRun:
        """Refuse a run that is not far enough, naming the stage that is missing."""
        directory = RunDirectory(path)
        study = directory.study()
        if not isinstance(study.source, Collisions):
            raise StudyError(f"{path}: observed events need a run whose study has a source of kind 'events'")
        named = main_configuration(study) if configuration is None else study.configuration(configuration)
        run = cls(CollisionData.of(study, directory), named)
        run._require_models()
        return run

    @property
    def study(self) -> Study:
        return self.data.study

    @property
    def directory(self) -> RunDirectory:
        return self.data.directory

    @property
    def sizes(self) -> Sizes:
        return self.configuration.sizes or self.study.sizes

    @property
    def nuisances(self) -> tuple[str, ...]:
        """Of the test, in the order of its fits; none where it knows of none."""
        if self.configuration.treatment is Treatment.NONE:
            return ()
        shape = tuple(entry.name for entry in self.data.source.systematics)
        return shape if self.study.normalisation is None else (*shape, NORMALISATION)

    @cached_property
    def models(self) -> tuple[Encoder, ResponseModel]:
        return load_models(self.data, space(self.configuration))

    @cached_property
    def scale(self) -> Standardisation:
        """The standardisation of z that the toys had."""
        return Standardisation.restore(self.directory.read(f"pools/{self._space_name}/{SCALE}"))

    @property
    def reference(self) -> Pool:
        """The pool that references are picked from."""
        return open_pools(self._source.directory, self._source.fingerprint).reference

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Each test of the study with its nulls in this configuration."""
        entries = self._null_entries()
        toys = self.directory.toys.load_all(requests(entries))
        for found in toys.values():
            self._require_toys(found)
        return tuple(RunToys(self.directory, self.study, entries, toys).groups())

    def _null_entries(self) -> list[Entry]:
        sources = {space(self.configuration): self._source}
        clips, bases = self.directory.clips(), self.directory.bases()
        return [
            entry
            for entry in plan(self.study, sources, clips, bases)
            if entry.configuration == self.configuration and entry.draw.signal is None
        ]

    @cached_property
    def _source(self) -> PoolSource:
        return PoolSource.open(self.directory.pools(space(self.configuration)), verify=False)

    @property
    def _space_name(self) -> str:
        return space_name(space(self.configuration))

    def _require_models(self) -> None:
        """Everything but the toys, which `groups` looks at."""
        tests, slug, fold = self.study.tests, self.configuration.slug, self.data.source.fold
        embedding, order = space(self.configuration)
        done = {
            "encoder": self.directory.encoder(embedding, fold).exists(),
            "response": self.directory.response(embedding, fold, order).exists(),
            "pools": (self.directory.pools(space(self.configuration)) / MANIFEST).exists(),
            "tune": (tests.network is None or slug in self.directory.clips())
            and (tests.convex is None or slug in self.directory.bases()),
        }
        for stage, is_done in done.items():
            if not is_done:
                raise UnfinishedRunError(f"{self.directory.path}: the stage '{stage}' has not run yet")

    def _require_toys(self, found: EnsembleToys) -> None:
        if found.missing or len(found.done) < FEWEST_TOYS:
            raise UnfinishedRunError(
                f"{self.directory.path}: the stage 'toys' is not finished, a null of "
                f"'{self.configuration.label}' has {len(found.done)} of {found.requested} toys"
            )
