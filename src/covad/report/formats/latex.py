"""Tables as LaTeX."""

from __future__ import annotations

import re

from covad.inference.significance import MARK
from covad.report.tables.table import Table, ended, parts_of, shown

_TEX = {
    "χ²": r"$\chi^2$",
    "₄₅": r"$_{45}$",
    "₀": r"$_0$",
    "₊₁": r"$_{+1\sigma}$",
    "₋₁": r"$_{-1\sigma}$",
    "⁰": r"$^0$",
    "⁻¹": r"$^{-1}$",
    "Φ": r"$\Phi$",
    "×": r"$\times$",
    "√": r"$\surd$",
    "†": r"$^\dagger$",
    "ν": r"$\nu$",
    "Δ": r"$\Delta$",
    "σ": r"$\sigma$",
    "τ": r"$\tau$",
    "α": r"$\alpha$",
    "ℓ": r"$\ell$",
    "→": r"$\to$",
    "±": r"$\pm$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "−": r"$-$",
    "–": "--",
    "…": r"\ldots{}",
    "%": r"\%",
    "_": r"\_",
    "&": r"\&",
    "#": r"\#",
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
}
_TEX_PATTERN = re.compile("|".join(re.escape(symbol) for symbol in _TEX))


def latex(text: str) -> str:
    """Return plain text as LaTeX: symbols by their commands, LaTeX's own characters escaped."""
    return _TEX_PATTERN.sub(lambda match: _TEX[match.group()], text)


def latex_text(table: Table) -> str:
    """Return a table environment; the paper's numbers follow ours in brackets."""
    header = []
    if table.groups:
        over = [rf"\multicolumn{{{n}}}{{c}}{{{latex(group)}}}" for group, n in table.groups]
        header.append([""] * len(table.keys) + over)
    header.append([latex(name) for name in (*table.keys, *(column.label for column in table.columns))])
    rows = []
    for row in table.rows:
        cells = []
        for cell in row.cells:
            ours = _number(cell.text) + (latex(MARK) if cell.extrapolated else "")
            cells.append(ours if cell.paper is None else f"{ours} [{_number(cell.paper)}]")
        rows.append([*(latex(key) for key in row.keys), *cells])
    layout = "l" * len(table.keys)
    layout += "".join(r"p{0.4\textwidth}" if column.prose else "c" for column in table.columns)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{\textbf{{{latex(ended(table.title))}}} {latex(table.caption_with('In brackets'))}}}",
        rf"\label{{{'tab:' + table.name}}}",
        rf"\begin{{tabular}}{{{layout}}}",
        r"\hline",
        *(" & ".join(line) + r" \\" for line in header),
        r"\hline",
        *(" & ".join(line) + r" \\" for line in rows),
        r"\hline",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _number(text: str) -> str:
    """Set '1.08 +0.11 -0.10' as a value with its errors."""
    parts = parts_of(text)
    if parts is not None:
        return f"${parts[0]}^{{+{parts[1]}}}_{{-{parts[2]}}}$"
    return latex(shown(text))
