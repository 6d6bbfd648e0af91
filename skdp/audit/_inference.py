"""`membership_inference`: what can be read off a model that is fitted already."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skdp import _validation as check
from skdp._card import card
from skdp._floats import FloatArray
from skdp._version import __version__
from skdp.audit._attribute import (
    AttributeInference,
    declared_values,
    infer_attribute,
)
from skdp.audit._membership_risk import MembershipRisk, membership_risk
from skdp.audit._shadows import fitted_shadows, statistic
from skdp.audit._tables import as_table, stacked
from skdp.pipeline._users import steps_of_users
from skdp.privacy import PrivacyRecord

if TYPE_CHECKING:
    from skdp.audit._inference_display import MembershipInferenceDisplay

SCHEMA = 1
RARE = 1e-3
_RATES = (0.5, 0.2, 0.1, 0.01, RARE, 1e-5)
NOT_PRIVATE = (
    "These figures are computed from raw records: they are not private, and on no "
    "books. Keep them with the data."
)
# One step of the relation for another record in a record's place, or two.
_STEPS = {"replace_one": 1, "zero_out": 2}


@dataclass(frozen=True, kw_only=True, eq=False)
class MembershipInference:
    """How well members of a fit are told from others. Not private, on no books.

    Parameters
    ----------
    scores : ndarray of shape (n_records,)
        Log-likelihood ratios of having been fitted to.
    is_member : ndarray of bool of shape (n_records,)
    model : str
        Name of its class.
    n_shadows : int
    attribute : AttributeInference or None
    bound : MembershipRisk or None
        What the model's guarantee leaves room for, of a record in whose place another
        one may have been; None if the model has none of a record.
    """

    scores: FloatArray
    is_member: np.ndarray
    model: str
    n_shadows: int
    attribute: AttributeInference | None
    bound: MembershipRisk | None

    @property
    def n_members(self) -> int:
        """How many records the model was fitted to."""
        return int(self.is_member.sum())

    @property
    def n_non_members(self) -> int:
        """How many it was not."""
        return int((~self.is_member).sum())

    @property
    def auc(self) -> float:
        """Area under the ROC curve; 0.5 is a blind guess."""
        return float(roc_auc_score(self.is_member, self.scores))

    @property
    def auc_p_value(self) -> float:
        """Probability of so large an area if members look like others, roughly."""
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
        """The figures, JSON-ready; no figure is of one record, but for rare rates.

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

    def to_json(self) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True, allow_nan=False)

    def plot(self, *, log: bool = True, ax: Any = None) -> MembershipInferenceDisplay:
        """Draw the ROC curve; see `MembershipInferenceDisplay`."""
        from skdp.audit._inference_display import MembershipInferenceDisplay

        return MembershipInferenceDisplay(self, log=log).plot(ax=ax)

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

    def _headline(self) -> str:
        return f"Membership inference on {self.model}. {NOT_PRIVATE}"

    def __repr__(self) -> str:
        lines = [f"  {name:<22} {value}" for name, value in self._rows()]
        return "\n".join([self._headline(), *lines])

    def _repr_html_(self) -> str:
        return card(self._headline(), self._rows(), is_good=False)


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
    """Attack a fitted model: tell those it was fitted to from others.

    Clones of the model are fitted to random halves of all records, so that of each
    record it is known what models with and without it make of it; the attacked model's
    own answer is compared with both (the likelihood-ratio attack [1]_).

    It reads raw records. **Its figures are not private and on no books**, for a private
    model too; the shadow models are forgotten.

    Parameters
    ----------
    model : estimator
        Fitted; classifier or regressor, of skdp or not, private or not.
    members : (X, y)
        Records that it was fitted to, or a random part of them.
    non_members : (X, y)
        Records from the same population that it was not fitted to: divide the table at
        random before the fit. Others may be told apart without the model, and the
        figures then say nothing of it. Best as many as members, since shadow models
        are fitted to half of both.
    n_shadows : even int of at least 4, default=32
        As many fits.
    attribute : mapping of one column or None, default=None
        To be guessed from the rest of each record, such as
        ``{"sex": ["Female", "Male"]}``, or ``{3: Categories([0, 1])}`` of an array.
    n_jobs : int or None, default=None
        As in scikit-learn.
    random_state : int or None, default=None
        Of halves, and of shadow models where the model has a seed.

    Returns
    -------
    MembershipInference

    Raises
    ------
    ValueError
        If members or others are fewer than two; if `attribute` is not one column of few
        values; if the model protects users. Nothing is fitted then.
    sklearn.exceptions.NotFittedError
        If the model is not fitted.

    Notes
    -----
    Privacy: none. A ledger of the model's is left alone, and takes no entry.

    That an attack fails says that this one does; `membership_risk` bounds all.

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
    """All records below one another, and which of them are members."""
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
