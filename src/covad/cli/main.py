"""The command line: thin, it parses and prints; the rooms do the work.

Results go to stdout, progress to stderr. Whatever the user can mend ends in one sentence and exit code 2.
"""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

from covad import __version__
from covad.cli import events, measure, study
from covad.cli.commands import NO_RESULT, CommandLine
from covad.cli.terminal import complain, say
from covad.errors import CovadError, write_trouble
from covad.messages import counted, hide_library_warnings, show_messages

USAGE_ERROR = 2
INTERRUPTED = 130


def main() -> None:
    """Entry point: turn expected failures into one sentence and an exit code."""
    hide_library_warnings()
    try:
        commands(prog_name="covad", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(complain("interrupted", INTERRUPTED))
    except click.exceptions.NoArgsIsHelpError as failure:
        say(failure.format_message())  # asked for nothing: help is the answer, not an error
    except click.UsageError as failure:
        command = failure.ctx.command_path if failure.ctx else "covad"
        said = " ".join(failure.format_message().split()).removesuffix(".")
        sys.exit(complain(f"{said}; `{command} --help` has the options and an example", failure.exit_code))
    except click.ClickException as failure:
        sys.exit(complain(failure.format_message(), failure.exit_code))
    except CovadError as failure:
        sys.exit(complain(str(failure), USAGE_ERROR))
    except MemoryError:
        sys.exit(
            complain(
                "there is not enough memory for this; ask for less, or use a larger machine", USAGE_ERROR
            )
        )
    except OSError as failure:
        what = failure.filename or "a file"
        sys.exit(complain(f"{what}: cannot be read or written {write_trouble(failure)}", USAGE_ERROR))


@click.group(
    cls=CommandLine,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    examples=(
        "covad init study.yaml",
        "covad run study.yaml --out RUN",
        "covad status RUN",
        "covad report RUN",
        "covad test RUN observed.h5",
    ),
)
@click.version_option(__version__, prog_name="covad")
def commands() -> None:
    """Signal-agnostic searches in a learned latent space, with systematic uncertainties profiled.

    `covad COMMAND --help` shows the options of a command.
    """
    show_messages()


for _each in (
    *(study.init, study.schema, study.run, study.status, study.report, study.test_observed, study.export),
    *(events.simulate, events.fetch, events.convert, events.inspect, events.yields),
    *(measure.tune_power, measure.bench),
):
    commands.add_command(_each)


@commands.command(short_help="Check this installation.", examples=("covad doctor",))
def doctor() -> None:
    """Check this installation: versions, cores, caches, optional extras, and a short computation.

    The exit code is 1 if something is wrong; every problem has a line that says how to mend it.
    """
    from covad.doctor import examine_installation

    problems = 0
    for finding in examine_installation():
        problems += finding.problem
        say(f"{'problem: ' if finding.problem else ''}{finding.text}")
    if problems:
        say(f"{counted(problems, 'problem')} found")
        sys.exit(NO_RESULT)
    say("everything works")


@commands.command(
    short_help="Print the script for completion in bash, zsh or fish.",
    examples=(
        "covad completion bash >> ~/.bashrc",
        "covad completion zsh >> ~/.zshrc",
        "covad completion fish > ~/.config/fish/completions/covad.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands, options and file names in your shell."""
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"click has no completion for {shell}: use bash, zsh or fish")
    say(made(commands, {}, "covad", "_COVAD_COMPLETE").source())
