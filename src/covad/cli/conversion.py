"""The command `covad convert`: which mapping, what the user changes in it, and what is printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from covad.cli.console import with_progress
from covad.cli.terminal import say
from covad.events.conversion.convert import prepare
from covad.events.conversion.describe import Description, Fit, describe
from covad.events.conversion.mapping import (
    READY,
    EventMapping,
    parse_mapping,
    read_mapping,
    ready_mapping,
    ready_text,
)
from covad.messages import LOG, counted
from covad.parallel import cores


def choose_mapping(ready: str | None, paths: Sequence[Path]) -> tuple[EventMapping, Sequence[Path]]:
    """Return the mapping, a ready one or that of the first path, and the files to convert."""
    if ready is not None:
        mapping, files = ready_mapping(ready), paths
    else:
        if not paths:
            raise click.UsageError("MAPPING.yaml and FILES are missing")
        if paths[0].suffix in (".root", ".parquet"):
            raise click.UsageError(
                f"the first argument is the mapping, and {paths[0]} is none: name a mapping file, or one of "
                f"--mapping {', '.join(READY)}"
            )
        mapping, files = read_mapping(paths[0]), paths[1:]
    if not files:
        raise click.UsageError("FILES are missing: which ones are to be converted?")
    return mapping, files


def changed_mapping(
    mapping: EventMapping, process: str | None, data: bool, sum_of_weights: str | None
) -> EventMapping:
    """Return the mapping with what the command line says."""
    if data and sum_of_weights is not None:
        raise click.UsageError("--data and --sum-of-weights exclude each other: data have no weights")
    content = (mapping.without_weights() if data else mapping).plain()
    if process is not None:
        content["process"] = process
    if sum_of_weights is not None:
        if mapping.weight is None:
            raise click.UsageError("--sum-of-weights needs a mapping with a weight")
        content["sum_of_weights"] = {"sum": mapping.weight} if sum_of_weights == "events" else sum_of_weights
    return parse_mapping(content, "command line")


def convert_files(mapping: EventMapping, files: Sequence[Path], out: Path, workers: int | None) -> None:
    """Convert files and say what was written."""
    processes = cores() if workers is None else workers
    conversion = prepare(mapping, files, out, processes)
    LOG.info("converting %d events of %s", conversion.n_events, counted(len(conversion.surveys), "file"))
    blocks = with_progress(
        conversion.blocks(processes), conversion.n_events, "converting", lambda block: block.n_read
    )
    tally = conversion.write(out, blocks, threads=processes)
    for remark in tally.remarks():
        LOG.warning("%s", remark)
    names = " and ".join(conversion.recipe.process_names)
    say(f"wrote {tally.n_written} of {tally.n_read} events{f' of {names}' if names else ''} to {out}")


def print_mapping(ready: str | None) -> None:
    """Print a ready mapping as it is written."""
    if ready is None:
        raise click.UsageError(f"--print needs --mapping, one of {', '.join(READY)}")
    say(ready_text(ready), nl=False)


def print_description(path: Path) -> None:
    """Print the trees of a file, their branches with types, and the ready mapping that fits best."""
    found = describe(path)
    for tree in found.trees:
        say(f"{path}: tree '{tree.name}' with {tree.n_events} events and {len(tree.branches)} branches")
        width = max((len(b.name) for b in tree.branches), default=0)
        for branch in tree.branches:
            note = "" if branch.kind in ("number", "list") else "  (not usable)"
            say(f"  {branch.name:{width}}  {branch.type_name}{note}")
    if found.best is None:
        say(f"no ready mapping ({', '.join(READY)}) finds its branches here: write one of your own")
        return
    _print_fit(found, found.best)


def _print_fit(found: Description, fit: Fit) -> None:
    if fit.is_whole:
        say(f"the mapping that fits best is {fit.name}:")
        say(f"  covad convert --mapping {fit.name} {found.path} --out events.h5")
        return
    say(f"the mapping that fits best is {fit.name} without {', '.join(fit.lacks)}; as a mapping file:")
    say("\n" + fit.text(), nl=False)
