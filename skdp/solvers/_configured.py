"""Frozen configurations: how users' parameters become one, and what they check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

# What a parameter has to pass: from its name and value to what is kept.
Checks = Mapping[str, Callable[[str, Any], Any]]


@dataclass(frozen=True, kw_only=True)
class Configured:
    """A frozen dataclass of public hyper-parameters; keeps no state between runs.

    A field whose default is None has a data-independent rule, which the subclass's
    ``resolve`` fills in.
    """

    key: ClassVar[str]  # in the registry, the module's name, tests, docs and benchmarks
    checks: ClassVar[Checks] = {}

    def __post_init__(self) -> None:
        # Plain numbers are kept: a NumPy scalar of half precision would carry its
        # rounding, and its overflow, into the sensitivity and the noise.
        for name, check in self.checks.items():
            value = getattr(self, name)
            if value is not None or getattr(type(self), name) is not None:
                object.__setattr__(self, name, check(name, value))


_Kind = TypeVar("_Kind", bound=Configured)


def configured(kind: type[_Kind], key: str, params: Mapping[str, Any] | None) -> _Kind:
    """The configuration that ``solver=key, solver_params=params`` names.

    Raises
    ------
    ValueError, TypeError
        If a parameter is unknown or out of range.
    """
    if params is not None and not isinstance(params, Mapping):
        raise TypeError(
            "The 'solver_params' parameter must be None or a mapping. "
            f"Got an instance of {type(params).__name__}."
        )
    allowed = [field.name for field in fields(kind)]
    unknown = sorted(str(name) for name in params or {} if name not in allowed)
    if unknown:
        raise ValueError(
            f"The 'solver_params' of solver={key!r} must be among {allowed}. "
            f"Got {unknown}. Noise scale, sensitivity, sampler and randomness "
            "follow from epsilon, delta and adjacency and cannot be set."
        )
    return kind(**(params or {}))
