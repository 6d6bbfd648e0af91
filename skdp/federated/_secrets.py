"""Keys of owners, masks that cancel in a sum, and who takes part."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import IntArray
from skdp.exceptions import SourceError

# ----------------------------------------------------------------------- Keys of owners
# A secret of two sides comes from X25519 twice: the long-term keys that the plan names
# prove who a side is, and keys made for one fit make every fit's secrets new, even if
# somebody replays messages.


KEY_BYTES = 32


def crypto() -> Any:
    """The module cryptography.hazmat.primitives, or an error that says what to do."""
    try:
        from cryptography.hazmat import primitives
        from cryptography.hazmat.primitives import (  # noqa: F401 - loads submodules
            ciphers,
            hashes,
            serialization,
        )
        from cryptography.hazmat.primitives.asymmetric import x25519  # noqa: F401 - as above
        from cryptography.hazmat.primitives.kdf import hkdf  # noqa: F401 - as above
    except ImportError:
        raise ImportError(
            "Several owners need the package cryptography. Got none. Install it: "
            "pip install skdp[federated]."
        ) from None
    return primitives


class Key:
    """A private key of X25519, whose repr shows nothing of it.

    Parameters
    ----------
    private : X25519PrivateKey
    """

    def __init__(self, private: Any) -> None:
        self._private = private
        self.public: bytes = private.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return f"Key({self.public.hex()[:8]}…)"

    @classmethod
    def new(cls) -> Key:
        crypto()
        from cryptography.hazmat.primitives.asymmetric import x25519

        return cls(x25519.X25519PrivateKey.generate())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Key:
        crypto()
        from cryptography.hazmat.primitives.asymmetric import x25519

        text = Path(path).read_text(encoding="ascii").strip()
        return cls(x25519.X25519PrivateKey.from_private_bytes(bytes.fromhex(text)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a new file that its owner alone may read."""
        place = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(place, "w", encoding="ascii") as file:
            file.write(self._private.private_bytes_raw().hex() + "\n")

    def shared(self, theirs: bytes) -> bytes:
        """The shared secret of this key and another's public key."""
        from cryptography.hazmat.primitives.asymmetric import x25519

        is_read = False
        try:
            public = x25519.X25519PublicKey.from_public_bytes(theirs)
            found: bytes = self._private.exchange(public)
            is_read = True
        except ValueError:  # of low order, or of another length
            found = b""
        if not is_read:
            raise SourceError("A public key is not valid.")
        return found


def derived(secret: bytes, context: bytes, use: bytes) -> bytes:
    """A key for one use, from a secret and facts of the fit that both sides know."""
    crypto()
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    algorithm = hashes.SHA256()
    kdf = HKDF(algorithm=algorithm, length=KEY_BYTES, salt=context, info=b"skdp " + use)
    found: bytes = kdf.derive(secret)
    return found


def pair_key(
    lasting: Key, fresh: Key, their_lasting: bytes, their_fresh: bytes, context: bytes
) -> bytes:
    """The shared key of two sides of one fit."""
    both = lasting.shared(their_lasting) + fresh.shared(their_fresh)
    return derived(both, context, b"pair")


# ----------------------------------------- Masks that cancel in the sum over all owners
# They hide each share from everyone. Owner i adds the stream of each pair {i, j} for j
# > i, and subtracts it for j < i, modulo 2^64. A stream's key follows from the key of
# the pair, the number of the round, and the statement of the question. An owner that
# answers another question than the others, or in another round, has other masks, and
# the sum is noise.


Words = NDArray[np.uint64]


def stream(secret: bytes, round_number: int, statement: bytes, size: int) -> Words:
    """Uniform words that follow from a pair's secret, a round and a statement."""
    crypto()
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    which = round_number.to_bytes(8, "big") + statement
    key = hashlib.blake2b(which, key=secret, digest_size=KEY_BYTES).digest()
    # Each stream has a separate key, so that the nonce may always be the same.
    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * size)), dtype="<u8").astype(np.uint64)


class Sent(NamedTuple):
    """One owner's answer to one round."""

    round_number: int
    statement: bytes
    words: bytes


class Masked:
    """One owner's messages: each round once, in their order.

    Parameters
    ----------
    number : int
        Number of the owner.
    secrets : mapping of int to bytes
        Secret with each other owner, by number.
    """

    def __init__(self, number: int, secrets: Mapping[int, bytes]) -> None:
        self._number, self._secrets = number, dict(secrets)
        self._last = Sent(0, b"", b"")

    def message(self, round_number: int, statement: bytes, share: IntArray) -> bytes:
        """A share with all masks, as bytes that look uniform to others.

        A round that was answered gives the same bytes again, whatever `share` is.

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


# ------------------------------------------------ Parties of one fit, and their secrets


@dataclass(frozen=True)
class Roster:
    """Public keys of one fit.

    Parameters
    ----------
    plan : bytes
        Digest of the plan.
    coordinator : bytes
        Its key for this fit.
    parties : tuple of bytes
        Keys of all owners for this fit, in the owners' order.
    """

    plan: bytes
    coordinator: bytes
    parties: tuple[bytes, ...]

    @property
    def session(self) -> bytes:
        """Digest of the roster: new for each fit, as each owner's fit key is."""
        found = hashlib.blake2b(self.plan, digest_size=32)
        for key in (self.coordinator, *self.parties):
            found.update(key)
        return found.digest()

    @property
    def content(self) -> bytes:
        """As a message."""
        return b"".join((self.coordinator, *self.parties))

    @classmethod
    def of(cls, plan: bytes, content: bytes, n_parties: int) -> Roster:
        if len(content) != KEY_BYTES * (n_parties + 1):
            raise SourceError("A roster must have a key of each party.")
        keys = [content[i : i + KEY_BYTES] for i in range(0, len(content), KEY_BYTES)]
        return cls(plan, keys[0], tuple(keys[1:]))


def hello_key(lasting: Key, theirs: bytes, plan: bytes) -> bytes:
    """Key for the tags of first messages between an owner and the coordinator."""
    return derived(lasting.shared(theirs), plan, b"hello")


def wire_key(
    lasting: Key, fresh: Key, theirs: bytes, their_fresh: bytes, roster: Roster
) -> bytes:
    """Key for the tags of later messages."""
    both = pair_key(lasting, fresh, theirs, their_fresh, roster.session)
    return derived(both, roster.session, b"wire")


def mask_secrets(
    number: int, lasting: Key, fresh: Key, names: tuple[bytes, ...], roster: Roster
) -> dict[int, bytes]:
    """An owner's secret with each other owner, by number."""
    secrets = {}
    pairs = zip(names, roster.parties, strict=True)
    for other, (their_lasting, their_fresh) in enumerate(pairs):
        if other != number:
            both = pair_key(lasting, fresh, their_lasting, their_fresh, roster.session)
            secrets[other] = derived(both, roster.session, b"masks")
    return secrets
