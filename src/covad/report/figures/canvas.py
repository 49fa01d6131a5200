"""Style of the figures, and how a panel becomes SVG for the page and PDF for a paper.

A figure is a set of panels, each a picture of its own: the page lays them out for a phone or a desktop, and a
paper takes them as subfigures.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypedDict

import matplotlib as mpl
import mplhep
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.textpath import TextPath

#: Colour-blind safe (Okabe and Ito); lines differ in their dash patterns as well, see `line_style`.
FILL = "#c9c9c9"
BLACK = "#000000"
GREY = "#707070"
WARM = ("#d55e00", "#e69f00", "#cc79a7", "#8c4a00")
COLD = ("#56b4e9", "#0072b2", "#009e73", "#332288")
#: From the lowest nu to the highest.
DIVERGING = ("#0072b2", "#56b4e9", "#e69f00", "#d55e00")
MARKERS = "osD^"
Dash = str | tuple[int, tuple[float, ...]]
DASHES: tuple[Dash, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1.5, 1)),
    (0, (6, 1.5, 1.5, 1.5)),
)

_WIDTH = 3.5
#: Height of the line of a name, in inches.
_LINE = 0.2
#: Hundredths of a point are enough for coordinates.
_DECIMALS = re.compile(r"(\.\d\d)\d+")
_STYLE = {
    **mplhep.style.ROOT,
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.titlesize": 9,
    "axes.titley": 1.0,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 2.0,
    "legend.borderaxespad": 0.3,
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.3,
    "lines.markersize": 3,
    "xtick.major.size": 4,
    "xtick.minor.visible": False,
    "ytick.major.size": 4,
    "ytick.minor.visible": False,
    "xtick.major.pad": 3,
    "ytick.major.pad": 3,
    "axes.labelpad": 2,
    "svg.fonttype": "path",
    "svg.hashsalt": "covad",
    "pdf.fonttype": 42,
    "path.simplify": True,
}


class LineStyle(TypedDict):
    """As matplotlib takes it."""

    color: str
    linestyle: Dash


def line_style(number: int, colours: Sequence[str]) -> LineStyle:
    """Return the style of one line among several; colours that begin again get other dash patterns.

    Lines look alike only after each of the colours has had each of the patterns.
    """
    turn, place = divmod(number, len(colours))
    return {"color": colours[place], "linestyle": DASHES[(place + turn) % len(DASHES)]}


@dataclass(frozen=True)
class Panel:
    """One picture; `alt` says in words what it shows."""

    name: str
    alt: str
    svg: str
    pdf: bytes
    wide: bool = False  # takes the whole width of the page


@dataclass(frozen=True)
class Figure:
    """Panels under one caption; `folded` ones are shown on demand: other spaces, inputs that agree."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    folded: bool = False


@contextmanager
def drawing(heights: Sequence[float] = (2.4,)) -> Iterator[tuple[Canvas, list[Axes]]]:
    """Make axes above each other that share x, of these heights in inches; the lowest has the x labels."""
    with mpl.rc_context(_STYLE):
        canvas = Canvas(figsize=(_WIDTH, sum(heights) + 0.55))
        total = sum(heights) + 0.55
        grid = {"left": 0.17, "right": 0.965, "bottom": 0.36 / total, "top": 1 - 0.19 / total, "hspace": 0.13}
        axes = canvas.subplots(
            len(heights), 1, sharex=True, squeeze=False, height_ratios=list(heights), gridspec_kw=grid
        )
        for ax, height in zip(axes[:, 0], heights, strict=True):
            # fixed places: finding them from the extents of all tick labels would take most of the time
            ax.set_title("")
            ax.yaxis.set_label_coords(-0.135, 1.0)
            ax.xaxis.set_label_coords(1.0, -0.21 / height)
        yield canvas, list(axes[:, 0])


@contextmanager
def listing(
    names: Sequence[str], columns: int = 1, square: bool = False
) -> Iterator[tuple[Canvas, list[Axes]]]:
    """Make axes beside each other with a line for each name, which stands at the left.

    A `square` one has the names below, too.
    """
    with mpl.rc_context(_STYLE):
        widths = [TextPath((0, 0), shown_name(name), size=8).get_extents().width for name in names]
    letters = 0.12 + max(widths, default=0.0) / 72.0
    each = max(_LINE * len(names), 1.2) if square else 2.4
    width = letters + columns * each + 0.15
    height = max(_LINE * len(names), 1.2 if square else 0.5)
    below, above = (letters if square else 0.36), 0.26
    total = below + height + above
    with mpl.rc_context(_STYLE):
        canvas = Canvas(figsize=(width, total))
        grid = {"left": letters / width, "right": 1 - 0.12 / width, "wspace": 0.06}
        grid |= {"bottom": below / total, "top": 1 - above / total}
        axes = canvas.subplots(1, columns, squeeze=False, gridspec_kw=grid)
        for ax in axes[0]:
            ax.set_title("")
            ax.xaxis.set_label_coords(1.0, -0.21 / height)
        yield canvas, list(axes[0])


def shown_name(name: str) -> str:
    """Return a name that is not taken for mathtext."""
    return name.replace("$", r"\$")


def panel(name: str, alt: str, canvas: Canvas, wide: bool = False) -> Panel:
    """Return what was drawn in both formats, the same bytes for the same content; call it in `drawing`."""
    svg, pdf = io.StringIO(), io.BytesIO()
    canvas.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    canvas.savefig(pdf, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return Panel(name, alt, inline_svg(svg.getvalue(), name), pdf.getvalue(), wide)


def inline_svg(document: str, prefix: str) -> str:
    """Return the svg element alone, to stand in a page: ids unique in it, the size left to the page."""
    element = document[document.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", element, flags=re.DOTALL)
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', element))
    element = re.sub(r' id="([^"]*)"', lambda m: f' id="{prefix}-{m[1]}"' if m[1] in used else "", element)
    element = re.sub(r'(url\(|href=")#', rf"\g<1>#{prefix}-", element)
    element = re.sub(r' d="[^"]*"| [xy]="[^"]*"', lambda m: _DECIMALS.sub(r"\1", m[0]), element)
    element = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", element, count=1)
    element = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", element, count=1)
    return re.sub(r"\s*\n\s*", "\n", element).strip()


Place = Literal["best", "upper center", "upper right"]


def legend(axes: Axes, columns: int = 1, where: Place = "best") -> None:
    found = axes.legend(loc=where, ncols=columns, labelspacing=0.25, columnspacing=1.0)
    found.set_zorder(5)


def legend_above(canvas: Canvas, *axes: Axes) -> None:
    """Make room above the panel for a legend of these axes, in two columns if its names are short."""
    found = [ax.get_legend_handles_labels() for ax in axes]
    handles = [handle for entries, _ in found for handle in entries]
    labels = [label for _, entries in found for label in entries]
    widths = [TextPath((0, 0), label, size=7).get_extents().width / 72.0 for label in labels]
    columns = 2 if max(widths) < _WIDTH / 2 - 0.4 else 1
    total = canvas.get_figheight()
    high = total + 0.13 * -(-len(labels) // columns)
    canvas.set_figheight(high)
    for ax in canvas.axes:
        box = ax.get_position()
        ax.set_position((box.x0, box.y0 * total / high, box.width, box.height * total / high))
    canvas.legend(
        handles,
        labels,
        loc="upper center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=columns,
        fontsize=7,
        labelspacing=0.25,
        columnspacing=1.0,
        borderaxespad=0.0,
    )


def headroom(axes: Axes, factor: float = 1.35) -> None:
    """Leave space above the highest curve for the legend."""
    axes.set_ylim(0.0, axes.get_ylim()[1] * factor)
