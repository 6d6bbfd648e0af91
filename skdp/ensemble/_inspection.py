"""Importances, steps and plots of a fitted boosted model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import FloatArray
from skdp._effects import PairAxis, Picture, PlotsEffects, pair_picture, pictures_of
from skdp._export import Exported, Step, step
from skdp.ensemble._shapes import Model, ShapeFunctions
from skdp.ensemble._trees import BinnedColumn, Bins, RandomTrees, read_to_predict
from skdp.io._table import TakesSources
from skdp.preprocessing._exported import coded

# -------------------------------------------------------------------------- Importances
# They follow from public draws of codes alone.


# Draws of codes; the error of an importance is a few percent of the largest.
_DRAWS = 4096
# Fixed, so that the same model has the same importances.
_SEED = 0


def importances(
    raw: Callable[[NDArray[np.uint8]], FloatArray], bins: Bins, n_declared: int
) -> FloatArray:
    """Each declared column's share of the variance of a raw prediction.

    Codes are drawn uniformly and independently.
    The importance of a column is the variance that remains if all other columns are
    known, interactions with them included (the total index of Sobol). For a model
    without pairs it is the variance of the column's curve.

    Parameters
    ----------
    raw : callable
        From codes to raw predictions (n_samples, n_outputs).
    bins : Bins
    n_declared : int
        Number of declared columns.

    Returns
    -------
    ndarray of float64 of shape (n_declared,)
        They sum to 1, or are all 0 for a constant model.
    """
    rng = check_random_state(_SEED)
    one, other = _drawn(bins, rng), _drawn(bins, rng)
    base, found = _centred(raw(one)), np.zeros(n_declared)
    for source in range(n_declared):
        mixed = one.copy()
        for j, column in enumerate(bins.columns):
            if column.source == source:
                mixed[:, j] = other[:, j]
        found[source] = np.mean((_centred(raw(mixed)) - base) ** 2)
    total = found.sum()
    return found / total if total > 0 else found


def _drawn(bins: Bins, rng: Any) -> NDArray[np.uint8]:
    shape = (_DRAWS, len(bins.columns))
    return np.asarray(rng.randint(0, bins.n_bins, size=shape), dtype=np.uint8)


def _centred(raw: FloatArray) -> FloatArray:
    """Raw predictions less the mean over outputs, which changes no softmax."""
    if raw.shape[1] == 1:
        return raw
    centred: FloatArray = raw - raw.mean(axis=1, keepdims=True)
    return centred


# -------------------------------------------------------------- Steps of a fitted model


def steps_of(
    bins: Bins, names: tuple[str, ...], model: Model, units: tuple[float, float]
) -> list[Step]:
    """Codes of the columns, and what they add up to; `units` as in `FittedTrees`."""
    columns = [column_step(column, names) for column in bins.columns]
    boosted, start, tables = model.boosted, model.boosted.start, []
    if boosted.curves is not None:
        tables += [table_step((j,), own) for j, own in enumerate(boosted.curves.tables)]
    if model.tables is not None:
        start = start + model.tables.intercept
        tables += [table_step(shape.columns, shape.values) for shape in model.tables]
    trees = [
        _node(boosted.trees, values, t, 0) for t, values in enumerate(boosted.values)
    ]
    factor, shift = units
    return [
        step("table", columns=columns),
        step(
            "boost",
            start=start,
            trees=trees,
            tables=tables,
            factor=factor,
            shift=shift,
        ),
    ]


def table_step(columns: tuple[int, ...], values: FloatArray) -> dict[str, Any]:
    """Effects of the codes of one column, or of two."""
    return {"columns": list(columns), "values": values.tolist()}


def column_step(column: BinnedColumn, names: tuple[str, ...]) -> dict[str, Any]:
    of = {"name": column.name, "of": names[column.source], "at": column.source}
    read = coded(column.block, column.other)
    return of | read | {"missing": column.missing, "weight": 1}


def _node(trees: RandomTrees, values: Any, tree: int, node: int) -> Any:
    """A question with the nodes for both answers, or a leaf's value."""
    n_nodes = trees.feature.shape[1]
    if node >= n_nodes:
        leaf = values[node - n_nodes]
        return float(leaf[0]) if len(leaf) == 1 else leaf.tolist()
    right = trees.goes_right(tree, node)
    if not right.any():
        return _node(trees, values, tree, 2 * node + 1)
    return {
        "column": int(trees.feature[tree, node]),
        "yes": right.astype(int).tolist(),
        "then": _node(trees, values, tree, 2 * node + 2),
        "else": _node(trees, values, tree, 2 * node + 1),
    }


# --------------------------------------- FittedTrees: post-processing of a fitted model


def _axis(column: BinnedColumn) -> PairAxis:
    return PairAxis(column.edges, column.labels, column.is_log)


class FittedTrees(PlotsEffects, TakesSources, Exported):
    """Raw predictions, effects, importances and steps of a fitted model."""

    encoder_: Any
    bins_: Bins
    _model: Model

    @property
    @abstractmethod
    def _units(self) -> tuple[float, float]:
        """Factor of raw predictions, and the constant that is added after it."""

    def _raw_rows(self, X: Any) -> FloatArray:
        """Raw predictions in units of the predictions: (n_samples, n_outputs)."""
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

        Codes are drawn uniformly and independently. Post-processing of the model; noise
        counts like signal.
        """
        check_is_fitted(self)
        n_declared = len(self.encoder_._names)
        found = importances(self._model.raw, self.bins_, n_declared)
        return self._by_column_of_X(found)

    def attributions(self, X: Any) -> FloatArray:
        """What each column adds to the prediction of each row.

        Shapley values, exact: with ``shape_functions_.intercept`` they add up to
        `decision_function`, or to `predict` of a regressor (to its logarithm with
        ``loss="poisson"`` or "gamma"). A pair's effect is split in half. The
        attributions are differences from the mean over values drawn independently, by
        the proportions of the records that were released
        (``effects()[column]["share"]``).

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float64 of shape (n_samples, n_features) or, for more than two \
classes, (n_samples, n_features, n_classes)
            They are about raw rows: as private as `X` and the model.

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
        """Values of declared columns in the order of X; 0 for columns left out."""
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
        with ``loss="poisson"`` or "gamma". Post-processing of private outputs.

        Returns
        -------
        dict of str to DataFrame
            One row for each interval (``from``, ``to``) or ``value``; of a Range with
            heaps, ``heap`` says whether the interval is one. Then

            ``effect``
                What is added, less the mean over the records by their released
                proportions; over all values alike where none were released.
            ``noise``
                Standard deviation that the privacy noise alone gives the effect.
            ``share``
                Released proportion of the records; NaN if none was released.

            With several classes ``effect_0``, ``noise_0`` and so on. The last rows are
            of categories that were not declared (``"other"``), and of missing values.

        Raises
        ------
        AttributeError
            If trees cut more than two columns.
        """
        functions = self.shape_functions_
        return {name: functions.curve(name) for name in functions.bins.names}

    def _pictures(self, output: int) -> list[Picture]:
        functions, columns = self.shape_functions_, self.bins_.columns
        logs = {column.name for column in columns if column.is_log}
        found = list(pictures_of(self.effects(), logs, output))
        for shape in functions:
            if len(shape.columns) == 2:
                first, second = (columns[j] for j in shape.columns)
                axes = _axis(first), _axis(second)
                values = shape.values[..., output]
                found.append(pair_picture((first.name, second.name), axes, values))
        return found

    def _steps(self) -> list[Step]:
        return steps_of(self.bins_, self.encoder_._names, self._model, self._units)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "privacy_")
