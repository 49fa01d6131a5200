"""The site that `make docs` builds: equations without scripts, commands as they are, search from disk."""

import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import browser
import click
import pytest
from mkdocs.exceptions import PluginError

from covad.cli.main import commands

ROOT = Path(__file__).parents[1]
PAGE = SimpleNamespace(file=SimpleNamespace(src_uri="explanation/method.md"))


def hook(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, ROOT / "docs" / "hooks" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_equations_become_mathml():
    html = r'<p><span class="arithmatex">\(a &lt; \nu^2\)</span> and <div class="arithmatex">\[b\]</div></p>'
    found = hook("equations").on_page_content(html, page=PAGE)
    assert found.count("<math ") == 2
    assert 'display="block"' in found
    assert "arithmatex" not in found
    assert "\\" not in found


@pytest.mark.parametrize("tex", [r"\nonsense{a}", r"\frac{a"])
def test_a_wrong_equation_stops_the_build(tex):
    with pytest.raises(PluginError, match=r"explanation/method\.md: .* equation"):
        hook("equations").on_page_content(f'<span class="arithmatex">\\({tex}\\)</span>', page=PAGE)


def test_the_page_on_the_command_line_has_every_command_and_option():
    page = hook("commands").on_page_markdown("<!-- commands -->")
    for name, command in commands.commands.items():
        for inner in getattr(command, "commands", {None: command}).values():
            assert f"## covad {name}" in page
            options = (parameter for parameter in inner.params if isinstance(parameter, click.Option))
            assert [opt for option in options for opt in option.opts if opt not in page] == []


def test_links_lead_to_where_the_site_has_the_file():
    rewritten = hook("repository").on_page_markdown
    assert rewritten("[a](../../CONTRIBUTING.md#set-up)", page=PAGE) == "[a](../contributing.md#set-up)"
    assert rewritten("[a](../../examples/a.py) [b](tests.md)", page=PAGE) == (
        "[a](../examples/a.py) [b](tests.md)"
    )
    top = SimpleNamespace(file=SimpleNamespace(src_uri="changelog.md"))
    assert rewritten("[a](docs/how-to/b.md) [c](#d)", page=top) == "[a](how-to/b.md) [c](#d)"
    assert rewritten("[a](https://b.org/c)", page=top) == "[a](https://b.org/c)"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow
@pytest.mark.skipif(
    browser.CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium)"
)
@pytest.mark.parametrize("width", [360, 1300])
def test_a_browser_shows_the_site_from_disk(site, tmp_path, width):
    """Every page fits its window and asks for nothing from the network; the search finds pages."""
    with browser.browser(tmp_path / "profile") as tab:
        for page in sorted({*site.rglob("*.html")} - {site / "404.html"}):  # that one is for servers
            tab.events.clear()
            tab.show(page, width)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, page
            assert [url for url in tab.requests() if url.startswith("http")] == [], page
            assert tab.complaints() == [], page
        tab.events.clear()
        tab.show(site / "index.html", width)
        tab.evaluate(
            "document.querySelector('#__search').click();"
            "query = document.querySelector('[data-md-component=search-query]');"
            "query.focus(); query.value = 'closure verdict'; query.dispatchEvent(new Event('input'));"
            "query.dispatchEvent(new KeyboardEvent('keyup'));"
        )
        links = "[...document.querySelectorAll('.md-search-result__link')].map(link => link.href)"
        deadline = time.monotonic() + 30
        while not (found := tab.evaluate(links)) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert any("read-the-closure-verdict" in link for link in found)
