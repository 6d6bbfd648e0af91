"""What notebooks show: one style for all of it, and every text escaped."""

from __future__ import annotations

import ast
import dataclasses
import html
import math
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline

import skdp
import skdp._show
from skdp import (
    BudgetLedger,
    DPLogisticRegression,
    columns,
    describe,
    forecast,
    privacy_report,
    propose_ranges,
)
from skdp.audit import membership_risk
from skdp.audit._inference import MembershipInference
from skdp.audit._one_run import Guesses, OneRunAudit, OneRunBounds
from skdp.audit._result import AuditResult, Claim
from skdp.model_selection import PrivateScore
from skdp.model_selection._evaluation import PrivateConfusionMatrix, PrivateEvaluation
from skdp.model_selection._results import SearchReport
from skdp.model_selection._scores import PrivateComparison

POISON = "<script>alert('x') & \"y\"</script>"
ROOT = Path(skdp.__file__).parent
STYLE = "<div><p style='border-left:4px solid #"


@pytest.fixture(scope="module")
def model():
    X = np.random.default_rng(0).normal(size=(60, 2))
    return DPLogisticRegression(classes=[0, 1]).fit(X, (X[:, 0] > 0).astype(int))


def shown(model, folder):
    """One of each that is shown, with hostile texts wherever there may be some."""
    record = dataclasses.replace(model.privacy_, estimator=POISON, reason=POISON)
    labels = (POISON, "z")
    counts = np.full((2, 24), 3.0)
    edges = np.linspace(0, 1, 25)
    frame = pd.DataFrame({POISON: ["x"] * 9, "c": ["x"] * 9})
    declared = {POISON: ["x", POISON], "c": ["x"]}
    claim = Claim(epsilon=1.0, delta=1e-6, adjacency=POISON, source=POISON)
    bounds = OneRunBounds(
        guesses=Guesses(n_canaries=8, n_guesses=4, n_right=3),
        delta=1e-6,
        confidence=0.9,
    )
    return [
        model,
        record,
        BudgetLedger(folder / "a.db", epsilon=1.0, delta=1e-6, dataset=POISON),
        dataclasses.replace(forecast(500, 3), why_solver=POISON),
        privacy_report(Pipeline([(POISON, PCA()), ("model", model)])),
        SearchReport(
            privacy=record,
            best_index=1,
            best_score=math.nan,
            scoring="accuracy",
            has_model=True,
            candidates=({"C": 1.0}, {"C": POISON}),
            scores=(0.1, 0.2),
        ),
        PrivateScore(0.5, 0.1, POISON, record),
        PrivateComparison(3.0, 2.0, 1.0, 9, record),
        PrivateConfusionMatrix(labels, np.eye(2), 1.0, record),
        PrivateEvaluation(labels, edges, counts, 1.0, record),
        columns.check(frame, {"c": [POISON]}),
        describe(frame, declared, crosses=[(POISON, "c")]),
        propose_ranges(pd.DataFrame({POISON: [1.0, 2.0]})),
        AuditResult(
            estimator=POISON,
            access="model",
            claimed=claim,
            bounds=(),
            findings=(),
            n_runs=1,
            neighbours=POISON,
            score=POISON,
            interrupted=False,
            scores=(np.zeros(1), np.zeros(1)),
            parts={},
        ),
        OneRunAudit(
            bounds=bounds,
            expected=None,
            claimed_epsilon=1.0,
            adjacency="zero_out",
            estimator=POISON,
        ),
        MembershipInference(
            scores=np.arange(4.0),
            is_member=np.array([True, False] * 2),
            model=POISON,
            n_shadows=2,
            attribute=None,
            bound=None,
        ),
        dataclasses.replace(membership_risk(epsilon=1.0), basis=POISON),
    ]


@pytest.fixture
def objects(model, tmp_path):
    return shown(model, tmp_path)


class Balanced(HTMLParser):
    """Raises unless every element ends where it should."""

    def __init__(self, page):
        super().__init__()
        self.open, self.names = [], set()
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.names.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def cards_of(objects):
    return [each._repr_html_() for each in objects[1:]]


def is_escaped(page):
    """Whether a page shows the hostile text, and it is text."""
    return "script" not in Balanced(page).names and html.escape("<script>") in page


def test_all_have_one_style_and_escape(objects):
    for page in cards_of(objects):
        assert page.startswith(STYLE)
        assert is_escaped(page)


def test_texts_that_are_not_escaped_are_found(objects, monkeypatch):
    monkeypatch.setattr(skdp._show.html, "escape", lambda text: text)
    for page in cards_of(objects):
        assert "<script>" in page


def test_a_fitted_estimator_shows_its_promise_below_its_diagram(model):
    promise = model.privacy_._repr_html_()
    for page in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert "DPLogisticRegression" in page.removesuffix(promise) != page
    for page in (
        DPLogisticRegression()._repr_html_(),
        DPLogisticRegression()._repr_mimebundle_()["text/html"],
    ):
        assert STYLE not in page
    with text_display():
        assert not hasattr(model, "_repr_html_")
        assert "text/html" not in model._repr_mimebundle_()


def text_display():
    from sklearn import config_context

    return config_context(display="text")


def classes_with_html(source):
    return {
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        and any(getattr(own, "name", "") == "_repr_html_" for own in node.body)
    }


def test_every_class_that_is_shown_is_tested(objects):
    tested = {base.__name__ for each in objects for base in type(each).__mro__}
    sources = [path.read_text() for path in ROOT.rglob("*.py")]
    assert set().union(*map(classes_with_html, sources)) <= tested
    assert classes_with_html("class A:\n    def _repr_html_(self): ...") == {"A"}


def writes_html(source):
    """Whether a module has tags of its own among its texts."""
    return any(
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and any(tag in node.value for tag in ("<div", "<table", "<td", "<p>", "<b>"))
        for node in ast.walk(ast.parse(source))
    )


def test_tags_are_written_in_one_place():
    found = [path for path in ROOT.rglob("*.py") if writes_html(path.read_text())]
    assert [path.name for path in found] == ["_show.py"]
    assert writes_html('f"<b>{name}</b>"')
