"""What a test offers that knows the law of t without toys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from numpy.typing import ArrayLike

from covad.nplm.dataset import Float64

if TYPE_CHECKING:
    from covad.nplm.fit import Fit, TauFit


class LawOfT(Protocol):
    """A continuous law of t."""

    @property
    def mean(self) -> float: ...

    @property
    def std(self) -> float: ...

    @property
    def effective_dof(self) -> float:
        """Return the degrees of freedom of the scaled chi2 with the same mean and variance."""
        ...

    def sf(self, x: ArrayLike) -> Float64: ...

    def cdf(self, x: ArrayLike) -> Float64: ...


class NullOfT(Protocol):
    """The law of t at one truth."""

    @property
    def law(self) -> LawOfT: ...

    def t_of(self, tau: TauFit, delta: Fit) -> float:
        """Return t of the fits of a dataset, as this law has it."""
        ...


class NullsOfT(Protocol):
    """The law of t at all yields."""

    @property
    def moves(self) -> bool:
        """Return whether the law of t moves with the yield."""
        ...

    def at_yield(self, log_yield: float = 0.0) -> NullOfT:
        """Return the law where the true yield is e^{log_yield} times as large."""
        ...
