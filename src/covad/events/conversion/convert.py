"""From files to an event file: survey, steps over worker processes in the order of the files, one writer."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from covad.errors import TooFewEventsError
from covad.events.conversion.blocks import Block, convert_rows, opened, sums_by_process
from covad.events.conversion.mapping import EventMapping, SumEntry
from covad.events.conversion.recipe import Recipe
from covad.events.conversion.survey import (
    Survey,
    refuse_different,
    refuse_foreign_output,
    refuse_repeated,
    survey,
)
from covad.events.hdf5_writer import EventWriter
from covad.parallel import in_order

log = logging.getLogger(__name__)

#: So many files are surveyed faster than worker processes start.
_FEW_FILES = 16


@dataclass
class Tally:
    """What a conversion has done."""

    n_read: int = 0
    n_written: int = 0
    objects: dict[str, tuple[int, int]] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    #: Events that `select` dropped only because a comparison in it is one with NaN.
    n_undefined: int = 0

    def add(self, block: Block) -> None:
        self.n_read += block.n_read
        self.n_written += len(block.events)
        self.n_undefined += block.n_undefined
        for name, (kept, beyond) in block.objects.items():
            before = self.objects.get(name, (0, 0))
            self.objects[name] = before[0] + kept, before[1] + beyond
        events = block.events
        if events.weights is not None:
            for name, total in sums_by_process(events.process_names, events.process, events.weights).items():
                self.weights[name] = self.weights.get(name, 0.0) + total

    def remarks(self) -> Iterator[str]:
        """Yield what a user should know of the events that were written, or not."""
        if self.n_undefined:
            yield (
                f"{self.n_undefined} of {self.n_read} events fail `select` because no comparison with NaN is "
                "true: NaN in the file, 0 / 0 and the like, or the min or max of an empty list"
            )
        for name, (kept, beyond) in self.objects.items():
            if not kept:
                yield f"there is no {name} in any event"
            elif beyond:
                yield f"{100 * beyond / kept:.2g} % of the objects of {name} found no slot and were left out"
        for name, total in self.weights.items():
            if total <= 0:
                yield f"the sum of weights{f' of {name}' if name else ''} is {total:g}: no study takes that"


@dataclass(frozen=True)
class Conversion:
    """Files that fit a mapping, ready to be converted."""

    surveys: tuple[Survey, ...]

    @property
    def recipe(self) -> Recipe:
        return next(one.recipe for one in self.surveys if one.n_events)

    @property
    def n_events(self) -> int:
        return sum(survey.n_events for survey in self.surveys)

    def blocks(self, workers: int) -> Generator[Block]:
        """Yield all events in the order of the files, converted by so many processes."""
        jobs = [(s.path, s.state, self.recipe, *step) for s in self.surveys for step in s.steps]
        try:
            yield from in_order(convert_rows, jobs, min(workers, len(jobs)))
        finally:
            opened.cache_clear()

    def known_sums(self) -> dict[str, float]:
        """Return the sum of generator weights by process, as far as it is known in advance."""
        given = self.recipe.mapping.sum_of_weights
        names = self.recipe.process_names
        if given is None or len(names) != 1:
            return {}
        if not isinstance(given, SumEntry):
            return {names[0]: given}
        sums = [s.sum_of_weights for s in self.surveys]
        return {names[0]: sum(one for one in sums if one is not None)} if sums[0] is not None else {}

    def write(self, out: Path, blocks: Iterable[Block], threads: int = 1) -> Tally:
        """Write converted events to a new file, which is there only if all goes well."""
        mapping, tally = self.recipe.mapping, Tally()
        writer = EventWriter(
            out,
            self.recipe.layout,
            self.recipe.process_names,
            self.provenance(),
            weighted=mapping.weight is not None,
            variations=tuple(mapping.variations),
            varied=tuple(mapping.varied),
            sum_of_weights=self.known_sums(),
            threads=threads,
        )
        with writer:
            for block in blocks:
                writer.append(block.events, block.varied)
                for name, part in block.sum_of_weights.items():
                    writer.sum_of_weights[name] = writer.sum_of_weights.get(name, 0.0) + part
                tally.add(block)
            if not tally.n_written:
                raise TooFewEventsError(
                    f"{out}: none of {tally.n_read} events passes `select`: nothing is written"
                )
        return tally

    def provenance(self) -> dict[str, Any]:
        """Return where the events come from, as plain data."""
        return {
            "converted_from": ", ".join(s.path.name for s in self.surveys),
            "events_read": self.n_events,
            "mapping": self.recipe.mapping.plain(),
        }


def prepare(mapping: EventMapping, paths: Sequence[Path], out: Path, workers: int = 1) -> Conversion:
    """Survey all files; raise if one does not fit the mapping or the others, before anything is written."""
    refuse_repeated(paths, out)
    refuse_foreign_output(out)
    processes = workers if len(paths) > _FEW_FILES else 1
    found = list(in_order(survey, [(path, mapping) for path in paths], processes))
    filled = [one for one in found if one.n_events]
    if not filled:
        names = ", ".join(path.name for path in paths)
        raise TooFewEventsError(
            f"{names}: {'has' if len(paths) == 1 else 'have'} 0 events, nothing to convert"
        )
    for one in found:
        if not one.n_events:
            log.warning("%s: has 0 events, and is skipped", one.path)
    for one in found:
        refuse_different(filled[0], one)
    wanted = mapping.sum_of_weights
    if isinstance(wanted, SumEntry) and wanted.tree is not None and filled[0].sum_of_weights is None:
        log.warning(
            "%s: has no tree '%s', so that the sum of generator weights stays unknown: give it in the study, "
            "or with --sum-of-weights; `--sum-of-weights events` takes the events of these files",
            filled[0].path,
            wanted.tree,
        )
    elif wanted is not None and not filled[0].recipe.process_names:
        log.warning(
            "the sum of generator weights is not kept, because no process is named: say --process NAME"
        )
    _warn_of_shifted_selection(filled[0].recipe)
    # skipped files count here: their generator weights belong to the sample
    return Conversion(tuple(one for one in found if one.n_events or one.sum_of_weights))


def _warn_of_shifted_selection(recipe: Recipe) -> None:
    mapping = recipe.mapping
    if mapping.select is None:
        return
    used = mapping.closure(mapping.select)
    for name, replaced in mapping.varied.items():
        if shifted := used & set(replaced):
            log.warning(
                "`select` uses %s, which '%s' replaces: events that pass only when it is replaced are not "
                "written; select more loosely here, and cut in the study",
                min(shifted),
                name,
            )
