"""Naive Bayes from one noisy histogram of each column and label."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import FloatArray
from skdp._base import public_of_declared
from skdp._checks import check_count
from skdp._export import Exported, Step, step
from skdp._fit import OneAnswer, PlannedFit, Question, fit
from skdp.ensemble._inspection import column_step, table_step
from skdp.ensemble._trees import (
    MOST_BINS,
    Bins,
    TableReader,
    read_to_fit,
    read_to_predict,
)
from skdp.io._table import ScoresSources, Table, TakesSources
from skdp.preprocessing._encoder import TableEncoder
from skdp.privacy.accounting._relations import Adjacency, TableUnit
from skdp.privacy.noise._laws import law_of_counts
from skdp.privacy.release._answers import Released
from skdp.sums._counts import CodeCounts
from skdp.sums._histogram import consistent
from skdp.tables._columns import Columns

# ---------------------------------------------------- Shares of codes within each label
# Post-processing of one release.


# Deviations of the noise that are added to each count and to what is expected of it, so
# that a code whose expected count is below the noise says little about the label.
# Settled on validation parts of four tables (adult, rare, noisy, breast_cancer): from
# 2 to 4 the log-loss fell by .01 on average at epsilon 0.1 to 1, from 4 to 8 it fell at
# 0.1 and 0.3 and rose at 1 and 4.
_SMOOTHING = 4.0


def log_shares(table: FloatArray, of_label: FloatArray, deviation: float) -> FloatArray:
    """Logarithms of the shares of a column's codes among the records of each label.

    The shares are those among all records, times the ratio of the counts to the
    expected counts, with `_SMOOTHING` deviations (1 at least) added to both.
    """
    n_samples = float(of_label.sum())
    added = max(_SMOOTHING * deviation, 1.0)
    among_all = consistent(table.sum(axis=0), n_samples) + added
    among_all /= among_all.sum()
    expected = of_label[:, None] * among_all
    ratio = (np.maximum(table, 0.0) + added) / (expected + added)
    shares = ratio * among_all
    return np.asarray(np.log(shares / shares.sum(axis=1, keepdims=True)))


# -------------------------------------------------------------------- DPCategoricalNB


class DPCategoricalNB(ScoresSources, TakesSources, ClassifierMixin, Exported):
    """Naive Bayes of declared columns with differential privacy.

    Within a label, columns are taken to be independent. Categories, truth values and
    parts of dates are codes; ranges and points in time are cut into `n_bins` intervals
    of equal width, so that no distribution of numbers is assumed. One noisy vector has
    the count of every code of every column for each label, which makes `fit` a single
    pass. Probabilities are those of scikit-learn's `CategoricalNB`, smoothed by the
    size of the noise. Missing values have a separate code.

    A linear model with `columns` is usually more accurate, and its probabilities are
    closer to proportions, because columns depend on each other (``docs/guide/faq.md``).

    **Privacy.** (epsilon, delta)-differential privacy for one record, under
    `adjacency`, with the number of records, the declarations and the set of labels
    public. Released are the counts; see ``docs/proofs/preprocessing.md``, Lemma 6. The
    noise is Gaussian, or Laplace noise with delta = 0. Predictions are post-processing;
    ``score(X, y)`` reads raw data and is **not** private.

    Parameters
    ----------
    %(epsilon)s
    columns : mapping, sequence, Range or TableEncoder
        Declarations of `skdp.columns`, known without looking at the data. Required; the
        default None raises. A TableEncoder with `n_knots` cuts ranges into one interval
        fewer than that number, whatever `n_bins` is.
    n_bins : int from 2 to 254, default=16
        Number of intervals of a range.
    %(classes, delta, adjacency, privacy_unit, random_state, ledger)s

    Attributes
    ----------
    %(classes_)s
    class_count_ : ndarray of shape (n_classes,)
        Number of records of each label, at least 0. Private output.
    class_log_prior_ : ndarray of shape (n_classes,)
        Logarithms of the shares of the labels. Private output.
    feature_log_prob_ : list of ndarray of shape (n_classes, n_codes)
        Logarithms of the shares of each column's codes within each label, in the order
        of ``bins_.columns``. Private output.
    %(bins_, encoder_, privacy_, n_features_in_, feature_names_in_)s

    See Also
    --------
    DPLogisticRegression : Usually more accurate; takes `columns` too.
    sklearn.naive_bayes.CategoricalNB : Naive Bayes of codes without privacy.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import DPCategoricalNB
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 5000)
    >>> X = pd.DataFrame({"age": rng.normal(40 + 20 * y, 10)})
    >>> X["job"] = np.where(rng.random(5000) < 0.3 + 0.4 * y, "office", "field")
    >>> model = DPCategoricalNB(
    ...     epsilon=1.0,
    ...     columns={"age": (0, 100), "job": ["office", "field"]},
    ...     classes=[0, 1],
    ... ).fit(X, y)
    >>> bool(model.score(X, y) > 0.8), model.privacy_.epsilon
    (True, 1.0)
    """

    classes_: np.ndarray
    bins_: Bins
    encoder_: TableEncoder

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        columns: Columns | TableEncoder | None = None,
        n_bins: int = 16,
        classes: Any = None,
        delta: float = 1e-6,
        adjacency: Adjacency = "replace_one",
        privacy_unit: TableUnit = "record",
        random_state: int | None = None,
        ledger: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.columns = columns
        self.n_bins = n_bins
        self.classes = classes
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.random_state = random_state
        self.ledger = ledger

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Count the codes privately.

        Parameters
        ----------
        X : data frame, array-like or source of shape (n_samples, n_features)
            A table of the declared columns.
        y : array-like of shape (n_samples,)
            Labels. Left out with a source, which has its target.
        %(groups)s

        Returns
        -------
        self

        Raises
        ------
        %(ValueError, BudgetExceeded)s
        """
        with self._all_or_nothing():
            Table.of(X, y, groups).fitted(self, self._fit)
        return self._warned_of_release()

    def _fit(self, table: Table) -> None:
        budget = self._check_privacy_params()
        n_bins = check_count("n_bins", self.n_bins, low=2, high=MOST_BINS - 1)
        users = table.users(self, budget)
        codes = read_to_fit(self, table, n_bins)
        classes, targets = table.labels(self, codes)
        source = table.source(codes, targets, users)
        law, relation = law_of_counts(budget), self._relation()
        sizes = self.bins_.n_bins
        query = CodeCounts(
            tuple(range(len(sizes))),
            tuple(tuple(range(size)) for size in sizes),
            law.norm if law else 2,
            len(classes),
        )
        labels = "taken from y" if self.classes is None else "declared"
        planned = PlannedFit(
            problem=Question(query, relation, source.n_samples, source.n_features),
            solver=OneAnswer(law=law, given={"n_labels": len(classes)}),
            reason="one vector of all counts" if law else "epsilon=inf",
            assumed_public=(*public_of_declared(relation), f"set of labels ({labels})"),
        )
        found = fit(self, planned, source, self._door(budget))
        self.classes_ = classes
        self._learn(found)

    def _learn(self, found: Released) -> None:
        """The model from the released counts; post-processing."""
        n_labels = len(self.classes_)
        ends = n_labels * np.cumsum(self.bins_.n_bins)[:-1]
        tables = [each.reshape(n_labels, -1) for each in np.split(found.value, ends)]
        # Every table counts all records; this is the mean of least variance.
        sums = [table.sum(axis=1) for table in tables]
        sizes = [1 / size for size in self.bins_.n_bins]
        counts = np.maximum(np.average(sums, axis=0, weights=sizes), 0.0)
        added = np.maximum(counts, max(found.deviation, 1.0))
        self.class_count_, self.class_log_prior_ = counts, np.log(added / added.sum())
        self.feature_log_prob_ = [
            log_shares(each, counts, found.deviation) for each in tables
        ]

    def _raw_rows(self, X: Any) -> FloatArray:
        """Logarithms of prior and likelihood: (n_samples, n_classes)."""
        check_is_fitted(self)
        codes = read_to_predict(self, X)
        raw = np.tile(self.class_log_prior_, (len(codes), 1))
        for j, shares in enumerate(self.feature_log_prob_):
            raw += shares.T[codes[:, j]]
        return raw

    def _steps(self) -> list[Step]:
        names, tables = self.encoder_._names, [self.class_log_prior_]
        tables += [shares.T for shares in self.feature_log_prob_]
        # Of two labels one number is exported, the log-odds.
        start, *values = (
            np.diff(table) if len(self.classes_) == 2 else table for table in tables
        )
        return [
            step("table", columns=[column_step(c, names) for c in self.bins_.columns]),
            step(
                "boost",
                start=start,
                trees=[],
                tables=[table_step((j,), each) for j, each in enumerate(values)],
                factor=1.0,
                shift=0.0,
            ),
        ]

    def _outputs(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist(), "label_shift": [0.0]}

    def decision_function(self, X: Any) -> np.ndarray:
        """Log-odds of the second label, or logarithms of P(y) P(x | y) of several.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        raw = self._raw(X)
        return np.diff(raw)[:, 0] if raw.shape[1] == 2 else raw

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return np.asarray(log_softmax(self._raw(X), axis=1))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the labels, of shape (n_samples, n_classes)."""
        return np.asarray(softmax(self._raw(X), axis=1))

    def predict(self, X: Any) -> np.ndarray:
        """The most likely label of each row, of shape (n_samples,).

        Parameters
        ----------
        X : data frame, array-like or source of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        best = self._raw(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(TableReader()).input_tags
        # Noise, not the method, spoils the scores on tiny data.
        tags.classifier_tags.poor_score = self.epsilon != float("inf")
        return tags
