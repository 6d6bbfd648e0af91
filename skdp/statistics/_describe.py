"""`describe`: a differentially private summary of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skdp._arrays import FloatArray
from skdp._base import PrivateRelease, public_of_declared
from skdp._checks import check_count
from skdp._fit import PlannedFit, Progress, Question, Statistics, fit
from skdp._shared_docs import fill_docs
from skdp.ensemble._trees import MOST_BINS, TableReader
from skdp.io._table import Table
from skdp.preprocessing._encoder import TableEncoder
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import (
    Adjacency,
    TableUnit,
    check_adjacency,
)
from skdp.privacy.noise._laws import LAWS, NoiseLaw
from skdp.privacy.release._answers import Answers
from skdp.statistics._description import (
    CrossTable,
    Description,
    Histogram,
    Mean,
    TableQuestions,
    asked_of,
    mean_of,
)
from skdp.sums._counts import CellCounts, CellMoments, TableSums
from skdp.sums._histogram import ReleasedHistogram, total_of
from skdp.tables._columns import Columns
from skdp.tables._source import Source

_HOW = "Pass describe(X, columns, privacy_unit='user', groups=ids)."


@fill_docs
def describe(
    X: Any,
    columns: Columns | TableEncoder | None = None,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    adjacency: Adjacency = "replace_one",
    crosses: Any = (),
    weights: Any = None,
    n_bins: int = 64,
    cross_bins: int = 8,
    privacy_unit: TableUnit = "record",
    groups: Any = None,
    random_state: int | None = None,
    ledger: Any = None,
) -> Description:
    r"""Describe a table with differential privacy, as `pandas.DataFrame.describe` does.

    Counts, missing values, means, standard deviations, quantiles, histograms, counts of
    categories and the cross-tables in `crosses` come from one noisy vector: one event
    on the ledger, whatever is computed from it.

    **Privacy.** (epsilon, delta)-differential privacy for one record of X, under
    `adjacency`, with the number of records public. Released is one vector: for each
    column a histogram, for numbers and dates the sums of values and squares, and the
    cells of cross-tables; see ``docs/proofs/preprocessing.md``. Everything in the
    result is post-processing of it, or public.

    Parameters
    ----------
    X : data frame, array-like or source of shape (n_samples, n_columns)
        Checked against the declarations before anything is spent, as by
        `TableEncoder`. A row of a source that cannot be read is in no cell.
    columns : mapping, sequence, Range or TableEncoder, default=None
        What is known of the columns without looking at the data, as in `skdp.columns`.
        Ranges decide where histograms lie: values beyond them are clipped. A
        TableEncoder also says what to do with undeclared columns and categories. None:
        the declarations of a source.
    %(epsilon, delta)s
        Noise for delta = 0 is far larger for so many numbers.
    %(adjacency)s
    crosses : sequence of pairs of str, default=()
        Columns whose values are counted together. Arrays have columns ``"x0"``,
        ``"x1"`` and so on, parts of dates ``"<column>_<part>"``.
    weights : mapping of str, or pairs in `crosses`, to float in [1e-6, 1e6]
        Weights in the budget: twice the weight divides errors by the root of 2.
        None: 1 for each column and each cross-table. A column divides its share evenly
        among its histogram, its moments and those of its parts.
    n_bins : int from 2 to 254, default=64
        Intervals of equal width of a range in its histogram. A range of whole numbers
        has about as many, each with equally many whole numbers.
    cross_bins : int from 1 to `n_bins`, default=8
        Intervals of a range in a cross-table.
    privacy_unit : {"record", "user"}, default="record"
        How neighbouring data sets differ. "user": all rows of one user, who counts as
        one record. Counts and sums then give each user a total weight of 1. Means and
        quantiles are those of a random row of a random user. `n_samples` is the number
        of users, which is public in place of the number of rows. Epsilon must be finite
        (``docs/proofs/adder.md``).
    groups : array-like of shape (n_rows,) or None, default=None
        With ``privacy_unit="user"`` the id of each row's user, an integer or a text.
        Private, except the number of users. The categories of a pandas categorical
        declare all users. Left out with a source, which names its column of ids.
    %(random_state, ledger)s

    Returns
    -------
    Description

    Raises
    ------
    ValueError, TypeError
        For a parameter or input out of range. Nothing was spent.
    BudgetExceeded
        If the ledger's cap does not allow this. Nothing was read or spent.

    See Also
    --------
    skdp.columns.template : Print declarations to fill in.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import describe
    >>> rng = np.random.default_rng(0)
    >>> ages = rng.normal(40, 10, size=20_000)
    >>> X = pd.DataFrame({"age": ages, "sex": rng.choice(["Female", "Male"], 20_000)})
    >>> found = describe(X, {"age": (0, 100), "sex": ["Female", "Male"]}, epsilon=1.0)
    >>> bool(abs(found.means["age"].mean - 40) < 2), found.privacy_.epsilon
    (True, 1.0)
    """
    release = _DescribeRelease(
        epsilon, delta, adjacency, random_state, ledger, privacy_unit
    )
    budget = release._check_privacy_params()
    n_bins = check_count("n_bins", n_bins, low=2, high=MOST_BINS - 1)
    cross_bins = check_count("cross_bins", cross_bins, high=n_bins)
    table = Table.of(X, groups=groups)
    columns = table.columns if columns is None else columns
    reader = _reader_of(columns, n_bins)
    users = table.users_of_release(release, budget, how=_HOW)

    def run() -> Description:
        asked, rows = _read(reader, table, n_bins, crosses, cross_bins, weights)
        source = table.source(rows, None, users, is_private=budget.is_finite)
        return release.run(asked, source, budget, table.assumed_public)

    return table.during(run)


def _reader_of(columns: Any, n_bins: int) -> TableReader:
    """The unfitted reader of the declared columns."""
    if columns is None:
        raise ValueError(
            "The 'columns' argument must declare the columns of X, whose ranges and "
            "categories no one may look up. Got None. Pass a mapping such as "
            "{'age': (17, 90), 'sex': ['Female', 'Male']}, or one Range for an array; "
            "skdp.columns.template(frame) prints one to fill in."
        )
    given = {"columns": columns}
    if isinstance(columns, TableEncoder):
        kept = ("columns", "remainder", "handle_unknown")
        given = {name: getattr(columns, name) for name in kept}
    return TableReader(**given, numeric="bins", n_knots=n_bins + 1)


def _read(
    reader: TableReader,
    table: Table,
    n_bins: int,
    crosses: Any,
    cross_bins: int,
    weights: Any,
) -> tuple[TableQuestions, Any]:
    """The query, and private rows of codes and values. Spends nothing."""
    encoding, cells = reader._fit(table, lambda n, d: n_bins + 1)
    asked = asked_of(
        encoding.names,
        encoding.declared,
        n_bins=n_bins,
        has_other=reader.handle_unknown == "ignore",
        crosses=crosses,
        cross_bins=cross_bins,
        weights=weights,
    )
    rows = table.rows(
        asked.rows(cells),
        lambda frame: asked.rows(reader._cells(frame)),
        columns=reader.columns_,
        refuses_unknown=reader.handle_unknown == "error",
    )
    return asked, rows


Found = tuple[dict[str, Histogram], dict[str, Mean], dict[tuple[str, str], CrossTable]]


@dataclass(frozen=True, kw_only=True)
class OneVector(Statistics[Found]):
    """Releases all sums as one vector; the statement gives the sigma of its noise."""

    asked: TableQuestions
    query: TableSums

    @property
    def params(self) -> dict[str, Any]:
        return {"n_numbers": self.query.shape[0]} if self.law else {}

    def run(self, answers: Answers, problem: Question, progress: Progress, /) -> Found:
        released = answers.ask(self.query)
        return _described(self.asked, self.query, released.value, released.deviation)

    def noise_scale(
        self, released: Found, answers: Answers, problem: Question, /
    ) -> float:
        return answers.noise_scale


class _DescribeRelease(PrivateRelease):
    """Budget, ledger and noise of one description."""

    def run(
        self,
        asked: TableQuestions,
        source: Source,
        budget: Budget,
        assumed_public: tuple[str, ...],
    ) -> Description:
        """The description of a table, released and stated."""
        n_samples, relation = source.n_samples, self._relation()
        query = asked.query(n_samples, check_adjacency(self.adjacency))
        law = _law_of(budget, query)
        known = public_of_declared(relation)
        planned = PlannedFit(
            problem=Question(query, relation, n_samples, len(asked.names)),
            solver=OneVector(law=law, asked=asked, query=query),
            reason="one vector of all sums" if law else "epsilon=inf",
            assumed_public=(*known, *assumed_public),
            estimator="describe",
            label="describe",
        )
        found = fit(self, planned, source, self._door(budget))
        return Description(n_samples, *found, self.privacy_)


def _law_of(budget: Budget, query: TableSums) -> NoiseLaw | None:
    """The noise law of one vector; None without noise."""
    if not budget.is_finite:
        return None
    law = LAWS["gaussian" if budget.delta > 0 else "spherical"]
    if not law.is_possible(1 / budget.epsilon, query.shape[0]):
        raise ValueError(
            "The 'epsilon' argument is too small for delta=0 with so many numbers. "
            f"Got {budget.epsilon:g}. Use a larger epsilon, fewer bins, or a delta "
            "above 0."
        )
    return law


def _described(
    asked: TableQuestions, query: TableSums, released: FloatArray, deviation: float
) -> Found:
    """The description that follows from the released vector; post-processing."""
    histograms: dict[str, Histogram] = {}
    means: dict[str, Mean] = {}
    crosses: dict[tuple[str, str], CrossTable] = {}
    columns = asked.bins.columns
    each = [
        ReleasedHistogram(found, deviation / weight)
        for found, weight in zip(query.read(released), query.weights, strict=True)
    ]
    of = list(zip(asked.statistics, each, strict=True))
    tables = [
        found for statistic, found in of if isinstance(statistic.part, CellCounts)
    ]
    total, total_error = total_of(tables, query.n_samples)
    for statistic, found in of:
        first, *others = statistic.columns
        column, part = columns[first], statistic.part
        if isinstance(part, CellCounts) and others:
            both = column, columns[others[0]]
            cross = CrossTable.of(both, part.cells, found, total)
            crosses[cross.columns] = cross
        elif isinstance(part, CellCounts):
            histograms[column.name] = Histogram(
                column, found.consistent(total), found.deviation, total_error
            )
        else:
            known = histograms[column.name]
            axis, k = asked.axes[first], CellMoments.k
            means[column.name] = mean_of(axis, found.counts, found.deviation, k, known)
    return histograms, means, crosses
