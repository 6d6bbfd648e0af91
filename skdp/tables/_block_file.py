"""Blocks in a temporary file, which ends with the process that writes it."""

from __future__ import annotations

import io
import mmap
import pickle
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any


def free_disk() -> int:
    """Bytes that a temporary file may take if its user sets no limit; public.

    Half of what is free: other programs need the disk too.
    """
    try:
        return shutil.disk_usage(tempfile.gettempdir()).free // 2
    except OSError:  # there is no folder for temporary files
        return 0


# Arrays begin at multiples of this, as long as a line of the processor's cache.
_ALIGNED = 64


class BlockFile:
    """Blocks in a temporary file without a name, which ends with this object. Private.

    Only the user can open the file, while this process runs; a program that it starts
    does not inherit it, but a fork does. An object that all blocks share, such as a
    basis, is not written but stays in memory.
    """

    def __init__(self) -> None:
        self._file: Any = None
        # The pieces of each block: the first says how the block is made of the others.
        self._pieces: list[list[slice]] = []
        self._shared, self._end = _SharedObjects(), 0

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
            # An empty last piece may begin after the last byte that was written.
            self._file.truncate(self._end)
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


class _SharedObjects:
    """Objects that blocks share, which the bytes of a block name by their number."""

    def __init__(self) -> None:
        self._objects: dict[int, Any] | None = None
        self._n_blocks = 0

    def pickled(self, block: Any) -> list[memoryview]:
        """Bytes that say how a block is made of arrays, and the bytes of the arrays."""
        file, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
        pickler = _BlockPickler(file, buffers, self._objects)
        pickler.dump(block)
        if self._n_blocks < 2:  # all of the first block, then what is in the second too
            self._objects = pickler.seen
        self._n_blocks += 1
        return [file.getbuffer(), *(buffer.raw() for buffer in buffers)]

    def loaded(self, made: memoryview, buffers: list[memoryview]) -> Any:
        return _BlockUnpickler(made, buffers, self._objects or {}).load()


class _BlockPickler(pickle.Pickler):
    """Writes the numbers of shared objects; None shares nothing yet."""

    def __init__(
        self,
        file: io.BytesIO,
        buffers: list[pickle.PickleBuffer],
        objects: dict[int, Any] | None,
    ) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self._objects, self.seen = objects, dict[int, Any]()

    def persistent_id(self, value: Any) -> Any:
        if self._objects is not None and id(value) not in self._objects:
            return None
        # A reference, so that no other object gets the number.
        self.seen[id(value)] = value
        return None if self._objects is None else id(value)


class _BlockUnpickler(pickle.Unpickler):
    def __init__(
        self, made: memoryview, buffers: list[memoryview], objects: dict[int, Any]
    ) -> None:
        super().__init__(io.BytesIO(made), buffers=buffers)
        self._objects = objects

    def persistent_load(self, key: Any) -> Any:
        return self._objects[key]
