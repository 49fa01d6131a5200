"""How the truth of an ensemble is written, in tables, messages and sentences."""

from __future__ import annotations

from collections.abc import Sequence

#: Nuisances beyond which a point is named by those that are not 0.
MANY_NUISANCES = 4


def nu_text(nu: Sequence[float], separator: str = ", ", unit: str = "") -> str:
    """Return how nu is written everywhere: '+1', '0', or '-1, 0' for several nuisances."""
    return separator.join(f"{x:+g}{unit}" if x else "0" for x in nu)


def truth_text(
    nu: Sequence[float], nu_norm: float = 0.0, prior: bool = False, along_worst: float = 0.0
) -> str:
    """Return how the truth of an ensemble is written: as `nu_text`, 'nu_N = -1.5 sigma' or 'prior'.

    '+2 sigma along the worst direction' stands for all nuisances there.

    Of many nuisances those that are not 0 are named: 'nu_1 = +1, nu_4 = -1'.
    """
    if prior:
        return "prior"
    if along_worst:
        return f"{along_worst:+g} sigma along the worst direction"
    if nu_norm:
        return f"nu_N = {nu_norm:+g} sigma"
    if len(nu) > MANY_NUISANCES:
        return ", ".join(f"nu_{k} = {x:+g}" for k, x in enumerate(nu, start=1) if x) or "0"
    return nu_text(nu)
