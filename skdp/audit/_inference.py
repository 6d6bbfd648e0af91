"""`membership_inference` and attribute inference: what a fitted model gives away."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from scipy.special import log_expit, ndtr
from sklearn.base import is_classifier
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skdp import _checks as check
from skdp._arrays import FloatArray, IntArray
from skdp._show import Display, Shown, axes_or_new
from skdp._version import __version__
from skdp.audit._exact import NullRecord
from skdp.audit._models import as_table, fitted, fresh, named, stacked, taken
from skdp.audit._risk import MembershipRisk, membership_risk
from skdp.pipeline._walk import steps_of_users
from skdp.privacy.release._record import PrivacyRecord
from skdp.tables._columns import Boolean, Categories, declaration

# ----------------------------------------------------- Margins: the evidence of attacks
# How far a model leans towards the labels of some rows.


# Added to probabilities: a forest's probabilities 0 and 1 are a few votes away from
# others. Without this number their log-odds would lie far beyond the rest and hide it
# (settled on forests of breast_cancer with noisy labels).
_LEAST_PROBABILITY = 1e-3


def margins(model: Any, X: Any, y: Any) -> FloatArray:
    """Margins of a classifier: score of the label `y` less the scores of other labels.

    Differences of its decision function; log-odds if it has probabilities only; 1 or
    -1 if it has predictions only.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    y = np.asarray(y)
    if hasattr(model, "decision_function"):
        scores = np.asarray(model.decision_function(X), dtype=np.float64)
        if scores.ndim == 1:
            return np.asarray(np.where(y == model.classes_[1], scores, -scores))
        return _lead(scores, y, model.classes_)
    if not hasattr(model, "predict_proba"):
        return np.where(np.asarray(model.predict(X)) == y, 1.0, -1.0)
    chances = np.asarray(model.predict_proba(X), dtype=np.float64)
    own, others = _apart(chances, y, model.classes_)
    odds = (own + _LEAST_PROBABILITY) / (others.sum(axis=1) + _LEAST_PROBABILITY)
    return np.asarray(np.log(odds))


def _apart(scores: FloatArray, y: Any, classes: Any) -> tuple[FloatArray, FloatArray]:
    """Scores of the labels, and of all other labels, with 0 in place of the label."""
    is_own = y[:, None] == np.asarray(classes)[None, :]
    own = np.where(is_own, scores, 0.0).sum(axis=1)
    return own, np.where(is_own, 0.0, scores)


def _lead(scores: FloatArray, y: Any, classes: Any) -> FloatArray:
    is_own = y[:, None] == np.asarray(classes)[None, :]
    # A label that the model has never seen has the least score.
    least = scores.min(axis=1)
    own = np.where(is_own.any(axis=1), _apart(scores, y, classes)[0], least)
    return np.asarray(own - np.where(is_own, -np.inf, scores).max(axis=1))


def leaning(model: Any, X: Any, y: Any, centre: float = 0.0) -> FloatArray:
    """Margins of a classifier; otherwise predictions times targets less a centre.

    Returns
    -------
    ndarray of shape (n_rows,)
        In units of scores, or of targets squared.
    """
    if is_classifier(model):
        return margins(model, X, y)
    away = np.asarray(y, dtype=np.float64) - centre
    return away * np.asarray(model.predict(X), dtype=np.float64)


# ---------------------------------------- Shadow models: fits with and without a record


# With fewer fits on either side, the variance of one record is less reliable than the
# variance of all records ([1]_ of `membership_inference`, section VI.B).
_OWN_VARIANCE = 32
# Least variance, relative to the largest and to the statistic's square: a model that
# repeats its records has no variance.
_LEAST_VARIANCE, _LEAST_SQUARE = 1e-6, 1e-18


def statistic(model: Any, X: Any, y: Any) -> FloatArray:
    """The statistic of the attack: margins of a classifier, residuals of a regressor.

    Over fits both are nearly Gaussian.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    if is_classifier(model):
        return margins(model, X, y)
    residuals = np.asarray(y, dtype=np.float64) - np.asarray(model.predict(X))
    return np.asarray(residuals, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Shadows:
    """Statistics of the pool's records in shadow models.

    Parameters
    ----------
    seen : ndarray of shape (n_shadows, n_records)
    is_in : ndarray of bool of the same shape
        Whether the model was fitted to the record.
    """

    seen: FloatArray
    is_in: np.ndarray

    def log_ratio(self, seen: FloatArray) -> FloatArray:
        """Log-likelihood ratio of membership, for each record.

        Parameters
        ----------
        seen : ndarray of shape (n_records,)
            Statistics of the attacked model.
        """
        sides = [_moments(self.seen, side) for side in (self.is_in, ~self.is_in)]
        largest = max(variance.max() for _, variance in sides)
        scale = max(np.abs(self.seen).max(), np.abs(seen).max())
        floor = max(_LEAST_VARIANCE * largest, _LEAST_SQUARE * scale**2, 1e-300)
        near, far = (_log_density(seen, *side, floor) for side in sides)
        return near - far


def _moments(seen: FloatArray, side: np.ndarray) -> tuple[FloatArray, FloatArray]:
    counts = side.sum(axis=0)
    means = np.where(side, seen, 0.0).sum(axis=0) / counts
    squares = np.where(side, (seen - means) ** 2, 0.0).sum(axis=0) / counts
    if counts.min() < _OWN_VARIANCE:
        squares = np.full_like(squares, squares.mean())
    return means, squares


def _log_density(
    seen: FloatArray, means: FloatArray, variances: FloatArray, floor: float
) -> FloatArray:
    variances = np.maximum(variances, floor)
    return -0.5 * ((seen - means) ** 2 / variances + np.log(variances))


Fit = Callable[[Any, Any, Any], Any]


def fitted_shadows(
    model: Any, X: Any, y: Any, n_shadows: int, draws: Any, n_jobs: int | None
) -> Shadows:
    """Fit clones to random halves of the pool, in pairs of complementary halves.

    Every record is in exactly half of the fits.
    """
    n = len(y)
    halves = [draws.permutation(n) for _ in range(n_shadows // 2)]
    places = [np.sort(p) for half in halves for p in (half[: n // 2], half[n // 2 :])]
    fits = [delayed(_seen)(_shadow(model, draws), X, y, chosen) for chosen in places]
    is_in = np.zeros((len(places), n), dtype=bool)
    for row, chosen in zip(is_in, places, strict=True):
        row[chosen] = True
    return Shadows(np.array(Parallel(n_jobs=n_jobs)(fits)), is_in)


def _seen(shadow: Any, X: Any, y: Any, chosen: Any) -> FloatArray:
    rows, labels = taken(X, chosen), taken(y, chosen)
    return statistic(fitted(shadow, rows, labels, NullRecord()), X, y)


def _shadow(model: Any, draws: Any) -> Any:
    """A clone without a ledger, with a separate seed if the model has one."""
    shadow = fresh(model)
    changed: dict[str, Any] = dict.fromkeys(named(shadow, "ledger"))
    for name in named(shadow, "random_state"):
        changed[name] = int(draws.randint(2**31))
    return shadow.set_params(**changed)


# -------------------------------------------- AttributeInference: guesses of one column
# A model and the other columns of a record give the guess.


@dataclass(frozen=True, kw_only=True)
class AttributeInference:
    """Result of guessing a column from the rest of a record, its label and a model.

    Guesses that succeed for non-members follow from what the model has learned about
    everybody. The additional success for members is what the model has memorised [1]_.

    Parameters
    ----------
    column : str or int
    values : tuple
        Values that the column may have.
    members, non_members : float in [0, 1]
        Share of correct guesses.
    most_frequent : float in [0, 1]
        Share of members with the value that is most frequent among all records.

    References
    ----------
    .. [1] Yeom, Giacomelli, Fredrikson and Jha (2018). Privacy risk in machine
       learning: analyzing the connection to overfitting. CSF, Definition 5.
       https://arxiv.org/abs/1709.01604
    """

    column: Any
    values: tuple[Any, ...]
    members: float
    non_members: float
    most_frequent: float

    @property
    def advantage(self) -> float:
        """Accuracy for members less that for non-members; may be negative by chance."""
        return self.members - self.non_members

    def to_dict(self) -> dict[str, Any]:
        """The numbers, JSON-ready."""
        return {
            "column": self.column,
            "values": list(self.values),
            "accuracy_members": self.members,
            "accuracy_non_members": self.non_members,
            "most_frequent": self.most_frequent,
            "advantage": self.advantage,
        }


def declared_values(attribute: Any) -> tuple[Any, tuple[Any, ...]]:
    """A column, and its few declared values."""
    if not isinstance(attribute, Mapping) or len(attribute) != 1:
        raise ValueError(
            "The 'attribute' parameter must declare one column, such as "
            "{'sex': ['Female', 'Male']}. Got "
            f"{'several' if isinstance(attribute, Mapping) else 'another type'}. "
            "Attack columns one by one."
        )
    ((column, given),) = attribute.items()
    declared = declaration(given, column)
    if isinstance(declared, Boolean):
        return column, (False, True)
    if isinstance(declared, Categories):
        return column, tuple(declared.values)
    raise ValueError(
        "The 'attribute' parameter must declare Categories or a Boolean: guesses are "
        f"of one value among few. Got {declared!r}. Divide the column into ranges."
    )


def infer_attribute(
    model: Any, X: Any, y: Any, is_member: np.ndarray, attribute: Any
) -> AttributeInference:
    """Guess a column of every record: the value under which its label is likeliest.

    Values are weighted by their frequency among all records.
    """
    column, values = declared_values(attribute)
    if issparse(X):
        raise ValueError(
            "A column of a sparse matrix cannot be guessed. Got one as X. Pass an "
            "array or a data frame."
        )
    true = _codes(X, column, values)
    known = true >= 0
    shares = np.bincount(true[known], minlength=len(values)) / max(1, known.sum())
    seen = np.array([_likelihood(model, _with(X, column, v), y) for v in values])
    with np.errstate(divide="ignore"):
        guessed = np.argmax(seen + np.log(shares)[:, None], axis=0)
    is_right, frequent = guessed == true, true == np.argmax(shares)
    return AttributeInference(
        column=column,
        values=values,
        members=_share(is_right, is_member & known),
        non_members=_share(is_right, ~is_member & known),
        most_frequent=_share(frequent, is_member & known),
    )


def _share(chosen: np.ndarray, among: np.ndarray) -> float:
    return float(np.mean(chosen[among])) if among.any() else 0.0


def _codes(X: Any, column: Any, values: tuple[Any, ...]) -> IntArray:
    """Index of each cell's value among the values; -1 for others."""
    cells = np.asarray(X[column] if hasattr(X, "iloc") else X[:, column])
    codes = np.full(len(cells), -1, dtype=np.int64)
    for place, value in enumerate(values):
        codes[cells == value] = place
    return codes


def _with(X: Any, column: Any, value: Any) -> Any:
    if hasattr(X, "iloc"):
        changed = X.copy()
        changed[column] = np.full(len(X), value, dtype=X[column].dtype)
        return changed
    changed = X.copy()
    changed[:, column] = value
    return changed


def _likelihood(model: Any, X: Any, y: Any) -> FloatArray:
    """Log-likelihoods of labels; residuals are Gaussian with their deviation."""
    if is_classifier(model):
        return np.asarray(log_expit(margins(model, X, y)))
    squares = (np.asarray(y, dtype=np.float64) - np.asarray(model.predict(X))) ** 2
    return np.asarray(-0.5 * squares / max(squares.mean(), np.finfo(float).tiny))


# ----------------------------------------------------------------- membership_inference


SCHEMA = 1
RARE = 1e-3
_RATES = (0.5, 0.2, 0.1, 0.01, RARE, 1e-5)
NOT_PRIVATE = (
    "These figures are computed from raw records: they are not private, and no ledger "
    "counts them. Keep them with the data."
)
# Steps of the adjacency that put another record in a record's place.
_STEPS = {"replace_one": 1, "zero_out": 2}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MembershipInference(Shown):
    """Result of a membership inference attack. **Not** private.

    Parameters
    ----------
    scores : ndarray of shape (n_records,)
        Log-likelihood ratios of membership.
    is_member : ndarray of bool of shape (n_records,)
    model : str
        Name of the model's class.
    n_shadows : int
    attribute : AttributeInference or None
    bound : MembershipRisk or None
        Bounds by the model's guarantee for a record that may have been replaced by
        another; None if the model has no guarantee for records.
    """

    scores: FloatArray
    is_member: np.ndarray
    model: str
    n_shadows: int
    attribute: AttributeInference | None
    bound: MembershipRisk | None

    @property
    def n_members(self) -> int:
        """Number of records that the model was fitted to."""
        return int(self.is_member.sum())

    @property
    def n_non_members(self) -> int:
        """Number of records that the model was not fitted to."""
        return int((~self.is_member).sum())

    @property
    def auc(self) -> float:
        """Area under the ROC curve; 0.5 is a blind guess."""
        return float(roc_auc_score(self.is_member, self.scores))

    @property
    def auc_p_value(self) -> float:
        """Approximate probability of an area this large if members look like others."""
        n, m = self.n_members, self.n_non_members
        deviation = math.sqrt((n + m + 1) / (12 * n * m))
        return float(ndtr((0.5 - self.auc) / deviation))

    @property
    def roc(self) -> tuple[FloatArray, FloatArray]:
        """False and true positive rates at all thresholds."""
        false, true, _ = roc_curve(self.is_member, self.scores, drop_intermediate=False)
        return false, true

    @property
    def rates(self) -> tuple[float, float]:
        """False and true positive rate where alarms are likelihood ratios above 1."""
        alarm = self.scores > 0
        return float(alarm[~self.is_member].mean()), float(alarm[self.is_member].mean())

    @property
    def advantage(self) -> float:
        """True minus false positive rate where alarms are likelihood ratios above 1."""
        false, true = self.rates
        return true - false

    def true_positive_rate(self, false_positive_rate: float = RARE) -> float:
        """Share of members found at a threshold with no more false alarms than this.

        Parameters
        ----------
        false_positive_rate : float in [0, 1], default=0.001
            With fewer than 1 / rate non-members, no false alarm at all.
        """
        rate = check.check_real(
            "false_positive_rate", false_positive_rate, low=0.0, high=1.0
        )
        false, true = self.roc
        return float(true[false <= rate].max())

    def to_dict(self) -> dict[str, Any]:
        """The figures, JSON-ready; only rates of rare alarms may be about one record.

        The keys of ``attack_instance_logger`` are those of SACRO-ML's reports.
        """
        return {
            "schema": "skdp.membership_inference",
            "schema_version": SCHEMA,
            "skdp_version": __version__,
            "is_private": False,
            "on_the_books": False,
            "statement": NOT_PRIVATE,
            "metadata": {
                "attack_name": "likelihood ratio (LiRA), online",
                "target_model": self.model,
                "n_shadow_models": self.n_shadows,
            },
            "attack_experiment_logger": {
                "attack_instance_logger": {"instance_0": self._instance()}
            },
            "attribute_inference": self.attribute and self.attribute.to_dict(),
            "bound": self.bound and self.bound.to_dict(),
        }

    def _instance(self) -> dict[str, Any]:
        false, true = self.rates
        at = {f"TPR@{rate}": self.true_positive_rate(rate) for rate in _RATES}
        return {
            "AUC": self.auc,
            "P_HIGHER_AUC": self.auc_p_value,
            "TPR": true,
            "FPR": false,
            "Advantage": abs(self.advantage),
            "n_pos_test_examples": self.n_members,
            "n_neg_test_examples": self.n_non_members,
            "fpr": self.roc[0].tolist(),
            "tpr": self.roc[1].tolist(),
            **at,
        }

    def plot(
        self, *, log: bool = True, ax: Any = None, name: str | None = None
    ) -> Display:
        """Draw the ROC curve, and the bound on the mean curve of a model with one.

        Parameters
        ----------
        log : bool, default=True
            Axes in powers of ten, which show rare false alarms.
        ax : matplotlib Axes or None, default=None
            None makes a figure.
        name : str or None, default=None
            Name in the legend; None: the area under the curve.

        Returns
        -------
        display
            With `line_`, `ax_` and `figure_`.

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        ax = axes_or_new(ax, "roc")
        if self.bound is not None:
            self.bound.plot(log=log, ax=ax, name="guarantee, on average")
        label = name or f"attack, AUC {self.auc:.3f}"
        (line,) = ax.plot(*self.roc, drawstyle="steps-post", label=label)
        least = 1 / (2 * max(self.n_members, self.n_non_members))
        grid = np.geomspace(least, 1.0, 100)
        ax.plot(grid, grid, linestyle=":", color="0.5")
        ax.set(
            xlabel="false positive rate",
            ylabel="true positive rate",
            title=f"Membership inference on {self.model} (not private)",
        )
        if log:
            ax.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1.1))
        ax.legend(loc="lower right")
        return Display.of(ax, line)

    def _rows(self) -> list[tuple[str, str]]:
        at_most = ["", "", ""]
        if self.bound is not None:
            bound = self.bound
            at_most = [
                "",
                f" (guarantee: at most {bound.reconstruction(RARE):.4%} on average)",
                f" (guarantee: at most {bound.advantage:.4f} on average)",
            ]
        rows = [
            ("records", f"{self.n_members} members, {self.n_non_members} others"),
            ("AUC", f"{self.auc:.4f} (a coin: 0.5; p-value {self.auc_p_value:.2g})"),
            ("at 0.1 % false alarms", f"{self.true_positive_rate():.4%}{at_most[1]}"),
            ("advantage", f"{self.advantage:.4f}{at_most[2]}"),
        ]
        if self.attribute is not None:
            told = self.attribute
            rows.append(
                (
                    f"guessing {told.column!r}",
                    f"{told.members:.4f} of members, {told.non_members:.4f} of others",
                )
            )
        return rows

    def sentence(self) -> str:
        """What this is about, and that it is not private."""
        return f"Membership inference on {self.model}. {NOT_PRIVATE}"

    @property
    def _is_good(self) -> bool:
        return False


def membership_inference(
    model: Any,
    members: tuple[ArrayLike, ArrayLike],
    non_members: tuple[ArrayLike, ArrayLike],
    *,
    n_shadows: int = 32,
    attribute: Any = None,
    n_jobs: int | None = None,
    random_state: int | None = None,
) -> MembershipInference:
    """Attack a fitted model: guess which records it was fitted to.

    Clones of the model are fitted to random halves of all records, so that for each
    record there are statistics of models with it and without it. The statistic of the
    attacked model is compared with both (the likelihood-ratio attack [1]_).

    It reads raw records. **Its figures are not private, and in no ledger**, even for a
    private model; the shadow models are discarded.

    Parameters
    ----------
    model : estimator
        Fitted; classifier or regressor, of skdp or not, private or not.
    members : (X, y)
        Records that it was fitted to, or a random part of them.
    non_members : (X, y)
        Records from the same population that it was not fitted to: divide the table at
        random before the fit. Records from another population may be recognised without
        the model, and the figures then say nothing about the model. Pass as many as
        members, if possible, since shadow models are fitted to half of both.
    n_shadows : even int of at least 4, default=32
        Number of fits.
    attribute : mapping of one column or None, default=None
        A column to be guessed from the rest of each record, such as
        ``{"sex": ["Female", "Male"]}``, or ``{3: Categories([0, 1])}`` for an array.
    n_jobs : int or None, default=None
        As in scikit-learn.
    random_state : int or None, default=None
        Seed of the halves, and of shadow models if the model has a seed.

    Returns
    -------
    MembershipInference

    Raises
    ------
    ValueError
        If there are fewer than two members or non-members, if `attribute` is not one
        column of few values, or if the model protects users. Nothing is fitted then.
    sklearn.exceptions.NotFittedError
        If the model is not fitted.

    Notes
    -----
    Privacy: none. The ledger of the model gets no entry.

    A failed attack says nothing about other attacks; `membership_risk` bounds all of
    them.

    References
    ----------
    .. [1] Carlini, Chien, Nasr, Song, Terzis and Tramèr (2022). Membership inference
       attacks from first principles. IEEE S&P. https://arxiv.org/abs/2112.03570

    Deviations: margins and residuals in place of the logits of networks; halves in
    pairs, so that every record is in half of the shadow models.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from skdp.audit import membership_inference
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(400, 5)), rng.normal(size=400)
    >>> model = KNeighborsRegressor(n_neighbors=1).fit(X[:200], y[:200])
    >>> found = membership_inference(
    ...     model, (X[:200], y[:200]), (X[200:], y[200:]), n_shadows=4, random_state=0
    ... )
    >>> found.auc > 0.99, found.true_positive_rate(0.001) > 0.99
    (True, True)
    """
    check_is_fitted(model)
    if steps_of_users(model):
        raise ValueError(
            "The 'model' parameter must protect records: shadow models are fitted to "
            "halves of the rows. Got one of users. Use membership_risk, which bounds "
            "what all rows of a user tell."
        )
    n_shadows = _check_shadows(n_shadows)
    check.check_random_state(random_state)
    if attribute is not None:
        declared_values(attribute)
    X, y, is_member = _pool(members, non_members)
    told = None
    if attribute is not None:
        told = infer_attribute(model, X, y, is_member, attribute)
    draws = check_random_state(random_state)
    shadows = fitted_shadows(model, X, y, n_shadows, draws, n_jobs)
    return MembershipInference(
        scores=shadows.log_ratio(statistic(model, X, y)),
        is_member=is_member,
        model=type(model).__name__,
        n_shadows=n_shadows,
        attribute=told,
        bound=_bound(model),
    )


def _check_shadows(value: Any) -> int:
    n = check.check_count("n_shadows", value, low=4)
    if n % 2:
        raise ValueError(
            f"The 'n_shadows' parameter must be even. Got {n}. Shadow models come in "
            "pairs, one for each half."
        )
    return n


def _pool(members: Any, non_members: Any) -> tuple[Any, Any, np.ndarray]:
    """All records, one table below the other, and which of them are members."""
    sides = [[as_table(table) for table in side] for side in (members, non_members)]
    sizes = [len(y) for _, y in sides]
    if min(sizes) < 2:
        raise ValueError(
            "The 'members' and 'non_members' must be two records each, or more. Got "
            f"{sizes}. Divide a table at random before the fit."
        )
    X = stacked([X for X, _ in sides])
    y = stacked([np.asarray(y) for _, y in sides])
    return X, y, np.arange(sum(sizes)) < sizes[0]


def _bound(model: Any) -> MembershipRisk | None:
    record = getattr(model, "privacy_", None)
    if not isinstance(record, PrivacyRecord) or record.adjacency not in _STEPS:
        return None
    return membership_risk(model, n_records=_STEPS[record.adjacency])
