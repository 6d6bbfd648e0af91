"""Who takes part in one fit, and the secrets that follow from it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from skdp.exceptions import SourceError
from skdp.federated._keys import KEY_BYTES, Key, derived, pair_key


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
        Those of all owners, in their order.
    """

    plan: bytes
    coordinator: bytes
    parties: tuple[bytes, ...]

    @property
    def session(self) -> bytes:
        """Digest of it all: new for each fit, as every owner's own key is."""
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
    """What proves first messages between an owner and the coordinator."""
    return derived(lasting.shared(theirs), plan, b"hello")


def wire_key(
    lasting: Key, fresh: Key, theirs: bytes, their_fresh: bytes, roster: Roster
) -> bytes:
    """What proves later ones."""
    both = pair_key(lasting, fresh, theirs, their_fresh, roster.session)
    return derived(both, roster.session, b"wire")


def mask_secrets(
    number: int, lasting: Key, fresh: Key, names: tuple[bytes, ...], roster: Roster
) -> dict[int, bytes]:
    """An owner's secrets with each of the others, by their number."""
    secrets = {}
    pairs = zip(names, roster.parties, strict=True)
    for other, (their_lasting, their_fresh) in enumerate(pairs):
        if other != number:
            both = pair_key(lasting, fresh, their_lasting, their_fresh, roster.session)
            secrets[other] = derived(both, roster.session, b"masks")
    return secrets
