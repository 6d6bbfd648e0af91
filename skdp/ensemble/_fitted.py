"""What can be asked of a fitted boosted model: all of it is post-processing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdp._base import PrivateEstimator
from skdp._floats import FloatArray
from skdp.ensemble._additive import Model
from skdp.ensemble._bins import Bins
from skdp.ensemble._display import ShapesDisplay
from skdp.ensemble._export import to_json
from skdp.ensemble._importances import importances
from skdp.ensemble._shapes import ShapeFunctions
from skdp.ensemble._table import read_to_predict
from skdp.io._takes import TakesSources
from skdp.privacy._record import PrivacyRecord


class FittedTrees(TakesSources, PrivateEstimator):
    """Raw predictions, shapes, importances and the text of a fitted model."""

    encoder_: Any
    bins_: Bins
    privacy_: PrivacyRecord
    _model: Model

    @property
    @abstractmethod
    def _units(self) -> tuple[float, float]:
        """By what raw predictions are multiplied, and what is added after."""

    def _raw(self, X: Any) -> FloatArray:
        """Raw predictions in units of what is predicted: (n_samples, n_outputs)."""
        check_is_fitted(self)
        factor, shift = self._units
        return factor * self._model.raw(read_to_predict(self, X)) + shift

    def _staged_raw(self, X: Any) -> Any:
        check_is_fitted(self)
        if self._model.tables is not None:
            raise ValueError(
                "Stages must be those of a model without monotonic_cst, which is met "
                "by the sum of all trees and not by the first of them. Got one with "
                "it. Fit without, or with fewer n_estimators."
            )
        factor, shift = self._units
        codes = read_to_predict(self, X)
        return (factor * raw + shift for raw in self._model.boosted.staged_raw(codes))

    @property
    def shape_functions_(self) -> ShapeFunctions:
        """The model as intercept, curves and tables, whose sum is its raw prediction.

        Private output, with the deviation of its noise. Only if no tree cuts more than
        two columns: with ``max_interaction`` 1 or 2.
        """
        check_is_fitted(self)
        if not self._model.is_additive:
            raise AttributeError(
                "shape_functions_ are those of trees of one or two columns. Got a "
                "model with trees of more. Fit with max_interaction=1 or 2."
            )
        return self._model.shapes.scaled(*self._units)

    @property
    def feature_importances_(self) -> FloatArray:
        """Share of each column in the variance of raw predictions: (n_features,).

        Over codes that are drawn alike and independently, since how often they occur is
        private. Post-processing of the model; noise counts like signal.
        """
        check_is_fitted(self)
        n_declared = len(self.encoder_._names)
        found = importances(self._model.raw, self.bins_, n_declared)
        return self._by_column_of_X(found)

    def attributions(self, X: Any) -> FloatArray:
        """What each column adds to the prediction of each row.

        Shapley values, exact: with ``shape_functions_.intercept`` they add up to
        `decision_function`, or to `predict` of a regressor (to its logarithm with
        ``loss="poisson"``). What a pair adds is split in half. The mean that they are
        measured from is over codes that are drawn alike and independently, since how
        often they occur is private.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_features) or, for more than two \
classes, (n_samples, n_features, n_classes)
            Of raw rows: as private as `X` and the model.

        Raises
        ------
        AttributeError
            If trees cut more than two columns.
        """
        functions = self.shape_functions_
        found = functions.attributions(read_to_predict(self, X))
        declared = np.zeros((len(self.encoder_._names), *found.shape[::2]))
        np.add.at(declared, list(self.bins_.sources), np.moveaxis(found, 1, 0))
        by_row = np.moveaxis(self._by_column_of_X(declared), 0, 1)
        return by_row[:, :, 0] if by_row.shape[2] == 1 else by_row

    def _by_column_of_X(self, found: FloatArray) -> FloatArray:
        """What is of declared columns, in the order of X; 0 for columns left out."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return found
        place = {name: i for i, name in enumerate(self.encoder_._names)}
        ordered = np.zeros((len(names), *found.shape[1:]))
        for i, name in enumerate(map(str, names)):
            if name in place:
                ordered[i] = found[place[name]]
        return ordered

    def effects(self) -> dict[str, pd.DataFrame]:
        """What each column adds to a prediction, as a curve or table.

        The curves of `shape_functions_`: of a classifier, what is added to
        `decision_function`; of a regressor, in units of the target, or of its logarithm
        with ``loss="poisson"``.

        Returns
        -------
        dict of str to DataFrame

        Raises
        ------
        AttributeError
            If trees cut more than two columns.
        """
        functions = self.shape_functions_
        return {name: functions.curve(name) for name in functions.bins.names}

    def plot_shapes(
        self,
        names: Sequence[Any] | None = None,
        *,
        output: int = 0,
        deviations: float = 2.0,
        n_cols: int = 3,
        ax: Any = None,
    ) -> ShapesDisplay:
        """Draw shape functions, with bands of their noise; needs matplotlib.

        Parameters
        ----------
        names : sequence of str or pairs of str, or None, default=None
            Columns, and pairs of columns. None: the nine shapes that vary most.
        output : int, default=0
            Which class, where there are more than two.
        deviations : float, default=2.0
            Half the height of a band.
        n_cols : int, default=3
            Pictures in a row.
        ax : array of matplotlib Axes or None, default=None

        Returns
        -------
        ShapesDisplay
        """
        return ShapesDisplay.from_estimator(
            self, names, output=output, deviations=deviations, n_cols=n_cols, ax=ax
        )

    def to_json(self) -> str:
        """The whole model as JSON that needs no skdp to be read.

        Columns with the ends of their intervals, trees as nested questions, and the
        privacy record (``docs/boosting.md``).

        Returns
        -------
        str
        """
        check_is_fitted(self)
        factor, shift = self._units
        facts = {
            "estimator": type(self).__name__,
            "factor": factor,
            "shift": shift,
            **self._facts(),
            "privacy": self.privacy_.to_dict(),
        }
        model = self._model
        return to_json(
            facts, self.bins_, self.encoder_._names, model.boosted, model.tables
        )

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """What else a stored model says, JSON-ready."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "privacy_")
