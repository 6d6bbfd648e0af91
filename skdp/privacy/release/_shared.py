"""Answers from several data owners, each of whom adds a part of the noise."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from types import FunctionType
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from skdp._arrays import FloatArray, IntArray
from skdp.exceptions import Refused
from skdp.privacy.noise._laws import Gaussian, NoiseLaw
from skdp.privacy.noise._noise import NoiseScale, NoiseSource, share_ratio
from skdp.privacy.release._answers import (
    Answers,
    Grant,
    Released,
    answered,
    seen_by,
    whole_of,
)
from skdp.privacy.release._plan import Everyone, Inside, Line, Part, Plan, Query
from skdp.tables._source import Records

# ------------------------------------------------ Owners, who keep their sums secret


class Owners(Protocol):
    """Several owners of the records of one fit.

    Attributes
    ----------
    n_parties : int
        Number of owners; public.
    n_honest : int
        Number of owners who are trusted to draw their share of the noise.
    seed : int or None
        Seed of public draws, such as trees, for all owners; None if one process draws.
    """

    n_parties: int
    n_honest: int
    seed: int | None

    def charged(self, event: Any, delta: float, ledger: Any) -> None:
        """Called in a rehearsal with an event that will be charged, and its ledger."""
        ...

    def one_of(self, fits: Sequence[Callable[[], Any]]) -> None:
        """Called in a rehearsal with several fits, one of which will be next."""
        ...

    def planned(self, query: Any, source: Any, statement: bytes) -> None:
        """Called in a rehearsal with a future query, and the digest of its statement.

        Raises `Refused` if the query cannot be sent to the owners.
        """
        ...

    def answers(self, query: Any, source: Any) -> list[FloatArray]:
        """The exact answer over the records of each owner in this process. Private."""
        ...

    def added(self, statement: bytes, shares: list[IntArray]) -> IntArray:
        """The sum of all owners' shares.

        Parameters
        ----------
        statement : bytes
            Digest of the query and its noise; must be equal for all owners.
        shares : list of ndarray of int64
            Shares of the owners in this process, with their noise.
        """
        ...


def is_theirs(owners: Owners, source: Records) -> bool:
    """Whether the records of a source are added up over these owners."""
    return getattr(source.remote, "owners", None) is owners


# -------------------------------------------------------------------- Digest of a query
# All owners who ask the same query with the same weights compute the same digest.


# Attributes of a fitted model that differ between owners or describe the charge.
_OWN = ("ledger", "privacy_", "random_state")
_PLAIN = (bool, int, float, str, bytes, type(None), np.generic)


def statement_of(*asked: Any) -> bytes:
    """Digest of plain values, arrays, and public fields of frozen objects.

    Raises
    ------
    Refused
        If an object may contain something else on which an answer depends.
    """
    found = hashlib.blake2b(digest_size=32)
    _tell(found, asked)
    return found.digest()


def _tell(found: Any, value: Any) -> None:
    if isinstance(value, np.ndarray) and value.dtype != object:
        _say(found, f"{value.dtype.str}{value.shape}", value.tobytes())
    elif isinstance(value, _PLAIN):
        _say(found, type(value).__name__, repr(value).encode())
    elif isinstance(value, np.ndarray):
        _say(found, "objects", str(value.shape).encode())
        _tell(found, value.ravel().tolist())
    elif isinstance(value, csr_array):
        _say(found, "sparse", str(value.shape).encode())
        _tell(found, (value.indptr, value.indices, value.data))
    elif isinstance(value, dict):
        _say(found, "mapping", str(len(value)).encode())
        _tell(found, sorted(value.items(), key=lambda item: repr(item[0])))
    elif hasattr(value, "get_params") and not isinstance(value, type):
        kind = type(value)
        _say(found, "model", f"{kind.__module__}.{kind.__qualname__}".encode())
        _tell(found, {k: v for k, v in vars(value).items() if k not in _OWN})
    elif isinstance(value, slice):
        _say(found, "slice", b"")
        _tell(found, (value.start, value.stop, value.step))
    elif isinstance(value, (tuple, list)):
        _say(found, "several", str(len(value)).encode())
        for one in value:
            _tell(found, one)
    elif isinstance(value, FunctionType) and not value.__closure__:
        _say(found, "function", f"{value.__module__}.{value.__qualname__}".encode())
    elif isinstance(value, partial):
        _say(found, "partial", b"")
        _tell(found, (value.func, value.args, value.keywords))
    elif not is_dataclass(value) or isinstance(value, type):
        raise Refused(
            "Several owners must be able to compare their queries. Got a query with an "
            f"instance of {type(value).__name__}, which has no digest. Use another "
            "estimator or solver. Nothing was charged or read."
        )
    else:
        _say(found, "object", type(value).__qualname__.encode())
        for field in fields(value):
            _say(found, "field", field.name.encode())
            _tell(found, getattr(value, field.name))


def _say(found: Any, kind: str, content: bytes) -> None:
    """Write kind and length first, so that different values give different bytes."""
    found.update(f"{kind} {len(content)} ".encode() + content)


# -------------------------------------------------------- Answers added up over owners
# Each owner adds ``round(N(0, sigma^2 / t))`` to the answer on the grid. As long as t
# owners do so and keep their draws secret, the sum that is visible has at least the
# declared noise. ``docs/proofs/owners.md`` has the law of the sum and the proof.


_REMEDY = (
    "Use an estimator and a solver that need only sums over all records with Gaussian "
    "noise, such as DPLogisticRegression with solver='noisy_gd' and a delta above 0. "
    "Nothing was charged or read."
)
_ROWS = f"With several owners a fit must not read rows. Got one that does. {_REMEDY}"
_LAW = f"With several owners noise must be Gaussian. Got another law. {_REMEDY}"
_SAMPLE = (
    "With several owners a fit must use all records, since the owner who draws a "
    f"sample knows it. Got a fit that samples. {_REMEDY}"
)
_SEEN = (
    "With several owners a fit must pay for every answer, since the owners see all of "
    "them. Got a fit that pays for fewer; in a search use method='composition'. "
    f"{_REMEDY}"
)
# Smallest standard deviation of one noise share, in steps of the grid. For smaller ones
# the law of a sum of rounded draws is not the law of the proof.
_FEWEST_STEPS = 64.0


def check_shared(plan: Plan | None, source: Any, owners: Owners) -> None:
    """Raise for plans that several owners cannot answer; uses public facts only.

    Raises
    ------
    Refused
    """
    if plan is None:
        raise Refused(
            "Several owners answer with noise only. Got epsilon=inf. Use a finite "
            "epsilon. Nothing was charged or read."
        )
    if not is_theirs(owners, source):
        raise Refused(_ROWS)
    _check_seen(plan)


def _check_seen(plan: Plan) -> None:
    """Raise for events that require hidden answers, also in parts of the plan."""
    if plan.declared is not None and not plan.is_seen:
        raise Refused(_SEEN)
    for line in plan.lines:
        # A plan that pays for all of its answers also pays for those of its parts.
        if isinstance(line, Part) and not plan.is_seen:
            _check_seen(line.plan)


class SharedAnswers(Answers):
    """Sums over the records of several owners, with noise shares from one source.

    Parameters
    ----------
    noise : NoiseSource or None
        Noise of the owners in this process: of one owner, or of all in a simulation.
        None in a rehearsal, which raises for queries that owners cannot answer, and
        answers other queries with zeros.
    """

    def __init__(
        self,
        plan: Plan,
        source: Any,
        grant: Grant,
        owners: Owners,
        noise: NoiseSource | None,
    ) -> None:
        super().__init__(plan, source, grant)
        self._owners, self._noise = owners, noise

    def ask(self, query: Query, line: int = 0) -> Released:
        asked, law, scale, bound = self._shared(query, line)
        # Count before the read: a failed read may have seen records.
        self._take(line)
        statement = statement_of(query, query.shape, scale.grid, scale.sigma)
        if self._noise is None:
            # The owners may refuse the query before anything is charged.
            self._owners.planned(query, self._source, statement)
            return self._scaled(np.zeros(query.shape), asked, law, bound)
        total = self._total(query, scale, self._noise, statement)
        value = (total * scale.grid).reshape(query.shape)
        released = self._scaled(value, asked, law, bound)
        self._largest = max(self._largest, released.sigma)
        return released

    def choose(self, query: Query, k: int, line: int) -> IntArray:
        raise Refused(_ROWS)

    def inside(self, algorithm: Inside, hear: Any = None) -> Any:
        raise Refused(_ROWS)

    def _scaled(
        self, value: FloatArray, line: Line, law: NoiseLaw, bound: float
    ) -> Released:
        """A released value whose noise scale counts the shares of all owners."""
        found = super()._scaled(value, line, law, bound)
        spread = math.sqrt(self._owners.n_parties / self._owners.n_honest)
        sigma, deviation = found.sigma * spread, found.deviation * spread
        return replace(found, sigma=sigma, deviation=deviation)

    def _shared(
        self, query: Query, number: int
    ) -> tuple[Line, NoiseLaw, NoiseScale, float]:
        """A line that owners can answer, with its law, its scale and its bound."""
        line, law = self._of_noise(number)
        if not isinstance(law, Gaussian):
            raise Refused(_LAW)
        if not isinstance(line.sample, Everyone):
            raise Refused(_SAMPLE)
        if whole_of(query) is None:
            raise Refused(_ROWS)
        bound = self._bound(query, line)
        charged = bound + self._slack(query, self._layout(line))
        multiplier = line.multiplier(self.noise_multiplier)
        scale = law.scale(charged, multiplier, math.prod(query.shape), line.is_fine)
        if not share_ratio(scale, self._owners.n_honest) >= _FEWEST_STEPS:
            raise Refused(
                "The noise of one owner must be wide compared with the grid of the "
                "answers. Got less noise. Use a smaller epsilon or fewer parties. "
                "Nothing was charged or read."
            )
        return line, law, scale, charged

    def _total(
        self, query: Query, scale: NoiseScale, noise: NoiseSource, statement: bytes
    ) -> Any:
        """Sum of all owners' answers and noise, as whole numbers of grid steps."""
        t = self._owners.n_honest
        shares = answered(
            lambda: [
                noise.gaussian_share(own.ravel(), scale, t)
                for own in self._owners.answers(query, self._source)
            ]
        )
        return self._owners.added(statement, shares)

    def _sub(self, plan: Plan, view: Any, grant: Grant) -> Answers:
        if self._noise is not None:
            source = seen_by(view, self._source)
        else:
            source = self._source if view is None else view(self._source)
            if not is_theirs(self._owners, source):
                raise Refused(_ROWS)
        return SharedAnswers(plan, source, grant, self._owners, self._noise)
