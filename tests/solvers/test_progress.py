"""Progress as a bar: counts of public steps, and no times."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import pytest

from skdp._fit import Progress


class Bar:
    """Stands in for tqdm's, and draws what the format asks for."""

    def __init__(self, *, total, desc, bar_format, mininterval, miniters):
        self.total, self.desc, self.format, self.n = total, desc, bar_format, 0
        self.made = time.monotonic()
        assert (mininterval, miniters) == (0, 1)

    def refresh(self):
        elapsed = time.monotonic() - self.made
        told = {
            "desc": self.desc,
            "percentage": 100 * self.n / self.total,
            "bar": "#" * self.n,
            "n_fmt": self.n,
            "total_fmt": self.total,
            "elapsed": elapsed,
            "rate": self.n / (elapsed + 1e-9),
        }
        print(self.format.format(**told))

    def close(self):
        print("closed")


@pytest.fixture
def bars(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=Bar))


def told(progress, capsys, *, wait):
    for done in (1, 2, 3):
        time.sleep(wait)
        progress.step(done, 3)
    return capsys.readouterr().out.splitlines()


def test_a_bar_shows_counts_and_ends(bars, capsys):
    assert told(Progress("fit", True), capsys, wait=0) == [
        "fit:  33%|#| 1 of 3",
        "fit:  67%|##| 2 of 3",
        "fit: 100%|###| 3 of 3",
        "closed",
    ]


def test_no_bar_depends_on_the_clock(bars, capsys, monkeypatch):
    waits = (0.0, 0.01)
    first, second = (told(Progress("a", True), capsys, wait=w) for w in waits)
    assert first == second
    # The broken twin: tqdm's own format tells times.
    monkeypatch.setattr("skdp._fit._BAR", "{n_fmt} {elapsed:.9f}")
    first, second = (told(Progress("a", True), capsys, wait=w) for w in waits)
    assert first != second


def test_a_note_is_a_line(bars, capsys):
    Progress("fit", True).step(1, 1, ": done")
    assert capsys.readouterr().out == "[fit] step 1 of 1: done\n"
