"""Files of the repository outside of docs/ that pages link to: they become part of the site.

Pages link to them as they lie in the repository, so that the links work there too.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
#: Pages that lie on top of the repository, and where the site has them.
PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
#: Files to look at or to copy.
SHOWN = ("CITATION.cff", "LICENSE", "examples/**/*.py", "examples/**/*.yaml", "examples/*.ipynb")
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)(?P<path>[^)\s#]+)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    for there, here in PAGES.items():
        files.append(File.generated(config, here, content=(ROOT / there).read_text()))
    for path in sorted(found for pattern in SHOWN for found in ROOT.glob(pattern)):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Let links lead to where the site has the files."""
    uri = page.file.src_uri
    there = next((name for name, here in PAGES.items() if here == uri), f"docs/{uri}")

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(there), found["path"]))
        here = PAGES.get(target, target.removeprefix("docs/"))
        return posixpath.relpath(here, posixpath.dirname(uri) or ".")

    return _LINK.sub(link, markdown)
