"""Fitted state that says which version of skdp wrote it."""

from __future__ import annotations

import inspect
from typing import Any

from sklearn.base import BaseEstimator

from skdp._configured import check_schema, check_version, warn_of_version
from skdp._explained import explained, explained_nesting
from skdp._shared_docs import fill_docs
from skdp._version import __version__

STATE_SCHEMA = 2
_VERSION, _SCHEMA = "_skdp_version", "_skdp_schema"


class StoredEstimator(BaseEstimator):
    """An estimator whose pickled state names skdp's version and a schema number."""

    set_params = explained_nesting(BaseEstimator.set_params)

    def __init_subclass__(cls, **options: Any) -> None:
        """Fill in docs and let `explained` wrap the constructor and `fit`.

        It is a hook since Python refuses an unknown argument before a body runs, and
        since estimators that users derive are documented and explained too.
        """
        super().__init_subclass__(**options)
        for documented in (cls, *filter(inspect.isfunction, vars(cls).values())):
            fill_docs(documented)
        for name in ("__init__", "fit"):
            if inspect.isfunction(vars(cls).get(name)):
                setattr(cls, name, explained(vars(cls)[name]))

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {_VERSION: __version__, _SCHEMA: STATE_SCHEMA}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        name = type(self).__name__
        what = f"The stored state of {name}"
        version = check_version(what, state.pop(_VERSION, None))
        check_schema(what, state.pop(_SCHEMA, None), STATE_SCHEMA, version)
        remedy = (
            "Check what it predicts, or load it with the version that stored it. To "
            "fit it again is another release."
        )
        warn_of_version(f"a fitted {name}", version, remedy)
        super().__setstate__(self._defaults() | state)

    def _defaults(self) -> dict[str, Any]:
        """Defaults of parameters that the writer's version did not have."""
        parameters = inspect.signature(type(self)).parameters
        return {name: each.default for name, each in parameters.items()}
