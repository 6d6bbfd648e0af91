"""Check with the verifier every privacy record that a run of tests makes.

``python -m pytest -p tests.every_record tests/linear_model tests/ensemble`` runs tests
as usual; at the end the verifier checks each record with another event, epsilon, delta
or relation, and the run fails if one is not confirmed. It is for one process.
"""

from __future__ import annotations

import json

import pytest

import skdp._verify as verify
from skdp.privacy import PrivacyRecord

_WHAT = ("event", "epsilon", "delta", "adjacency", "is_private")
_made: dict[str, dict] = {}
_make = PrivacyRecord.__init__


def _noted(record, **values):
    _make(record, **values)
    found = record.to_dict()
    _made.setdefault(json.dumps([found[name] for name in _WHAT]), found)


def pytest_configure():
    PrivacyRecord.__init__ = _noted


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    PrivacyRecord.__init__ = _make
    session.config.doubtful = []
    for record in _made.values():
        is_true, lines = verify.check_record(record)
        if not is_true:
            session.config.doubtful.append("\n".join(lines))
    if session.config.doubtful:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    doubtful = config.doubtful
    terminalreporter.write_line(
        f"verifier: {len(_made)} records, {len(doubtful)} not confirmed"
    )
    for lines in doubtful:
        terminalreporter.write_line(lines)
