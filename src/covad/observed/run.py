"""A run that is far enough to test observed events in one of its configurations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from covad.embedding.spaces import SpaceMap
from covad.errors import StudyError, UnfinishedRunError
from covad.inference.verdict import FEWEST_TOYS
from covad.observed.result import digest_of_nulls
from covad.response.model import ResponseModel
from covad.results.collect import Group, RunToys
from covad.runs.collisions import CollisionData
from covad.runs.directory import RunDirectory
from covad.runs.models import load_models
from covad.runs.scale import Standardisation, load_scale
from covad.runs.tuned import read_bases, read_clips
from covad.study import Collisions, Configuration, Sizes, Study
from covad.study.plan import (
    bases_to_choose,
    clips_to_tune,
    main_configuration,
    nuisance_names,
    plan,
    requests,
    sizes_of,
    space,
)
from covad.toys.drawing import PoolSource
from covad.toys.ensembles import Treatment
from covad.toys.pool_files import open_pools
from covad.toys.pools import Pool


@dataclass(frozen=True)
class FinishedRun:
    """One configuration of a run: the models that embed events, the reference, and the nulls of its tests."""

    data: CollisionData
    configuration: Configuration
    space: SpaceMap
    response: ResponseModel
    scale: Standardisation  # of z, as the toys had it
    reference: Pool  # that references are picked from
    groups: tuple[Group, ...]  # each test of the study with its nulls
    nulls: str  # digest of the ensembles of the nulls
    toys: int  # of all nulls together

    @property
    def study(self) -> Study:
        return self.data.study

    @property
    def sizes(self) -> Sizes:
        return sizes_of(self.study, self.configuration)

    @property
    def nuisances(self) -> tuple[str, ...]:
        """Return the names of those that the test fits, in the order of its fits."""
        if self.configuration.treatment is Treatment.NONE:
            return ()
        return nuisance_names(self.study)

    @property
    def pruned(self) -> tuple[str, ...]:
        """Return the names of those that the test does not know, although they are among its nuisances."""
        return self.data.products.pruned(space(self.configuration)) or ()

    @classmethod
    def open(cls, path: Path, name: str | None = None) -> FinishedRun:
        """Open one configuration, by default the main one.

        Raise UnfinishedRunError, which names the stage, if the run is not far enough.
        """
        directory = RunDirectory(path)
        study = directory.study()
        if not isinstance(study.source, Collisions):
            raise StudyError(
                f"{path}: observed events need a run whose study has a source of kind 'events'; for "
                "samples that are arrays there is covad.compare"
            )
        data = CollisionData.of_run(study, directory)
        configuration = main_configuration(study) if name is None else study.configuration(name)
        where, products = space(configuration), data.products
        mapped, response = load_models(data, where)
        pools = products.pools(where)
        source = PoolSource.open(pools.verified(), verify=False)
        clips, bases = read_clips(products, {where: source}), read_bases(products, {where: source})
        untuned = [*clips_to_tune(study, clips), *(c for _, c in bases_to_choose(study, bases))]
        if configuration in untuned:
            raise UnfinishedRunError(f"{path}: the stage 'tune' has not run yet; `covad run` goes on")
        nulls = [
            entry
            for entry in plan(study, {where: source}, clips, bases)
            if entry.configuration == configuration and not (entry.draw.signal or entry.draw.prior)
        ]
        toys = directory.toys.load_all(requests(nulls))
        for found in toys.values():
            if found.missing or len(found.done) < FEWEST_TOYS:
                raise UnfinishedRunError(
                    f"{path}: the stage 'toys' is not finished, a null of '{configuration.label}' has "
                    f"{len(found.done)} of {found.requested} toys{_told(found.damaged)}; `covad run` goes on"
                )
        return cls(
            data=data,
            configuration=configuration,
            space=mapped,
            response=response,
            scale=load_scale(pools),
            reference=open_pools(source.directory, source.digest).reference,
            groups=tuple(RunToys(directory, study, nulls, toys).groups()),
            nulls=digest_of_nulls(toys),
            toys=sum(len(found.done) for found in toys.values()),
        )


def _told(damaged: tuple[str, ...]) -> str:
    """Name the first block that cannot be read, if there is one."""
    return f"; {damaged[0]}: run again, it is computed anew" if damaged else ""
