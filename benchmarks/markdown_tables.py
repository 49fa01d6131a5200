"""Tables of a report as Markdown, for docs/results.md.

    covad report RUN && python benchmarks/markdown_tables.py RUN closure_verdicts clips

Without names, all of them.
"""

from __future__ import annotations

import csv
from pathlib import Path

import click


def markdown(path: Path) -> str:
    """One table; the paper's numbers follow ours in brackets instead of in columns of their own."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    columns = [i for i, name in enumerate(header) if not name.endswith("(paper)")]
    lines = [[header[i] for i in columns], ["---"] * len(columns)]
    lines += [[_cell(header, row, i) for i in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(header: list[str], row: list[str], i: int) -> str:
    beside = i + 1 < len(header) and header[i + 1] == f"{header[i]} (paper)"
    return f"{row[i]} [{row[i + 1]}]" if beside and row[i + 1] else row[i]


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True))
@click.argument("names", nargs=-1)
def main(run: Path, names: tuple[str, ...]) -> None:
    """Print the tables."""
    folder = run / "report" / "tables"
    for path in [folder / f"{name}.csv" for name in names] or sorted(folder.glob("*.csv")):
        click.echo(f"**{path.stem}**\n\n{markdown(path)}\n")


if __name__ == "__main__":
    main()
