"""Turn the equations of a page into MathML while the site is built: readers need no script for them."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

#: What pymdownx.arithmatex makes of $...$ and $$...$$.
_EQUATION = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)


def on_page_content(content: str, *, page: Any, **_: Any) -> str:
    """Replace every equation; the search leaves them out, since nobody types MathML into it."""

    def mathml(found: re.Match[str]) -> str:
        tag, tex = found["tag"], html.unescape(found["tex"]).strip()
        try:
            equation = convert(tex, display="block" if tag == "div" else "inline")
        except Exception as failure:
            raise PluginError(
                f"{page.file.src_uri}: cannot read the equation {tex}: {failure!r}"
            ) from failure
        bare = tex.replace("\\{", "").replace("\\}", "")
        if "\\" in equation or bare.count("{") != bare.count("}"):  # the converter lets both pass
            raise PluginError(
                f"{page.file.src_uri}: an unknown command or an open brace in the equation {tex}"
            )
        return f'<{tag} class="equation" data-search-exclude>{equation}</{tag}>'

    return _EQUATION.sub(mathml, content)
