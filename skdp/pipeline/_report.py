"""`privacy_report`: what a pipeline costs, step by step, before any fit."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from sklearn.base import is_classifier
from sklearn.model_selection import (
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.pipeline import Pipeline

from skdp._checks import check_bool, check_data_norm, check_delta
from skdp._quiet import warn
from skdp._show import card, remark, table
from skdp.exceptions import (
    ClippedRowsWarning,
    LedgerError,
    StratifiedFoldsWarning,
    UnaccountedStepError,
)
from skdp.pipeline._data_independent import DATA_INDEPENDENT
from skdp.pipeline._walk import Leaf, costs, walk
from skdp.privacy.accounting._calibrate import epsilon_of
from skdp.privacy.accounting._events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    PureEvent,
    needs_no_delta,
)
from skdp.privacy.accounting._gaussian import gaussian_epsilon, gaussian_mu
from skdp.privacy.accounting._relations import Relation, is_of_users
from skdp.privacy.ledger._ledger import BudgetLedger
from skdp.privacy.release._record import StepPrivacy, json_ready

if TYPE_CHECKING:
    import pandas as pd


# ----------------------------------------- Private alternatives to scikit-learn objects


_SCALE = ("BoundedScaler", "DPStandardScaler")
_RANGE = ("BoundedScaler", "DPQuantileClipper")
_REGRESSION = ("DPLinearRegression",)
_BINS = ("TableEncoder(columns, numeric='bins')",)
_TEXT = ("HashingVectorizer(norm='l2')",)
_SELECTION = ("SelectFromModel(DPSparseLogisticRegression())",)
_BAYES = ("DPCategoricalNB", "DPLogisticRegression")
_TREES = ("DPGradientBoostingClassifier",)
_TREES_OF_NUMBERS = ("DPGradientBoostingRegressor",)

# By name, since importing these classes only to name their alternatives takes long.
ALTERNATIVES: dict[str, tuple[str, ...]] = {
    "StandardScaler": _SCALE,
    "PowerTransformer": _SCALE,
    "MinMaxScaler": _RANGE,
    "MaxAbsScaler": _RANGE,
    "RobustScaler": _RANGE,
    "QuantileTransformer": _RANGE,
    "KBinsDiscretizer": _BINS,
    "SplineTransformer": ("TableEncoder",),
    "SimpleImputer": ("DPSimpleImputer",),
    "KNNImputer": ("DPSimpleImputer",),
    "IterativeImputer": ("DPSimpleImputer",),
    "PCA": ("DPPCA",),
    "IncrementalPCA": ("DPPCA",),
    "KernelPCA": ("DPPCA",),
    "FastICA": ("DPPCA",),
    "NMF": ("DPPCA",),
    "TruncatedSVD": ("DPPCA",),
    "CountVectorizer": _TEXT,
    "TfidfVectorizer": _TEXT,
    "TfidfTransformer": _TEXT,
    "DictVectorizer": ("FeatureHasher",),
    "SelectKBest": _SELECTION,
    "SelectPercentile": _SELECTION,
    "VarianceThreshold": _SELECTION,
    "RFE": _SELECTION,
    "RFECV": _SELECTION,
    "OneHotEncoder": ("DeclaredOneHotEncoder",),
    "OrdinalEncoder": ("DeclaredOneHotEncoder",),
    "TargetEncoder": ("DeclaredOneHotEncoder",),
    "LogisticRegression": ("DPLogisticRegression",),
    "LogisticRegressionCV": ("DPLogisticRegression",),
    "SGDClassifier": ("DPLogisticRegression",),
    "LinearSVC": ("DPLinearSVC",),
    "GaussianNB": _BAYES,
    "CategoricalNB": _BAYES,
    "KMeans": ("DPKMeans",),
    "MiniBatchKMeans": ("DPKMeans",),
    "RandomForestClassifier": _TREES,
    "GradientBoostingClassifier": _TREES,
    "HistGradientBoostingClassifier": _TREES,
    "RandomForestRegressor": _TREES_OF_NUMBERS,
    "GradientBoostingRegressor": _TREES_OF_NUMBERS,
    "HistGradientBoostingRegressor": _TREES_OF_NUMBERS,
    "MLPClassifier": ("DPMLPClassifier",),
    "MLPRegressor": ("DPMLPRegressor",),
    "CalibratedClassifierCV": ("DPCalibratedClassifier",),
    "TunedThresholdClassifierCV": ("DPTunedThresholdClassifier",),
    "LinearRegression": _REGRESSION,
    "Ridge": _REGRESSION,
    "RidgeCV": _REGRESSION,
    "PoissonRegressor": ("DPPoissonRegressor",),
    "GammaRegressor": ("DPGammaRegressor",),
    "QuantileRegressor": ("DPQuantileRegressor",),
    "GridSearchCV": ("DPGridSearchCV",),
    "RandomizedSearchCV": ("DPRandomizedSearchCV",),
}


def alternatives_to(step: Any) -> tuple[str, ...]:
    """Private and declared alternatives to a scikit-learn object."""
    if not type(step).__module__.startswith("sklearn."):
        return ()
    return ALTERNATIVES.get(type(step).__name__, ())


# ------------------------------------------ Rows longer than a private step's data_norm


# Rounding of norms, which are sums in floating point.
_ROUNDING = 1e-6


def clipped_rows(leaves: Iterable[Leaf]) -> Iterator[tuple[str, str]]:
    """The private steps, steps inside searches included, that longer rows may reach.

    Yields
    ------
    path, note : str
        The note names the data_norm that clips nothing.
    """
    for leaf in leaves:
        if getattr(leaf.step, "is_search", False):
            yield from clipped_rows(_within(leaf))
            continue
        norm, data_norm = leaf.input_norm, _data_norm(leaf)
        if norm is not None and data_norm * (1 + _ROUNDING) < norm < math.inf:
            wide = f"{rounded_up(norm):g}"
            note = f"rows of norm up to {wide} are clipped to {data_norm:g}: "
            yield leaf.path, f"{note}use data_norm={wide}"


def warn_of_clipped_rows(leaves: Iterable[Leaf]) -> tuple[str, ...]:
    """Warn once of all of them; the notes for a record are returned."""
    found = dict.fromkeys(f"{path}: {note}" for path, note in clipped_rows(leaves))
    if found:
        told = "; ".join(found)
        warn(
            "Rows should come to private steps with norms of at most their data_norm. "
            f"Got steps before them that declare longer ones ({told}). If clipping is "
            "meant, put a RowNormClipper before.",
            ClippedRowsWarning,
        )
    return tuple(found)


def rounded_up(norm: float) -> float:
    """The norm rounded up to three digits."""
    near = float(f"{norm:.2e}")
    unit = 10.0 ** (math.floor(math.log10(norm)) - 2)
    return near if near >= norm else float(f"{near + unit:.2e}")


def _within(search: Leaf) -> Iterator[Leaf]:
    step: Any = search.step
    inner = getattr(step, "best_estimator_", step.estimator)
    return walk(inner, f"{search.path}/estimator", norm=search.input_norm)


def _data_norm(leaf: Leaf) -> float:
    """Norm to which a private step clips rows; inf if it does not."""
    step: Any = leaf.step
    if not costs(leaf.privacy) or not hasattr(step, "data_norm"):
        return math.inf
    # A model with `columns` makes its rows from a table, and no rows come in.
    if getattr(step, "columns", None) is not None:
        return math.inf
    if hasattr(step, "privacy_"):
        return float(step.privacy_.data_norm)
    return math.inf if math.isinf(step.epsilon) else check_data_norm(step.data_norm)


# -------------------------------------------- StepReport: the cost of one step, and why


DECLARED, PRIVATE = "declared rule", "private"
UNACCOUNTED, VOUCHED = "unaccounted", "vouched for by the user"


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """One step of a pipeline.

    Parameters
    ----------
    name : str
        Names from the outermost container down, joined by "/".
    estimator : str
        Name of its class.
        kind : {"declared rule", "private", "unaccounted", "vouched for by the user"}
    epsilon, delta : float
        Cost of the step alone: 0, 0 if it takes nothing from the data, inf if unknown.
    adjacency : str or None
        None if the step is not private or costs nothing.
    state : {"planned", "spent", ""}
        Empty if there is nothing to spend.
    note : str
        Why it costs nothing, or what is wrong and what to use instead.
    input_norm, output_norm : float or None, default=None
        Largest norm of an input and an output row, by the steps' declarations; None if
        unknown.
    """

    name: str
    estimator: str
    kind: str
    epsilon: float
    delta: float
    adjacency: Relation | None
    state: str
    note: str
    input_norm: float | None = None
    output_norm: float | None = None


def step_reports(
    leaves: Sequence[Leaf], data_independent: Collection[Any] = ()
) -> tuple[StepReport, ...]:
    """The reports of all leaves that are fitted together.

    If one of the leaves protects users, other leaves may take nothing from the number
    of rows.
    """
    relations = (leaf.privacy.adjacency for leaf in leaves if leaf.privacy)
    of_users = any(relation and is_of_users(relation) for relation in relations)
    return tuple(_report(leaf, data_independent, of_users) for leaf in leaves)


def _report(
    leaf: Leaf, data_independent: Collection[Any], of_users: bool
) -> StepReport:
    privacy = leaf.privacy
    if privacy is not None:
        return _own_word(leaf, privacy, of_users)
    kind, note = _judgement(leaf, data_independent, of_users)
    return StepReport(
        name=leaf.path,
        estimator=leaf.step if isinstance(leaf.step, str) else type(leaf.step).__name__,
        kind=kind,
        epsilon=math.inf if kind == UNACCOUNTED else 0.0,
        delta=0.0,
        adjacency=None,
        state="",
        note=note,
        input_norm=leaf.input_norm,
        output_norm=leaf.output_norm,
    )


def _own_word(leaf: Leaf, privacy: StepPrivacy, of_users: bool) -> StepReport:
    """The report of a step of skdp, from its privacy statement."""
    note, kind = privacy.note, PRIVATE if costs(privacy) else DECLARED
    epsilon = privacy.epsilon
    if of_users and privacy.of_users:
        note, kind, epsilon = privacy.of_users, UNACCOUNTED, math.inf
    elif leaf.inside:
        note = f"within {leaf.inside}, which may fit it more than once"
    clipped = [note for _, note in clipped_rows([leaf])]
    state = "planned" if privacy.event is None else "spent"
    return StepReport(
        name=leaf.path,
        estimator=type(leaf.step).__name__,
        kind=kind,
        epsilon=epsilon,
        delta=privacy.delta,
        adjacency=privacy.adjacency,
        state=state if costs(privacy) else "",
        note="; ".join([*([note] if note else []), *clipped]),
        input_norm=leaf.input_norm,
        output_norm=leaf.output_norm,
    )


def _judgement(
    leaf: Leaf, data_independent: Collection[Any], of_users: bool
) -> tuple[str, str]:
    """Kind and note of a step that is not of skdp."""
    step = leaf.step
    if isinstance(step, str) and step in ("passthrough", "drop"):
        return DECLARED, "nothing is learned"
    # No user can vouch for a container's treatment of private steps.
    if leaf.problem:
        return UNACCOUNTED, _advice(step, leaf.problem)
    if any(type(step) is item or step is item for item in data_independent):
        return VOUCHED, "given as data_independent"
    rule = DATA_INDEPENDENT.get(type(step))
    if rule is None:
        return UNACCOUNTED, _advice(step, "") or "reads the data, with no accounting"
    asked = rule.asks_for(step)
    if asked:
        return UNACCOUNTED, _advice(step, f"set {asked}")
    refused = rule.of_users(step) if of_users else ""
    if refused:
        return UNACCOUNTED, refused
    return DECLARED, rule.reason


def _advice(step: Any, text: str) -> str:
    names = alternatives_to(step)
    use = f"use {' or '.join(names)}" if names else ""
    return "; ".join(part for part in (text, use) if part)


def unaccounted_in(rows: Sequence[StepReport]) -> str:
    """The unaccounted steps with a remedy for each, for messages."""
    return ", ".join(
        f"{row.name} ({row.estimator}: {row.note})"
        for row in rows
        if row.kind == UNACCOUNTED
    )


# ----------------------------------------- Joint cost of private steps on the same rows
# Steps read the rows one after another or side by side (ColumnTransformer,
# FeatureUnion). Both are sequential composition, since every step sees every record.
# The bounds are valid for steps fixed in advance, as the steps of a pipeline are.


# The largest valid delta; sums of deltas beyond it promise nothing.
_LARGEST_DELTA = math.nextafter(1.0, 0.0)
# `gaussian_mu` is at most a relative 1.3e-7 below the largest mu that a budget allows.
MU_MARGIN = 2e-7


def total_of(
    steps: Sequence[StepPrivacy], delta: float | None = None
) -> tuple[float, float]:
    """Epsilon and delta of all steps together; never below the truth.

    `delta` is 0, in [1e-50, 1), or None: the largest delta of the steps whose noise
    adds up in squares, plus the deltas of all others, the least at which the budgets of
    the steps suffice. All steps are of one adjacency.

    Returns
    -------
    epsilon, delta : float
    """
    steps = _paid_once(steps)
    others = [step for step in steps if not is_gaussian(step)]
    gaussian = [step for step in steps if is_gaussian(step)]
    if delta is None:
        largest = max((step.delta for step in gaussian), default=0.0)
        delta = min(_sum_of_deltas(others) + largest, _LARGEST_DELTA)
    epsilon = _added(gaussian, others, delta)
    events = [step.event for step in steps if step.event is not None]
    if events and len(events) == len(steps):
        epsilon = min(epsilon, epsilon_of(ComposedEvent(tuple(events)), delta))
    return epsilon, delta


def _paid_once(steps: Sequence[StepPrivacy]) -> list[StepPrivacy]:
    """One step for each joint release, which covers all of its parts."""
    seen, kept = set(), []
    for step in steps:
        if not step.release or step.release not in seen:
            kept.append(step)
        seen.add(step.release)
    return kept


def is_gaussian(step: StepPrivacy) -> bool:
    """Whether everything that a step releases, or will release, has Gaussian noise."""
    if step.event is None:
        return step.adds_in_squares and step.delta > 0
    leaves = (getattr(leaf, "dominating", leaf) for leaf in step.event.leaves)
    return all(isinstance(leaf, GaussianEvent) for leaf in leaves)


def mu_of(step: StepPrivacy) -> float:
    """The largest mu of a step with Gaussian noise, rounded up if it is planned."""
    if step.event is None:
        return gaussian_mu(step.epsilon, step.delta) * (1 + MU_MARGIN)
    return math.sqrt(step.event.mu_squared)


def _added(
    gaussian: Sequence[StepPrivacy], others: Sequence[StepPrivacy], delta: float
) -> float:
    """Gaussian steps add up in squares; basic composition adds all other steps."""
    left = delta - _sum_of_deltas(others)
    if left < 0:
        return math.inf
    epsilon = math.fsum(step.epsilon for step in others)
    if not gaussian:
        return epsilon
    mu = math.sqrt(math.fsum(mu_of(step) ** 2 for step in gaussian))
    squared = gaussian_epsilon(mu, left)
    # The steps' promises one by one; the better bound for one step alone.
    if _sum_of_deltas(gaussian) <= left:
        squared = min(squared, math.fsum(step.epsilon for step in gaussian))
    return epsilon + squared


def _sum_of_deltas(steps: Sequence[StepPrivacy]) -> float:
    return math.fsum(
        step.delta
        for step in steps
        if step.event is None or not needs_no_delta(step.event, step.epsilon)
    )


# --------------------------------------------------- Ledgers of steps, beside the total
# The total composes steps that are fixed in advance. A ledger must bound whatever comes
# next, so it charges each event separately, and keeps its reserve.


def words_of_ledgers(leaves: Sequence[Leaf]) -> tuple[str, ...]:
    """One sentence for each readable ledger that private steps carry."""
    ledgers: list[BudgetLedger] = []
    for leaf in leaves:
        ledger = getattr(leaf.step, "ledger", None)
        if isinstance(ledger, BudgetLedger) and ledger not in ledgers:
            ledgers.append(ledger)
    return tuple(word for ledger in ledgers for word in _words(ledger, leaves))


def _words(ledger: BudgetLedger, leaves: Sequence[Leaf]) -> Iterator[str]:
    own = [leaf for leaf in leaves if getattr(leaf.step, "ledger", None) == ledger]
    said = [privacy for leaf in own if (privacy := leaf.privacy) and costs(privacy)]
    try:
        if said:
            yield f"The ledger {ledger.path!r} {_sentence(ledger, said)}."
    except (LedgerError, OSError):
        return


def _sentence(ledger: BudgetLedger, said: Sequence[StepPrivacy]) -> str:
    if all(privacy.event is not None for privacy in said):
        spent = ledger.spent()
        return (
            f"has spent epsilon {spent.epsilon:.4g} at delta {spent.delta:g} with all "
            "of its releases; it charges each release separately, which may be more "
            "than the total of these steps, since later ones may depend on earlier ones"
        )
    planned = [_event_of(privacy) for privacy in said if privacy.event is None]
    known = [(event, delta) for event, delta in planned if event is not None]
    if len(known) < len(planned):
        return (
            "charges these steps by their events, known when they are fitted, which "
            "may be more than the total, since later ones may depend on earlier ones"
        )
    if ledger.admits(known):
        return "has room for these steps"
    return (
        "has no room for all of these steps: besides what is spent, it reserves "
        f"epsilon={ledger.reserve_epsilon:g} and delta={ledger.reserve_delta:g} for "
        "releases that do not add up in squares"
    )


def _event_of(privacy: StepPrivacy) -> tuple[Event | None, float]:
    """The largest event of a planned step, if its budget determines the event."""
    if is_gaussian(privacy):
        return GaussianEvent(1 / mu_of(privacy)), privacy.delta
    if privacy.delta == 0:
        return PureEvent(privacy.epsilon), 0.0
    return None, privacy.delta


# ------------------------------------------------------------- Folds that labels decide
# scikit-learn's meta-estimators may make them around private models.


_STRATIFIED = (
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)


def warn_of_stratified_folds(leaves: Iterable[Leaf]) -> None:
    """Warn of meta-estimators that fit private steps on folds that depend on labels."""
    names = [leaf.path for leaf in leaves if leaf.problem and is_stratified(leaf.step)]
    if names:
        warn(
            f"The folds of {names} are stratified: one record's label moves other "
            "records to other folds, so that each private fit costs more than is "
            "recorded. Pass cv=KFold(5).",
            StratifiedFoldsWarning,
        )


def is_stratified(meta: Any) -> bool:
    """Whether an object's `cv` makes stratified folds, by public parameters."""
    params = meta.get_params(deep=False) if hasattr(meta, "get_params") else {}
    if "cv" not in params:
        return False
    folds = params["cv"]
    if folds is None or isinstance(folds, Real):  # scikit-learn's default rule
        return bool(is_classifier(meta) or is_classifier(params.get("estimator", meta)))
    return isinstance(folds, _STRATIFIED)


# ----------------------------------------------------------------------- privacy_report


_NOT_COVERED = (
    "scores, cross-validation and any choice made from them",
    "earlier processing of the data, and whether a fit accepts them",
    "bounds, categories, labels and other parameters taken from the data",
)
_WHICH_EPSILON = (
    "The total is what the recorded events cost at its delta; it may be a little less "
    "than the requested budget."
)
_CACHE = "intermediate data that Pipeline(memory=...) writes to the disk"
_VOUCH = "what the user vouches for with data_independent="


@dataclass(frozen=True, kw_only=True)
class PipelineReport:
    """What a whole pipeline costs.

    Parameters
    ----------
    steps : tuple of StepReport
    epsilon, delta : float
        Composed cost of all steps; epsilon is inf if a step is unaccounted.
    adjacency : str or None
        The adjacency of all private steps; None without private steps, or if they
        differ.
    is_private : bool
        Whether epsilon is finite.
    reason : str
        Why epsilon is infinite, or an empty string.
    not_covered : tuple of str
        What the total does not cover.
    clipped_rows : tuple of str, default=()
        Private steps that clip their input rows, and the `data_norm` to use.
    ledgers : tuple of str, default=()
        What the steps' ledgers have spent or can still spend, and why that may be more
        than the total.
    """

    steps: tuple[StepReport, ...]
    epsilon: float
    delta: float
    adjacency: Relation | None
    is_private: bool
    reason: str
    not_covered: tuple[str, ...]
    clipped_rows: tuple[str, ...] = ()
    ledgers: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """Spent if every private step is fitted, else planned; "" without any."""
        states = {step.state for step in self.steps} - {""}
        return "planned" if "planned" in states else "".join(states)

    def statement(self) -> str:
        """The total in one sentence."""
        if not self.is_private:
            return f"NOT private. {self.reason}"
        if self.adjacency is None:
            return "Takes nothing from the data: epsilon 0."
        return (
            f"{self.state.capitalize()}: ({self.epsilon:g}, {self.delta:g})-"
            f"differentially private under {self.adjacency}."
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per step, with the fields of `StepReport` as columns."""
        import pandas as pd

        columns = list(StepReport.__dataclass_fields__)
        return pd.DataFrame([vars(step) for step in self.steps], columns=columns)

    def to_json(self) -> str:
        """JSON text with sorted keys; an infinite number becomes ``"inf"``."""
        values = vars(self) | {"steps": [vars(step) for step in self.steps]}
        ready = json_ready(values | {"state": self.state})
        return json.dumps(ready, sort_keys=True, indent=2, allow_nan=False)

    def _table(self) -> list[tuple[str, ...]]:
        head = ("step", "class", "kind", "epsilon", "delta", "state", "norm", "note")
        return [head, *(_cells(step) for step in self.steps)]

    def __repr__(self) -> str:
        table = self._table()
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) for cell, width in zip(row, widths, strict=True)
            )
            for row in table
        ]
        body = [f"  {line}".rstrip() for line in lines]
        return "\n".join([_plain(self.statement()), *body, *self._remarks()])

    def _remarks(self) -> list[str]:
        """Remarks below the table."""
        rest = f"Not covered: {'; '.join(self.not_covered)}."
        clipped = [f"Clipped: {_plain(text)}." for text in self.clipped_rows]
        which = [_WHICH_EPSILON] if self.state == "spent" else []
        return [*clipped, *which, *map(_plain, self.ledgers), rest]

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        below = [table(head, rows), *map(remark, self._remarks())]
        return card(_plain(self.statement()), is_good=self.is_private, below=below)


def privacy_report(
    estimator: Any,
    *,
    delta: float | None = None,
    data_independent: Collection[Any] = (),
    strict: bool = False,
) -> PipelineReport:
    """Report the cost of each step of a pipeline, and of all steps together.

    Fits nothing and changes nothing. Pipeline, ColumnTransformer, FeatureUnion,
    SelectFromModel and FrozenEstimator are looked into at any depth. Unfitted steps
    count as planned, fitted steps as spent. Steps of skdp state their cost, a table
    lists the scikit-learn classes that take nothing from the data, and any other step
    is unaccounted: the total is then infinite.

    Parameters
    ----------
    estimator : estimator
        Fitted or not.
    delta : 0, float in [1e-50, 1) or None, default=None
        The delta at which epsilon is computed. None: the least delta at which the
        budgets of the steps suffice, which is the largest delta of the steps whose
        noise adds up in squares plus the deltas of all other steps.
    data_independent : collection of classes or instances, default=()
        Steps for which the user vouches: their fit takes nothing from the values of the
        data, and they transform each row without regard to the others.
    strict : bool, default=False
        Raise if the total is infinite.

    Returns
    -------
    PipelineReport

    Raises
    ------
    UnaccountedStepError
        With ``strict=True``; the message names the steps and the alternatives.

    Warns
    -----
    StratifiedFoldsWarning
        If a meta-estimator of scikit-learn fits private steps on stratified folds.
    ClippedRowsWarning
        If the steps before a private step declare rows longer than its `data_norm`; the
        message names the one to use.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skdp import BoundedScaler, DPLogisticRegression, privacy_report
    >>> report = privacy_report(
    ...     make_pipeline(BoundedScaler(bounds=(0, 1)), DPLogisticRegression())
    ... )
    >>> report.epsilon, report.delta
    (1.0, 1e-06)
    >>> report = privacy_report(make_pipeline(StandardScaler(), DPLogisticRegression()))
    >>> report.steps[0].note
    'use BoundedScaler or DPStandardScaler'
    >>> report.epsilon
    inf
    """
    check_bool("strict", strict)
    delta = None if delta is None else check_delta(delta)
    check_estimator(estimator)
    check_vouched(data_independent)
    leaves = list(walk(estimator))
    warn_of_stratified_folds(leaves)
    clipped = warn_of_clipped_rows(leaves)
    report = _compose(
        step_reports(leaves, data_independent),
        [leaf.privacy for leaf in leaves],
        delta,
        has_cache=any(_caches(estimator)),
        clipped=clipped,
        ledgers=words_of_ledgers(leaves),
    )
    if strict and not report.is_private:
        raise UnaccountedStepError(
            f"With strict=True every step must be accounted for. {report.reason}"
        )
    return report


def check_estimator(estimator: Any) -> None:
    """Raise TypeError unless this is an instance with parameters."""
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        kind = estimator if isinstance(estimator, type) else type(estimator)
        raise TypeError(
            "The 'estimator' parameter must be an estimator. "
            f"Got {kind.__name__}. Make an instance of an estimator first."
        )


def check_vouched(data_independent: Any) -> None:
    """Raise TypeError unless this is a collection of classes or instances."""
    if not isinstance(data_independent, (list, tuple, set, frozenset)):
        raise TypeError(
            "The 'data_independent' parameter must be a list of classes or instances. "
            f"Got an instance of {type(data_independent).__name__}."
        )


def _compose(
    rows: tuple[StepReport, ...],
    privacies: Sequence[StepPrivacy | None],
    delta: float | None,
    *,
    has_cache: bool,
    clipped: tuple[str, ...],
    ledgers: tuple[str, ...],
) -> PipelineReport:
    private = [privacy for privacy in privacies if privacy and costs(privacy)]
    epsilon, delta = total_of(private, delta)
    adjacencies = sorted({str(privacy.adjacency) for privacy in private})
    reason = _why_not(rows, adjacencies, epsilon)
    not_covered = list(_NOT_COVERED)
    not_covered += [_CACHE] if has_cache else []
    not_covered += [_VOUCH] if any(row.kind == VOUCHED for row in rows) else []
    return PipelineReport(
        steps=rows,
        epsilon=math.inf if reason else epsilon,
        delta=delta,
        adjacency=private[0].adjacency if len(adjacencies) == 1 else None,
        is_private=not reason,
        reason=reason,
        not_covered=tuple(not_covered),
        clipped_rows=clipped,
        ledgers=ledgers,
    )


def _why_not(rows: Sequence[StepReport], adjacencies: list[str], epsilon: float) -> str:
    unaccounted = unaccounted_in(rows)
    if unaccounted:
        return f"Unaccounted: {unaccounted}."
    if len(adjacencies) > 1:
        return (
            f"The steps have different adjacencies, {' and '.join(adjacencies)}, which "
            "cannot be added up. Give all steps the same."
        )
    if math.isinf(epsilon):
        endless = [row.name for row in rows if math.isinf(row.epsilon)]
        if endless:
            return f"Without privacy: {', '.join(endless)} (a seed, or epsilon=inf)."
        return "The delta is too small for the deltas of the steps. Use a larger one."
    return ""


def _cells(step: StepReport) -> tuple[str, ...]:
    # A name may hold a line break; a table has one line for each step.
    text = (step.name, step.estimator, step.kind, f"{step.epsilon:g}")
    cells = (*text, f"{step.delta:g}", step.state, _norms(step), step.note)
    return tuple(map(_plain, cells))


def _norms(step: StepReport) -> str:
    """Norms of rows before and after, "?" if unknown."""
    norms = (step.input_norm, step.output_norm)
    if norms == (None, None):
        return "?"
    before, after = ("?" if norm is None else f"{norm:.3g}" for norm in norms)
    return f"{before} to {after}"


def _plain(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _caches(estimator: Any) -> Iterator[bool]:
    """Whether each Pipeline inside writes intermediate data to the disk."""
    parts = estimator.get_params(deep=True).values()
    for part in (estimator, *parts):
        yield isinstance(part, Pipeline) and part.memory is not None
