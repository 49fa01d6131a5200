"""Write the commands and their options into the page on the command line, as the program itself has them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import click

from covad.cli.commands import Command
from covad.cli.main import commands

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    return markdown.replace(MARK, command_pages()) if MARK in markdown else markdown


def command_pages() -> str:
    """Return a section per command, in the order in which `covad` lists them."""
    with click.Context(commands, info_name="covad") as context:
        return "\n\n".join(part for one in _sections(commands, context) for part in one)


def _sections(group: click.Group, context: click.Context) -> Iterator[list[str]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        with click.Context(command, info_name=name, parent=context) as inner:
            if isinstance(command, click.Group):
                yield from _sections(command, inner)
            else:
                yield _section(command, inner)


def _section(command: Command, context: click.Context) -> list[str]:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    records = [record for p in command.get_params(context) if (record := p.get_help_record(context))]
    rows = [f"| `{option}` | {_cell(meaning)} |" for option, meaning in records if meaning]
    table = "\n".join(["| option | meaning |", "| --- | --- |", *rows])
    return [
        f"## {context.command_path}",
        _fenced([usage]),
        *_paragraphs(command.help),
        "For example:",
        _fenced(command.examples),
        table,
    ]


def _paragraphs(text: str | None) -> Iterator[str]:
    """Yield the paragraphs; click marks those that keep their lines by a backspace."""
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield _fenced([inspect.cleandoc(paragraph.removeprefix("\b").lstrip("\n"))])
        elif paragraph:
            yield paragraph


def _fenced(lines: Iterable[str]) -> str:
    return "\n".join(["```", *lines, "```"])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("[", "\\[")
