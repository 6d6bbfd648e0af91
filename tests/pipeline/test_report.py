"""privacy_report: what it finds, what it adds up, and that it touches nothing."""

import math
import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import (
    ColumnTransformer,
    make_column_selector,
)
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    KernelCenterer,
    Normalizer,
    StandardScaler,
)

import skdp
import skdp.pipeline._report as report_module
from skdp import (
    BoundedScaler,
    DPGridSearchCV,
    DPLinearRegression,
    DPLogisticRegression,
    DPStandardScaler,
    RowNormClipper,
    TableEncoder,
    privacy_report,
)
from skdp.columns import Range
from skdp.exceptions import (
    SeededNoiseWarning,
    StratifiedFoldsWarning,
    UnaccountedStepError,
)
from skdp.pipeline._report import ALTERNATIVES, total_of
from skdp.privacy import ComposedEvent, GaussianEvent, PureEvent
from tests.pipeline.closed_forms import SpyStep, exact_epsilon, exact_mu

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(120, 4))
Y = RNG.integers(0, 2, 120)
LABELS = {"classes": [0, 1]}


def named(*steps):
    return Pipeline([(f"s{i}", step) for i, step in enumerate(steps)])


def model(**params):
    return DPLogisticRegression(**LABELS, **params)


def deep():
    """Private steps at every depth, in every container."""
    columns = ColumnTransformer(
        [
            ("num", make_pipeline(BoundedScaler((0, 1)), Normalizer()), [0, 1]),
            ("chosen", SelectFromModel(model(solver="noisy_gd")), [2, 3]),
        ],
        remainder="passthrough",
        sparse_threshold=0,
    )
    union = FeatureUnion([("all", columns), ("clip", RowNormClipper()), ("no", "drop")])
    return Pipeline(
        [
            ("features", union),
            (
                "again",
                SelectFromModel(model(epsilon=0.5, solver="noisy_gd"), threshold=0),
            ),
            ("none", None),
            ("clf", make_pipeline("passthrough", model(solver="noisy_gd"))),
        ]
    )


PRIVATE_PATHS = [
    "features/all/chosen/estimator",
    "again/estimator",
    "clf/dplogisticregression",
]


def private_names(report):
    return [step.name for step in report.steps if step.kind == "private"]


def check_squares(epsilons, delta, report):
    """The total is that of one Gaussian release with the sum of the mu^2."""
    mu = math.sqrt(math.fsum(exact_mu(epsilon, delta) ** 2 for epsilon in epsilons))
    exact = exact_epsilon(mu, delta)
    assert report.delta == delta
    assert exact * (1 - 1e-9) <= report.epsilon <= exact * (1 + 2e-6)


@pytest.mark.parametrize(
    ("epsilons", "delta"), [([1.0], 1e-9), ([0.3, 0.3], 1e-5), ([2.0, 0.1, 5.0], 1e-5)]
)
def test_planned_gaussian_steps_add_up_in_squares(epsilons, delta):
    steps = [SpyStep(epsilon, delta) for epsilon in epsilons]
    check_squares(epsilons, delta, privacy_report(named(*steps)))


def test_a_total_that_forgets_a_step_is_caught(monkeypatch):
    """Broken twin of the test above."""
    total_of = report_module.total_of
    monkeypatch.setattr(
        report_module, "total_of", lambda steps, delta: total_of(steps[1:], delta)
    )
    report = privacy_report(named(SpyStep(0.1), SpyStep(2.0)))
    with pytest.raises(AssertionError):
        check_squares([0.1, 2.0], 1e-6, report)


def test_other_steps_are_added_by_basic_composition():
    steps = [
        SpyStep(1.0, 1e-6),
        SpyStep(0.5, 1e-7),
        SpyStep(0.25, 1e-5, adds=False),
        SpyStep(0.125, 0.0, adds=False),
    ]
    report = privacy_report(named(*steps))
    squares = exact_mu(1.0, 1e-6) ** 2 + exact_mu(0.5, 1e-7) ** 2
    exact = 0.375 + exact_epsilon(math.sqrt(squares), 1e-6)
    assert report.delta == pytest.approx(1.1e-5, rel=1e-12)
    assert report.epsilon == pytest.approx(exact, rel=2e-6)
    assert report.epsilon >= exact * (1 - 1e-9)


def test_a_given_delta_is_shared_by_what_needs_it():
    steps = named(SpyStep(1.0, 1e-6), SpyStep(0.25, 1e-5, adds=False))
    report = privacy_report(steps, delta=3e-5)
    exact = 0.25 + exact_epsilon(exact_mu(1.0, 1e-6), 2e-5)
    assert (report.epsilon, report.delta) == (pytest.approx(exact, rel=2e-6), 3e-5)
    too_small = privacy_report(steps, delta=9e-6)
    assert too_small.epsilon == math.inf
    assert "delta" in too_small.reason


def test_spent_steps_are_composed_by_their_events():
    events = [GaussianEvent(5.0, 3), GaussianEvent(2.0), PureEvent(0.4)]
    steps = [
        SpyStep(9.0, 1e-6, event=ComposedEvent(tuple(events[:1]))),
        SpyStep(9.0, 1e-6, event=events[1]),
        SpyStep(9.0, 0.0, event=events[2]),
    ]
    report = privacy_report(named(*steps))
    squares = 3 / 25 + 1 / 4
    basic = 0.4 + exact_epsilon(math.sqrt(squares), 1e-6)
    assert report.state == "spent"
    assert report.delta == 1e-6
    assert report.epsilon <= basic * (1 + 1e-6)
    assert report.epsilon >= exact_epsilon(math.sqrt(squares), 1e-6)


def test_deep_nesting_unfitted_and_fitted():
    pipeline = deep()
    planned = privacy_report(pipeline)
    assert private_names(planned) == PRIVATE_PATHS
    assert planned.state == "planned"
    check_squares([1.0, 0.5, 1.0], 1e-6, planned)
    kinds = {step.name: step.kind for step in planned.steps}
    assert set(kinds.values()) == {"private", "declared rule"}
    assert kinds["features/all/num/normalizer"] == "declared rule"
    assert kinds["features/all/remainder"] == kinds["none"] == "declared rule"
    pipeline.fit(X, Y)
    spent = privacy_report(pipeline)
    assert private_names(spent) == PRIVATE_PATHS
    assert {step.state for step in spent.steps if step.kind == "private"} == {"spent"}
    fitted = [
        pipeline["features"].transformer_list[0][1].named_transformers_["chosen"],
        pipeline["again"],
    ]
    models = [step.estimator_ for step in fitted] + [pipeline["clf"][-1]]
    squares = [m.privacy_.event.mu_squared for m in models]
    exact = exact_epsilon(math.sqrt(math.fsum(squares)), 1e-6)
    assert spent.epsilon == pytest.approx(exact, rel=2e-6)
    assert spent.epsilon <= planned.epsilon


def test_the_report_fits_and_changes_nothing():
    for pipeline in (deep(), deep().fit(X, Y), named(SpyStep(), PCA(), SpyStep())):
        before = pickle.dumps(pipeline)
        privacy_report(pipeline)
        privacy_report(pipeline, delta=1e-3, data_independent=[PCA])
        assert pickle.dumps(pipeline) == before


@pytest.mark.parametrize(
    ("step", "advice"),
    [
        (StandardScaler(), "BoundedScaler or DPStandardScaler"),
        (LogisticRegression(), "DPLogisticRegression"),
        (KernelCenterer(), "no accounting"),
        (FunctionTransformer(lambda X: X - X.mean()), "numpy"),
        (SelectFromModel(LogisticRegression()), "DPLogisticRegression"),
    ],
)
def test_unaccounted_steps_make_the_total_infinite(step, advice):
    report = privacy_report(make_pipeline(step, SpyStep()))
    assert report.epsilon == math.inf
    assert not report.is_private
    assert advice in report.reason
    with pytest.raises(UnaccountedStepError, match="strict") as caught:
        privacy_report(make_pipeline(step, SpyStep()), strict=True)
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    "meta",
    [
        GridSearchCV(make_pipeline(Normalizer(), SpyStep()), {}, cv=KFold(5)),
        BaggingClassifier(SpyStep()),
        VotingClassifier([("one", SpyStep())]),
        GridSearchCV(BaggingClassifier(SpyStep()), {}, cv=KFold(5)),
    ],
)
def test_meta_estimators_are_unaccounted_and_show_what_is_within(meta):
    for report in (
        privacy_report(meta),
        privacy_report(meta, data_independent=[type(meta)]),
    ):
        assert report.epsilon == math.inf
        assert "more than once" in report.reason
        inner = [step for step in report.steps if step.kind == "private"]
        assert [step.estimator for step in inner] == ["SpyStep"]
        assert "within" in inner[0].note


MODEL = DPLogisticRegression(classes=[0, 1])


@pytest.mark.parametrize(
    ("meta", "is_stratified"),
    [
        (GridSearchCV(MODEL, {}), True),
        (GridSearchCV(make_pipeline(RowNormClipper(), MODEL), {}, cv=3), True),
        (GridSearchCV(MODEL, {}, cv=StratifiedKFold(3)), True),
        (CalibratedClassifierCV(MODEL), True),
        (StackingClassifier([("one", MODEL)]), True),
        (make_pipeline(RowNormClipper(), SelectFromModel(MODEL), MODEL), False),
        (GridSearchCV(MODEL, {}, cv=KFold(3)), False),
        (GridSearchCV(DPLinearRegression(target_bounds=(0, 1)), {}), False),
        (DPGridSearchCV(MODEL, {"C": [0.1, 1.0]}), False),
        (VotingClassifier([("one", MODEL)]), False),
        (GridSearchCV(LogisticRegression(), {}), False),
    ],
)
def test_folds_that_labels_decide_are_warned_about(meta, is_stratified, recwarn):
    warnings.simplefilter("always")
    privacy_report(meta)
    told = [w for w in recwarn if w.category is StratifiedFoldsWarning]
    assert len(told) == is_stratified
    for warning in told:
        assert "Pass cv=KFold(5)" in str(warning.message)
        assert warning.filename == __file__


def test_adjacencies_are_never_mixed():
    both = named(SpyStep(adjacency="zero_out"), SpyStep())
    report = privacy_report(both)
    assert report.epsilon == math.inf
    assert report.adjacency is None
    assert "adjacencies" in report.reason
    with pytest.raises(UnaccountedStepError):
        privacy_report(both, strict=True)
    same = privacy_report(named(SpyStep(adjacency="zero_out"), Normalizer()))
    assert (same.adjacency, same.epsilon) == ("zero_out", 1.0)


def test_one_step_of_users_makes_all_steps_of_users():
    """None of them may take anything from how many rows there are."""
    encoder, scaler = TableEncoder(Range(0, 1)), DPStandardScaler(bounds=(0, 1))
    steps = encoder, scaler, model(privacy_unit="user")
    report = privacy_report(make_pipeline(*steps))
    assert "with privacy_unit='user'" in report.steps[0].note


def test_seeds_and_infinite_epsilon_are_not_private():
    for params in ({"random_state": 0}, {"epsilon": math.inf}):
        report = privacy_report(make_pipeline(model(**params)))
        assert report.epsilon == math.inf
        assert "dplogisticregression" in report.reason
    with pytest.warns(SeededNoiseWarning):
        fitted = model(random_state=0).fit(X, Y)
    assert privacy_report(fitted).epsilon == math.inf


def test_what_containers_do_themselves():
    columns = [("a", SpyStep(), [0])]
    good = ColumnTransformer(columns)
    assert privacy_report(good).is_private
    by_dtype = make_column_selector(dtype_include=float)
    for bad in (
        ColumnTransformer([("a", SpyStep(), lambda X: [0])]),
        ColumnTransformer([("a", SpyStep(), by_dtype)]),
        ColumnTransformer([*columns, ("b", HashingVectorizer(), 1)]),
        # Sparse or not as the density of a sparse X decides.
        ColumnTransformer([*columns, ("b", "passthrough", [1])]),
        ColumnTransformer([*columns, ("b", RowNormClipper(), [1])]),
        SelectFromModel(SpyStep(), max_features=lambda X: 1),
    ):
        report = privacy_report(bad)
        assert report.epsilon == math.inf
        assert private_names(report)
        assert not privacy_report(bad, data_independent=[type(bad)]).is_private
    by_name = make_column_selector(pattern="a")
    assert privacy_report(ColumnTransformer([("a", SpyStep(), by_name)])).is_private
    dense = ColumnTransformer(
        [*columns, ("b", HashingVectorizer(), 1)], sparse_threshold=0
    )
    assert privacy_report(dense).is_private


def test_steps_without_columns_are_not_fitted_and_cost_nothing():
    columns = [("a", model(), [0, 1]), ("b", model(), []), ("c", model(), [False] * 4)]
    steps = [(n, SelectFromModel(m, threshold=0), c) for n, m, c in columns]
    report = privacy_report(ColumnTransformer(steps, sparse_threshold=0).fit(X, Y))
    assert private_names(report) == ["a/estimator"]
    assert (report.epsilon, report.state) == (pytest.approx(1.0, rel=1e-4), "spent")


def test_frozen_and_prefit_steps_are_spent():
    fitted = model(solver="noisy_gd").fit(X, Y)
    mu = math.sqrt(fitted.privacy_.event.mu_squared)
    for frozen in (FrozenEstimator(fitted), SelectFromModel(fitted, prefit=True)):
        report = privacy_report(frozen)
        assert report.epsilon == pytest.approx(exact_epsilon(mu, 1e-6), rel=2e-6)
        assert report.state == "spent"
    scaler = FrozenEstimator(StandardScaler().fit(X))
    assert privacy_report(scaler).epsilon == math.inf


def test_vouched_steps_and_caches_are_mentioned():
    scaler = StandardScaler()
    steps = make_pipeline(scaler, SpyStep(), memory="somewhere")
    for vouched in ([StandardScaler], [scaler]):
        report = privacy_report(steps, data_independent=vouched)
        assert report.epsilon == 1.0
        assert report.steps[0].kind == "vouched for by the user"
        assert any("vouches" in text for text in report.not_covered)
        assert any("disk" in text for text in report.not_covered)
    other = privacy_report(
        make_pipeline(StandardScaler(), SpyStep()), data_independent=[scaler]
    )
    assert other.epsilon == math.inf
    assert not any("disk" in text for text in other.not_covered)


def test_hostile_names_are_escaped():
    hostile = "<script>alert(1)</script>&\n\x1b[31mred"
    report = privacy_report(Pipeline([(hostile, PCA()), ("m", SpyStep())]))
    page = report._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page + repr(report)
    assert report.steps[0].name == hostile
    lines = repr(report).split("\n")
    assert len(lines) == 1 + 1 + 2 + 1
    starts = {
        line.index(word)
        for line, word in zip(lines[1:4], ("class", "PCA", "Spy"), strict=True)
    }
    assert len(starts) == 1


def test_parts_of_one_release_are_paid_once():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, size=(300, 2)), rng.integers(0, 2, 300)
    selector = SelectFromModel(DPLogisticRegression(classes=[0, 1]), max_features=2)
    model = make_pipeline(
        BoundedScaler(bounds=(-1, 1)), selector, DPLogisticRegression(classes=[0, 1])
    )
    search = DPGridSearchCV(model, {"dplogisticregression__C": [0.1, 1.0]}).fit(X, y)
    report = privacy_report(search.best_estimator_)
    assert report.epsilon == pytest.approx(search.privacy_.epsilon, rel=1e-6)
    assert report.epsilon == pytest.approx(privacy_report(search).epsilon, rel=1e-6)
    assert sum(step.kind == "private" for step in report.steps) == 2
    # What a report that paid for each part would say.
    step = search.best_estimator_[-1].step_privacy()
    twice = total_of([step, replace(step, release="")])
    assert twice[0] > 1.2 * report.epsilon


def test_alternatives_that_are_named_exist():
    named = {
        name
        for names in ALTERNATIVES.values()
        for each in names
        for name in re.findall(r"[A-Z]\w+", each)
    }
    of_sklearn = {"FeatureHasher", "HashingVectorizer", "SelectFromModel"}
    assert named <= set(skdp.__all__) | of_sklearn


@pytest.mark.parametrize(
    ("step", "use"),
    [
        (TfidfVectorizer(), "use HashingVectorizer(norm='l2')"),
        (KBinsDiscretizer(), "use TableEncoder(columns, numeric='bins')"),
        (SelectKBest(), "use SelectFromModel("),
        (SimpleImputer(), "use DPSimpleImputer"),
    ],
)
def test_a_refused_step_names_an_alternative(step, use):
    model = make_pipeline(step, DPLogisticRegression(classes=[0, 1]))
    with pytest.raises(UnaccountedStepError) as refused:
        privacy_report(model, strict=True)
    assert use in str(refused.value)


def test_declared_steps_alone_cost_nothing():
    report = privacy_report(make_pipeline(BoundedScaler((0, 1)), Normalizer()))
    assert (report.epsilon, report.delta, report.adjacency) == (0, 0, None)
    assert report.is_private
    assert "Takes nothing from the data" in report.statement()


@pytest.mark.parametrize("wrong", [DPLogisticRegression, None, "clf"])
def test_what_is_no_estimator_is_refused(wrong):
    with pytest.raises(TypeError, match="must be an estimator"):
        privacy_report(wrong)


@pytest.mark.parametrize("wrong", [StandardScaler, "StandardScaler", None])
def test_what_is_vouched_for_comes_in_a_list(wrong):
    with pytest.raises(TypeError, match="'data_independent' parameter must be"):
        privacy_report(SpyStep(), data_independent=wrong)
