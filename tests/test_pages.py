"""The pages of docs/: their examples run, their commands exist, and every page is near to the first."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import nbformat
import numpy as np
import pytest
import yaml
from samples import random_events

from covad.cli.main import commands
from covad.events.observables import Observables
from covad.results.frontier import make_frontier
from covad.study import parse_study
from covad.study.changes import FREE_KEYS
from covad.toys.blocks import COLUMNS
from covad.toys.latent_world import LatentWorld, background
from covad.toys.pool_files import open_pools, pools_digest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
#: Pages with Python, and where it is run: here, or in the tests named.
RUN_IN = {
    "index.md": "test_the_five_lines_print_what_the_page_says",
    "explanation/calibration.md": "test_examples_that_need_nothing",
    "explanation/convex.md": "test_the_convex_test_step_by_step",
    "explanation/weights.md": "test_examples_that_need_nothing",
    "how-to/choose-a-space.md": "test_the_function_of_observables_is_one",
    "how-to/how-many-toys.md": "test_tutorial.py, and test_the_numbers_of_toys_that_can_tell",
    "how-to/test-observed-data.md": "observed/test_result.py",
    "reference/file-formats.md": "test_weights_of_ones_own, test_pools_of_ones_own",
    "reference/python.md": "test_public.py",
    "reference/summary.md": "test_public.py",
    "tutorials/own-events.md": "test_tutorial.py",
    "tutorials/two-samples.md": "test_the_tutorial_is_the_notebook",
}


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a language, also those inside of lists and notes."""
    found: list[str] = []
    fence: re.Match[str] | None = None
    for line in (DOCS / page).read_text().splitlines(keepends=True):
        if fence is None:
            fence = re.match(r"( *)```(\w*)$", line)
            if fence is not None and fence[2] == language:
                found.append("")
        elif line.strip() == "```":
            fence = None
        elif fence[2] == language:
            found[-1] += line.removeprefix(fence[1])
    return found


def test_no_page_has_python_that_nobody_runs():
    assert [page for page in PAGES if blocks(page, "python")] == sorted(RUN_IN)


def alike(printed: str, page: str) -> bool:
    """Return whether two texts have the same words, and numbers that differ by what matrix libraries do."""
    number = re.compile(r"\d+(?:\.\d+)?(?:e[+-]\d+)?")
    if number.sub("#", printed) != number.sub("#", page):
        return False
    ours, theirs = (np.array(number.findall(text), float) for text in (printed, page))
    return np.allclose(ours, theirs, rtol=0.02, atol=0)


def test_the_five_lines_print_what_the_page_says(capsys):
    (code,) = blocks("index.md", "python")
    exec(code, {})
    printed = capsys.readouterr().out
    assert any(alike(printed, text) for text in blocks("index.md", "text")), printed
    assert not any(alike(printed.replace("t = ", "t = 2"), text) for text in blocks("index.md", "text"))


@pytest.mark.parametrize("page", ["explanation/calibration.md", "explanation/weights.md"])
def test_examples_that_need_nothing(page, capsys):
    for code in blocks(page, "python"):
        exec(code, {})
    assert capsys.readouterr().out


def test_the_convex_test_step_by_step():
    (code,) = blocks("explanation/convex.md", "python")
    rng = np.random.default_rng(1)
    dataset = LatentWorld(expected=1000, n_reference=5200).toy(rng)
    names = {"pool": background(3000, rng), "dataset": dataset}
    exec(code, names)
    assert names["result"].t > 0


def test_the_numbers_of_toys_that_can_tell(capsys):
    (code,) = (code for code in blocks("how-to/how-many-toys.md", "python") if "toys_that_can_tell" in code)
    exec(code, {})
    law, toys, law_3, toys_3 = re.findall(r"'([\d ]+)'", capsys.readouterr().out)
    page = " ".join((DOCS / "how-to/how-many-toys.md").read_text().split())
    assert f"{law} toys (law) or {toys} (network) to tell" in page
    assert f"{law_3} or {toys_3} at 3 sigma" in page


def test_the_tutorial_is_the_notebook():
    """The notebook runs in test_notebook.py; the page shows its cells and what they printed."""
    cells = nbformat.read(ROOT / "examples" / "first_look.ipynb", as_version=4).cells
    code = [cell.source.removesuffix(";") for cell in cells if cell.cell_type == "code"]
    assert [block.rstrip("\n") for block in blocks("tutorials/two-samples.md", "python")] == code
    printed = [output.get("text") for cell in cells for output in cell.get("outputs", [])]
    assert [block for block in blocks("tutorials/two-samples.md", "text") if block not in printed] == []


def test_pools_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(blocks("reference/file-formats.md", "python")[1], {})
    pools = open_pools(tmp_path / "pools", pools_digest(tmp_path / "pools"))
    assert len(pools.background((1.0,))) == 20_000


def test_weights_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(blocks("reference/file-formats.md", "python")[0], found)
    assert found["nominal"].weights.tolist() == [0.7, -0.7]
    assert found["nominal"].variations["scaleUp"].tolist() == [0.8, -0.9]
    assert found["shifted"].particles[0, 0].tolist() == pytest.approx([41.41, 0.3, 1.2])


def test_every_column_of_the_toys_is_documented():
    page = (DOCS / "reference/file-formats.md").read_text()
    assert [name for name in COLUMNS.names if f"`{name}`" not in page] == []


def test_the_examples_of_spaces_are_studies():
    one, entry, several, *others = (
        yaml.safe_load(text) for text in blocks("how-to/choose-a-space.md", "yaml")
    )
    one["source"]["spaces"] |= entry
    learned, alphas = sorted(others, key=lambda content: "configurations" in content)
    for content in (one, learned):
        content["configurations"] = [{"space": name} for name in content["source"]["spaces"]]
    labels = []
    for content in (one, several, learned, alphas):
        content["source"] |= {"kind": "events", "background": {"simulate": 6_000_000}}
        study = parse_study(content | {"seed": 1, "tests": {"convex": {}}}, "here")
        labels += [c.slug for c in study.configurations]
    kept = list(learned["source"]["spaces"])
    profiled = ["plain", "mine", "contrastive", "plain", "both", *kept, "a0", "a1", "a10"]
    assert labels == [f"{name}-profiled" for name in profiled]
    assert make_frontier(study, {}).waiting == ("a0, linear", "a1, linear", "a10, linear")


def test_the_function_of_observables_is_one():
    (code,) = blocks("how-to/choose-a-space.md", "python")
    names: dict[str, Any] = {}
    exec(code, names)
    entry = yaml.safe_load(blocks("how-to/choose-a-space.md", "yaml")[1])["mine"]
    events = random_events(200, 1)
    found = Observables(tuple(entry["names"]), names["columns"]).check(events.layout, events.particles)
    assert found.shape == (200, 2)


def test_the_keys_that_make_nothing_anew_are_those_that_shards_accept():
    page = (DOCS / "how-to/change-a-study.md").read_text()
    section = page.partition("### Keys that make nothing anew")[2].partition("###")[0]
    listed = [line for line in section.splitlines() if line.startswith("- ")]
    named = {name.rpartition(".")[2] for line in listed for name in re.findall(r"`(.*?)`", line)}
    assert named == {key.rpartition(".")[2] for key in FREE_KEYS}


def written_commands() -> list[tuple[str, str]]:
    """Return every line `covad ...` of the code blocks, with its page."""
    return [
        (page, line)
        for page in [*PAGES, "../README.md"]
        for block in (*blocks(page, ""), *blocks(page, "sh"))
        for line in block.splitlines()
        if line.startswith("covad ")
    ]


def test_the_commands_of_the_pages_exist_with_their_options():
    written = written_commands()
    assert len(written) > 30
    for page, line in written:
        command: click.Command = commands
        words = shlex.split(line.replace("[", " ").replace("]", " "), comments=True)[1:]
        while isinstance(command, click.Group):
            name = words.pop(0)
            assert name in command.commands, f"{page}: {line}"
            command = command.commands[name]
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        assert {word for word in words if word.startswith("--")} <= known, f"{page}: {line}"


def links(page: str) -> set[str]:
    """Return the pages of docs/ that a page links to."""
    targets = re.findall(r"\]\(([^)#\s]+\.md)[^)]*\)", (DOCS / page).read_text())
    found = ((DOCS / page).parent.joinpath(target).resolve() for target in targets)
    return {target.relative_to(DOCS).as_posix() for target in found if target.is_relative_to(DOCS)}


def test_every_page_is_two_clicks_from_the_start():
    first = links("index.md")
    second = set().union(*(links(page) for page in first))
    assert {*PAGES} <= {"index.md", *first, *second}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "examples/own_events/README.md"])
def test_links_from_outside_of_the_site_lead_somewhere(page):
    """Those inside are checked by `make docs`."""
    targets = re.findall(r"\]\((?!https?:)([^)#\s]+)[^)]*\)", (ROOT / page).read_text())
    assert targets
    assert [target for target in targets if not (ROOT / page).parent.joinpath(target).exists()] == []
