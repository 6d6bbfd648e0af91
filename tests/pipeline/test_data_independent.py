"""The table of data-independent classes, tested on neighbouring data sets."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
)
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import (
    GaussianRandomProjection,
    SparseRandomProjection,
)

from skdp import privacy_report
from skdp.pipeline._data_independent import DATA_INDEPENDENT

N_ROWS, TRIALS = 12, 5
KNOTS = np.array([[-1.0, -1, -1], [0, 0, 0], [1, 1, 1]])


def numbers(rng, n):
    # Of very different sizes, some equal, so that one row can be the largest.
    return (rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-2, 3, (n, 1))).round(2)


def holes(rng, n):
    X = numbers(rng, n)
    X[rng.random(X.shape) < 0.3] = np.nan
    return X


def cells(rng, n):
    return rng.choice(
        np.array(["a", "b", "c", "zz", 3, None, math.nan], object), (n, 2)
    )


def strings(rng, n):
    return rng.choice(["a", "b", "a longer word"], (n, 2))


def integers(rng, n):
    return rng.integers(0, 5, (n, 2))


def frame(rng, n):
    return pd.DataFrame(cells(rng, n), columns=["u", "v"])


def words(rng, n):
    some = ["red", "green", "blue", "Grün", "x1", "and"]
    return [" ".join(rng.choice(some, rng.integers(0, 6))) for _ in range(n)]


def bags(rng, n):
    return [
        {w: float(rng.integers(1, 9)) for w in words(rng, 1)[0].split()}
        for _ in range(n)
    ]


LETTERS = [["a", "b", "c"], ["b", "c"]]
ENCODER = {"categories": LETTERS, "handle_unknown": "ignore"}
UNKNOWN = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
CASES = [
    (Binarizer(threshold=0.5), numbers),
    (CountVectorizer(vocabulary=["red", "blue"]), words),
    (FeatureHasher(n_features=8), bags),
    (FunctionTransformer(), numbers),
    (FunctionTransformer(np.clip, kw_args={"a_min": -0.5, "a_max": 1}), numbers),
    (GaussianRandomProjection(2, random_state=0), numbers),
    (GaussianRandomProjection(eps=0.9, random_state=0), None),
    (HashingVectorizer(n_features=8), words),
    (MissingIndicator(features="all"), holes),
    (Normalizer(), numbers),
    (OneHotEncoder(**ENCODER), cells),
    (OneHotEncoder(**ENCODER, sparse_output=False), frame),
    (OrdinalEncoder(categories=LETTERS, **UNKNOWN), cells),
    (PolynomialCountSketch(n_components=5, random_state=0), numbers),
    (PolynomialFeatures(3), numbers),
    (RBFSampler(n_components=4, random_state=0), numbers),
    (
        SimpleImputer(strategy="constant", fill_value=7.0, keep_empty_features=True),
        holes,
    ),
    (SparseRandomProjection(2, random_state=0), numbers),
    (SplineTransformer(knots=KNOTS, extrapolation="linear"), numbers),
    (TfidfTransformer(use_idf=False, sublinear_tf=True), integers),
]

NOT_INDEPENDENT = [
    (MissingIndicator(error_on_new=False), holes),
    (OneHotEncoder(handle_unknown="ignore"), strings),
    (
        OneHotEncoder(categories=LETTERS, handle_unknown="ignore", max_categories=2),
        strings,
    ),
    (PCA(2), numbers),
    (RBFSampler(gamma="scale", random_state=0), numbers),
    (SimpleImputer(), holes),
    (SplineTransformer(), numbers),
    (StandardScaler(), numbers),
    (TfidfTransformer(), integers),
    (CountVectorizer(min_df=4), words),
    (FunctionTransformer(lambda X: X - X.mean(axis=0)), numbers),
]


def name_of(value):
    return getattr(value, "__name__", type(value).__name__)


def wide(rng, n):
    return rng.normal(size=(n, 300))


def bits(output):
    """Shape and contents, NaN equal to NaN."""
    dense = output.toarray() if issparse(output) else np.asarray(output)
    return dense.shape, [row.tobytes() for row in np.ascontiguousarray(dense)]


def look(step, data, new):
    """Bits of the transformed training rows and of new rows."""
    fitted = clone(step).fit(data)
    return bits(fitted.transform(data)), bits(fitted.transform(new))


def replaced(data, place, row):
    other = data.copy()
    if isinstance(data, pd.DataFrame):
        other.iloc[place] = row.iloc[0]
    else:
        other[place] = row[0]
    return other


def is_independent(step, draw, trials=TRIALS):
    """Whether one row has no influence on how any other row is transformed."""
    rng = np.random.default_rng(5)
    for _ in range(trials):
        data, new = draw(rng, N_ROWS), draw(rng, N_ROWS)
        place = int(rng.integers(N_ROWS))
        other = replaced(data, place, draw(rng, 1))
        (shape, rows), seen = look(step, data, new)
        (shape_other, rows_other), seen_other = look(step, other, new)
        if shape != shape_other or seen != seen_other:
            return False
        same = [a == b for a, b in zip(rows, rows_other, strict=True)]
        if not all(same[:place] + same[place + 1 :]):
            return False
    return True


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(("step", "draw"), CASES, ids=name_of)
def test_listed_classes_do_not_depend_on_other_rows(step, draw):
    assert privacy_report(step).epsilon == 0
    assert privacy_report(step).steps[0].kind == "declared rule"
    assert is_independent(step, draw or wide)


def test_every_listed_class_has_a_case():
    assert {type(step) for step, _ in CASES} == set(DATA_INDEPENDENT)
    assert all(rule.reason for rule in DATA_INDEPENDENT.values())


@pytest.mark.parametrize(("step", "draw"), NOT_INDEPENDENT, ids=name_of)
def test_the_same_test_rejects_what_learns_from_data(step, draw):
    """Broken twins: were they on the list, the test above would say so."""
    assert not is_independent(step, draw, trials=40)
    assert privacy_report(step).epsilon == math.inf


class Sneaky(Normalizer):
    """A subclass may do anything."""


@pytest.mark.parametrize(
    "step",
    [
        Sneaky(),
        FunctionTransformer(np.frompyfunc(print, 1, 1)),
        FunctionTransformer(np.log, kw_args={"where": [True]}),
        FunctionTransformer(np.log1p, np.expm1),
        FunctionTransformer(np.clip),
        FunctionTransformer(np.clip, kw_args={"a_min": 0, "a_max": [1, 2]}),
        FunctionTransformer(np.clip, kw_args={"a_min": 0, "a_max": 1, "out": []}),
        FunctionTransformer(np.linalg.norm),
        OneHotEncoder(categories=LETTERS),
        OneHotEncoder(**ENCODER, drop="first"),
        OrdinalEncoder(categories=LETTERS),
        OrdinalEncoder(**UNKNOWN),
        OrdinalEncoder(categories=LETTERS, **UNKNOWN, min_frequency=2),
        SimpleImputer(strategy="constant", fill_value=0),
        SimpleImputer(strategy="constant", keep_empty_features=True),
        SplineTransformer(knots=KNOTS, extrapolation="error"),
        HashingVectorizer(tokenizer=str.split),
        HashingVectorizer(input="filename"),
        CountVectorizer(vocabulary=["a"], strip_accents=str.strip),
    ],
    ids=name_of,
)
def test_listed_classes_with_other_parameters_are_unaccounted(step):
    report = privacy_report(step)
    assert report.epsilon == math.inf
    assert report.steps[0].kind == "unaccounted"
    assert report.steps[0].note
