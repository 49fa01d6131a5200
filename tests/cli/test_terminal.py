"""Names and texts of files reach the terminal as text: no escape code, no second line, no crash."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from event_files import write_events
from finished_run import TINY
from samples import random_events

from covad.cli.console import SafeConsole
from covad.cli.main import main
from covad.events.files import EventWriter
from covad.messages import visible

#: Clears the screen, sets the title of the window, turns the direction of the text.
NASTY = "a\x1b[2J\x1b]0;owned\x07\x9b31m\u202eb"


def covad(*arguments: object) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "covad", *map(os.fsencode, map(str, arguments))]
    result = subprocess.run(command, capture_output=True, check=False)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def assert_harmless(text: str) -> None:
    assert not set(text) & set("\x1b\x07\x9b\u202e\r"), text


def test_control_characters_are_written_out() -> None:
    assert visible(NASTY) == r"a\x1b[2J\x1b]0;owned\x07\x9b31m\u202eb"
    assert visible("pt > 20 GeV †\n\tµ é") == "pt > 20 GeV †\n\tµ é"
    assert visible("two\nlines", keep="") == r"two\x0alines"
    assert visible(os.fsdecode(b"caf\xe9")) == r"caf\xe9"


def test_tables_show_and_do_not_obey(capsys: pytest.CaptureFixture[str]) -> None:
    from covad.cli.console import table

    console = SafeConsole(width=120)
    lines = table(NASTY, NASTY, "[bold]p[/bold]")
    lines.add_row(NASTY, ":smile: [red]1[/red]")
    console.print(lines)
    console.print(NASTY)
    shown = capsys.readouterr().out
    assert_harmless(shown)
    assert shown.count(r"\x1b[2J") == 4
    assert ":smile: [red]1[/red]" in shown


def test_an_event_file_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    events = random_events(50, seed=1)
    path = tmp_path / f"{NASTY}.h5"
    with EventWriter(path, events.layout, (*events.process_names, NASTY), {NASTY: NASTY}) as writer:
        writer.append(events)
    code, out, err = covad("inspect", path)
    assert (code, err) == (0, "")
    assert_harmless(out)
    assert r"\x1b[2J" in out


@pytest.mark.parametrize("name", [f"{NASTY}.yaml", "two\nlines.yaml", os.fsdecode(b"caf\xe9.yaml")])
@pytest.mark.parametrize("text", ['"\\e[2J\\nx": 1', 'seed: "\\e[2J"', "seed: [", None])
def test_a_complaint_is_one_harmless_line(
    tmp_path: Path,
    name: str,
    text: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study = tmp_path / name
    if text is not None:
        study.write_text(text)
    monkeypatch.setattr(sys, "argv", ["covad", "run", str(study), "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as left:
        main()
    shown = capsys.readouterr()
    assert (left.value.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert_harmless(shown.err)


def test_a_run_of_a_strange_name_is_shown(tmp_path: Path) -> None:
    path = write_events(tmp_path / os.fsdecode(b"caf\xe9.h5"), random_events(20, seed=1))
    code, out, _ = covad("inspect", path)
    assert code == 0
    assert r"caf\xe9.h5: 20 events" in out


def test_comparisons_and_dry_runs_are_harmless(tmp_path: Path) -> None:
    observed = write_events(tmp_path / f"{NASTY}.h5", random_events(300, seed=1))
    background = write_events(tmp_path / "background.h5", random_events(3000, seed=2))
    study = tmp_path / "study.yaml"
    source = TINY["source"] | {"background": {"files": [str(background)]}}
    study.write_text(json.dumps(TINY | {"source": source}))
    code, out, err = covad("inspect", "--study", study, "--against", observed, "--figures", tmp_path / NASTY)
    assert code == 0, err
    assert_harmless(out)
    assert out.count(r"\x1b[2J") >= 2
    latent = tmp_path / "latent.yaml"
    latent.write_text("seed: 1\nsource: {kind: latent}\ntests: {network: {clip: tune}}\ntoys: 10\n")
    note = tmp_path / f"run{NASTY}" / "made" / "clip" / "latent-profiled.json.json"
    note.parent.mkdir(parents=True)
    note.write_text("[]")
    code, out, err = covad("run", latent, "--out", tmp_path / f"run{NASTY}", "--dry-run")
    assert code == 0, err
    assert_harmless(out)
    assert r"\x07" in out


def test_a_reader_who_leaves_is_no_error(tmp_path: Path) -> None:
    """`covad inspect events.h5 | head -1` prints by a console, `covad schema | head -1` line by line."""
    events = write_events(tmp_path / "events.h5", random_events(20, seed=1))
    for arguments in (["inspect", str(events)], ["schema"], []):
        read_end, write_end = os.pipe()
        os.close(read_end)
        command = [sys.executable, "-m", "covad", *arguments]
        result = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, check=False)
        os.close(write_end)
        assert (result.returncode, result.stderr) == (141, b""), arguments
