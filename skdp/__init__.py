"""skdp: differentially private estimators for scikit-learn."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skdp._moved import find_moved
from skdp._version import __version__ as __version__

find_moved()

# Public name -> module. Loaded on first use: `import skdp` costs next to nothing.
_HOMES = {
    "BudgetExceeded": "skdp.exceptions",
    "BudgetLedger": "skdp.privacy",
    "BoundedScaler": "skdp.preprocessing",
    "DPCalibratedClassifier": "skdp.model_selection",
    "DPConformalClassifier": "skdp.model_selection",
    "DPConformalRegressor": "skdp.model_selection",
    "DPCategoricalNB": "skdp.naive_bayes",
    "DPDiscreteTimeSurvival": "skdp.linear_model",
    "DPGammaRegressor": "skdp.linear_model",
    "DPGradientBoostingClassifier": "skdp.ensemble",
    "DPGradientBoostingRegressor": "skdp.ensemble",
    "DPGridSearchCV": "skdp.model_selection",
    "DPKMeans": "skdp.cluster",
    "DPLinearRegression": "skdp.linear_model",
    "DPLinearSVC": "skdp.linear_model",
    "DPLogisticRegression": "skdp.linear_model",
    "DPMLPClassifier": "skdp.neural_network",
    "DPMLPRegressor": "skdp.neural_network",
    "DPMatrixFactorization": "skdp.decomposition",
    "DPPCA": "skdp.preprocessing",
    "DPPoissonRegressor": "skdp.linear_model",
    "DPQuantileClipper": "skdp.preprocessing",
    "DPQuantileRegressor": "skdp.linear_model",
    "DPRandomizedSearchCV": "skdp.model_selection",
    "DPRobustClassifier": "skdp.linear_model",
    "DPSimpleImputer": "skdp.preprocessing",
    "DPSparseLinearRegression": "skdp.linear_model",
    "DPSparseLogisticRegression": "skdp.linear_model",
    "DPStandardScaler": "skdp.preprocessing",
    "DPTunedThresholdClassifier": "skdp.model_selection",
    "DaskSource": "skdp.io",
    "DeclaredOneHotEncoder": "skdp.preprocessing",
    "Federation": "skdp.federated",
    "ParquetSource": "skdp.io",
    "RowNormClipper": "skdp.preprocessing",
    "SqlSource": "skdp.io",
    "TableEncoder": "skdp.preprocessing",
    "describe": "skdp.statistics",
    "forecast": "skdp.linear_model",
    "pairs_from_sparse": "skdp.decomposition",
    "privacy_report": "skdp.pipeline",
    "set_budget": "skdp.pipeline",
    "private_evaluation": "skdp.model_selection",
    "private_score": "skdp.model_selection",
    "propose_ranges": "skdp.statistics",
}

__all__ = ["__version__", *sorted(_HOMES)]


if TYPE_CHECKING:  # what editors and type checkers see; a test holds both to be one
    from skdp.cluster import (
        DPKMeans as DPKMeans,
    )
    from skdp.decomposition import (
        DPMatrixFactorization as DPMatrixFactorization,
        pairs_from_sparse as pairs_from_sparse,
    )
    from skdp.ensemble import (
        DPGradientBoostingClassifier as DPGradientBoostingClassifier,
        DPGradientBoostingRegressor as DPGradientBoostingRegressor,
    )
    from skdp.exceptions import (
        BudgetExceeded as BudgetExceeded,
    )
    from skdp.federated import (
        Federation as Federation,
    )
    from skdp.io import (
        DaskSource as DaskSource,
        ParquetSource as ParquetSource,
        SqlSource as SqlSource,
    )
    from skdp.linear_model import (
        DPDiscreteTimeSurvival as DPDiscreteTimeSurvival,
        DPGammaRegressor as DPGammaRegressor,
        DPLinearRegression as DPLinearRegression,
        DPLinearSVC as DPLinearSVC,
        DPLogisticRegression as DPLogisticRegression,
        DPPoissonRegressor as DPPoissonRegressor,
        DPQuantileRegressor as DPQuantileRegressor,
        DPRobustClassifier as DPRobustClassifier,
        DPSparseLinearRegression as DPSparseLinearRegression,
        DPSparseLogisticRegression as DPSparseLogisticRegression,
        forecast as forecast,
    )
    from skdp.model_selection import (
        DPCalibratedClassifier as DPCalibratedClassifier,
        DPConformalClassifier as DPConformalClassifier,
        DPConformalRegressor as DPConformalRegressor,
        DPGridSearchCV as DPGridSearchCV,
        DPRandomizedSearchCV as DPRandomizedSearchCV,
        DPTunedThresholdClassifier as DPTunedThresholdClassifier,
        private_evaluation as private_evaluation,
        private_score as private_score,
    )
    from skdp.naive_bayes import (
        DPCategoricalNB as DPCategoricalNB,
    )
    from skdp.neural_network import (
        DPMLPClassifier as DPMLPClassifier,
        DPMLPRegressor as DPMLPRegressor,
    )
    from skdp.pipeline import (
        privacy_report as privacy_report,
        set_budget as set_budget,
    )
    from skdp.preprocessing import (
        DPPCA as DPPCA,
        BoundedScaler as BoundedScaler,
        DeclaredOneHotEncoder as DeclaredOneHotEncoder,
        DPQuantileClipper as DPQuantileClipper,
        DPSimpleImputer as DPSimpleImputer,
        DPStandardScaler as DPStandardScaler,
        RowNormClipper as RowNormClipper,
        TableEncoder as TableEncoder,
    )
    from skdp.privacy import (
        BudgetLedger as BudgetLedger,
    )
    from skdp.statistics import (
        describe as describe,
        propose_ranges as propose_ranges,
    )
else:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(importlib.import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'skdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
