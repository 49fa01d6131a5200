"""The page as a whole: complete, self-contained, readable in a browser, honest about what is missing."""

import base64
import hashlib
import html
import os
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import browser
import numpy as np
import pytest
import report_world
from observations import observation

import covad.report
from covad.errors import FileFormatError
from covad.inference.verdict import Verdict
from covad.report import write_report
from covad.report.figures.canvas import inline_svg
from covad.report.figures.statistic import closure_picture, null_figure
from covad.report.page import chapters_of, observed, render
from covad.report.write import mark_outdated, write_evidence
from covad.results.manifest import StageVersions


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    observed = tuple(observation(f"file_{i}.h5", z) for i, z in enumerate((0.5, 3.0, -1.0, 2.0)))
    write_evidence(report_world.evidence(observed=observed), folder)
    return folder


@pytest.fixture(scope="module")
def page(run):
    return (run / "report.html").read_text(encoding="utf-8")


class _Tags(HTMLParser):
    """Ids, addresses and pictures of a page; its tags have to close in order."""

    VOID = frozenset({"meta", "link", "br", "hr", "img"})

    def __init__(self, text):
        super().__init__()
        self.ids, self.addresses, self.pictures, self.columns, self._open = [], [], [], [], []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag == "svg":  # what it shows is told by the element around it
            self.pictures.append(self._open[-1][1].get("aria-label") or "")
        if tag not in self.VOID:
            self._open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        self.addresses += [value for name, value in attrs if name in ("href", "src", "xlink:href")]
        self.columns += [value for name, value in attrs if name == "data-column"]
        assert tag != "img"

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag


@pytest.fixture(scope="module")
def tags(page):
    return _Tags(page)


def test_tags_close_ids_are_unique_and_nothing_is_outside(tags):
    assert len(tags.ids) == len(set(tags.ids))
    inside = {f"#{name}" for name in tags.ids} | {"data:,", "summary.json"}
    outside = {address for address in tags.addresses if address not in inside}
    assert all(address.startswith("report/") for address in outside)


def test_nothing_comes_from_the_network(page):
    names = ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink")  # of formats, never fetched
    assert set(re.findall(r"https?://[^\"' <]+", page)) <= set(names)


def test_every_file_of_the_report_has_a_link_and_every_link_a_file(run, tags):
    linked = {address for address in tags.addresses if address.startswith("report/")}
    written = {str(file.relative_to(run)) for file in (run / "report").rglob("*") if file.is_file()}
    assert linked == written


def test_every_picture_says_what_is_seen(tags):
    assert len(tags.pictures) > 30
    assert all(len(alt) > 40 for alt in tags.pictures)
    assert len(set(tags.pictures)) == len(tags.pictures)
    words = " ".join(tags.pictures)
    assert re.search(r"the median moves by [+-]\d\.\d\d at ν = \+1σ", words)
    assert re.search(r"at a threshold of 2 sigma \d+ % at ν = 0", words)


def test_no_label_of_the_papers_sources_is_left(page):
    assert re.findall(r"(?:fig|tab|sec):\w+", page) == []


def test_the_first_screen_says_what_was_searched_shows_closure_and_answers(page):
    places = [
        page.index(f">{word}<") for word in ("What was searched", "Does it close?", "Can it be trusted?")
    ]
    assert places == sorted(places)
    assert page.index('<figure id="closure_picture">') < places[1] < page.index('<section id="observed">')


def test_the_script_is_the_only_one_that_may_run(page):
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page


def test_all_figures_have_pdfs_and_all_tables_have_files(run, page):
    panels = page.count('<div class="panel"')
    pdfs = list((run / "report" / "figures").glob("*.pdf"))
    assert len(pdfs) == panels > 30
    assert all(pdf.read_bytes().startswith(b"%PDF") for pdf in pdfs)
    tables = re.findall(r'id="table-(\w+)"', page)
    stems = sorted(path.stem for path in (run / "report" / "tables").glob("*.csv"))
    assert stems == sorted(tables) == sorted(p.stem for p in (run / "report" / "tables").glob("*.tex"))
    assert (run / "report" / "hepdata" / "submission.yaml").exists()


def test_the_page_answers_compares_and_warns(page):
    for text in ("What do the data say?", "Does it close?", "How sensitive is it?", "Can it be trusted?"):
        assert text in page
    assert "The samples differ" in page
    assert "In italics: the paper's numbers" in html.unescape(page)
    assert "somewhere" not in page  # the directory of the study file is nobody's business


def test_the_words_of_the_summary_are_explained_and_its_configuration_is_named(page):
    assert "The summary is about the main configuration (covariant, profiled)." in page
    terms = re.findall(
        r"<dt>([^<]*)</dt>", page[page.index('id="glossary"') : page.index('<section id="observed">')]
    )
    assert len(terms) >= 12
    assert {"t", "h", "W", "Toy", "Closure reach", "Law of t"} <= set(terms)


def test_the_time_of_toys_is_that_of_the_toys_themselves(page):
    """60 toys of half a second in each of 42 ensembles; the manifest knows the last call only."""
    assert "0.35 core-hours, those of all 2520 toys" in page
    assert "spaces 60 s: wall time of the calls of covad run" in page
    assert "toys 12 s" not in page


def test_observed_files_are_listed_and_the_most_significant_are_pictured(run, page):
    table = (run / "report" / "tables" / "observed_files.csv").read_text()
    files = [line.split(",")[0] for line in table.splitlines()[1:]]
    assert files == [f"file_{i}.h5" for i in range(4) for _ in ("network", "convex")]
    assert "0.0013499,3,2.9,3.1,>=" in table
    pictured = re.findall(r'figure id="excess_(\w+)_network"', page)
    assert pictured == ["file_1", "file_3"]
    assert "100 observed events of largest h" in page
    names = re.findall(r'<(?:figure|div class="table") id="([\w-]+)"', page[page.index('id="observed"') :])
    assert names[:2] == ["table-observed_results", "table-observed_files"]  # the result before pictures


def test_the_same_evidence_gives_the_same_pictures(page):
    figure = null_figure(report_world.evidence((("contrastive", "none", 1),), injections=()), "network")
    assert all(panel.svg in page for panel in figure.panels)


def test_observed_files_stand_first_if_there_are_any(monkeypatch):
    monkeypatch.setattr("covad.report.figures.canvas.Canvas.savefig", report_world.write_nothing)
    evidence = report_world.evidence((("covariant", "profiled", 1),), injections=(), checked=False)
    assert [chapter.name for chapter in chapters_of(evidence)][-1] == "observed"
    told = replace(evidence, observed=(observation("data.h5", 1.0),))
    first, *_ = chapters_of(told)
    assert first.name == "observed"


@pytest.mark.parametrize(
    "main", [("covariant", "none", 1), ("covariant", "profiled", 2)], ids=["none", "quadratic"]
)
def test_the_main_configuration_always_has_its_figures(monkeypatch, main):
    monkeypatch.setattr("covad.report.figures.canvas.Canvas.savefig", report_world.write_nothing)
    evidence = report_world.evidence((main,), injections=(("hpm", 50.0), ("lq", 50.0)), tests=("convex",))
    figures = {figure.name: figure for chapter in chapters_of(evidence) for figure in chapter.figures}
    name = report_world.slug(*main).replace("-", "_")
    panels = {panel.name for figure in figures.values() if not figure.folded for panel in figure.panels}
    kinds = ("null", "closure", "signal", "power")
    assert [kind for kind in kinds if not any(p.startswith(f"{kind}_convex_{name}") for p in panels)] == []
    assert {"latent_distortions", "marginals_covariant", "log_ratio_bins"} <= set(figures)
    assert closure_picture(evidence) is not None


def test_figures_of_other_embeddings_and_inputs_that_agree_are_folded(page):
    folded = re.findall(r'<figure id="(\w+)">\n<h3>[^<]*</h3>\n<details>', page)
    assert [name for name in folded if not name.startswith("inputs_")] == [
        "validation_covariant_quadratic",
        "validation_contrastive_linear",
        "marginals_contrastive",
    ]
    assert len(folded) == 5  # two observed files are pictured, and agree with the simulation


def test_the_picture_shows_the_largest_shifts_without_and_with_the_nuisances(monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "covad.report.figures.statistic.panel",
        lambda name, alt, canvas: drawn.append(
            (alt, [axes.get_legend_handles_labels()[1] for axes in canvas.axes])
        ),
    )
    points = ((0.0,), (1.0,), (-1.0,), (2.0,), (-2.0,))
    evidence = report_world.evidence(points=points, injections=(), checked=False)
    figure = closure_picture(evidence)
    ((alt, labels),) = drawn
    expected = ["expected", r"$\nu = 0$", r"$\nu = +2\sigma$", r"$\nu = -2\sigma$"]
    assert [sorted(found) for found in labels] == [sorted(expected)] * 2
    assert alt.index("without the nuisances in the test") < alt.index("nuisances profiled")
    assert "Configurations: contrastive, no nuisances; covariant, profiled." in figure.caption


@pytest.mark.parametrize(
    ("options", "notes"),
    [
        ({"configurations": (("latent", "profiled", 1),), "checked": False}, ["no encoder with a checked"]),
        ({"tests": ("convex",), "checked": False}, ["no response was checked"]),
        ({"injections": ()}, ["injects no signals", "Power curves: fewer than 10 toys"]),
        (
            {"points": ((0.0,),), "injections": (), "checked": False},
            ["fewer than 10 toys per ensemble at ν = 0 or"],
        ),
    ],
    ids=["latent only", "convex only", "no signals", "nothing shifted"],
)
def test_what_is_not_there_is_said(options, notes, monkeypatch):
    monkeypatch.setattr("covad.report.figures.canvas.Canvas.savefig", report_world.write_nothing)
    small = {"configurations": (("covariant", "profiled", 1),)}
    evidence = report_world.evidence(**(small | options))
    text = render(evidence, chapters_of(evidence))
    _Tags(text)
    for note in notes:
        assert note in text


def test_ensembles_without_toys_leave_gaps_not_errors(monkeypatch):
    monkeypatch.setattr("covad.report.figures.canvas.Canvas.savefig", report_world.write_nothing)
    found = report_world.evidence((("covariant", "profiled", 1),), checked=False)
    evidence = report_world.changed(
        found,
        "ensembles",
        lambda line: {"done": 0, "failed": 0, "missing": line.requested, "seconds_per_toy": None},
    )
    empty = dict.fromkeys(("nulls", "closure", "significance", "power", "clips"), ())
    evidence = replace(evidence, summary=replace(evidence.summary, **empty), t={})
    text = render(evidence, chapters_of(evidence))
    assert "Not known yet" in text
    assert "The clip W of the network: not chosen yet." in text


def test_an_svg_stands_alone_in_a_page():
    document = '<?xml version="1.0"?><svg width="1pt" height="2pt" viewBox="0 0 1 2"><!-- x --><g id="a">'
    document += '<path id="b" d="M 1.23456 2"/><use href="#b" transform="scale(0.015625)"/></g></svg>'
    expected = '<svg viewBox="0 0 1 2"><g><path id="p-b" d="M 1.23 2"/>'
    assert inline_svg(document, "p") == expected + '<use href="#p-b" transform="scale(0.015625)"/></g></svg>'


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """The runs whose report is drawn from now on, instead of drawing it."""
    runs = []

    def draw(_, run):
        runs.append(run)
        for part in ("figures", "tables", "hepdata"):
            (run / "report" / part).mkdir(parents=True, exist_ok=True)
        (run / "report.html").touch()
        return run / "report.html"

    monkeypatch.setattr("covad.report.write.write_evidence", draw)
    return runs


@pytest.fixture(scope="module")
def small():
    return report_world.evidence((("covariant", "profiled", 1),), injections=(), checked=False)


def test_a_report_is_drawn_again_only_if_what_it_shows_has_changed(tmp_path, drawn, small):
    write_report(tmp_path, small.summary, small.t)
    manifest = small.summary.manifest
    for change in ({}, {"seconds": {"toys": 13.0}}):
        summary = replace(small.summary, manifest=replace(manifest, **change))
        assert write_report(tmp_path, summary, small.t) == tmp_path / "report.html"
    assert len(drawn) == 1
    write_report(tmp_path, small.summary, {key: toys + 0.1 for key, toys in small.t.items()})
    assert len(drawn) == 2
    for number, change in enumerate(({"versions": {"numpy": "3"}}, {"machine": {"cores": 4}}), start=3):
        summary = replace(small.summary, manifest=replace(manifest, **change))
        write_report(tmp_path, summary, small.t)
        assert len(drawn) == number
    write_report(tmp_path, replace(small.summary, manifest=None), small.t)
    assert len(drawn) == 5


def test_the_report_says_with_which_versions_toys_were_made(small):
    first = small.summary.toy_versions[0]
    other = replace(first, versions=replace(first.versions, numpy="2.9"), toys=7)
    doubt = "the same toys to the last bit are not promised"

    def page(*lines):
        return html.unescape(render(replace(small, summary=replace(small.summary, toy_versions=lines)), []))

    assert f"60 toys with {first.versions}</dd>" in page(first)
    assert doubt not in page(first)
    mixed = page(first, other)
    assert f"60 toys with {first.versions}; 7 toys with {other.versions}" in mixed
    assert doubt in mixed


def test_the_report_names_stages_that_several_versions_made(small):
    versions = small.summary.toy_versions[0].versions
    lines = tuple(StageVersions(replace(versions, torch=number), f"day {number}") for number in ("1", "2"))
    manifest = replace(small.summary.manifest, stages={"spaces": lines, "pools": lines[:1]})
    page = render(replace(small, summary=replace(small.summary, manifest=manifest)), [])
    assert "stage spaces was done with several versions" in page
    assert "torch 2 (from day 2)" in page
    assert "stage pools" not in page


def test_the_lead_says_what_kind_of_search_it_is(small):
    alone = (("contrastive", "none", 1),)
    worlds = {
        "a learned latent space, with systematic uncertainties profiled.": small,
        "an analytic latent world, with systematic uncertainties profiled.": report_world.evidence(
            (("latent", "profiled", 1),), injections=(), checked=False
        ),
        "a learned latent space, without systematic uncertainties.": report_world.evidence(
            alone, injections=(), checked=False
        ),
    }
    for lead, found in worlds.items():
        assert f'<p class="lead">A search for anything new, in {lead}</p>' in render(found, [])


def test_answers_that_do_not_hold_any_more_are_named(small):
    chapter = observed(replace(small, outdated=("data-1",)))
    assert any(line.startswith("data-1: left out, because the study") for line in chapter.missing)


def test_an_answer_of_fewer_toys_says_so(small):
    told = replace(observation("data.h5", 1.0), configuration=small.summary.ensembles[0].configuration)
    now = small.toys_of_nulls(told)
    assert now > 1
    lines = [observed(replace(small, observed=(replace(told, toys=n),))).missing for n in (now, now - 1)]
    assert not any("toys of the nulls" in line for line in lines[0])
    said = f"data: p and Z were made with {now - 1} toys of the nulls, which have {now} by now: test it again"
    assert any(line.startswith(said) for line in lines[1])


@pytest.mark.parametrize("part", ["figures", "tables", "hepdata"])
def test_a_report_that_lost_a_part_is_drawn_again(tmp_path, drawn, small, part):
    for _ in range(2):
        write_report(tmp_path, small.summary, small.t)
    assert len(drawn) == 1
    (tmp_path / "report" / part).rmdir()
    write_report(tmp_path, small.summary, small.t)
    assert len(drawn) == 2


def _delete(file):
    file.unlink()


def _cut(file):
    file.write_bytes(file.read_bytes()[:-1])


def _flip(file):
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("report.html", _cut),
        ("report/figures/*.pdf", _delete),
        ("report/tables/*.csv", _flip),
        ("report/tables/*.tex", _cut),
        ("report/hepdata/*.yaml", _flip),
        ("report/drawn_from.json", _flip),
    ],
)
def test_a_single_damaged_file_of_a_report_is_noticed(small_report, small, damage, kind):
    files = {file: file.read_bytes() for file in small_report.rglob("*") if file.is_file()}
    damaged = next(small_report.glob(kind))
    damage(damaged)
    write_report(small_report, small.summary, small.t)
    assert {file: file.read_bytes() for file in small_report.rglob("*") if file.is_file()} == files


@pytest.fixture(scope="module")
def small_report(tmp_path_factory, small):
    """A real report whose figures are quick to draw."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("covad.report.figures.canvas.Canvas.savefig", report_world.write_nothing)
        path = tmp_path_factory.mktemp("small")
        write_report(path, small.summary, small.t)
        yield path


def test_a_page_without_the_latest_answer_says_so_until_it_is_drawn_again(small_report, small):
    page = small_report / "report.html"
    before = page.read_bytes()
    for _ in range(2):
        mark_outdated(small_report)
        assert page.read_text().count("An observed file was tested after this page was made") == 1
    write_report(small_report, small.summary, small.t)
    assert page.read_bytes() == before


def test_a_run_without_a_report_has_none_to_mark(tmp_path):
    mark_outdated(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_killed_reports_go(tmp_path, small_report, small):
    old, fresh = small_report / ".report.0123.part", small_report / ".report.4567.part"
    for folder in (old, fresh):
        folder.mkdir()
    os.utime(old, (0, 0))
    (small_report / "report.html").unlink()
    write_report(small_report, small.summary, small.t)
    assert (old.exists(), fresh.exists()) == (False, True)
    fresh.rmdir()


def test_a_report_is_drawn_again_if_any_of_its_texts_has_changed(tmp_path, drawn, small, monkeypatch):
    """Every file of the room that is not code."""
    room = Path(covad.report.__file__).parent
    data = [f for f in room.rglob("*") if f.is_file() and f.suffix not in (".py", ".pyc")]
    assert len(data) >= 4
    shutil.copytree(room, tmp_path / "room")
    monkeypatch.setattr("covad.report.write.files", lambda _: tmp_path / "room")
    for number, file in enumerate([None, *data], start=1):
        if file is not None:
            with (tmp_path / "room" / file.relative_to(room)).open("a") as copy:
                copy.write("\n")
        for _ in range(2):
            write_report(tmp_path, small.summary, small.t)
        assert len(drawn) == number


def test_a_number_that_a_check_could_not_compute_does_not_stop_the_report(tmp_path, monkeypatch):
    monkeypatch.setattr("covad.report.figures.canvas.Canvas.savefig", report_world.write_nothing)
    evidence = report_world.evidence((("covariant", "profiled", 1),), injections=())
    nan = float("nan")
    checks = evidence.checks["covariant_linear"]
    first, *others = checks.comparisons
    first = replace(first, p=nan, observed=(*first.observed[:2], nan, *first.observed[3:]))
    evidence.checks["covariant_linear"] = replace(checks, comparisons=(first, *others))
    evidence = report_world.changed(evidence, "spaces", lambda _: {"validation": (first.summary,)})
    monkeypatch.setattr("covad.report.write.read_evidence", lambda *_: evidence)
    assert write_report(tmp_path, evidence.summary, evidence.t).exists()


def test_a_report_that_fails_leaves_the_earlier_one_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("covad.report.figures.canvas.Canvas.savefig", report_world.write_nothing)
    evidence = report_world.evidence((("covariant", "profiled", 1),), injections=(), checked=False)
    write_evidence(evidence, tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}

    def refuse(*_):
        raise FileFormatError("no valid submission")

    monkeypatch.setattr("covad.report.write.write_hepdata", refuse)
    with pytest.raises(FileFormatError, match="no valid submission"):
        write_evidence(evidence, tmp_path)
    assert {file: file.read_bytes() for file in before} == before


def test_what_cannot_be_told_has_no_colour(monkeypatch):
    monkeypatch.setattr("covad.report.figures.canvas.Canvas.savefig", report_world.write_nothing)
    known = report_world.evidence((("covariant", "profiled", 1),), injections=(), checked=False)
    evidence = report_world.changed(known, "closure", lambda _: {"verdict": Verdict.CANNOT_TELL})
    text = render(evidence, chapters_of(evidence))
    assert '<td data-value="cannot tell yet">cannot tell yet</td>' in text
    assert '<article class="answer open">\n<h2>Does it close?</h2>' in text


@pytest.mark.parametrize("content", ['{"tests": [', "[]", "{}"], ids=["cut off", "no object", "no seal"])
def test_a_damaged_observation_is_named_in_one_sentence(tmp_path, content):
    summary, name = (
        report_world.evidence((("covariant", "profiled", 1),), injections=()).summary,
        "observed/a.json",
    )
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(content)
    with pytest.raises(FileFormatError, match=name):
        write_report(tmp_path, summary, {})


@pytest.mark.skipif(
    browser.CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium)"
)
@pytest.mark.parametrize("width", [360, 1300])
def test_a_browser_shows_the_page(run, tmp_path, width):
    with browser.browser(tmp_path / "profile") as tab:
        tab.show(run / "report.html", width)
        assert tab.requests() == [(run / "report.html").resolve().as_uri(), "data:,"][: len(tab.requests())]
        assert tab.complaints() == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        too_wide = "[...document.querySelectorAll('nav a, .searched, .answer, .first figure')]"
        too_wide += f".filter(e => e.getBoundingClientRect().right > {width}).length"
        assert tab.evaluate(too_wide) == 0
        drawn = tab.evaluate(
            "[...document.querySelectorAll('.panel svg')].map(s => [s.getBoundingClientRect().width,"
            " s.getBoundingClientRect().height, s.querySelectorAll('path').length,"
            " s.closest('details') ? 1 : 0])"
        )
        assert len(drawn) == len(list((run / "report" / "figures").glob("*.pdf")))
        shown = np.array([panel[:3] for panel in drawn if not panel[3]])
        assert len(shown) > 20
        assert np.all(shown > [150, 100, 10])
        if width == 1300:  # two in a row, and the smallest text of a panel, 8 of its 252 points, has 9 pt
            assert np.all(shown[:, 0] * 8 / 252 * 0.75 >= 9.0)
            rows = "document.querySelectorAll('#closure_network .panel')"
            tops = tab.evaluate(f"[...{rows}].map(e => e.getBoundingClientRect().top)")
            assert tops[0] == tops[1] < tops[2] == tops[3]
        smallest = tab.evaluate(
            "Math.min(...[...document.querySelectorAll('td, th, p, li, figcaption')]"
            ".map(e => parseFloat(getComputedStyle(e).fontSize)))"
        )
        assert smallest >= 11  # pixels: readable on a phone
        glossary = "document.querySelector('#glossary').getBoundingClientRect().height"
        assert tab.evaluate(glossary) < 100
        folded = "document.querySelector('details:has(table)').getBoundingClientRect().height"
        assert tab.evaluate(folded) < 100
        _check_enlarged(tab, width)
        _check_sorted(tab)
        tab.call("Emulation.setEmulatedMedia", media="print")
        assert tab.evaluate(folded) > 500  # paper cannot be unfolded
        assert tab.evaluate(glossary) > 200
        assert tab.evaluate("document.querySelector('nav').getBoundingClientRect().height") == 0


def _check_enlarged(tab, width):
    """A panel fills the window after a click, and goes back at Escape."""
    panel = "document.querySelector('#closure_network .panel').getBoundingClientRect()"
    tab.evaluate("document.querySelector('#closure_network .enlarge').click()")
    assert tab.evaluate(f"[{panel}.left, {panel}.width, {panel}.height]") == [0, width, 800]
    tab.evaluate("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    assert tab.evaluate(f"{panel}.height") < 800


def _check_sorted(tab):
    """A click on the heading of a column sorts its rows, another one the other way round."""
    table = "document.querySelector('#table-observed_results table')"
    tab.evaluate(f"{table}.querySelector('th[data-column=\"2\"]').click()")
    column = f"[...{table}.tBodies[0].rows].map(row => parseFloat(row.cells[2].dataset.value))"
    assert tab.evaluate(column) == [-1, 0.5, 2, 3]
    tab.evaluate(f"{table}.querySelector('th[data-column=\"2\"]').click()")
    assert tab.evaluate(column) == [3, 2, 0.5, -1]
