"""Compiled colouring of the pairs of a pattern; importing this imports numba."""

from __future__ import annotations

import numpy as np

from skdp._compiled import compiled

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
    """A generator of Marsaglia (2003), xorshift64; nothing private rests on it."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    return state ^ (state << np.uint64(17))


@compiled
def colors_of(starts, items, room, seed):
    """A colour for each pair, so that no two of a colour share a user or an item.

    Users are taken in turn, so that only items need to remember their colours.

    `items` are those of the ratings, user by user from `starts`; `room`, of shape
    (n_items + 1,), is where the words of each item's set of colours are. `seed` 0 takes
    the first free colour, another a random one of the free colours that have been used,
    all as likely; a new one if there is none.

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
