"""Figures of a report as small PNG files, for the documents.

    covad report RUN && PYTHONPATH=tests python benchmarks/report_pictures.py RUN --out docs/figures NAME...

A NAME is the id of a figure in report.html, such as closure_network. The pictures are what Chromium shows of
the page in a window of that width, the caption left out, in 64 colours.
"""

from __future__ import annotations

import base64
import io
import tempfile
from pathlib import Path

import browser
import click
from PIL import Image

_COLOURS = 64
#: Where the panels of a figure lie on the page.
_BOX = """(() => {
  const boxes = [...document.querySelectorAll('#%s svg')].map(panel => panel.getBoundingClientRect());
  const left = Math.min(...boxes.map(b => b.left)), top = Math.min(...boxes.map(b => b.top));
  const right = Math.max(...boxes.map(b => b.right)), bottom = Math.max(...boxes.map(b => b.bottom));
  return {x: left + scrollX, y: top + scrollY, width: right - left, height: bottom - top, scale: 1};
})()"""


def picture(tab: browser.Browser, name: str) -> Image.Image:
    """The panels of one figure."""
    clip = tab.evaluate(_BOX % name)
    shot = tab.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    return Image.open(io.BytesIO(base64.b64decode(shot["data"])))


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True))
@click.argument("names", nargs=-1, required=True)
@click.option("--out", type=click.Path(path_type=Path, exists=True, file_okay=False), required=True)
@click.option("--width", default=1100)
def main(run: Path, names: tuple[str, ...], out: Path, width: int) -> None:
    """Write one file per name."""
    with tempfile.TemporaryDirectory() as profile, browser.browser(Path(profile)) as tab:
        tab.show(run / "report.html", width)
        for name in names:
            small = picture(tab, name).convert("RGB").quantize(_COLOURS)
            small.save(out / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
