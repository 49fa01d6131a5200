"""The response: log n(z|nu)/n(z|0) = nu.g(z) + 1/2 nu.D(z).nu - eps(nu)   (eq:linear, eq:logr-poly).

n is a density of events, so that the change of the yield is part of it. g has one column per nuisance, and a
constant that gives it the odd part of that change: log E_R0[e^{g_k}] - log E_R0[e^{-g_k}] = log(N_+/N_-) at
nu_k = +-1 (`fit.yield_constants`). eps(nu) = log E_R0[e^{nu.g + ...}] - log(N_nu/N_0) is what is left: even
in nu and of second order to begin with (0.1 % at one sigma of the jet energy scale). It does not depend on z
and is left out, so that the likelihood of a linear response is concave. The normalisation nuisance nu_N
absorbs it where there is one; the stage `checks` tells by how much it shifts t. With D, eps(nu_k = +-1) = 0.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from covad.embedding.losses import RatioHead
from covad.errors import CovadError, FileFormatError
from covad.response.grid import Pair, all_pairs
from covad.response.settings import ResponseFit
from covad.storage.tensors import load_weights, save_weights

#: Of files with a network for each group of nuisances. Those without a number are of format 1: one network.
_FORMAT = 2


@dataclass(frozen=True)
class ResponseShape:
    """Shape of the response: nuisances, order of the polynomial in nu, hidden layers."""

    n_dimensions: int
    n_nuisances: int
    order: int = 1
    hidden: tuple[int, ...] = ResponseFit().hidden
    cross: tuple[Pair, ...] | None = None  # pairs of nuisances with a mixed term in D; None: all
    straight: tuple[int, ...] = ()  # nuisances without a square in D: one side cannot tell it from g

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise CovadError(f"the response is linear or quadratic in nu: order 1 or 2, not {self.order}")
        for a, b in self.cross or ():
            if not 0 <= a < b < self.n_nuisances:
                raise CovadError(f"({a}, {b}) is no pair of {self.n_nuisances} nuisances, the smaller first")

    @property
    def terms(self) -> tuple[Pair, ...]:
        """Return which elements of D have a column: those of the upper triangle, row by row."""
        if self.order == 1:
            return ()
        k = self.n_nuisances
        mixed = set(all_pairs(k) if self.cross is None else self.cross)
        mixed |= {(a, a) for a in range(k) if a not in self.straight}
        return tuple((a, b) for a in range(k) for b in range(a, k) if (a, b) in mixed)

    @property
    def n_columns(self) -> int:
        """g, then the elements of D."""
        return self.n_nuisances + len(self.terms)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Return the nuisances that share a network: those that a mixed term links, all if all have one.

        A network for each describes weak nuisances beside strong ones better than one network for all.
        """
        if self.cross is None:
            return (tuple(range(self.n_nuisances)),)
        group = list(range(self.n_nuisances))
        for a, b in self.cross:
            group = [group[a] if number == group[b] else number for number in group]
        return tuple(
            tuple(k for k in range(self.n_nuisances) if group[k] == number) for number in dict.fromkeys(group)
        )

    def of_group(self, group: tuple[int, ...]) -> ResponseShape:
        """Return the shape of the network of some nuisances."""
        place = {k: number for number, k in enumerate(group)}
        cross = tuple((place[a], place[b]) for a, b in self.cross or () if a in place)
        straight = tuple(place[k] for k in self.straight if k in place)
        # one nuisance alone has no pairs, and its network is the same whatever is said of them
        own = cross if len(group) > 1 else None
        return replace(self, n_nuisances=len(group), cross=own, straight=straight)

    def columns_of(self, group: tuple[int, ...]) -> list[int]:
        """Return which columns belong to some nuisances, in the order of their own network."""
        mixed = [self.n_nuisances + n for n, (a, _) in enumerate(self.terms) if a in group]
        return [*group, *mixed]

    def polynomial(self, nu: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what multiplies the columns: nu_k, then 1/2 nu_k^2 and nu_k nu_l for the terms of D."""
        if self.order == 1:
            return nu
        k, m = np.array(self.terms, dtype=np.int64).reshape(-1, 2).T
        return np.concatenate([nu, np.where(k == m, 0.5, 1.0) * nu[k] * nu[m]])

    def of_columns(self, quadratic: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return D as symmetric matrices, (N, K, K), from its columns; zero where it has none."""
        k, m = np.array(self.terms, dtype=np.int64).reshape(-1, 2).T
        full = np.zeros((len(quadratic), self.n_nuisances, self.n_nuisances), dtype=np.float32)
        full[:, k, m] = full[:, m, k] = quadratic
        return full


class GroupedHead(nn.Module):
    """A network for each group of nuisances; their columns in the order of the shape."""

    order: torch.Tensor

    def __init__(self, shape: ResponseShape) -> None:
        super().__init__()
        shapes = [shape.of_group(group) for group in shape.groups]
        self.parts = nn.ModuleList(RatioHead(own.n_dimensions, own.hidden, own.n_columns) for own in shapes)
        columns = [column for group in shape.groups for column in shape.columns_of(group)]
        self.register_buffer("order", torch.from_numpy(np.argsort(columns)), persistent=False)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return torch.cat([part(z) for part in self.parts], dim=1)[:, self.order]


class ResponseModel(nn.Module):
    """One or several fitted heads (their columns are averaged) in the whitened latent space.

    Encoders leave latent directions with correlations of 0.9. The heads see them uncorrelated and of unit
    variance: what varies across a thin direction is then as easy to learn as what varies along a wide one.
    """

    centre: torch.Tensor
    whitening: torch.Tensor
    offset: torch.Tensor
    kept: torch.Tensor

    def __init__(self, shape: ResponseShape, n_heads: int = 1) -> None:
        super().__init__()
        self.shape = shape
        self.heads = nn.ModuleList(
            RatioHead(shape.n_dimensions, shape.hidden, shape.n_columns)
            if len(shape.groups) == 1
            else GroupedHead(shape)
            for _ in range(n_heads)
        )
        self.register_buffer("centre", torch.zeros(shape.n_dimensions))
        self.register_buffer("whitening", torch.eye(shape.n_dimensions))
        self.register_buffer("offset", torch.zeros(shape.n_columns))
        self.register_buffer("kept", torch.ones(shape.n_columns), persistent=False)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return (self.by_head(z).mean(dim=0) - self.offset) * self.kept

    def leave_out(self, nuisances: Collection[int]) -> None:
        """Let the response not know some nuisances: their columns are 0 from now on.

        Tests fit them to their auxiliary values then, and t is that of a test without them.
        """
        columns = [*((k, k) for k in range(self.shape.n_nuisances)), *self.shape.terms]
        for column, pair in enumerate(columns):
            if set(pair) & set(nuisances):
                self.kept[column] = 0.0

    def by_head(self, z: torch.Tensor) -> torch.Tensor:
        """Return the columns of every head, (heads, N, n_columns), without the constants of the yield."""
        white = (z - self.centre) @ self.whitening
        return torch.stack([head(white) for head in self.heads])

    @torch.no_grad()
    def columns(self, z: NDArray[np.float32], batch: int = 65_536) -> NDArray[np.float32]:
        """Return all columns of the response, (N, n_columns)."""
        parts = [self(torch.from_numpy(z[i : i + batch])).numpy() for i in range(0, len(z), batch)]
        return np.concatenate(parts) if parts else np.zeros((0, self.shape.n_columns), np.float32)

    def log_ratio(self, columns: NDArray[np.float32], nu: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return nu.g + 1/2 nu.D.nu from columns, without eps(nu)."""
        return np.asarray(columns @ self.shape.polynomial(nu), dtype=np.float64)

    def save(self, path: Path, trained_on: dict[str, Any]) -> None:
        shape = asdict(self.shape)
        first = shape["cross"] is None and not shape["straight"]
        if first:  # readable by any covad
            shape = {key: value for key, value in shape.items() if key not in ("cross", "straight")}
        settings = {"response": shape, "heads": len(self.heads), "trained_on": trained_on}
        if not first:
            settings["format"] = _FORMAT
        save_weights(path, "response", self.state_dict(), settings)

    @classmethod
    def load(cls, path: Path) -> ResponseModel:
        tensors, stored = load_weights(path, "response")
        if stored.get("format", 1) not in (1, _FORMAT):
            raise FileFormatError(
                f"{path}: the response has the format {stored['format']}, and this covad reads 1 and "
                f"{_FORMAT}: use the covad that made it"
            )
        try:
            shape = dict(stored["response"])
            shape["hidden"] = tuple(shape["hidden"])
            if shape.get("cross") is not None:
                shape["cross"] = tuple((int(a), int(b)) for a, b in shape["cross"])
            shape["straight"] = tuple(shape.get("straight", ()))
            model = cls(ResponseShape(**shape), int(stored["heads"]))
            model.load_state_dict(tensors)
        except (KeyError, RuntimeError, TypeError, ValueError, CovadError) as failure:
            raise FileFormatError(
                f"{path}: the stored response is incomplete ({failure}); delete it and run again"
            ) from failure
        return model
