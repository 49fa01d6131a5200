"""How the truth of an ensemble is named: by one key in files, which tables, messages and sentences tell."""

from __future__ import annotations

from collections.abc import Sequence


def point_name(
    nu: Sequence[float],
    names: Sequence[str],
    nu_norm: float = 0.0,
    prior: bool = False,
    along_worst: float = 0.0,
) -> str:
    """Return the key of a truth: 'R_+1', 'nu_N = -1.5 sigma', 'prior', '+2 sigma along the worst direction'.

    `names` are those of the nuisances in `nu`. Of several, those that are not 0 are named:
    'R_jet_scale=-2,qcd_rate=+1'. 'R_0' is the truth where none is shifted.
    """
    if prior:
        return "prior"
    if along_worst:
        return f"{along_worst:+g} sigma along the worst direction"
    if nu_norm:
        return f"nu_N = {nu_norm:+g} sigma"
    shifted = {name: f"{x:+g}" for name, x in zip(names, nu, strict=True) if x}
    told = shifted.values() if len(nu) == 1 else (f"{name}={x}" for name, x in shifted.items())
    return f"R_{','.join(told) or '0'}"


def point_text(name: str) -> str:
    """Return how a key of `point_name` is told in a sentence; any that is not R_nu is its own.

    'nu = +1' for R_+1, 'jet_scale = -2, qcd_rate = +1' for R_jet_scale=-2,qcd_rate=+1.
    """
    if not name.startswith("R_"):
        return name
    point = name.removeprefix("R_").replace("=", " = ").replace(",", ", ")
    return point if "=" in point else f"nu = {point}"


def nu_text(nu: Sequence[float], names: Sequence[str]) -> str:
    """Return how a point of nu is told in a sentence: 'nu = +1', or 'qcd_rate = +1' of several nuisances."""
    return point_text(point_name(nu, names))
