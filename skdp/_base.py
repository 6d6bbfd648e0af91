"""Base classes of private estimators: budget, ledger, warnings and forecast."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from skdp._checks import (
    check_random_state,
    check_real,
    explain_methods,
    explained_nesting,
)
from skdp._configured import check_schema, check_version, warn_of_version
from skdp._quiet import warn, warn_once
from skdp._shared_docs import fill_docs
from skdp._show import card
from skdp._version import __version__
from skdp.exceptions import (
    ConstantModelWarning,
    LargeDeltaWarning,
    NoiseDominatesWarning,
    SeededNoiseWarning,
)
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._gaussian import gaussian_epsilon, gaussian_mu
from skdp.privacy.accounting._relations import (
    UNIT_OF,
    Relation,
    adjacency_of,
    is_of_users,
    relation_for,
)
from skdp.privacy.ledger._allowance import Allowance
from skdp.privacy.ledger._ledger import BudgetLedger
from skdp.privacy.release._door import Door, is_rehearsing, owners_now
from skdp.privacy.release._record import FREE, PrivacyRecord, StepPrivacy, step_of

# ---------------------------------- Stored state that names the version of skdp


STATE_SCHEMA = 2
_VERSION, _SCHEMA = "_skdp_version", "_skdp_schema"


class StoredEstimator(BaseEstimator):
    """An estimator whose pickle contains skdp's version and a schema number."""

    set_params = explained_nesting(BaseEstimator.set_params)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for documented in (cls, *filter(inspect.isfunction, vars(cls).values())):
            fill_docs(documented)
        explain_methods(cls)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {_VERSION: __version__, _SCHEMA: STATE_SCHEMA}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        name = type(self).__name__
        what = f"The stored state of {name}"
        version = check_version(what, state.pop(_VERSION, None))
        check_schema(what, state.pop(_SCHEMA, None), STATE_SCHEMA, version)
        remedy = (
            "Check its predictions, or load it with the version that stored it. A new "
            "fit would be another release."
        )
        warn_of_version(f"a fitted {name}", version, remedy)
        super().__setstate__(self._defaults() | state)

    def _defaults(self) -> dict[str, Any]:
        """Defaults, for parameters that the version of the pickle does not have."""
        parameters = inspect.signature(type(self)).parameters
        return {name: each.default for name, each in parameters.items()}


# ----------------------------------------------------------------- Noise against signal
# It follows from public facts only. `forecast` returns it, and `fit` warns about it.


_HOPELESS = "expect hardly more than a constant model"
# Range of any epsilon.
_LEAST_EPSILON, _LARGEST_EPSILON = 1e-6, 1e8


@dataclass(frozen=True, kw_only=True)
class Signal:
    """Noise in a coefficient and the size of a useful one, from public facts only.

    Attributes
    ----------
    coefficient_noise : float
        Standard deviation of the privacy noise in a fully learned coefficient: of a
        linear model, in a direction of average curvature; of a sparse model, in the
        feature with the most noise; of a factorisation, in an item's bias; of boosted
        trees, in one of eight leaves.
    coefficient_scale : float
        Size of the coefficients of a model whose raw predictions vary by one unit of
        decision: one logit, half a hinge, a third of the target bound. For a sparse
        model, this is the size if the model has as many nonzero coefficients as it may
        have; for a factorisation, a ninth of the width of the rating bounds.
    n_records : int
        Number of records, ratings or users for which the noise is computed.
    counted : {"records", "ratings", "users"}
        What `n_records` counts.
    little_to, constant_from : float
        Ratios of noise to scale. Below `little_to`, measured models were close to
        models without privacy; above `constant_from`, they were hardly better than a
        constant. The values are 0.3 and 12 for the default (less than 12 with many
        labels), 0.3 and 10 for named solvers, 0.3 and 4 for delta = 0, 0.3 and 3 for
        sparse models, 0.02 and 1.5 for factorisations, 0.01 and 1 for boosted trees
        (``docs/guide/linear_models.md``).
    """

    coefficient_noise: float
    coefficient_scale: float
    n_records: int
    counted: str = "records"
    little_to: float = 0.3
    constant_from: float = 10.0

    @property
    def noise_to_signal(self) -> float:
        """`coefficient_noise` over `coefficient_scale`."""
        return self.coefficient_noise / self.coefficient_scale

    @property
    def noise_dominates(self) -> bool:
        """Whether `fit` warns."""
        return self.noise_to_signal >= self.constant_from

    @property
    def records_for_little_noise(self) -> int:
        """The `n_records` from which the noise is small, all else equal."""
        return self._records_for(self.little_to)

    @property
    def verdict(self) -> str:
        """What to expect of a fit, in words."""
        if self.noise_dominates:
            return _HOPELESS
        if self.noise_to_signal <= self.little_to:
            return "expect a model close to one without privacy"
        return "expect a useful model that is worse than one without privacy"

    def _records_for(self, ratio: float) -> int:
        return math.ceil(self.n_records * self.noise_to_signal / ratio)

    def _in_words(self) -> str:
        # Few digits, so that folds of nearly the same size say the same.
        return (
            f"noise is about {rounded(self.noise_to_signal, 1)} times the size of the "
            f"coefficients: {self.verdict}"
        )

    def _where_it_ends(self) -> str:
        enough = _rounded_up(self._records_for(self.constant_from))
        little = _rounded_up(self.records_for_little_noise)
        return f"{enough} {self.counted} or more (the noise is small from {little} on)"


def rounded(number: float, digits: int) -> str:
    """The number in words, rounded to this many significant digits."""
    return f"{float(f'{number:.{digits - 1}e}'):,.10g}"


def _rounded_up(number: int) -> str:
    """At least the number, with two significant digits, so that the advice is enough.

    One record more is asked for, since noise dominates at the limit itself.
    """
    unit = 10 ** max(len(str(number + 1)) - 2, 0)
    return f"{-(-(number + 1) // unit) * unit:,}"


def _small_delta(n_samples: int) -> float:
    """The largest power of ten that is at most a tenth of 1 / n_samples."""
    return float(f"1e-{math.ceil(math.log10(10 * n_samples))}")


def relaxed(budget: Budget) -> tuple[str, ...]:
    """The remedy of a fit with delta = 0: a delta above 0."""
    return ("delta above 0",) if budget.delta == 0 else ()


def warn_of_noise(
    signal: Signal, remedies: tuple[str, ...], *, where: str = "this fit"
) -> tuple[str, ...]:
    """Warn if noise dominates, and return what the privacy statement says about it.

    The warning is given once for each statement of the user's code.

    Parameters
    ----------
    remedies : tuple of str
        What to change, besides the number of records.
    where : str, default="this fit"
        The subject of the warning.
    """
    if not signal.noise_dominates:
        return ()
    warn_once(
        f"At this budget noise dominates {where}. The {signal._in_words()}. Use "
        f"{', or '.join((signal._where_it_ends(), *remedies))}.",
        NoiseDominatesWarning,
    )
    return (signal._in_words(),)


@dataclass(frozen=True, kw_only=True)
class Forecast(Signal):
    """Solver, noise and signal of a fit to a table of some shape; public facts only.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee for which the forecast holds.
    adjacency : str
        Its adjacency.
    solver : str
        Key of the solver that a fit would use.
    why_solver : str
        Why a fit would use this solver.
    solver_params : mapping
        The solver's hyper-parameters, including those that its rules decide.
    noise_multiplier : float
        Scale of the solver's noise over the sensitivity of its query.
    notes : tuple of str
        Remarks of the solver.
    half_at : float or None
        Ratio of noise to scale at which a model is expected to reach half of the gain
        of a model without privacy; None if this was not measured for the solver.
    coefficient_noise, coefficient_scale, n_records, counted
    little_to, constant_from
        As in `Signal`.
    """

    epsilon: float
    delta: float
    adjacency: Relation
    solver: str
    why_solver: str
    solver_params: Mapping[str, Any]
    noise_multiplier: float
    notes: tuple[str, ...] = ()
    half_at: float | None = None

    def epsilon_for(self, score: float) -> float:
        """The smallest epsilon at which a model is expected to reach a score.

        Let the strength be the number of records times mu, halved under replace_one.
        The expected score is ``strength / (strength + 140)``, and 0 for a strength
        below 50, where the fitted model is the constant; with K > 2 labels 140 and 50
        are multiplied by ``sqrt(K / 2)``. The rule uses public facts only, and nothing
        is spent.

        The rule is rough (``python -m benchmarks forecast``: scores 0.5, 0.75 and 0.9
        on held-out rows, epsilon 0.1 to 4). On the six tables of declared columns from
        which it was made, it was within a factor of 2 of the required epsilon in 67 %
        of cells, within 3 in 88 % and within 5 in 94 %; on seven other tables in 49, 63
        and 75 %. Weak signals need up to 17 times as much: this was so for two of the
        seven tables, on which the model without privacy reduces the loss of the
        constant by less than a tenth. Sparse rows of texts need as much. Strong signals
        in few records need a tenth as much.

        Parameters
        ----------
        score : float in (0, 1)
            Fraction of the gain over the constant model that the same model has without
            privacy. The gain is measured in log-loss or deviance, or in 1 - R2 of a
            regression; it is not an accuracy or an R2.

        Returns
        -------
        float in [1e-6, 1e8] or inf
            Epsilon for this delta, adjacency and number of records. inf if it is above
            1e8, the largest epsilon of any estimator.

        Raises
        ------
        ValueError, TypeError
            If `score` is not a number in (0, 1), or if the solver is not the default of
            linear models with a delta above 0, the only one whose scores were measured.

        Examples
        --------
        >>> from skdp import forecast
        >>> told = forecast(10_000, 14)
        >>> round(told.epsilon_for(0.5), 2), round(told.epsilon_for(0.9), 2)
        (0.1, 1.07)
        """
        check_real(
            "score",
            score,
            low=0.0,
            high=1.0,
            low_open=True,
            high_open=True,
            remedy="Use a fraction, as 0.9, of the gain of a model without privacy.",
        )
        if self.half_at is None:
            raise ValueError(
                "The forecast must be that of a linear model with solver='auto' and a "
                f"delta above 0 to give an epsilon. Got solver={self.solver!r}, delta="
                f"{self.delta:g}. Use DPLogisticRegression or DPLinearRegression with "
                "solver='auto' and a delta such as 1e-6, or compare noise_to_signal."
            )
        # Where the ratio is constant_from itself, the model is the constant.
        ratio = min(self.half_at * (1 / score - 1), 0.999 * self.constant_from)
        mu = gaussian_mu(self.epsilon, self.delta) * self.noise_to_signal / ratio
        epsilon = max(gaussian_epsilon(mu, self.delta), _LEAST_EPSILON)
        return epsilon if epsilon <= _LARGEST_EPSILON else math.inf

    def __str__(self) -> str:
        return (
            f"({self.epsilon:g}, {self.delta:g}) under {self.adjacency}: "
            f"solver={self.solver!r} ({self.why_solver}). Noise in a coefficient: "
            f"{self.noise_to_signal:.2g} times its scale; {self.verdict}. The noise is "
            f"small from {self.records_for_little_noise:,} {self.counted} on."
            + "".join(f" {note}." for note in self.notes)
        )

    def _repr_html_(self) -> str:
        told = {
            "guarantee": f"({self.epsilon:g}, {self.delta:g}), {self.adjacency}",
            "solver": f"{self.solver}: {self.why_solver}",
            "noise in a coefficient": f"{self.noise_to_signal:.2g} times its scale",
            "small noise from": f"{self.records_for_little_noise:,} {self.counted} on",
        }
        if self.notes:
            told["notes"] = "; ".join(self.notes)
        verdict, is_good = self.verdict.capitalize(), not self.noise_dominates
        return card(verdict, told.items(), is_good=is_good)


# -------------------------------------------------- Budget, ledger, warnings and record


# The statement's words for a release of which all weights are 0.
_CONSTANT = "every released weight is 0: the model is a constant"

# The facts that every guarantee for records of a table takes as public.
PUBLIC_OF_TABLES = (
    "number of records",
    "number and names of features",
    "storage type of X: dense or sparse, and its dtype",
)
# The facts that every guarantee for records of declared columns takes as public.
PUBLIC_OF_DECLARED = (
    "number of records",
    "declared columns: names, kinds, ranges and categories",
    "that every cell has the kind that is declared for its column",
)


def of_users(facts: tuple[str, ...]) -> tuple[str, ...]:
    """The public facts of a guarantee for users, from those of one for records."""
    known, *others = facts
    assert known == PUBLIC_OF_TABLES[0]
    return "number of users, but not the number of rows", *others


def public_of_tables(relation: Relation) -> tuple[str, ...]:
    """The facts that a guarantee for records or users of a table takes as public."""
    return of_users(PUBLIC_OF_TABLES) if is_of_users(relation) else PUBLIC_OF_TABLES


def public_of_declared(relation: Relation) -> tuple[str, ...]:
    """The facts that a guarantee for records or users of declared columns assumes."""
    return of_users(PUBLIC_OF_DECLARED) if is_of_users(relation) else PUBLIC_OF_DECLARED


class DeclaredEstimator(StoredEstimator):
    """An object whose `fit` learns nothing from the values of the data."""

    def step_privacy(self) -> StepPrivacy:
        """No cost."""
        return FREE


class PrivateEstimator(StoredEstimator):
    """Budget, ledger and warnings of an object that makes a release in `fit`.

    A subclass has the parameters epsilon, delta, adjacency, random_state and ledger. If
    another parameter holds its adjacency, it overrides `_relation`, `_set_relation` and
    `_has_relation`.
    """

    is_search: ClassVar[bool] = False
    privacy_: PrivacyRecord
    # The privacy unit; models that can protect users have this parameter.
    privacy_unit: str = "record"

    def _relation(self) -> Relation:
        return relation_for(self.adjacency, self.privacy_unit)

    def _set_relation(self, relation: Relation) -> None:
        """Take the adjacency of the search to which this step belongs.

        Raises ValueError if the adjacency is one of users and this object can protect
        records only.
        """
        if is_of_users(relation):
            if "privacy_unit" not in inspect.signature(type(self)).parameters:
                raise ValueError(
                    "Every private step must be able to protect users under "
                    f"privacy_unit='user'. Got {type(self).__name__}, which protects "
                    "records only, also with set_fit_request(groups=True) or "
                    "step__groups. Leave it out."
                )
            self.set_params(privacy_unit="user")
        self.set_params(adjacency=adjacency_of(relation))

    def _has_relation(self, relation: Relation) -> bool:
        """Whether the parameter has its default or the adjacency of the search."""
        default = inspect.signature(type(self)).parameters["adjacency"].default
        return self.adjacency in (default, adjacency_of(relation))

    @property
    def _repr_html_(self) -> Callable[[], str]:
        """scikit-learn's diagram with the privacy statement of a fit below it."""
        diagram: Callable[[], str] = super()._repr_html_
        return lambda: diagram() + self._promise()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        bundle = super()._repr_mimebundle_(include=include, exclude=exclude)
        if "text/html" in bundle:
            bundle["text/html"] += self._promise()
        return bundle

    def _promise(self) -> str:
        record = getattr(self, "privacy_", None)
        return "" if record is None else record._repr_html_()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Undo every change to the estimator if the fit inside fails.

        NumPy neither warns nor raises within a fit: whether an overflow occurs may
        depend on the records, so a warning would leak information about them.
        """
        before = dict(vars(self))
        try:
            with np.errstate(all="ignore"):
                yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _check_privacy_params(self) -> Budget:
        """Check the privacy parameters, which need no data, and return the budget."""
        budget = Budget(self.epsilon, self.delta, self._adds_up())
        relation = self._relation()
        seed = check_random_state(self.random_state)
        if self.ledger is not None:
            if not isinstance(self.ledger, (BudgetLedger, Allowance)):
                raise TypeError(
                    "The 'ledger' parameter must be None or a BudgetLedger. "
                    f"Got an instance of {type(self.ledger).__name__}. Use "
                    "BudgetLedger.open(path) for a ledger that exists."
                )
            unit = UNIT_OF[relation]
            if self.ledger.unit != unit:
                raise ValueError(
                    f"The ledger's unit must be {unit!r} for this estimator. "
                    f"Got {self.ledger.unit!r}. Make one with BudgetLedger(path, "
                    f"..., unit={unit!r}, adjacency={relation!r})."
                )
            is_private = budget.is_finite and seed is None
            self.ledger.check_accepts(adjacency=relation, is_private=is_private)
        return budget

    def _door(self, budget: Budget) -> Door:
        """The door of this fit, which declares, commits and answers its queries."""
        return Door(
            budget,
            adjacency=self._relation(),
            ledger=self.ledger,
            random_state=self.random_state,
        )

    def _warn_of_public_facts(
        self, budget: Budget, n_samples: int, door: Door
    ) -> tuple[str, ...]:
        """Warn before anything is spent, and return warnings for the statement."""
        if not budget.is_finite:
            return ()
        if not door.is_private:
            warn(
                "A random_state makes the noise reproducible, so this fit is not a "
                "private release. Use random_state=None for anything you publish.",
                SeededNoiseWarning,
            )
        if budget.delta < 1 / n_samples:
            return ()
        warn(
            f"The 'delta' parameter should be far below 1 / n_samples. Got "
            f"{budget.delta:g}. Pass delta={_small_delta(n_samples):g} or less.",
            LargeDeltaWarning,
        )
        return (
            "delta is at least 1 / n_samples: a mechanism that publishes a random "
            "record would satisfy it",
        )

    def _is_constant(self) -> bool:
        """Whether all released weights are 0; post-processing of released numbers."""
        return False

    def _warned_of_release(self) -> Self:
        """Warn about what a completed fit released, and return the object.

        It is called when the fit is complete, so that a filter that turns a warning
        into an error does not undo what was paid for.
        """
        if is_rehearsing():
            return self
        found = self._release_warnings()
        stated = tuple(text for _, _, text in found)
        record = self.privacy_
        self.privacy_ = replace(record, warnings=(*record.warnings, *stated))
        for message, category, _ in found:
            warn_once(message, category)
        return self

    def _release_warnings(self) -> list[tuple[str, type[Warning], str]]:
        """Messages with their class and their words in the statement.

        They are post-processing of released numbers.
        """
        if math.isinf(self.epsilon) or not self._is_constant():
            return []
        if any(_HOPELESS in each for each in self.privacy_.warnings):
            return []  # said before the fit
        remedies = ["more records", "a larger epsilon", *self._remedies_of_constant()]
        if getattr(self, "target_bounds", None) is not None:
            remedies.append("target_bounds that hold the targets, and little else")
        message = (
            "The released model is a constant, which predicts the same for every row: "
            "noise hid what the columns say, and every weight is 0. Use "
            f"{', or '.join(remedies)}."
        )
        return [(message, ConstantModelWarning, _CONSTANT)]

    def _remedies_of_constant(self) -> tuple[str, ...]:
        """Further remedies, which follow from the parameters."""
        return ()

    def _signal(self, n_samples: int, rehearsed: Any) -> Signal | None:
        """Noise against signal of a fit to `n_samples` records; None without a model.

        `rehearsed` is this object, fitted in a rehearsal with the same features.
        """
        return None

    def step_privacy(self) -> StepPrivacy:
        """The privacy cost of this object, planned or spent; nothing is fitted."""
        record = getattr(self, "privacy_", None)
        if record is None:
            budget = Budget(self.epsilon, self.delta)
            return StepPrivacy(
                epsilon=budget.epsilon if self.random_state is None else math.inf,
                delta=budget.delta,
                adjacency=self._relation(),
                adds_in_squares=self._adds_in_squares(),
                note="" if self.random_state is None else "random_state: not private",
            )
        return step_of(record)

    def _adds_up(self) -> bool:
        """Whether the cost is added to others, so that Gaussian noise is preferred."""
        # Owners share Gaussian noise only.
        return self.ledger is not None or owners_now() is not None

    def _adds_in_squares(self) -> bool:
        """Whether `fit` will use Gaussian noise only."""
        return bool(self.delta > 0)

    def _use_composable_noise(self) -> None:
        """Choose parameters with which costs of several steps add up in squares."""


class PrivateRelease(PrivateEstimator):
    """Budget, ledger and noise of an object that releases statistics, not a model."""

    def __init__(
        self,
        epsilon: float,
        delta: float,
        adjacency: Any,
        random_state: int | None,
        ledger: Any,
        privacy_unit: str = "record",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.privacy_unit = privacy_unit
        self.random_state = random_state
        self.ledger = ledger
