"""Old module names, so that stored models can be read after modules have moved.

A pickle names the module of each class in it. Later versions read models that version
1.0 stored (``docs/support.md``), even if classes have moved to other modules.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "skdp.columns._declarations": "skdp.tables._columns",
    "skdp.decomposition._factors": "skdp.decomposition._ratings",
    "skdp.decomposition._ids": "skdp.decomposition._ratings",
    "skdp.decomposition._matrix_factorization": "skdp.decomposition._estimator",
    "skdp.decomposition._task": "skdp.decomposition._ratings",
    "skdp.ensemble._additive": "skdp.ensemble._shapes",
    "skdp.ensemble._bins": "skdp.ensemble._trees",
    "skdp.ensemble._boosted": "skdp.ensemble._boosting",
    "skdp.ensemble._classifier": "skdp.ensemble._estimators",
    "skdp.ensemble._regressor": "skdp.ensemble._estimators",
    "skdp.ensemble._table": "skdp.ensemble._trees",
    "skdp.linear_model._estimates": "skdp.linear_model._base",
    "skdp.linear_model._gamma": "skdp.linear_model._log_link",
    "skdp.linear_model._linear_regression": "skdp.linear_model._regressors",
    "skdp.linear_model._logistic": "skdp.linear_model._classifiers",
    "skdp.linear_model._poisson": "skdp.linear_model._log_link",
    "skdp.linear_model._quantile": "skdp.linear_model._regressors",
    "skdp.linear_model._robust": "skdp.linear_model._classifiers",
    "skdp.linear_model._sparse_linear_regression": "skdp.linear_model._sparse",
    "skdp.linear_model._sparse_logistic_regression": "skdp.linear_model._sparse",
    "skdp.linear_model._svc": "skdp.linear_model._classifiers",
    "skdp.model_selection._calibrated": "skdp.model_selection._held_out_models",
    "skdp.model_selection._grid_search": "skdp.model_selection._search",
    "skdp.model_selection._private_comparison": "skdp.model_selection._scores",
    "skdp.model_selection._private_evaluation": "skdp.model_selection._evaluation",
    "skdp.model_selection._private_score": "skdp.model_selection._scores",
    "skdp.model_selection._tuned_threshold": "skdp.model_selection._held_out_models",
    "skdp.neural_network._classifier": "skdp.neural_network._estimators",
    "skdp.neural_network._regressor": "skdp.neural_network._estimators",
    "skdp.objectives": "skdp.losses",
    "skdp.objectives._convolution": "skdp.papers._convolution",
    "skdp.pipeline._steps": "skdp.pipeline._report",
    "skdp.preprocessing._bounded_scaler": "skdp.preprocessing._declared",
    "skdp.preprocessing._declared_one_hot_encoder": "skdp.preprocessing._declared",
    "skdp.preprocessing._quantile_clipper": "skdp.preprocessing._private",
    "skdp.preprocessing._row_norm_clipper": "skdp.preprocessing._declared",
    "skdp.preprocessing._simple_imputer": "skdp.preprocessing._private",
    "skdp.preprocessing._standard_scaler": "skdp.preprocessing._private",
    "skdp.preprocessing._table_axes": "skdp.preprocessing._blocks",
    "skdp.preprocessing._table_blocks": "skdp.preprocessing._blocks",
    "skdp.preprocessing._table_encoder": "skdp.preprocessing._encoder",
    "skdp.privacy._events": "skdp.privacy.accounting._events",
    "skdp.privacy._ledger": "skdp.privacy.ledger._ledger",
    "skdp.privacy._record": "skdp.privacy.release._record",
    "skdp.privacy._search_events": "skdp.privacy.accounting._events",
    "skdp.statistics._summaries": "skdp.statistics._description",
}
# Old names of classes that were renamed.
RENAMED = {
    "skdp.preprocessing._table_blocks": {"Bins": "Intervals", "Part": "DatePart"},
}


class _Moved(MetaPathFinder, Loader):
    """Finds a module of `MOVED` and gives it the classes of its successor."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname not in MOVED:
            return None
        # A package, since modules below it may be in `MOVED` too.
        return ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        now = vars(import_module(MOVED[module.__name__]))
        vars(module).update({name: now[name] for name in now if name[:2] != "__"})
        for old, new in RENAMED.get(module.__name__, {}).items():
            setattr(module, old, now[new])


def find_moved() -> None:
    sys.meta_path.append(_Moved())
