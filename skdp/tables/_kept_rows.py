"""Rows kept between passes: in memory, and beyond it in a temporary file."""

from __future__ import annotations

import io
import math
import mmap
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from skdp.tables._source import STORED_BYTES, Source

# ----------------------------------------------------- Whether rows are kept, and where
# The decision follows from declared numbers of rows and from types of columns, and not
# from what cells hold.


@dataclass(frozen=True)
class Room:
    """Largest numbers of bytes of rows that are kept; public.

    Parameters
    ----------
    memory : float
        In memory, which is filled first.
    disk : float, default=0
        In a temporary file.
    """

    memory: float
    disk: float = 0.0

    def for_all(self, n_bytes: float) -> Room:
        """Room in which rows of at most `n_bytes` are surely kept, or `NO_ROOM`."""
        if n_bytes <= self.memory:
            return UNLIMITED
        if n_bytes <= self.memory + self.disk:
            return Room(self.memory, math.inf)
        return NO_ROOM


NO_ROOM, UNLIMITED = Room(0.0), Room(math.inf)
# Largest number of bytes of a number of dense rows on their grid.
_DENSE_BYTES = 4


def room_for(source: Source, n_samples: int, n_features: int) -> Room:
    """Where rows on their grid are kept from one pass to the next; public.

    If rows are kept, a source need not return the same rows in later readings. How many
    rows users have is private: theirs are kept as long as they have room.
    """
    facts = source.facts
    limits = Room(facts.memory, facts.disk)
    if are_uncounted(source):
        return limits
    if facts.is_stable or facts.holds_rows:
        return UNLIMITED if facts.is_stable else NO_ROOM
    most = bytes_to_keep(source, n_samples, n_features)
    return limits.for_all(most / facts.n_partitions)


def bytes_to_keep(source: Source, n_samples: int, n_features: int) -> float:
    """Largest number of bytes of the rows of a source of records; public."""
    facts, of_row = source.facts, float(n_features * _DENSE_BYTES)
    if not facts.is_row_major:
        of_row = min(facts.row_bytes, facts.n_features * STORED_BYTES)
    return n_samples * of_row


def are_uncounted(source: Source) -> bool:
    """Whether no public fact bounds the number of rows, as for users in a source."""
    return source.facts.is_of_users and not source.facts.holds_rows


def free_disk() -> int:
    """Bytes that a temporary file may take if its user sets no limit; public.

    Half of what is free: other programs need the disk too.
    """
    try:
        return shutil.disk_usage(tempfile.gettempdir()).free // 2
    except OSError:  # there is no folder for temporary files
        return 0


# ----------------------------------------------------------------- Blocks that are kept


class Sized(Protocol):
    """Rows that may be kept."""

    @property
    def n_bytes(self) -> int:
        """Approximate memory of the rows."""
        ...


Blocks = TypeVar("Blocks", bound=Sized)


class KeptRows(Generic[Blocks]):
    """Blocks of a first pass that are kept for later passes: all or none. Private.

    Whether blocks are kept depends on the number of rows, which is private for users.
    So sums must have the same bits in both cases, and the choice is not shown.

    Parameters
    ----------
    room : Room
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._blocks: list[Blocks] | None = None
        self._file: _BlockFile | None = None

    def passed(self, read: Callable[[], Iterable[Blocks]]) -> Iterator[Blocks]:
        """One pass; `read` is called if no blocks are kept."""
        if self._blocks is not None:
            yield from self._blocks
            if self._file is not None:
                yield from self._file.blocks()
            return
        if self._room == NO_ROOM:
            yield from read()
            return
        kept, file, n_bytes = list[Blocks](), None, 0
        for block in read():
            n_bytes += block.n_bytes
            if n_bytes <= self._room.memory:
                kept.append(block)
            elif self._room != NO_ROOM:
                file = _BlockFile() if file is None else file
                is_within = n_bytes <= self._room.memory + self._room.disk
                if not (is_within and file.add(block)):
                    self._room = NO_ROOM  # later passes keep nothing either
                    kept.clear()
                    file = None
            yield block
        if self._room != NO_ROOM:
            self._blocks, self._file = kept, file


# Arrays begin at multiples of this, as long as a line of the processor's cache.
_ALIGNED = 64


class _BlockFile:
    """Blocks in a temporary file without a name, which ends with this object. Private.

    Only the user can open the file, while this process runs; a process that it starts
    does not inherit it. An object that all blocks share, such as a basis, is not
    written but stays in memory.
    """

    def __init__(self) -> None:
        self._file: Any = None
        # The pieces of each block: the first says how the block is made of the others.
        self._pieces: list[list[slice]] = []
        self._shared, self._end = _Shared(), 0

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, block: Any) -> bool:
        """Whether there was space to write a block."""
        found, pieces = self._shared.pickled(block), list[slice]()
        # Where a map can begin.
        self._end = _up_to(self._end, mmap.ALLOCATIONGRANULARITY)
        try:
            if self._file is None:
                # Unbuffered: nothing is left to be written when the file is closed.
                self._file = tempfile.TemporaryFile(buffering=0)
            for piece in found:
                self._end = _up_to(self._end, _ALIGNED)
                pieces.append(slice(self._end, self._end + piece.nbytes))
                self._write(piece)
        except OSError:
            return False
        self._pieces.append(pieces)
        return True

    def _write(self, piece: memoryview) -> None:
        self._file.seek(self._end)
        self._end += piece.nbytes
        while piece.nbytes:
            piece = piece[self._file.write(piece) :]

    def blocks(self) -> Iterator[Any]:
        """Blocks whose arrays are parts of the file, mapped while the block is used."""
        for pieces in self._pieces:
            yield self._mapped(pieces)

    def _mapped(self, pieces: list[slice]) -> Any:
        # One map for each block: its pages count as memory until the block is dropped.
        # Nothing writes to them. If something did, it would change a copy in memory and
        # not the file. Compiled code takes writable arrays, and would be compiled once
        # more for others.
        start = pieces[0].start
        view = memoryview(
            mmap.mmap(
                self._file.fileno(),
                pieces[-1].stop - start,
                access=mmap.ACCESS_COPY,
                offset=start,
            )
        )
        made, *buffers = (view[own.start - start : own.stop - start] for own in pieces)
        return self._shared.loaded(made, buffers)


def _up_to(place: int, multiple: int) -> int:
    return -(-place // multiple) * multiple


class _Shared:
    """Objects that blocks share, which the bytes of a block name by their number."""

    def __init__(self) -> None:
        self._objects: dict[int, Any] = {}
        self._n_blocks = 0

    def pickled(self, block: Any) -> list[memoryview]:
        """Bytes that say how a block is made of arrays, and the bytes of the arrays."""
        file, buffers, seen = (
            io.BytesIO(),
            list[pickle.PickleBuffer](),
            dict[int, Any](),
        )
        is_first, objects = self._n_blocks == 0, self._objects

        class Pickler(pickle.Pickler):
            def persistent_id(self, value: Any) -> Any:
                if not is_first and id(value) not in objects:
                    return None
                seen[id(value)] = value
                return None if is_first else id(value)

        Pickler(file, protocol=5, buffer_callback=buffers.append).dump(block)
        if self._n_blocks < 2:  # all of the first block, then what is in the second too
            self._objects = seen
        self._n_blocks += 1
        return [file.getbuffer(), *(buffer.raw() for buffer in buffers)]

    def loaded(self, made: memoryview, buffers: list[memoryview]) -> Any:
        objects = self._objects

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, key: Any) -> Any:
                return objects[key]

        return Unpickler(io.BytesIO(made), buffers=buffers).load()
