"""`make results`: the pages of docs/results from a run."""

from pathlib import Path

import benchmark_module
import pytest
from click.testing import CliRunner
from latent_run import SMALL, STUDY

from covad.pipeline import run_study
from covad.study import parse_study

PAGE = """# Results

Prose with 1.23.

<!-- results: closure -->
old
<!-- end -->

More prose.

<!-- results: sensitivity -->
<!-- end -->
"""


@pytest.fixture
def pages(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return benchmark_module.load("results_pages")


@pytest.fixture
def docs(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "index.md").write_text(PAGE)
    return tmp_path


def made(pages, run, docs):
    return CliRunner().invoke(pages.main, [str(run), "--docs", str(docs)])


def test_blocks_are_replaced_and_prose_stays(pages, small_run, docs):
    result = made(pages, small_run, docs)
    assert result.exit_code == 0, result.output
    page = (docs / "results" / "index.md").read_text()
    assert page.startswith("# Results\n\nProse with 1.23.\n\n<!-- results: closure -->\n\n| configuration |")
    assert "<!-- end -->\n\nMore prose." in page
    assert "old" not in page
    assert "| latent, profiled | convex |" in page
    tables = (docs / "results" / "tables.md").read_text()
    for section in ("The null", "Closure", "Closure reach", "Sensitivity", "Power", "Cost"):
        assert f"\n## {section}\n" in tables
    for name in ("treatments", "closure_network", "closure_convex", "power"):
        assert (docs / "figures" / f"{name}.png").stat().st_size > 1000
    again = made(pages, small_run, docs)
    assert again.exit_code == 0
    assert (docs / "results" / "index.md").read_text() == page, "the same run makes the same page"


def test_a_run_without_numbers_of_the_paper_has_no_section_beside_it(pages, small_run, docs, monkeypatch):
    monkeypatch.setattr(pages.tables, "beside_the_paper", lambda _: iter(()))
    assert made(pages, small_run, docs).exit_code == 0
    assert "Beside the paper" not in (docs / "results" / "tables.md").read_text()


def test_a_block_that_nobody_makes_is_refused_before_anything_is_written(pages, small_run, docs):
    (docs / "results" / "index.md").write_text(PAGE.replace("closure", "closures"))
    result = made(pages, small_run, docs)
    assert result.exit_code == 2
    assert "there is no block 'closures' of results" in result.output
    assert not (docs / "results" / "tables.md").exists()


def test_one_page_alone_is_filled(pages, small_run, docs):
    (docs / "results" / "joined.md").write_text(PAGE)
    result = CliRunner().invoke(pages.main, [str(small_run), "--docs", str(docs), "--page", "joined.md"])
    assert result.exit_code == 0, result.output
    assert "| latent, profiled | convex |" in (docs / "results" / "joined.md").read_text()
    assert (docs / "results" / "index.md").read_text() == PAGE
    assert not (docs / "results" / "tables.md").exists()
    missing = CliRunner().invoke(pages.main, [str(small_run), "--docs", str(docs), "--page", "other.md"])
    assert (missing.exit_code, "there is no such page" in missing.output) == (2, True)


def test_an_unfinished_run_is_refused_in_one_sentence(pages, docs, tmp_path):
    run_study(parse_study(STUDY | SMALL, "here"), tmp_path / "run", lambda _: iter(()), until="tune")
    result = made(pages, tmp_path / "run", docs)
    assert result.exit_code == 2
    (told,) = result.output.splitlines()
    assert "the run is not finished, its stage 'toys' has 0 of" in told
    assert (docs / "results" / "index.md").read_text() == PAGE
