"""Frozen configurations, registries of their classes, and versions of stored things."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
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
# Every kind of stored thing (fitted state, record, ledger) has a schema number, which
# grows when a release writes something that earlier releases would misread. A number
# newer than the known one is refused, and so is anything stored before 1.0. See
# ``docs/support.md``.


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
    """The version that wrote a stored thing; ValueError if it names no version.

    Things stored before 1.0 name no version and are not read.
    """
    is_text = isinstance(version, str)
    if is_text and re.fullmatch(r"[1-9]\d*\.\d+[\w.+]*", version):
        return str(version)
    raise ValueError(
        f"{what} must name the version of skdp that wrote it, 1.0 or later. Got "
        f"{repr(version) if is_text else 'none, as before 1.0'}. Read it with the "
        "release that wrote it, or fit again, which spends again."
    )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


# ---------------------------------------------------------------- Frozen configurations
# Values that users gave are kept apart from values that rules decided.


# Check of each parameter: a function of its name and value that returns the value.
Checks = Mapping[str, Callable[[str, Any], Any]]
# Checked parameters that users gave, without those that are left to a rule.
Given = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Configured:
    """A frozen dataclass of public hyper-parameters, all of them decided.

    A field without a default has a data-independent rule: the subclass's ``planned``
    applies it if the user gave no value.
    """

    key: ClassVar[str]  # in the registry, the module's name, tests, docs and benchmarks
    checks: ClassVar[Checks] = {}
    # Checks of parameters that users give in another form than the stored one.
    given_checks: ClassVar[Checks] = {}

    @classmethod
    def check_given(cls, given: Given) -> None:
        """Raise if checked parameters contradict each other."""

    def __post_init__(self) -> None:
        # Plain numbers are stored: the rounding and overflow of a NumPy scalar in half
        # precision would otherwise affect the sensitivity and the noise.
        for name, check in self.checks.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))


# Parameters of solver="auto", and of boosting, with which all noise is Gaussian.
GAUSSIAN_PARAMS: Mapping[str, Any] = MappingProxyType({"law": "gaussian"})


def asks_for_gaussian(params: Any) -> bool:
    """Whether the parameters of a solver ask for Gaussian noise."""
    wanted = GAUSSIAN_PARAMS["law"]
    return isinstance(params, Mapping) and params.get("law") == wanted


def check_params_of_auto(params: Any, solvers: Iterable[str]) -> None:
    """Raise unless ``solver="auto"`` takes the parameters."""
    if not params or (asks_for_gaussian(params) and len(params) == 1):
        return
    raise ValueError(
        "The 'solver_params' parameter must be None or {'law': 'gaussian'} with "
        "solver='auto'. Got other parameters. Name the solver: one of "
        f"{sorted(solvers)}."
    )


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
            f"Got {unknown}. Leave them out: noise scale, sensitivity, sampler and "
            "randomness follow from epsilon, delta and adjacency and cannot be set."
        )
    return checked_params(kind, params or {})


def checked_params(kind: type[Configured], params: Mapping[str, Any]) -> Given:
    """Known parameters, each checked, without those whose None stands for a rule."""
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


# ------------------------------------ Registries: classes by key, with those of annexes
# The entry points of an annex name the keys that it adds to each registry. The annex is
# imported only when one of its classes is looked up.


Kind = TypeVar("Kind")

# pyproject.toml passes this file on as the entry points of skdp. It is also read here,
# and takes precedence: metadata of a checkout may be missing or of another version.
_OF_ANNEX = Path(__file__).parent / "papers" / "entry_points.txt"


class Registry(Mapping[str, Kind]):
    """Classes or functions by key: first skdp's, then those of the entry points.

    Parameters
    ----------
    group : str
        Group of the entry points.
    house : mapping of str to Kind
        The entries of skdp, which have no entry points.
    """

    def __init__(self, group: str, house: Mapping[str, Kind]) -> None:
        self.group, self._kinds = group, dict(house)

    @cached_property
    def _points(self) -> dict[str, EntryPoint]:
        """Entry points by key, except for the keys of skdp's entries."""
        annex = ConfigParser(delimiters="=", interpolation=None)
        # This attribute makes the parser keep the case of keys.
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
