"""What to use in place of scikit-learn objects that read the data on no books."""

from __future__ import annotations

from typing import Any

_SCALE = ("BoundedScaler", "DPStandardScaler")
_RANGE = ("BoundedScaler", "DPQuantileClipper")
_REGRESSION = ("DPLinearRegression",)

# By name: importing these classes only to name their alternatives would take long.
ALTERNATIVES: dict[str, tuple[str, ...]] = {
    "StandardScaler": _SCALE,
    "PowerTransformer": _SCALE,
    "MinMaxScaler": _RANGE,
    "MaxAbsScaler": _RANGE,
    "RobustScaler": _RANGE,
    "QuantileTransformer": _RANGE,
    "SimpleImputer": ("DPSimpleImputer",),
    "KNNImputer": ("DPSimpleImputer",),
    "IterativeImputer": ("DPSimpleImputer",),
    "PCA": ("DPPCA",),
    "IncrementalPCA": ("DPPCA",),
    "TruncatedSVD": ("DPPCA",),
    "OneHotEncoder": ("DeclaredOneHotEncoder",),
    "OrdinalEncoder": ("DeclaredOneHotEncoder",),
    "TargetEncoder": ("DeclaredOneHotEncoder",),
    "LogisticRegression": ("DPLogisticRegression",),
    "LogisticRegressionCV": ("DPLogisticRegression",),
    "LinearSVC": ("DPLinearSVC",),
    "LinearRegression": _REGRESSION,
    "Ridge": _REGRESSION,
    "RidgeCV": _REGRESSION,
    "PoissonRegressor": ("DPPoissonRegressor",),
    "GammaRegressor": ("DPGammaRegressor",),
    "QuantileRegressor": ("DPQuantileRegressor",),
    "GridSearchCV": ("DPGridSearchCV",),
    "RandomizedSearchCV": ("DPRandomizedSearchCV",),
}


def alternatives_to(step: Any) -> tuple[str, ...]:
    """Names in skdp of what does the job of a scikit-learn object privately."""
    if not type(step).__module__.startswith("sklearn."):
        return ()
    return ALTERNATIVES.get(type(step).__name__, ())
