"""`propose_ranges`: ranges for columns of which nothing is known, paid for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from skdp._arrays import FloatArray
from skdp._base import PrivateRelease, of_users
from skdp._checks import check_choice, check_real
from skdp._fit import OneAnswer, PlannedFit, Question, fit
from skdp._shared_docs import fill_docs
from skdp._show import Shown
from skdp.ensemble._trees import TableReader
from skdp.io._table import Table
from skdp.preprocessing._cells import Cells, is_frame
from skdp.privacy.accounting._relations import Adjacency, TableUnit, is_of_users
from skdp.privacy.noise._laws import NoiseLaw, law_of_counts
from skdp.privacy.release._record import PrivacyRecord
from skdp.sums._counts import CodeCounts
from skdp.tables._columns import Declaration, Declared, Range, briefly

# ------------------------------------------------- The bins of every column of numbers
# The bins are public and equal for all columns: [2^k, 2^(k+1)) and [-2^(k+1), -2^k) for
# k from -62 to 63, one bin between them around 0, and one of missing cells. With 254
# bins a code fits a byte. Numbers beyond 2^64 count in the last bin on their side.


_POWERS = 2.0 ** np.arange(-62, 65)
_EDGES = np.concatenate([-_POWERS[::-1], _POWERS])
_MISSING = len(_EDGES) - 1
_ZERO = _MISSING // 2
_N_BINS = _MISSING + 1
# Chance that noise alone lifts any empty bin of any column above the threshold. A tenth
# of it raises the threshold by about a tenth.
_FALSE_ALARM = 1e-3
# Deviations of the noise above which a bin beside a found one is found too. By chance
# 2 or 3 % of ends are so moved to the next power of two.
_BESIDE = 2.0
# What columns are read as. All finite numbers are inside, and infinity is clipped.
_ANY = Range(-1e300, 1e300, missing=True)

_PUBLIC = ("number of records", "names of the columns, and that they hold numbers")
_HOW = "Pass propose_ranges(X, privacy_unit='user', groups=ids)."


def _bins_of(cells: list[Cells]) -> np.ndarray:
    """The bin of each cell, one column beside the other. Private."""
    return np.column_stack([_bins(column) for column in cells])


def _bins(column: Cells) -> np.ndarray:
    values = column.filled().astype(np.float64)
    bins = np.searchsorted(_EDGES, values, side="right") - 1
    bins = np.clip(bins, 0, _MISSING - 1)
    return np.where(column.is_missing, _MISSING, bins).astype(np.uint8)


# -------------------------------------------------------------------- RangeProposals


@dataclass(frozen=True, eq=False, repr=False)
class RangeProposals(Shown):
    """Proposed ranges, which a person confirms; `propose_ranges` returns it.

    No model takes this object in place of declarations. Look at it, and pass what
    `columns` returns, or better ranges, to a model.

    Parameters
    ----------
    n_samples : int
        Number of records, or of users. Public.
    released : dict of str to ndarray of shape (254,)
        Noisy counts of the bins of each column. Private output.
    deviation : float
        Standard deviation of the noise in each count. Public.
    threshold : float
        Bins with larger counts are found, and so are bins beside them with counts of
        two deviations. Public.
    trim : float
        As passed to `propose_ranges`. Public.
    is_named : bool
        Whether columns have names, rather than positions. Public.
    privacy_ : PrivacyRecord
        What was released, at what cost.
    """

    n_samples: int
    released: dict[str, FloatArray]
    deviation: float
    threshold: float
    trim: float
    is_named: bool
    privacy_: PrivacyRecord

    @property
    def ranges(self) -> dict[str, Range | None]:
        """The range of each column; None if no bin, or only that of 0, is found.

        All ranges have ``missing=True``: noisy counts cannot show that no cell is
        missing. Post-processing.
        """
        return {name: _range_of(*self._found(name)) for name in self.released}

    def columns(self) -> Declared:
        """All ranges as declarations: a mapping by name, or a tuple for an array.

        Raises
        ------
        ValueError
            If a column has no range.
        """
        ranges = self.ranges
        found: dict[str, Declaration] = {
            name: each for name, each in ranges.items() if each is not None
        }
        if len(found) < len(ranges):
            absent = [name for name in ranges if name not in found]
            raise ValueError(
                "Every column must have a noisy count of other values than 0 above "
                f"{self.threshold:.3g} for a range to be proposed. Got none for "
                f"{absent}. Declare these columns from their documentation, or propose "
                "ranges of fewer columns, with a larger epsilon; `ranges` has the "
                "other columns."
            )
        return found if self.is_named else tuple(found.values())

    def counts(self, column: str) -> pd.DataFrame:
        """Noisy counts of the bins of a column, to look at before confirming.

        Parameters
        ----------
        column : str

        Returns
        -------
        DataFrame of 254 rows
            ``from`` and ``to`` of each bin, NaN in the last row, which is of missing
            cells; ``count``; ``error``, the standard deviation of the noise; ``found``,
            whether the count can be told from noise.
        """
        check_choice("column", column, self.released)
        counts = self.released[column]
        return pd.DataFrame(
            {
                "from": np.append(_EDGES[:-1], math.nan),
                "to": np.append(_EDGES[1:], math.nan),
                "count": counts,
                "error": self.deviation,
                "found": [*self._is_found(counts), False],
            }
        )

    def to_frame(self) -> pd.DataFrame:
        """A row for each column: the proposed range, and what it leaves out.

        Returns
        -------
        DataFrame
            ``low`` and ``high``, NaN where nothing is proposed; ``clipped``, the
            fraction of the present values that are in found bins beyond the range;
            ``hidden``, that in bins that are not found, which the range may clip too;
            ``missing``, that of missing cells among all. Noise is in each fraction:
            ``error`` is its standard deviation in one bin.
        """
        rows = {}
        for name, counts in self.released.items():
            of_bins, low, high = self._found(name)
            found = _range_of(of_bins, low, high)
            missing = min(max(float(counts[_MISSING]) / self.n_samples, 0.0), 1.0)
            present = max(self.n_samples * (1 - missing), 1.0)
            beyond = of_bins[:low].sum() + of_bins[high + 1 :].sum()
            rows[name] = {
                "low": math.nan if found is None else found.low,
                "high": math.nan if found is None else found.high,
                "clipped": min(float(beyond) / present, 1.0),
                "hidden": max(1.0 - float(of_bins.sum()) / present, 0.0),
                "missing": missing,
                "error": self.deviation / self.n_samples,
            }
        return pd.DataFrame.from_dict(rows, orient="index")

    def _found(self, name: str) -> tuple[FloatArray, int, int]:
        """Counts of the bins that are found, 0 in others; the ends of the range."""
        counts = self.released[name]
        counts = np.where(self._is_found(counts), counts[:_MISSING], 0.0)
        below = np.cumsum(counts)
        low = int(np.searchsorted(below, self.trim * below[-1], side="right"))
        high = int(np.searchsorted(below, (1 - self.trim) * below[-1], side="left"))
        return counts, low, high

    def _is_found(self, counts: FloatArray) -> NDArray[np.bool_]:
        counts = counts[:_MISSING]
        found, size = counts > self.threshold, 0
        while size < found.sum():
            size = found.sum()
            # Powers of two are nowhere near 0.
            beside = np.convolve(found & (np.arange(_MISSING) != _ZERO), [1, 1, 1])
            found |= (beside[1:-1] > 0) & (counts > _BESIDE * self.deviation)
        return found

    def to_dict(self) -> dict[str, Any]:
        """The ranges as JSON-ready values, with the counts behind them."""
        return {
            "n_samples": self.n_samples,
            "deviation": self.deviation,
            "threshold": self.threshold,
            "trim": self.trim,
            "columns": {
                name: {
                    "range": None if each is None else each.to_dict(),
                    "counts": self.released[name].tolist(),
                }
                for name, each in self.ranges.items()
            },
            "privacy": self.privacy_.to_dict(),
        }

    def sentence(self) -> str:
        """What these are, and what is left to do."""
        return (
            f"Ranges proposed for {len(self.released)} columns of {self.n_samples} "
            f"{self.privacy_.unit}s. Confirm each before you declare it."
        )

    def _rows(self) -> list[tuple[str, str]]:
        rows = []
        for name, row in self.to_frame().iterrows():
            proposed, only = self.ranges[name], "zeros" if row.hidden < 1 else "noise"
            what = f"no range: nothing but {only} found"
            if proposed is not None:
                what = f"{proposed!r}, {row.clipped:.1%} clipped"
            rows.append((name, f"{what}, {row.hidden:.1%} hidden by noise"))
        return rows


def _range_of(of_bins: FloatArray, low: int, high: int) -> Range | None:
    """The range from one bin to another; None if only zeros, or nothing, are found."""
    if not of_bins.any() or low == high == _ZERO:
        return None
    # A range that starts or ends in the bin around 0 starts or ends at 0.
    start = 0.0 if low == _ZERO else _EDGES[low]
    end = 0.0 if high == _ZERO else _EDGES[high + 1]
    return Range(_plain(start), _plain(end), missing=True)


def _plain(end: float) -> float:
    """An end as Python's number; a whole one as an integer, which is shorter."""
    return int(end) if end % 1 == 0 else float(end)


# -------------------------------------------------------------------- propose_ranges


@fill_docs
def propose_ranges(
    X: Any,
    columns: Sequence[str] | None = None,
    *,
    epsilon: float = 0.1,
    delta: float = 1e-6,
    adjacency: Adjacency = "replace_one",
    trim: float = 0.005,
    privacy_unit: TableUnit = "record",
    groups: Any = None,
    random_state: int | None = None,
    ledger: Any = None,
) -> RangeProposals:
    r"""Propose a `Range` for columns of numbers of which nothing is known.

    Noise is added to the counts of public bins: [2^k, 2^(k+1)) and [-2^(k+1), -2^k) for
    k from -62 to 63, one bin around 0, and one of missing cells. A range reaches from
    the first to the last bin whose count can be told from noise, after the fraction
    `trim` of the values is cut off at each end. Its ends are powers of two, or 0.

    A person confirms each range before it is declared: documentation of the column is
    better, and free (``docs/guide/tables.md``).

    **Privacy.** (epsilon, delta)-differential privacy for one record of X, under
    `adjacency`, with the number of records public. Released are the noisy counts of all
    bins, as one vector; see ``docs/proofs/preprocessing.md``. The ranges are
    post-processing. The noise is Gaussian, or Laplace noise with delta = 0.

    Parameters
    ----------
    X : data frame, array-like or source of shape (n_samples, n_columns)
        A row of a source that cannot be read is in no bin.
    columns : sequence of str or None, default=None
        Columns of a frame or of a source; all must hold numbers, which may be missing
        or infinite. None: all columns. Must be None for an array.
    epsilon : float in [1e-6, 1e8] or inf, default=0.1
        %(epsilon)s
    %(delta, adjacency)s
    trim : float in [0, 0.25], default=0.005
        Fraction of the values in found bins that the range may clip at each end. 0:
        every found bin is in the range.
    privacy_unit : {"record", "user"}, default="record"
        How neighbouring data sets differ. "user": all rows of one user, who counts as
        one record and adds a total of at most 1 to the bins of a column. `n_samples` is
        the number of users, which is public in place of the number of rows. Epsilon
        must be finite (``docs/proofs/adder.md``).
    groups : array-like of shape (n_rows,) or None, default=None
        With ``privacy_unit="user"`` the id of each row's user, an integer or a text.
        Private, except the number of users. Left out with a source, which names its
        column of ids.
    %(random_state, ledger)s

    Returns
    -------
    RangeProposals

    Raises
    ------
    ValueError, TypeError
        For a parameter or input out of range. Nothing was spent.
    BudgetExceeded
        If the ledger's cap does not allow this. Nothing was read or spent.

    See Also
    --------
    describe : A summary of a table whose columns are declared.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import propose_ranges
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"pay": rng.uniform(20_000, 60_000, 10_000)})
    >>> found = propose_ranges(X, epsilon=0.5)
    >>> pay = found.columns()["pay"]  # Range(16384, 65536, missing=True), or wider
    >>> pay.low <= 16_384, pay.high >= 65_536
    (True, True)
    """
    release = _Proposing(epsilon, delta, adjacency, random_state, ledger, privacy_unit)
    budget = release._check_privacy_params()
    trim = check_real("trim", trim, low=0.0, high=0.25)
    table = Table.of(X, groups=groups)
    users = table.users_of_release(release, budget, how=_HOW)
    reader = TableReader(_asked(columns), remainder="drop", numeric="linear")

    def run() -> RangeProposals:
        encoding, cells = reader._fit(table, lambda n, d: 2)
        rows = table.rows(
            _bins_of(cells),
            lambda frame: _bins_of(reader._cells(frame)),
            columns=reader.columns_,
        )
        source = table.source(rows, None, users, is_private=budget.is_finite)
        n_samples, relation = source.n_samples, release._relation()
        law = law_of_counts(budget)
        names = encoding.names
        bins = (tuple(range(_N_BINS)),) * len(names)
        query = CodeCounts(tuple(range(len(names))), bins, law.norm if law else 2)
        known = of_users(_PUBLIC) if is_of_users(relation) else _PUBLIC
        planned = PlannedFit(
            problem=Question(query, relation, n_samples, len(names)),
            solver=OneAnswer(law=law, given={"n_bins": _N_BINS}),
            reason="one vector of all counts" if law else "epsilon=inf",
            assumed_public=(*known, *table.assumed_public),
            estimator="propose_ranges",
            label="propose_ranges",
        )
        found = fit(release, planned, source, release._door(budget))
        return RangeProposals(
            n_samples,
            dict(zip(names, found.value.reshape(-1, _N_BINS), strict=True)),
            found.deviation,
            _threshold(law, found.sigma, query.shape[0]),
            trim,
            not table.holds_rows or is_frame(X),
            release.privacy_,
        )

    return table.during(run)


def _asked(columns: Any) -> Any:
    """Declarations under which all numbers of the columns are read as they are."""
    if columns is None:
        return _ANY
    names = list(columns) if isinstance(columns, (list, tuple, pd.Index)) else []
    is_list = all(isinstance(name, str) for name in names)
    if not names or not is_list or len(set(names)) < len(names):
        raise ValueError(
            "The 'columns' argument must be None or a list of distinct names of "
            f"columns. Got {briefly(columns)}. Use None for all columns."
        )
    return dict.fromkeys(names, _ANY)


def _threshold(law: NoiseLaw | None, scale: float, n_bins: int) -> float:
    """What the noise of one of `n_bins` counts exceeds with a chance below 0.001."""
    if law is None:
        return 0.0
    chance = _FALSE_ALARM / n_bins
    return scale * (-math.log(2 * chance) if law.norm == 1 else -float(ndtri(chance)))


class _Proposing(PrivateRelease):
    """Budget, ledger and noise of one proposal."""
