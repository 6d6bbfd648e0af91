"""`Registry`: kinds by the key that users name, kinds of the annexes included.

An annex says in entry points which keys it adds to which registry. It is imported when
one of its kinds is looked up, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TypeVar

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
