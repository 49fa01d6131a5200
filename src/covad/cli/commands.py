"""The form of the commands: their order, the examples in their help, and how much they say."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from covad.messages import show_messages

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: What a study needs, in the order of use; all other commands come after these.
ORDER_OF_USE = ("init", "run", "status", "report", "test")
#: The exit code of a command that worked, without what was asked for.
NO_RESULT = 1


class Command(click.Command):
    """A command whose help ends with examples, which can be typed as they are."""

    def __init__(self, *arguments: Any, examples: tuple[str, ...], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.examples = examples

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Example" if len(self.examples) == 1 else "Examples"):
            for example in self.examples:  # never wrapped: a broken line cannot be copied
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")


class Group(Command, click.Group):
    """Commands of one kind."""

    command_class = Command


command = partial(click.command, cls=Command)


class CommandLine(Group):
    """All commands: those of `ORDER_OF_USE` first, the others under a heading of their own."""

    group_class = Group

    def list_commands(self, _: click.Context) -> list[str]:
        return [*ORDER_OF_USE, *sorted(set(self.commands) - set(ORDER_OF_USE))]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        longest = max(len(name) for name in names)
        for heading, first, last in (
            ("Commands, in the order of use", 0, len(ORDER_OF_USE)),
            ("Other commands", len(ORDER_OF_USE), len(names)),
        ):
            with formatter.section(heading):
                room = formatter.width - 6 - longest
                formatter.write_dl(
                    [
                        (name.ljust(longest), self.commands[name].get_short_help_str(room))
                        for name in names[first:last]
                    ]
                )


def loudness(command: _Function) -> _Function:
    """Give a command `--quiet` and `--verbose`: how much it says on stderr. Its results stay on stdout."""

    def option(letter: str, name: str, level: int, help_text: str) -> Callable[[_Function], _Function]:
        def choose(context: click.Context, _: click.Parameter, given: bool) -> None:
            if not given:
                return
            if "loudness" in context.meta:
                raise click.UsageError("--quiet and --verbose exclude each other: leave one of them out")
            context.meta["loudness"] = name
            show_messages(level)

        return click.option(letter, name, is_flag=True, expose_value=False, callback=choose, help=help_text)

    quiet = option("-q", "--quiet", logging.WARNING, "No progress: only the result, warnings and errors.")
    verbose = option("-v", "--verbose", logging.DEBUG, "Also say what is verified and what is kept.")
    return quiet(verbose(command))
