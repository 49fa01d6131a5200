"""How things are called in the report: Unicode for the page, CSV and LaTeX, mathtext for matplotlib."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from covad.results.summary import ConfigurationSummary
from covad.toys.ensembles import Treatment
from covad.toys.truths import point_name, point_text

NO_BREAK = "\N{NO-BREAK SPACE}"
#: (signal, injected events).
Injection = tuple[str, float]


@dataclass(frozen=True)
class Label:
    """One name as text, and as the mathtext of figures."""

    text: str
    tex: str


_SIGNALS = {
    "lq": Label("LQ → bτ", r"$LQ \to b\tau$"),
    "a4l": Label("A → 4ℓ", r"$A \to 4\ell$"),
    "h0": Label("h⁰ → ττ", r"$h^0 \to \tau\tau$"),
    "hpm": Label("h± → τν", r"$h^\pm \to \tau^\pm\nu$"),
}
_PROCESSES = {"w": "W", "z": "Z", "qcd": "QCD", "ttbar": "tt̅"}
#: A nuisance with its value in what `point_text` tells; a nuisance of the yield has its unit already.
_SHIFT = re.compile(r"([A-Za-z][\w-]*) = ([+-]\d+(?:\.\d+)?(?:e[+-]\d+)?)(?![\d.e+-]* sigma)")
#: The letter in nu and nu_N where a value follows.
_GREEK = re.compile(r"(?<![\w-])nu(?=(?:_N)? = )")
#: Digits and the sign of a power of ten.
_POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
#: The paper's order of the signals.
SIGNAL_ORDER = tuple(_SIGNALS)


def signal_label(name: str) -> Label:
    """Name a process of the paper as it does, any other by its own."""
    return _SIGNALS.get(name, Label(name, name.replace("$", r"\$")))


def process_label(name: str) -> str:
    """Name a background process as people write it, any other by its own name."""
    return _PROCESSES.get(name, name)


def dimension_label(name: str) -> str:
    """Return what an axis calls a dimension: z0 as a symbol, an observable by its name."""
    return f"$z_{name[1:]}$" if name[:1] == "z" and name[1:].isdigit() else name.replace("$", r"\$")


def ordered(injections: Iterable[Injection]) -> list[Injection]:
    """Return signals in the paper's order, others after them, small injections first."""
    order = {name: number for number, name in enumerate(SIGNAL_ORDER)}
    return sorted(injections, key=lambda i: (order.get(i[0], len(order)), i[0], i[1]))


def _space_title(configuration: ConfigurationSummary) -> str:
    """Say what is learned, and what is observables."""
    match configuration.kind:
        case "contrastive" | "covariant":
            return f"{configuration.space} embedding"
        case "observables" | "joined":
            return f"space '{configuration.space}' ({configuration.kind})"
    return configuration.space


def configuration_title(configuration: ConfigurationSummary) -> str:
    """Return the long form of its label: 'covariant embedding, nuisances profiled'."""
    profiled = configuration.treatment is Treatment.PROFILED
    parts = [
        _space_title(configuration),
        "nuisances profiled" if profiled else "no nuisances in the test",
    ]
    if configuration.order == 2:
        parts.append("quadratic response")
    if configuration.own_sizes:
        parts.append(f"{configuration.expected:g} events")
    return ", ".join(parts)


def share(injected: float, expected: float) -> str:
    """Return injected events as a share of the expected background: '0.5 %'."""
    return f"{100.0 * injected / expected:.3g} %"


def nu_label(nu: Sequence[float], names: Sequence[str]) -> Label:
    """Name a point of nu; of several nuisances only those that are not 0 are named."""
    return point_label(point_name(nu, names))


def point_label(point: str) -> Label:
    """Name a truth by its key in the summary: R_nu by its nu, any other by itself."""
    told = point_text(point)
    if told == point and not point.startswith("nu_N = "):
        return Label(point, point.replace("$", r"\$"))
    text = shown_reason(told)
    if text.startswith("ν"):
        tex = text.replace("ν", r"\nu").replace("σ", r"\sigma").replace("−", "-")
        return Label(text, f"${tex}$")
    return Label(text, _SHIFT.sub(r"\1 = $\2\\sigma$", told))


def shown_reason(reason: str) -> str:
    """Return the reason of a verdict in the report's signs, its point named as in the tables."""
    told = _GREEK.sub("ν", _SHIFT.sub(r"\1 = \2σ", reason))
    return shown_signs(told.replace(" sigma", "σ"))


def shown_signs(text: str) -> str:
    """Put minus signs before numbers; a hyphen inside a word stays."""
    return re.sub(r"(?<!\w)-(?=\.?\d)", "−", text)


def shown_errors(text: str) -> str:
    """Write errors as the report does."""
    return text.replace("+-", "±")


def null_label(null: str) -> Label:
    """Name a null by its key in the summary."""
    if null == "R_0":
        return Label("R₀", r"toys at $\nu = 0$")
    if null == "chi2":
        return Label("χ²", r"$\chi^2$")
    if null == "analytic":
        return Label("law of t", r"the law of $t$")
    if null == "joint":
        return Label("both tests jointly", "both tests jointly")
    there = point_label(null)
    return Label(f"R({there.text})", f"toys at {there.tex}")


def test_label(test: str) -> str:
    """Name a test, or the rule that takes the smaller p of two."""
    return {"convex": "convex test", "adaptive": "adaptive test", "joint": "both tests"}.get(test, test)


def goodness_label(method: str) -> str:
    """Name a method of goodness of fit: 'chi2 (10 dof)' as 'χ² (10 dof)'."""
    return method.replace("chi2", "χ²")


def slug(text: str) -> str:
    """Return a name for files: lower case, digits and underscores."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def number(value: float) -> str:
    """Return a count with its thousands apart, and decimals only where it is small: '52 000', '0.3'."""
    digits = f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.2g}"
    return digits.replace(",", NO_BREAK)


def shown_p(p: float) -> str:
    """Return p with two digits: '0.43', or '5 × 10⁻⁶³' where it is small."""
    if p == 0.0 or p >= 1e-3 or math.isnan(p):
        return f"{p:.2g}"
    digits, power = f"{p:.1e}".split("e")
    return f"{digits} × 10{str(int(power)).translate(_POWERS)}"
