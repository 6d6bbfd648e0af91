"""Compiled gradients and colourings of ratings; importing this module imports numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from skdp._compiled import compiled

# --------------------------------------------------------- Compiled passes over ratings
# A gradient takes two passes and no scatter. The first pass processes user by user: it
# keeps the gradient of a user's row in registers, and stores every residual where the
# second pass, item by item, reads it in order. No two ids write to the same memory, so
# any division of ids among threads has the same result to the last bit.
#
# The loops over one id's ratings are written in the compiler's instructions (vectors of
# a register's length), since in numba's loops the gradient goes through memory at every
# rating, which takes three times as long. The number of registers in a row must be
# known at compile time: it is the length of a tuple, and so part of a type.


# Rows are prefetched this many ratings ahead, so that a row arrives from the third
# level cache while earlier rows are processed. Measured: 8 to 16 are alike.
_AHEAD = 16
_REGISTER = 32  # bytes
_CACHE_LINE = 64
_FLAGS = ("reassoc", "contract", "nsz")  # as in `compiled`

_INT = ir.IntType(64)
_SHORT = ir.IntType(32)


class _Rows:
    """Instructions on rows of `n_registers` vectors at a time."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self._builder = builder
        self.arrays = {}
        for place, (kind, value) in enumerate(zip(signature.args, args, strict=True)):
            if isinstance(kind, types.Array):
                self.arrays[place] = context.make_array(kind)(context, builder, value)
        dtype = signature.args[1].dtype
        self.number = context.get_data_type(dtype)
        self._size = dtype.bitwidth // 8
        self._lanes = _REGISTER // self._size
        self._vector = ir.VectorType(self.number, self._lanes)
        self._n = len(signature.args[0])

    def _at(self, array: int, position: Any) -> Any:
        return self._builder.gep(self.arrays[array].data, [position])

    def load(self, array: int, position: Any) -> Any:
        """One entry."""
        return self._builder.load(self._at(array, position))

    def store(self, value: Any, array: int, position: Any) -> None:
        """One entry."""
        self._builder.store(value, self._at(array, position))

    def _starts(self, array: int, row: Any) -> list[Any]:
        width = ir.Constant(_INT, self._n * self._lanes)
        first = self._builder.mul(row, width)
        return [
            self._at(
                array, self._builder.add(first, ir.Constant(_INT, k * self._lanes))
            )
            for k in range(self._n)
        ]

    def load_row(self, array: int, row: Any) -> list[Any]:
        """All vectors of a row."""
        pointer = self._vector.as_pointer()
        return [
            self._builder.load(self._builder.bitcast(start, pointer), align=self._size)
            for start in self._starts(array, row)
        ]

    def store_row(self, vectors: list[Any], array: int, row: Any) -> None:
        """All vectors of a row."""
        pointer = self._vector.as_pointer()
        for vector, start in zip(vectors, self._starts(array, row), strict=True):
            place = self._builder.bitcast(start, pointer)
            self._builder.store(vector, place, align=self._size)

    def fetch_row(self, array: int, row: Any) -> None:
        """Prefetch a row that will be loaded soon."""
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, _SHORT, _SHORT, _SHORT])
        fetch = self._builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        to_read, keep, data = (ir.Constant(_SHORT, flag) for flag in (0, 3, 1))
        for start in self._starts(array, row)[:: _CACHE_LINE // _REGISTER]:
            place = self._builder.bitcast(start, pointer)
            self._builder.call(fetch, [place, to_read, keep, data])

    def zeros(self) -> list[Any]:
        """A row of zeros."""
        zero = ir.Constant(self.number, 0.0)
        return [ir.Constant(self._vector, [zero] * self._lanes)] * self._n

    def add_product(self, x: Any, y: Any, z: Any) -> Any:
        """``x y + z``."""
        product = self._builder.fmul(x, y, flags=_FLAGS)
        return self._builder.fadd(product, z, flags=_FLAGS)

    def dot(self, x: list[Any], y: list[Any]) -> Any:
        """Inner product of two rows."""
        sums = [self.zeros()[0]] * 2  # two, so that additions need not wait
        for k in range(self._n):
            sums[k % 2] = self.add_product(x[k], y[k], sums[k % 2])
        total = self._builder.fadd(*sums, flags=_FLAGS)
        shift = self._lanes // 2
        while shift:
            turned = [(lane + shift) % self._lanes for lane in range(self._lanes)]
            other = self._builder.shuffle_vector(total, total, _lanes(turned))
            total = self._builder.fadd(total, other, flags=_FLAGS)
            shift //= 2
        return self._builder.extract_element(total, ir.Constant(_SHORT, 0))

    def add_multiple(self, factor: Any, row: list[Any], total: list[Any]) -> list[Any]:
        """``factor row + total``."""
        nothing = ir.Constant(self._vector, ir.Undefined)
        first = ir.Constant(_SHORT, 0)
        factors = self._builder.insert_element(nothing, factor, first)
        mask = _lanes([0] * self._lanes)
        factors = self._builder.shuffle_vector(factors, factors, mask)
        return [
            self.add_product(factors, vector, part)
            for vector, part in zip(row, total, strict=True)
        ]


def _instruction(function: Callable[..., Any]) -> Any:
    return intrinsic(function)


def _lanes(numbers: list[int]) -> Any:
    kind = ir.VectorType(_SHORT, len(numbers))
    return ir.Constant(kind, [ir.Constant(_SHORT, number) for number in numbers])


class _RatingLoop:
    """``for place in range(first, last)``, with a row and a number as loop state."""

    def __init__(
        self, rows: _Rows, builder: Any, others: int, first: Any, last: Any, end: Any
    ) -> None:
        self._builder, self._rows = builder, rows
        before = builder.block
        self._head = builder.append_basic_block("head")
        body = builder.append_basic_block("body")
        self._done = builder.append_basic_block("done")
        builder.branch(self._head)
        builder.position_at_end(self._head)
        self.place = builder.phi(_INT)
        self.place.add_incoming(first, before)
        self.row = []
        for zero in rows.zeros():
            part = builder.phi(zero.type)
            part.add_incoming(zero, before)
            self.row.append(part)
        self.total = builder.phi(ir.DoubleType())
        self.total.add_incoming(ir.Constant(ir.DoubleType(), 0.0), before)
        builder.cbranch(builder.icmp_signed("<", self.place, last), body, self._done)
        builder.position_at_end(body)
        self.other = builder.sext(rows.load(others, self.place), _INT)
        later = builder.add(self.place, ir.Constant(_INT, _AHEAD))
        later = builder.select(builder.icmp_signed("<", later, end), later, self.place)
        rows.fetch_row(2, builder.sext(rows.load(others, later), _INT))

    def close(self, row: list[Any], total: Any) -> None:
        """Pass these values on; after the loop `row` and `total` are the last ones."""
        builder = self._builder
        end = builder.block
        self.place.add_incoming(builder.add(self.place, ir.Constant(_INT, 1)), end)
        for part, vector in zip(self.row, row, strict=True):
            part.add_incoming(vector, end)
        self.total.add_incoming(total, end)
        builder.branch(self._head)
        builder.position_at_end(self._done)


@_instruction
def _residuals_of_one(
    typing, registers, own, other, gradient, others, targets, places, residuals,
    row, first, last, end,
):  # fmt: skip
    """Residuals of one id's ratings, its gradient and the sum of their squares."""
    signature = types.float64(
        registers, own, other, gradient, others, targets, places, residuals,
        types.int64, types.int64, types.int64, types.int64,
    )  # fmt: skip

    def generate(context, builder, signature, args):
        rows = _Rows(context, builder, signature, args)
        row, first, last, end = args[8:]
        loop = _RatingLoop(rows, builder, 4, first, last, end)
        theirs = rows.load_row(2, loop.other)
        # Loaded again each time, since registers cannot hold both rows.
        prediction = rows.dot(rows.load_row(1, row), theirs)
        target = rows.load(5, loop.place)
        residual = builder.fsub(prediction, target, flags=_FLAGS)
        rows.store(residual, 7, builder.sext(rows.load(6, loop.place), _INT))
        wide = residual
        if rows.number != ir.DoubleType():
            wide = builder.fpext(residual, ir.DoubleType())
        total = rows.add_product(wide, wide, loop.total)
        loop.close(rows.add_multiple(residual, theirs, loop.row), total)
        rows.store_row(loop.row, 3, row)
        return loop.total

    return signature, generate


@_instruction
def _gradient_of_one(
    typing, registers, own, other, gradient, others, residuals, row, first, last, end
):
    """Sum of one id's residuals times the rows of the other ids."""
    signature = types.void(
        registers, own, other, gradient, others, residuals,
        types.int64, types.int64, types.int64, types.int64,
    )  # fmt: skip

    def generate(context, builder, signature, args):
        rows = _Rows(context, builder, signature, args)
        row, first, last, end = args[6:]
        loop = _RatingLoop(rows, builder, 4, first, last, end)
        theirs = rows.load_row(2, loop.other)
        residual = rows.load(5, loop.place)
        loop.close(rows.add_multiple(residual, theirs, loop.row), loop.total)
        rows.store_row(loop.row, 3, row)
        return context.get_dummy_value()

    return signature, generate


@compiled
def _add_penalty(own, gradient, row, weight, scale, constant):
    """Scale a row of the gradient, add the penalty's; return the penalty."""
    square = 0.0
    for j in range(own.shape[1]):
        entry = own[row, j]
        if j == constant:
            gradient[row, j] = 0.0
        else:
            square += entry * entry
            gradient[row, j] = scale * gradient[row, j] + weight * entry
    return weight * square


@compiled
def first_pass(
    registers, own, other, gradient, starts, others, targets, places, residuals,
    first, last, scale, alpha, constant,
):  # fmt: skip
    """Residuals of the ratings of some users, and the gradient of their rows.

    The length of `registers` is the number of registers of 32 bytes in a row. `others`
    are the items, user by user, `targets` the ratings in that order, and `places` the
    index for each rating's residual, prediction minus target. Rows `first` to `last` of
    `gradient` and `residuals` are overwritten. `scale` is that of the whole objective;
    column `constant` has the gradient 0; there is none if it is -1.

    Returns
    -------
    float
        Twice the objective of these users' ratings, with the users' penalty.
    """
    value, end = 0.0, starts[-1]
    for row in range(first, last):
        value += scale * _residuals_of_one(
            registers, own, other, gradient, others, targets, places, residuals,
            row, starts[row], starts[row + 1], end,
        )  # fmt: skip
        weight = scale * alpha * (starts[row + 1] - starts[row])
        value += _add_penalty(own, gradient, row, weight, scale, constant)
    return value


@compiled
def second_pass(
    registers, own, other, gradient, starts, others, residuals,
    first, last, scale, alpha, constant,
):  # fmt: skip
    """The gradient of the rows of some items; parameters as in `first_pass`."""
    value, end = 0.0, starts[-1]
    for row in range(first, last):
        _gradient_of_one(
            registers, own, other, gradient, others, residuals,
            row, starts[row], starts[row + 1], end,
        )  # fmt: skip
        weight = scale * alpha * (starts[row + 1] - starts[row])
        value += _add_penalty(own, gradient, row, weight, scale, constant)
    return value


# ----------------------------------------- Compiled colouring of the pairs of a pattern


_TRIES = 32  # draws before all free colours are counted


@compiled
def _first_free(mine, theirs, start):
    """Smallest number that is in neither set of bits."""
    word = start
    while True:
        taken = mine[word]
        if word < len(theirs):
            taken |= theirs[word]
        if taken != np.uint64(0xFFFFFFFFFFFFFFFF):
            bit = 0
            while (taken >> np.uint64(bit)) & np.uint64(1):
                bit += 1
            return word * 64 + bit
        word += 1


@compiled
def _is_free(mine, theirs, color):
    word, bit = color // 64, np.uint64(color % 64)
    return not ((mine[word] | theirs[word]) >> bit) & np.uint64(1)


@compiled
def _next(state):
    """Marsaglia's generator xorshift64 (2003); nothing private depends on it."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    return state ^ (state << np.uint64(17))


@compiled
def colors_of(starts, items, room, seed):
    """A colour for each pair; pairs of one colour share no user and no item.

    Users are processed in turn, so that only items need to store their colours.

    `items` are the items of the ratings, user by user from `starts`. `room`, of shape
    (n_items + 1,), is the index of the words of each item's set of colours. `seed` 0
    takes the first free colour. Any other seed draws one of the used colours that are
    free, with equal probability, or takes a new colour if there is none.

    Returns
    -------
    ndarray of int32 of shape (n_ratings,)
    """
    taken = np.zeros(room[-1], dtype=np.uint64)
    most = 0
    for item in range(len(room) - 1):
        most = max(most, room[item + 1] - room[item])
    mine = np.zeros(most + 2, dtype=np.uint64)
    colors = np.empty(len(items), dtype=np.int32)
    state, used = np.uint64(seed), 0
    for user in range(len(starts) - 1):
        mine[:] = np.uint64(0)
        full = 0  # words of the user's set without a free colour
        for place in range(starts[user], starts[user + 1]):
            theirs = taken[room[items[place]] : room[items[place] + 1]]
            color = -1
            if seed == 0:
                while mine[full] == np.uint64(0xFFFFFFFFFFFFFFFF):
                    full += 1
                color = _first_free(mine, theirs, full)
            else:
                for _ in range(min(_TRIES, used)):
                    state = _next(state)
                    drawn = np.int64((state >> np.uint64(11)) % np.uint64(used))
                    if _is_free(mine, theirs, drawn):
                        color = int(drawn)
                        break
                if color < 0:
                    n_free = 0
                    for candidate in range(used):
                        n_free += _is_free(mine, theirs, candidate)
                    if n_free == 0:
                        color, used = used, used + 1
                    else:
                        state = _next(state)
                        left = np.int64((state >> np.uint64(11)) % np.uint64(n_free))
                        color = 0
                        while True:
                            if _is_free(mine, theirs, color):
                                if left == 0:
                                    break
                                left -= 1
                            color += 1
            word, bit = color // 64, np.uint64(1) << np.uint64(color % 64)
            mine[word] |= bit
            theirs[word] |= bit
            colors[place] = color
    return colors
