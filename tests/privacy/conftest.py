"""Ledgers for tests of privacy."""

from __future__ import annotations

import pytest

from skdp.privacy import ComposedEvent, PureEvent
from tests.privacy.books import EVENT, spend
from tests.problems import make_ledger


@pytest.fixture
def ledger(tmp_path):
    return make_ledger(tmp_path)


@pytest.fixture
def used(ledger):
    """A ledger with three spends of three kinds."""
    spend(ledger, label="first")
    spend(ledger, PureEvent(0.25), label="second")
    spend(ledger, ComposedEvent((EVENT, PureEvent(0.1))), label="third")
    return ledger
