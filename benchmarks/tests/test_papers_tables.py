"""Lines of the published tables: what they claim, what they cost, and small runs."""

from __future__ import annotations

import math

import pytest

from benchmarks._papers import _bolt_on_tables as bolt_on
from benchmarks._papers import _division_tables as division
from benchmarks._papers import _thesis_tables as thesis


def test_thesis_lines_with_printed_and_with_corrected_noise():
    lines = list(
        thesis.descents(data="synthetic", epsilon=[1.0], n_steps=40, batch=[1])
    )
    printed, corrected = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    for before, after in zip(printed, corrected, strict=True):
        assert before.method == after.method
        assert not before.private
        if before.refusal:
            assert before.measure is None
            continue
        assert before.true > 50 * after.true
        assert after.true == pytest.approx(1.0)
    line = printed[0]
    both = list(line.measure([0, 1]))
    assert list(line.measure([1])) == both[1:]
    assert min(both) > 0


def test_division_lines_cost_what_they_claim():
    equal, divided, ours = division.division(
        setting="clipped rows", T=[0], epsilon=1.0, delta=1e-6, longest=120
    )
    assert equal.true == pytest.approx(1.0, rel=1e-4)
    assert divided.true == pytest.approx(1.0, rel=1e-4)
    assert (equal.place["T"], divided.place["T"]) == (77, 114)
    assert [line.private for line in (equal, divided, ours)] == [False, False, True]
    assert ours.true == 1.0
    for line in (divided, ours):
        (excess,) = line.measure([0])
        assert 0 < excess < 0.02


def test_constants_taken_from_the_data_are_not_called_private():
    *_, ours = division.division(
        setting="section 5", T=[5], epsilon=1.0, delta=1e-6, longest=10
    )
    assert not ours.private
    assert ours.true == math.inf


def test_bolt_on_lines_cost_more_when_divided_by_the_batch():
    lines = bolt_on.strongly_convex(
        settings=[[10, 50]], regularisation=[1e-2], rivals=[], epsilon=[0.1]
    )
    true = {(line.place["setting"], line.method): line.true for line in lines}
    third = "Test 3, lambda=0.01"
    assert true[third, "no noise"] == math.inf
    assert true[third, "bolt-on, divided by b"] == pytest.approx(2.5)
    assert true[third, "bolt-on, corrected"] == pytest.approx(0.1)
    fourth = "Test 4, lambda=0.01"
    assert true[fourth, "bolt-on, divided by b"] > 0.5
    assert true[fourth, "bolt-on, corrected"] == pytest.approx(0.1, rel=1e-4)


def test_methods_without_a_guarantee_are_refused(monkeypatch):
    monkeypatch.setattr(bolt_on, "bst14_epsilon", lambda noise, k, b: 20 / noise)
    lines = bolt_on.convex(settings=[], gaussian=[], rivals=[[1, 600]], epsilon=[1.0])
    refused = {
        (line.place["setting"].split(",")[0], line.method): line.refusal
        for line in lines
        if line.refusal
    }
    assert set(refused) == {("Test 1", "BST14"), ("Test 2", "SCS13")}
    assert "delta = 0" in refused["Test 1", "BST14"]


def test_convex_lines_cost_what_they_claim():
    lines = list(
        bolt_on.convex(
            settings=[[20, 1]], gaussian=[[10, 50]], rivals=[], epsilon=[4.0]
        )
    )
    true = {line.method: line.true for line in lines if line.delta > 0}
    assert true["bolt-on"] < 1.1 < true["bolt-on, joint Gaussian"]
    assert lines[1].true == pytest.approx(4.0)
    assert lines[1].delta == 0
