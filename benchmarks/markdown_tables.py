"""Tables of a report as Markdown, with titles and captions, for docs/results/tables.md.

    covad report RUN && python benchmarks/markdown_tables.py RUN [NAME...]

They are read from report.html; without names, all of them. The paper's numbers stand in brackets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import click


@dataclass
class Grid:
    """A table as it is read: header cells with the columns that they span, and rows of text."""

    name: str
    title: str = ""
    caption: str = ""
    header: list[list[tuple[str, int]]] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)

    def columns(self) -> list[str]:
        """With the heading over a group of columns before the label of each."""
        if len(self.header) == 1:
            return [text for text, _ in self.header[0]]
        (key, _), *groups = self.header[0]
        over = [text for text, n in groups for _ in range(n)]
        return [key, *(f"{group}: {label}" for group, (label, _) in zip(over, self.header[1], strict=True))]

    def markdown(self) -> str:
        lines = [self.columns(), ["---"] * len(self.columns()), *self.rows]
        rows = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return f"## {self.title}\n\n{rows}\n\n{self.caption}\n"


class Tables(HTMLParser):
    """The tables of a report, in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Grid] = []
        self._text: list[str] = []
        self._closing: list[str] = []
        self._in_header = False
        self._span = 1

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag == "div" and (given.get("id") or "").startswith("table-"):
            self.found.append(Grid((given["id"] or "").removeprefix("table-")))
        elif tag in ("h3", "td", "th") or (tag == "p" and given.get("class") == "caption"):
            self._text, self._span = [], int(given.get("colspan") or 1)
        elif tag == "thead":
            self._in_header = True
        elif tag == "tr" and self.found:
            self._open_row(self.found[-1])
        elif tag == "span":
            self._open_span(given.get("class"))

    def _open_row(self, grid: Grid) -> None:
        if self._in_header:
            grid.header.append([])
        else:
            grid.rows.append([])

    def _open_span(self, kind: str | None) -> None:
        """The paper's numbers get brackets, the parts of an error or of a key are set apart."""
        self._text.append(" [" if kind == "from-paper" else " " if self._text else "")
        self._closing.append("]" if kind == "from-paper" else "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "span":
            self._text.append(self._closing.pop())
        elif tag == "thead":
            self._in_header = False
        elif self.found and tag in ("h3", "p", "td", "th"):
            self._take(tag, " ".join("".join(self._text).split()).replace("[paper ", "["))

    def _take(self, tag: str, text: str) -> None:
        grid = self.found[-1]
        if tag == "h3":
            grid.title = grid.title or text
        elif tag == "p":
            grid.caption = grid.caption or text
        elif self._in_header:
            grid.header[-1].append((text, self._span))
        else:
            grid.rows[-1].append(text)

    def handle_data(self, data: str) -> None:
        self._text.append(data)


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True))
@click.argument("names", nargs=-1)
def main(run: Path, names: tuple[str, ...]) -> None:
    """Print the tables."""
    page = Tables()
    page.feed((run / "report.html").read_text(encoding="utf-8"))
    for table in page.found:
        if not names or table.name in names:
            click.echo(table.markdown())


if __name__ == "__main__":
    main()
