"""Importances, JSON and plots of a fitted boosted model."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import FloatArray
from skdp._base import PrivateEstimator
from skdp._effects import PairAxis, Picture, PlotsEffects, pair_picture, pictures_of
from skdp.ensemble._boosting import BoostedTrees
from skdp.ensemble._shapes import Model, ShapeFunctions
from skdp.ensemble._trees import BinnedColumn, Bins, RandomTrees, read_to_predict
from skdp.io._table import TakesSources
from skdp.preprocessing import _blocks as blocks

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


# --------------------------------------------------------------- JSON of a fitted model


# Raised when a field changes its meaning.
SCHEMA = 1


def to_json(
    facts: dict[str, Any],
    bins: Bins,
    names: tuple[str, ...],
    boosted: BoostedTrees,
    tables: ShapeFunctions | None,
) -> str:
    """A fitted model as JSON text.

    Parameters
    ----------
    facts : dict
        Facts about the model that come first, JSON-ready.
    bins : Bins
    names : tuple of str
        Names of declared columns.
    boosted : BoostedTrees
    tables : ShapeFunctions or None
        Tables that are added to the trees.
    """
    described = {
        "schema": SCHEMA,
        **facts,
        "columns": [_column(column, names) for column in bins.columns],
        "start": boosted.start.tolist(),
        "trees": [
            _node(boosted.trees, bins, boosted.values[t], t, 0)
            for t in range(len(boosted.trees))
        ],
    }
    added = []
    if boosted.curves is not None:
        pairs = zip(bins.names, boosted.curves.tables, strict=True)
        added += [_table([name], values) for name, values in pairs]
    if tables is not None:
        described["start"] = (boosted.start + tables.intercept).tolist()
        added += [
            _table([bins.names[j] for j in shape.columns], shape.values)
            for shape in tables
        ]
    if added:
        described["tables"] = added
    return json.dumps(described, allow_nan=False)


def _table(names: list[str], values: FloatArray) -> dict[str, Any]:
    """Effects of the codes of one column, or of two."""
    return {"columns": names, "values": values.tolist()}


def _column(column: BinnedColumn, names: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": column.name, "of": names[column.source]}
    if isinstance(column.block, blocks.DatePart):
        found["part"] = column.block.name
    edges = column.edges
    if isinstance(column.block, blocks.Intervals) and edges is not None:
        found["log"] = column.is_log
        found["edges"] = [_plain(edge) for edge in edges]
    else:
        found["values"] = list(column.values or ())
    return found | {"other": column.other, "missing": column.missing}


def _node(trees: RandomTrees, bins: Bins, values: Any, tree: int, node: int) -> Any:
    """A question with the nodes for both answers, or a leaf's value."""
    n_nodes = trees.feature.shape[1]
    if node >= n_nodes:
        leaf = values[node - n_nodes]
        return float(leaf[0]) if len(leaf) == 1 else leaf.tolist()
    right = trees.goes_right(tree, node)
    if not right.any():
        return _node(trees, bins, values, tree, 2 * node + 1)
    column = bins.columns[trees.feature[tree, node]]
    return {
        "column": column.name,
        **_question(column, right),
        "then": _node(trees, bins, values, tree, 2 * node + 2),
        "else": _node(trees, bins, values, tree, 2 * node + 1),
    }


def _question(column: BinnedColumn, right: np.ndarray) -> dict[str, Any]:
    """The values for which the answer is yes."""
    present, asked = right[: column.n_values], {}
    edges, values = column.edges, column.values
    if edges is not None:
        first = int(np.argmax(present))
        asked["at_least"] = _plain(edges[first]) if present.any() else None
    else:
        pairs = zip(values or (), present, strict=True)
        asked["in"] = [value for value, is_right in pairs if is_right]
    if column.other is not None:
        asked["other"] = bool(right[column.other])
    if column.missing is not None:
        asked["missing"] = bool(right[column.missing])
    return asked


def _plain(edge: Any) -> Any:
    return str(edge) if isinstance(edge, np.datetime64) else float(edge)


# --------------------------------------- FittedTrees: post-processing of a fitted model


def _axis(column: BinnedColumn) -> PairAxis:
    return PairAxis(column.edges, column.labels, column.is_log)


class FittedTrees(PlotsEffects, TakesSources, PrivateEstimator):
    """Raw predictions, shapes, importances and JSON of a fitted model."""

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
        ``loss="poisson"``). A pair's effect is split in half. The attributions are
        differences from the mean over values drawn independently, by the proportions
        of the records that were released (``effects()[column]["share"]``).

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
        with ``loss="poisson"``. Post-processing of private outputs.

        Returns
        -------
        dict of str to DataFrame
            One row for each interval (``from``, ``to``) or ``value``. Then

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

    def to_json(self) -> str:
        """The whole model as JSON that needs no skdp to be read.

        To predict from it, first clip each value to the first and last edge of its
        column. The fields are:

        * ``columns``: for each coded column its ``name``, the declared column (``of``),
          and ``edges`` (``log`` if they are even in logarithms) or ``values`` by code;
          ``other`` and ``missing`` are codes or null;
        * ``start``: raw predictions before any tree;
        * ``trees``: a leaf is a number, or a list with one number for each class; a
          node has a ``column``, a question (``at_least`` a number, ``in`` a list;
          ``other``, ``missing``: whether these cells count as yes), and ``then`` and
          ``else``;
        * ``tables``: values to add, by the codes of their ``columns``;
        * ``factor``, ``shift``: the raw prediction is ``factor`` times the sum plus
          ``shift``;
        * ``link``: ``log`` if a regression predicts the exponential of the sum, which
          is at most the upper bound;
        * ``class_weight``: by class, over the largest; their logarithms are in
          ``start`` and ``trees``, and not in ``predict_proba``;
        * ``classes``, ``target_bounds``, ``privacy``: facts, and the statement.

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
        """Further facts about the model for `to_json`, JSON-ready."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "privacy_")
