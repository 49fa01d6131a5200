"""Try faults: PYTHONPATH=tests python -m faults. Ends with 1 if one of them is not OK."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from faults.faults import run_faults
from faults.flips import run_flips
from faults.kills import KILLS, run_kills
from faults.lanes import LANES, Lane
from faults.outcome import preload
from faults.world import make_world


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory of the world.")
@click.option("--share", default=1.0, show_default=True, help="Share of the flips.")
@click.option("--only", type=click.Choice(["flips", "named", "kills"]), help="One part.")
@click.option("--kills", default=KILLS, show_default=True)
@click.option("--match", default="", help="Named faults that match, or kinds of files.")
def main(out: Path, share: float, only: str | None, match: str, kills: int) -> None:
    """Damage, mistakes and kills, on a tiny study."""
    bad = 0
    if only in (None, "kills"):
        bad += len(run_kills(out / "killed", kills).wrong)
    if only != "kills":
        world = make_world(out / "world")
        lanes = [Lane.make(world, out / f"lane_{number}") for number in range(LANES)]
        preload()
    if only in (None, "named"):
        bad += sum(not result.ok for result in run_faults(lanes, match))
    if only in (None, "flips"):
        bad += len(run_flips(lanes, share, match).bad)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
