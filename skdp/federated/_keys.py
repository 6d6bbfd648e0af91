"""Keys of owners: who they are, and what two of them know that nobody else does.

X25519 twice, of the lasting keys that the plan names and of keys made for one fit: the
first says who it is, the second makes every fit's secrets new, whoever else replays
what.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from skdp.exceptions import SourceError

KEY_BYTES = 32


def crypto() -> Any:
    """The module cryptography.hazmat.primitives, or how to install it."""
    try:
        from cryptography.hazmat import primitives
        from cryptography.hazmat.primitives import (  # noqa: F401 - loads submodules
            ciphers,
            hashes,
            serialization,
        )
        from cryptography.hazmat.primitives.asymmetric import x25519  # noqa: F401
        from cryptography.hazmat.primitives.kdf import hkdf  # noqa: F401
    except ImportError:
        raise ImportError(
            "Several owners need the package cryptography. Got none. Install it: "
            "pip install skdp[federated]."
        ) from None
    return primitives


class Key:
    """A private key of X25519; shows nothing of itself.

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
        """What this key and another's public one have in common."""
        from cryptography.hazmat.primitives.asymmetric import x25519

        is_read = False
        try:
            public = x25519.X25519PublicKey.from_public_bytes(theirs)
            found: bytes = self._private.exchange(public)
            is_read = True
        except ValueError:  # of low order, or of another length
            found = b""
        if not is_read:
            raise SourceError("A public key is none.")
        return found


def derived(secret: bytes, context: bytes, use: bytes) -> bytes:
    """A key for one use, from a secret and what both sides know of the fit."""
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
    """What two sides of one fit share; the same for both."""
    both = lasting.shared(their_lasting) + fresh.shared(their_fresh)
    return derived(both, context, b"pair")
