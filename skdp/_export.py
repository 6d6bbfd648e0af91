"""Fitted models without skdp: as JSON, as a Python file, as a scikit-learn pipeline."""

from __future__ import annotations

import inspect
import json
from abc import abstractmethod
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skdp._base import PrivateEstimator
from skdp._export_sklearn import as_pipeline
from skdp._predictor import Predictor
from skdp._version import __version__

# ------------------------------------------------------------------- Steps of a model


# Raised when a field changes its meaning.
SCHEMA = 1

Step = dict[str, Any]


def step(name: str, **values: Any) -> Step:
    """One call of a method of `Predictor`, as JSON-ready values."""
    plain = {
        key: value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        for key, value in values.items()
    }
    return {"step": name, "with": plain}


# ----------------------------------------------------- Exported: what a model is beyond


# Methods of `Predictor` in each file, and those that other methods call.
_ALWAYS = ("__init__", "predict", "raw")
_CALLS = {
    "table": ("read",),
    "boost": ("climb",),
    "tanh": ("logistic",),
    "convolve": ("layer",),
}


class Exported(PrivateEstimator):
    """A fitted model that can leave without skdp."""

    @abstractmethod
    def _steps(self) -> list[Step]:
        """Steps from X to raw predictions, and of a regressor to predictions."""

    def _outputs(self) -> dict[str, Any]:
        """Facts about what raw predictions mean, JSON-ready."""
        return {}

    def _to_dict(self) -> dict[str, Any]:
        check_is_fitted(self)
        facts = {"classes": None, "label_shift": None}
        return {
            "schema": SCHEMA,
            "skdp": __version__,
            "estimator": type(self).__name__,
            **facts,
            **self._outputs(),
            "steps": self._steps(),
            "privacy": self.privacy_.to_dict(),
        }

    def to_json(self) -> str:
        """The whole model as JSON, which needs no skdp to be read.

        The text holds what was released or declared, and the privacy statement. Its
        fields are:

        * ``steps``: what turns X into raw predictions, or into predictions of a
          regressor; each is the name of a method of ``skdp/_predictor.py`` and the
          values it takes ``with``;
        * ``classes``: the labels; null for a regressor;
        * ``label_shift``: what is taken off raw predictions before they become
          probabilities (the effect of `class_weight`); null without probabilities;
        * ``schema``, ``skdp``, ``estimator``, ``privacy``: the format, the version, the
          class and the statement.

        Returns
        -------
        str
        """
        return json.dumps(self._to_dict(), allow_nan=False)

    def export_predictor(self, path: str | PathLike[str]) -> None:
        """Write the model as a Python file that needs NumPy and nothing else.

        The file holds the JSON of `to_json` and the code that reads it, at most 60
        lines. ``from file import model`` gives an object with `predict` and, as this
        model has them, `decision_function` and `predict_proba`. It predicts the same
        numbers, in double precision: rows are clipped, and declared columns read, as in
        `fit`. X may be an array, a data frame, or a mapping from names to columns.

        Parameters
        ----------
        path : str or path
            Where to write, for example ``"churn.py"``.
        """
        described = self._to_dict()
        Path(path).write_text(source_of(described), encoding="utf-8")

    def export_sklearn(self) -> Pipeline:
        """The model as a fitted pipeline of scikit-learn's classes.

        The pipeline predicts the same numbers (those of networks with tanh or logistic
        units within 1e-10), and can be pickled and loaded without skdp. The last step
        is a linear model or a network of scikit-learn; earlier steps clip rows as `fit`
        does. skl2onnx can convert it where no row is clipped and no column is encoded
        as a curve.

        Returns
        -------
        Pipeline

        Raises
        ------
        ValueError
            If scikit-learn has no classes that predict the same numbers, as for boosted
            trees, dates and missing cells. `export_predictor` exports every model.

        Examples
        --------
        >>> import numpy as np
        >>> from skdp import DPLinearRegression
        >>> X = np.linspace(-1, 1, 2000)[:, None]
        >>> model = DPLinearRegression(1.0, target_bounds=(-2, 2)).fit(X, 2 * X[:, 0])
        >>> pipeline = model.export_sklearn()
        >>> bool(np.allclose(pipeline.predict(3 * X), model.predict(3 * X)))
        True
        """
        described = self._to_dict()
        return as_pipeline(described)


def source_of(described: dict[str, Any]) -> str:
    """Python source that predicts as a model does, from the result of `_to_dict`."""
    needed = {*_ALWAYS, *(each["step"] for each in described["steps"])}
    if described["classes"] is not None:
        needed.add("decision_function")
    if described["label_shift"] is not None:
        needed.add("predict_proba")
    for each in described["steps"]:
        columns = each["with"].get("columns", ())
        needed |= {*_CALLS.get(each["step"], ()), *(column["is"] for column in columns)}
    methods = [
        inspect.getsource(method)
        for name, method in vars(Predictor).items()
        if name in needed
    ]
    text = json.dumps(described, allow_nan=False)
    return (
        f'"""{described["estimator"]} of skdp {__version__}; needs NumPy."""\n\n'
        "import json\n\nimport numpy as np\n\n\n"
        f"class Predictor:\n{chr(10).join(methods)}\n\n"
        f"model = Predictor({text!a})\n"
    )
