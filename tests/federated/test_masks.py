"""Masks cancel in the sum of all, are never used twice, and hide each share.

Each statistical test raises a false alarm with probability 1e-9.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

pytest.importorskip("cryptography", reason="extra of several owners")

from skdp.exceptions import SourceError
from skdp.federated import Key
from skdp.federated._secrets import (
    Masked,
    Roster,
    hello_key,
    mask_secrets,
    stream,
    unmasked,
    wire_key,
)

ALARM = 1e-9
ASKED = b"s" * 32
M, SIZE = 4, 7


def fit_of(keys, names=None, plan=b"plan"):
    """Owners of one fit, with keys that are new."""
    fresh = [Key.new() for _ in keys]
    names = tuple(key.public for key in keys) if names is None else names
    roster = Roster(plan, Key.new().public, tuple(key.public for key in fresh))
    return [
        Masked(i, mask_secrets(i, key, fresh[i], names, roster))
        for i, key in enumerate(keys)
    ]


@pytest.fixture(scope="module")
def keys():
    return [Key.new() for _ in range(M)]


def shares(seed=0, size=SIZE):
    rng = np.random.default_rng(seed)
    return [rng.integers(-(2**53), 2**53, size) for _ in range(M)]


def said(owners, number=1, statement=ASKED, own=None):
    own = shares() if own is None else own
    return [
        one.message(number, statement, share)
        for one, share in zip(owners, own, strict=True)
    ]


def test_masks_cancel_in_the_sum_of_all(keys):
    owners = fit_of(keys)
    for number in (1, 2, 3):
        own = shares(number)
        assert np.array_equal(unmasked(said(owners, number, own=own)), sum(own))


def is_uniform(content):
    """Chi-square of bytes, at the stated rate."""
    counts = np.bincount(np.frombuffer(content, dtype=np.uint8), minlength=256)
    expected = len(content) / 256
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return statistic < chi2.isf(ALARM, 255)


def test_a_transcript_is_uniform_whatever_is_in_it(keys):
    owners = fit_of(keys)
    zeros = [np.zeros(2000, dtype=np.int64)] * M
    transcripts = [b""] * M
    for number in range(1, 21):
        for i, message in enumerate(said(owners, number, own=zeros)):
            transcripts[i] += message
    assert all(map(is_uniform, transcripts))
    # And no two rounds or owners have a mask in common.
    words = np.frombuffer(b"".join(transcripts), dtype="<u8")
    assert len(np.unique(words)) == len(words)


def reused(owners):
    """A twin whose masks are those of the first round in each round."""
    return [Masked(i, one._secrets) for i, one in enumerate(owners)]


def test_masks_of_two_rounds_share_nothing_and_a_twin_that_reuses_them_shows(keys):
    one, other = shares(1), shares(2)
    owners = fit_of(keys)
    first, second = said(owners, 1, own=one)[0], said(owners, 2, own=other)[0]
    assert not shows(first, second, one[0], other[0])
    again = said(reused(owners), 1, own=other)[0]
    assert shows(first, again, one[0], other[0])


def shows(first, second, one, other):
    """Whether the difference of two messages is that of what was in them."""
    difference = unmasked([first]) - unmasked([second])
    return np.array_equal(difference, one - other)


def test_a_retry_is_the_same_bytes_even_with_other_noise(keys):
    owner = fit_of(keys)[0]
    first = owner.message(1, ASKED, shares(1)[0])
    assert owner.message(1, ASKED, shares(2)[0]) == first


def cancels(owners, statements):
    messages = [
        one.message(1, statement, share)
        for one, statement, share in zip(owners, statements, shares(), strict=True)
    ]
    return np.array_equal(unmasked(messages), sum(shares()))


def test_owners_who_answer_different_questions_get_noise(keys):
    assert cancels(fit_of(keys), [ASKED] * M)
    assert not cancels(fit_of(keys), [ASKED] * (M - 1) + [b"t" * 32])


def test_no_secret_is_that_of_another_fit_pair_or_use(keys):
    names = tuple(key.public for key in keys)
    found = []
    for plan in (b"one", b"other"):
        hub, lasting = Key.new(), Key.new()
        fresh = [Key.new() for _ in keys]
        roster = Roster(plan, hub.public, tuple(key.public for key in fresh))
        for i, key in enumerate(keys):
            secrets = mask_secrets(i, key, fresh[i], names, roster)
            theirs = mask_secrets(0, keys[0], fresh[0], names, roster)
            if i:
                assert secrets[0] == theirs[i]
                found.append(theirs[i])
                # Of the same pair for another use.
                first = names[0], fresh[0].public
                found.append(wire_key(key, fresh[i], *first, roster))
            mine = wire_key(key, fresh[i], lasting.public, hub.public, roster)
            hubs = wire_key(lasting, hub, key.public, fresh[i].public, roster)
            assert mine == hubs
            found += [mine, hello_key(key, lasting.public, plan)]
            assert found[-1] == hello_key(lasting, key.public, plan)
    assert len(set(found)) == len(found)


def test_a_stream_follows_from_all_that_it_is_of():
    base = (b"k" * 32, 1, ASKED)
    streams = [
        stream(*base, 8),
        stream(b"l" * 32, 1, ASKED, 8),
        stream(b"k" * 32, 2, ASKED, 8),
        stream(b"k" * 32, 1, b"t" * 32, 8),
    ]
    assert len({one.tobytes() for one in streams}) == 4
    assert np.array_equal(stream(*base, 4), streams[0][:4])


def test_a_key_of_low_order_is_refused(keys):
    with pytest.raises(SourceError, match="public key"):
        keys[0].shared(bytes(32))


def test_keys_are_stored_for_their_owner_alone(tmp_path, keys):
    keys[0].save(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert Key.load(tmp_path / "key").public == keys[0].public
    with pytest.raises(FileExistsError):
        keys[1].save(tmp_path / "key")
    assert keys[0]._private.private_bytes_raw().hex() not in repr(keys[0])


def test_a_round_is_answered_once_and_for_one_question(keys):
    owner = fit_of(keys)[0]
    owner.message(1, ASKED, shares()[0])
    with pytest.raises(SourceError, match="other weights"):
        owner.message(1, b"t" * 32, shares()[0])
    with pytest.raises(SourceError, match="order"):
        owner.message(3, ASKED, shares()[0])
    owner.message(2, ASKED, shares()[0])
    with pytest.raises(SourceError, match="order"):
        owner.message(1, ASKED, shares()[0])
