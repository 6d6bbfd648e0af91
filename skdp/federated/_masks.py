"""Masks that cancel in the sum over all owners, and hide each share from everyone.

Owner i adds the stream of each pair {i, j} for j > i, and subtracts it for j < i,
modulo 2^64. A stream's key is that of the pair, the number of the round, and the
statement of what is asked: who answers another question than the others, or in another
round, has other masks, and the sum is noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp._floats import IntArray
from skdp.exceptions import SourceError
from skdp.federated._keys import KEY_BYTES, crypto

Words = NDArray[np.uint64]


def stream(secret: bytes, round_number: int, statement: bytes, size: int) -> Words:
    """So many uniform words, of a pair's secret, one round and one statement."""
    crypto()
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    which = round_number.to_bytes(8, "big") + statement
    key = hashlib.blake2b(which, key=secret, digest_size=KEY_BYTES).digest()
    # A key of its own for each stream, so that the nonce may always be the same.
    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * size)), dtype="<u8").astype(np.uint64)


class Sent(NamedTuple):
    """What one owner answered to one round."""

    round_number: int
    statement: bytes
    words: bytes


class Masked:
    """One owner's messages: each round once, in their order.

    Parameters
    ----------
    number : int
        Of the owner.
    secrets : mapping of int to bytes
        By the number of each other owner.
    """

    def __init__(self, number: int, secrets: Mapping[int, bytes]) -> None:
        self._number, self._secrets = number, dict(secrets)
        self._last = Sent(0, b"", b"")

    def message(self, round_number: int, statement: bytes, share: IntArray) -> bytes:
        """A share with all masks, as bytes that are uniform to others.

        Of a round that was answered the same bytes, whatever `share` is.

        Raises
        ------
        SourceError
            If the round was answered with another statement, or is not the next.
        """
        last = self._last
        if round_number == last.round_number:
            if statement != last.statement:
                raise SourceError("A round was asked twice, with other weights.")
            return last.words
        if round_number != last.round_number + 1:
            raise SourceError("Rounds must be asked in their order.")
        words = share.astype(np.int64).view(np.uint64).copy()
        for other, secret in self._secrets.items():
            mask = stream(secret, round_number, statement, len(words))
            if other > self._number:
                words += mask
            else:
                words -= mask
        content = words.astype("<u8").tobytes()
        self._last = Sent(round_number, statement, content)
        return content


def unmasked(messages: list[bytes]) -> IntArray:
    """The sum of all owners' shares, from the messages of all of them."""
    total = np.zeros(len(messages[0]) // 8, dtype=np.uint64)
    for message in messages:
        total += np.frombuffer(message, dtype="<u8")
    return total.view(np.int64)
