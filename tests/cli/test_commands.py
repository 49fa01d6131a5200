"""The help that people read first: the order of the commands, examples that work, quiet and verbose."""

import logging
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from covad.cli.commands import ORDER_OF_USE, Command
from covad.cli.main import commands, main
from covad.messages import LOG, show_messages, shows_progress

STUDY = (
    "seed: 1\nsource: {kind: latent}\nsizes: {expected: 100, reference: 500}\ntests: {convex: {bumps: 5}}\n"
)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(
        commands, [str(part) for part in arguments], prog_name="covad", terminal_width=80
    )


def every_command(group: click.Group = commands, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name)


def find(path: tuple[str, ...]) -> Command:
    found: click.Command = commands
    for name in path:
        assert isinstance(found, click.Group)
        found = found.commands[name]
    assert isinstance(found, Command)
    return found


def parse(example: str) -> None:
    """Let click read a line of the help as a shell would hand it over; nothing is run."""
    program, *arguments = shlex.split(example.split(">")[0])
    assert program == "covad"
    command: click.Command = commands
    context = click.Context(command, info_name="covad")
    while isinstance(command, click.Group):
        name, found, arguments = command.resolve_command(context, arguments)
        assert found is not None
        command = found
    command.make_context(name, arguments, parent=context)


def test_covad_alone_shows_the_commands_in_the_order_of_use() -> None:
    lines = invoke().output.splitlines()
    first, others = lines.index("Commands, in the order of use:"), lines.index("Other commands:")
    assert first < others < lines.index("Options:")
    assert [line.split()[0] for line in lines[first + 1 : others] if line] == [
        "init",
        "run",
        "status",
        "report",
        "test",
    ]
    shown = [
        line.split()[0] for line in lines[first:] if line.startswith("  ") and not line.startswith("  -")
    ]
    assert set(shown) - {"covad"} == set(commands.commands)
    assert set(ORDER_OF_USE) < set(commands.commands)


@pytest.mark.parametrize("path", list(every_command()), ids=" ".join)
def test_every_help_has_an_example_that_click_understands(path: tuple[str, ...]) -> None:
    result = invoke(*path, "--help")
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80
    assert "..." not in result.output.replace("[ARGS]...", "")  # no sentence is cut short
    examples = find(path).examples
    assert examples
    for example in examples:
        assert f"\n  {example}\n" in result.output
        assert example.startswith(" ".join(("covad", *path)))
        parse(example)


@pytest.mark.parametrize(
    "example", ["covad run s.yaml --out R --magic", "covad run s.yaml", "covad report A B"]
)
def test_an_example_that_is_wrong_would_be_noticed(example: str) -> None:
    with pytest.raises(click.UsageError):
        parse(example)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_that_asks_covad(shell: str) -> None:
    result = invoke("completion", shell)
    assert result.exit_code == 0
    assert f"_COVAD_COMPLETE={shell}_complete" in result.output


def test_completion_answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["covad"])
    for words, number, found in (("covad re", 1, ["report"]), ("covad run --o", 2, ["--out"])):
        environment = {"_COVAD_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code == 0
        assert capsys.readouterr().out.split() == [f"plain,{word}" for word in found]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "s.yaml"], "Missing option '--out'; `covad run --help` has the options and an example"),
        (["completion"], "Choose from: bash, zsh, fish; `covad completion --help` has"),
        (
            ["report", "A", "-q", "-v"],
            "--quiet and --verbose exclude each other: leave one of them out; `covad rep",
        ),
        (
            ["run", "none.yaml", "--out", "R"],
            "none.yaml: cannot be read (there is no such file); `covad init` writes",
        ),
        (["status", "none"], "it has no study.json; `covad run STUDY.yaml --out none` makes one"),
        (["init", "none/study.yaml"], "cannot be written (No such file or directory): make its folder first"),
        (["inspect", "none.h5"], "none.h5: cannot be read (No such file or directory: is the name right?)"),
        (
            ["test", "none", "o.h5", "--auxiliary", "a=1", "--auxiliary", "a=2"],
            "is given twice: give it once",
        ),
        (["inspect", "."], "is a directory, not an event file: name a file in it"),
    ],
)
def test_a_complaint_says_what_to_do(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["covad", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    shown = capsys.readouterr()
    assert (left.value.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert sentence in shown.err


def test_quiet_and_verbose_change_stderr_and_not_the_result(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(STUDY + "nu: [0]\nnu_norm: []\nprior: false\ntoys: 2\n")
    run = ("run", study, "--workers", 1, "--out")
    first = invoke(*run, tmp_path / "RUN", "--verbose")
    again = invoke(*run, tmp_path / "RUN", "--verbose")
    quiet = invoke(*run, tmp_path / "OTHER", "--quiet")
    usual = invoke(*run, tmp_path / "OTHER")
    for result in (first, quiet):
        assert (result.exit_code, result.stdout) == (0, "computed 2 toys, 0 of them failed\n")
    assert "stage toys: 0 stored toys are kept, 2 are to be computed" in first.stderr
    assert "basis/latent-profiled.json is kept" in again.stderr
    assert "basis/latent-profiled.json: 1 file verified by size and digest" in again.stderr
    assert "stage toys: 2 stored toys are kept, 0 are to be computed" in again.stderr
    assert quiet.stderr == ""
    assert "stage toys: 2 toys are asked for" in usual.stderr
    assert "kept" not in usual.stderr


def test_quiet_hides_bars_and_keeps_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    show_messages(logging.WARNING)
    assert not shows_progress()
    LOG.info("how far it is")
    LOG.warning("the response has learned nothing")
    assert capsys.readouterr().err == "covad: the response has learned nothing\n"
    for level in (logging.INFO, logging.DEBUG, logging.NOTSET):  # not set: somebody's own program
        LOG.setLevel(level)
        assert shows_progress()


@pytest.mark.parametrize(
    ("correlations", "message"),
    [
        (
            ", ".join(f"{{between: [nu_{k}, nu_{m}], value: -0.9}}" for k, m in ((1, 2), (1, 3), (2, 3))),
            "correlations: together they are not positive definite (smallest eigenvalue -0.8)",
        ),
        ("{between: [nu_1, nu_4], value: 0.1}", "there is no nuisance 'nu_4' (there are nu_1, nu_2, nu_3)"),
        ("{between: [nu_1, nu_2], value: 1}", "source.correlations.0.value: it should be less than 1"),
    ],
)
def test_correlations_that_cannot_be_are_one_sentence_and_write_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    correlations: str,
    message: str,
) -> None:
    study = tmp_path / "study.yaml"
    source = f"{{kind: latent, nuisances: 3, correlations: [{correlations}]}}"
    study.write_text(STUDY.replace("{kind: latent}", source) + "nu: [[0, 0, 0]]\n")
    monkeypatch.setattr(sys, "argv", ["covad", "run", str(study), "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert message in told
    assert told.count("\n") == 1
    assert not (tmp_path / "run").exists()
