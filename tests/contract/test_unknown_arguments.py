"""Arguments that skdp does not have: the public class is named, and the reason."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.utils.validation import has_fit_parameter

import skdp
from skdp import (
    BoundedScaler,
    BudgetLedger,
    DPGridSearchCV,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
)
from skdp._checks import REASONS, explained
from tests.contract.test_estimators import INSTANCES

X = np.random.default_rng(0).normal(size=(30, 2))
Y = np.arange(30) % 2
CLASSES = sorted(
    {
        *(type(instance) for instance in INSTANCES.values()),
        skdp.DPMatrixFactorization,
    },
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_the_public_class_is_named(kind):
    name = kind.__name__
    with pytest.raises(TypeError, match=rf"^{name}\(\): there is no argument 'wings'"):
        kind(wings=2)
    with pytest.raises(TypeError, match=rf"^{name}\.fit\(\): .*'wings'.*\['X', 'y'"):
        kind.fit(object.__new__(kind), X, Y, wings=2)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_signatures_stay_as_they_are_written(kind):
    fit = inspect.signature(kind.fit)
    takes_ids = "privacy_unit" in inspect.signature(kind).parameters
    takes_ids &= kind is not skdp.DPMatrixFactorization  # whose rows have them
    assert list(fit.parameters) == ["self", "X", "y", *["groups"] * takes_ids]
    assert not has_fit_parameter(object.__new__(kind), "sample_weight")
    for call in (kind, kind.fit):
        kinds = {item.kind for item in inspect.signature(call).parameters.values()}
        assert not kinds & {
            inspect.Parameter.VAR_KEYWORD,
            inspect.Parameter.VAR_POSITIONAL,
        }
    assert hasattr(kind, "set_fit_request") == takes_ids


def test_every_name_with_a_reason_gets_it_where_it_is_no_parameter():
    for name, reason in REASONS.items():
        for kind in (DPLinearRegression, DPGridSearchCV, BoundedScaler):
            assert name not in inspect.signature(kind).parameters
            with pytest.raises(TypeError) as caught:
                kind(**{name: 1})
            assert str(caught.value).endswith(reason)


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("columns__n_knots", r"dict there\. Use columns=TableEncoder\(declared\)"),
        ("solver_params__n_steps", "NoneType there. Set the whole mapping"),
        ("classes__first", "list there. Set 'classes' as a whole"),
    ],
)
def test_parameters_of_what_has_none_are_refused(key, remedy):
    model = DPLogisticRegression(columns={"age": (17, 90)}, classes=[0, 1])
    before = repr(model)
    with pytest.raises(ValueError, match=f"'{key}' of DPLogistic.*{remedy}"):
        model.set_params(C=3.0, **{key: 9})
    assert repr(model) == before
    search = DPGridSearchCV(model, {key: [3, 9]}, epsilon=5.0)
    with pytest.raises(ValueError, match=remedy):
        search.fit(X, Y)


def test_parameters_of_what_is_set_with_them_are_set():
    encoder = skdp.TableEncoder({"age": (17, 90)})
    model = DPLogisticRegression()
    model.set_params(columns=encoder, columns__n_knots=9)
    assert model.columns.n_knots == 9
    with pytest.raises(ValueError, match="Invalid parameter 'wings'"):
        model.set_params(wings__left=2)


def test_other_mistakes_are_told_in_words_of_the_class():
    with pytest.raises(TypeError, match=r"Did you mean 'solver'\?"):
        DPLogisticRegression(solvr="noisy_gd")
    with pytest.raises(TypeError, match=r"^DPLinearSVC\(\): too many positional"):
        DPLinearSVC(1.0, 1e-6)
    with pytest.raises(ValueError, match=r"^DPLinearSVC requires y .* Pass the labels"):
        DPLinearSVC().fit(X)
    with pytest.raises(TypeError, match=r"'ledger'.*str.*BudgetLedger.open\(path\)"):
        DPLinearSVC(ledger="study.db").fit(X, Y)


DECLARED = [skdp.columns.Range, skdp.columns.Categories, skdp.columns.Dates]


@pytest.mark.parametrize("kind", [*DECLARED, skdp.columns.Boolean])
def test_declarations_suggest_the_argument_that_was_meant(kind):
    told = (
        rf"^{kind.__name__}\(\): .*'mising'\. Did you mean 'missing'\? Allowed are \["
    )
    with pytest.raises(TypeError, match=told):
        kind(mising=True)


@pytest.mark.parametrize("kind", DECLARED)
def test_declarations_without_their_values_are_shown_how_to_write_them(kind):
    with pytest.raises(TypeError, match="missing a required argument") as caught:
        kind(missing=True)
    example = str(caught.value).split("Write for example ")[1].removesuffix(".")
    assert isinstance(eval(example, {kind.__name__: kind}), kind)


@pytest.mark.parametrize("call", [skdp.private_score, skdp.private_evaluation])
def test_a_score_without_an_epsilon_is_told_what_it_costs(call):
    name = call.__name__
    how = rf"Write {name}\(model, X, y, epsilon=0\.5\): epsilon is what"
    told = rf"^{name}\(\): missing a required argument: 'epsilon'\. {how}"
    with pytest.raises(TypeError, match=told):
        call(DPLogisticRegression(), X, Y)
    with pytest.raises(TypeError, match=r"'eps'\. Did you mean 'epsilon'\?"):
        call(DPLogisticRegression(), X, Y, eps=0.5)
    with pytest.raises(TypeError, match=r"In this order: \['estimator', 'X', 'y'\]"):
        call(DPLogisticRegression(), X, Y, 0.5)


def test_one_budget_for_a_pipeline_needs_its_epsilon_and_delta():
    with pytest.raises(TypeError, match=r"'delta'\. Write set_budget\(model, epsilon="):
        skdp.set_budget(DPLogisticRegression(), epsilon=1.0)


def positional(kind):
    """What may be given to a class without its name."""
    items = inspect.signature(kind).parameters.values()
    return [item.name for item in items if item.kind is not item.KEYWORD_ONLY]


SEARCHES = {DPGridSearchCV, skdp.DPRandomizedSearchCV}
SEARCHES |= {skdp.DPTunedThresholdClassifier, skdp.DPCalibratedClassifier}
# Around a model, as searches are.
SEARCHES |= {skdp.DPConformalClassifier, skdp.DPConformalRegressor}
BUDGETED = [
    kind
    for kind in CLASSES
    if "epsilon" in inspect.signature(kind).parameters and kind not in SEARCHES
]


@pytest.mark.parametrize("kind", BUDGETED, ids=lambda kind: kind.__name__)
def test_a_bare_number_is_epsilon_or_refused(kind):
    name = kind.__name__
    # A bare number would be read as that of components or clusters, as in scikit-learn.
    bare = [] if kind in (skdp.DPPCA, skdp.DPKMeans) else ["epsilon"]
    assert positional(kind) == bare
    if bare:
        assert kind(0.5).epsilon == 0.5
    with pytest.raises(TypeError, match=rf"^{name}.*too many .*By name: \["):
        kind(*[1.0] * (len(bare) + 1))


def test_a_ledger_without_a_cap_names_open(tmp_path):
    with pytest.raises(TypeError, match=r"'epsilon'. Use BudgetLedger.open\(path\)"):
        BudgetLedger(tmp_path / "study.db")
    assert not list(tmp_path.iterdir())


def test_errors_from_within_pass_as_they_are():
    class Step:
        @explained
        def fit(self, X):
            raise TypeError("from within")

    with pytest.raises(TypeError, match=r"^from within$"):
        Step().fit(X)
