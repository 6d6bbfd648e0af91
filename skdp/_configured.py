"""Frozen configurations, their kinds by key, and versions of what is stored."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from configparser import ConfigParser
from dataclasses import MISSING, Field, dataclass, fields
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from skdp._quiet import warn
from skdp._version import __version__
from skdp.exceptions import InconsistentVersionWarning

# ------------------------------------------------------------ Versions of stored things
# Every kind of stored thing (fitted state, record, ledger) has a schema number. The
# number grows when a release writes what earlier releases would misread. A newer number
# than the one known here is refused, and so is anything stored before 1.0.
# ``docs/support.md`` has the rules.


def check_schema(what: str, schema: Any, known: int, version: str) -> None:
    """Refuse a stored thing that this release could misread.

    Raises `ValueError` if its schema number is not `known`.
    """
    if type(schema) is int and schema == known:
        return
    raise ValueError(
        f"{what} must have the schema number {known} to be read by skdp "
        f"{__version__}. Got {schema!r}, written by skdp {version}. Use that release "
        "of skdp, or a newer one."
    )


def warn_of_version(what: str, version: str, remedy: str) -> None:
    """Warn if another minor version wrote a stored thing."""
    if _minor(version) == _minor(__version__):
        return
    warn(InconsistentVersionWarning(what, version, __version__, remedy))


def check_version(what: str, version: Any) -> str:
    """The version that wrote a stored thing; ValueError if the thing names none.

    Whatever was stored before 1.0 names no version, and is not read.
    """
    is_text = isinstance(version, str)
    if is_text and re.fullmatch(r"[1-9]\d*\.\d+[\w.+]*", version):
        return str(version)
    raise ValueError(
        f"{what} must name the version of skdp that wrote it, 1.0 or later. Got "
        f"{repr(version) if is_text else 'none, as before 1.0'}. Read it with the "
        "release that wrote it, or fit anew, which spends anew."
    )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


# ---------------------------------------------------------------- Frozen configurations
# A configuration is what users gave and what rules decided, kept apart.


# Check of each parameter: a function of its name and value returns the value to keep.
Checks = Mapping[str, Callable[[str, Any], Any]]
# Checked parameters that users gave; a parameter that is left to a rule is absent.
Given = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Configured:
    """A frozen dataclass of public hyper-parameters, all of them decided.

    A field without a default has a data-independent rule: the subclass's ``planned``
    applies it if the user gave no value.
    """

    key: ClassVar[str]  # in the registry, the module's name, tests, docs and benchmarks
    checks: ClassVar[Checks] = {}
    # Checks of parameters that users give in another form than the one that is kept.
    given_checks: ClassVar[Checks] = {}

    @classmethod
    def check_given(cls, given: Given) -> None:
        """Raise if checked parameters do not go together."""

    def __post_init__(self) -> None:
        # Plain numbers are kept: a NumPy scalar of half precision would carry its
        # rounding, and its overflow, into the sensitivity and the noise.
        for name, check in self.checks.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))


def given_params(
    kind: type[Configured], key: str, params: Mapping[str, Any] | None
) -> Given:
    """The checked parameters of ``solver=key, solver_params=params``.

    None stands for the rule of a parameter that has one.

    Raises `ValueError` or `TypeError` if a parameter is unknown or out of range.
    """
    if params is not None and not isinstance(params, Mapping):
        raise TypeError(
            "The 'solver_params' parameter must be None or a mapping. "
            f"Got an instance of {type(params).__name__}."
        )
    names = [field.name for field in fields(kind)]
    allowed = list(dict.fromkeys([*names, *kind.given_checks]))
    unknown = sorted(str(name) for name in params or {} if name not in allowed)
    if unknown:
        raise ValueError(
            f"The 'solver_params' of solver={key!r} must be among {allowed}. "
            f"Got {unknown}. Noise scale, sensitivity, sampler and randomness "
            "follow from epsilon, delta and adjacency and cannot be set."
        )
    return checked_params(kind, params or {})


def checked_params(kind: type[Configured], params: Mapping[str, Any]) -> Given:
    """Known parameters, each checked; a None that stands for a rule is left out."""
    fixed = {field.name for field in fields(kind) if not _has_rule(field)}
    checks, given = {**kind.checks, **kind.given_checks}, {}
    for name, value in params.items():
        if value is None and name not in fixed:
            continue
        check = checks.get(name)
        given[name] = value if check is None else check(name, value)
    kind.check_given(given)
    return MappingProxyType(given)


def _has_rule(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


# ---------------------- Kinds by the key that users name, those of the annexes included
# An annex says in entry points which keys it adds to which registry. It is imported
# when one of its kinds is looked up, and by nothing else.


Kind = TypeVar("Kind")

# pyproject.toml passes this file on as the entry points of skdp. It is also read here,
# and takes precedence: metadata of a checkout may be missing or of another version.
_OF_ANNEX = Path(__file__).parent / "papers" / "entry_points.txt"


class Registry(Mapping[str, Kind]):
    """Kinds by key: the house's in their order, then the entry points' in their order.

    Parameters
    ----------
    group : str
        Group of the entry points.
    house : mapping of str to Kind
        Kinds without entry points.
    """

    def __init__(self, group: str, house: Mapping[str, Kind]) -> None:
        self.group, self._kinds = group, dict(house)

    @cached_property
    def _points(self) -> dict[str, EntryPoint]:
        """Entry points by key, except keys that `_kinds` has at first."""
        annex = ConfigParser(delimiters="=", interpolation=None)
        # Keys keep their case, which the parser is told by this attribute.
        annex.optionxform = str  # type: ignore[assignment, method-assign]
        annex.read(_OF_ANNEX, encoding="utf-8")
        points = {point.name: point for point in entry_points(group=self.group)}
        if self.group in annex:
            for key, value in annex[self.group].items():
                points[key] = EntryPoint(key, value, self.group)
        return {key: points[key] for key in sorted(points) if key not in self._kinds}

    def register(self, key: str, kind: Kind) -> None:
        self._kinds[key] = kind

    def __getitem__(self, key: str) -> Kind:
        if key in self._kinds:
            return self._kinds[key]
        kind: Kind = self._points[key].load()
        return kind

    def __contains__(self, key: object) -> bool:
        return key in self._kinds or key in self._points

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys((*self._kinds, *self._points))

    def __len__(self) -> int:
        return len({*self._kinds, *self._points})
