"""What boosted models share in a fit: table, solver, privacy record, forecast."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

from sklearn.utils import get_tags

from skdp._base import PUBLIC_OF_DECLARED, of_users
from skdp._forecast import Forecast, Signal, relaxed, warn_of_noise
from skdp._users import UsersToFit, users_to_fit
from skdp._validation import check_choice, check_count, check_real
from skdp.columns import as_declared
from skdp.data._source import Source
from skdp.ensemble._additive import constrained
from skdp.ensemble._bins import Bins, bins_of
from skdp.ensemble._boost import Outcome, boost
from skdp.ensemble._constraints import directions_of, groups_of
from skdp.ensemble._fitted import FittedTrees
from skdp.ensemble._newton_boosting import NewtonBoosting
from skdp.ensemble._registry import NamedBooster, named_booster
from skdp.ensemble._signal import signal_of
from skdp.ensemble._table import TableReader, read_to_fit, reader_of
from skdp.ensemble._task import BoostingTask, Init
from skdp.ensemble._trees import MIX
from skdp.preprocessing._table_columns import declared_of
from skdp.privacy._accounting import Budget, calibrate
from skdp.privacy._adjacency import is_of_users, relation_for
from skdp.privacy._record import PrivacyRecord
from skdp.queries._loss_facts import PLAIN, LeafLoss, LossFacts
from skdp.solvers._progress import Progress

_INTERACTIONS: dict[Any, Sequence[int | None]] = {
    "mix": MIX,
    1: (1,),
    2: (1, 2),
    None: (None,),
}
# After a linear model, which has the curves already.
_INTERACTIONS_AFTER = {**_INTERACTIONS, "mix": MIX[1:], 2: (2,)}
_SEED = "the seed that trees were drawn from"


class GradientBoosting(FittedTrees):
    """Trees from declared columns and public randomness, leaves from noisy sums.

    A subclass's ``fit`` validates its input, states the loss, calls `_boost`, and keeps
    the model.
    """

    # Parameters that the solver has too; None is its rule.
    _own: ClassVar[tuple[str, ...]] = ("n_estimators", "learning_rate", "max_depth")

    columns: Any
    solver: str
    init: str

    @abstractmethod
    def _loss(self) -> tuple[LeafLoss, int]:
        """The loss and its number of outputs, as far as they are declared."""

    @abstractmethod
    def _loss_facts(self) -> LossFacts:
        """What else the loss knows, as far as it is declared."""

    def _named(self) -> NamedBooster:
        own = {name: getattr(self, name) for name in self._own}
        return named_booster(self.solver, self.solver_params, own)

    def _interactions(self) -> Sequence[int | None]:
        given = self.max_interaction
        is_key = given is None or isinstance(given, (str, Integral))
        if not is_key or isinstance(given, bool) or given not in _INTERACTIONS:
            raise ValueError(
                "The 'max_interaction' parameter must be 'mix', 1, 2 or None. Got "
                f"{given!r}. Use 1 or 2 for a model whose shapes can be looked at, "
                "None for trees of all columns, 'mix' for all three in turn."
            )
        is_after = self._init() == "linear"
        return (_INTERACTIONS_AFTER if is_after else _INTERACTIONS)[given]

    def _init(self) -> Init:
        """Where trees start; without noise the share of a linear model falls to 0."""
        check_choice("init", self.init, ["constant", "linear"])
        is_linear = self.init == "linear" and self._has_linear_loss
        return "linear" if is_linear and math.isfinite(self.epsilon) else "constant"

    @property
    def _has_linear_loss(self) -> bool:
        """Whether there is a linear model of the loss that trees can continue."""
        return True

    def _task(
        self,
        loss: LeafLoss,
        n_outputs: int,
        n_samples: int,
        bins: Bins,
        facts: LossFacts = PLAIN,
    ) -> BoostingTask:
        """The public facts of a fit."""
        return BoostingTask(
            loss=loss,
            n_samples=n_samples,
            columns=bins,
            adjacency=relation_for(self.adjacency, self.privacy_unit),
            n_outputs=n_outputs,
            interactions=self._interactions(),
            init=self._init(),
            facts=facts,
        )

    def _constraints(self, loss: LeafLoss) -> tuple[dict[int, int], Any]:
        """Directions of columns of codes, and groups that may share a tree."""
        declared = self.encoder_._names
        names = getattr(self, "feature_names_in_", None)
        names = declared if names is None else tuple(map(str, names))
        args = self.bins_, declared, names
        directions = directions_of(self.monotonic_cst, *args)
        if directions and loss == "softmax":
            raise ValueError(
                "The 'monotonic_cst' parameter must be None with more than two "
                "classes: a rise of one is a fall of others. Got directions. Leave it "
                "out."
            )
        return directions, groups_of(self.interaction_cst, *args, directions)

    def _boost(
        self,
        source: Source,
        loss: LeafLoss,
        n_outputs: int,
        budget: Budget,
        assumed_public: tuple[str, ...],
        loss_facts: LossFacts = PLAIN,
    ) -> None:
        """Plan, commit, ask: everything about privacy in one place."""
        named, n_samples = self._named(), source.n_samples
        directions, groups = self._constraints(loss)
        task = self._task(loss, n_outputs, n_samples, self.bins_, loss_facts)
        task = replace(task, groups=groups)
        solver = named.kind.planned(named.given, task, budget)
        name, door = type(self).__name__, self._door(budget)
        notes = self._warn_of_public_facts(budget, n_samples, door)
        notes += self._warn_of_noise(solver, task, budget)
        outcome = boost(
            solver,
            source,
            task,
            door,
            is_private=budget.is_finite,
            label=f"{name}(solver={solver.key!r})",
            progress=Progress(name, bool(self.verbose)),
        )
        self.tree_seed_ = outcome.seed
        self.__dict__.pop("shrinkage_", None)
        if outcome.boosted.shrinkage is not None:
            self.shrinkage_ = outcome.boosted.shrinkage
        self._model = constrained(self.bins_, outcome.boosted, directions)
        is_user = is_of_users(task.adjacency)
        table = of_users(PUBLIC_OF_DECLARED) if is_user else PUBLIC_OF_DECLARED
        facts = (*table, _SEED, *assumed_public)
        self.privacy_ = self._record(
            outcome, solver, task, budget, named.reason, facts, notes
        )

    def _record(
        self,
        outcome: Outcome,
        solver: NewtonBoosting,
        task: BoostingTask,
        budget: Budget,
        reason: str,
        assumed_public: tuple[str, ...],
        notes: tuple[str, ...],
    ) -> PrivacyRecord:
        return self._record_of(
            outcome.answers,
            budget,
            mechanism=solver.mechanism,
            solver=solver.key,
            solver_params=solver.params,
            why_solver=reason,
            sensitivity=solver.sensitivity(task),
            noise_scale=outcome.answers.noise_scale,
            n_samples=task.n_samples,
            n_features=len(self.encoder_._names),
            data_norm=None,
            assumed_public=assumed_public,
            warnings=notes,
        )

    # ------------------------------------------------------------ before there are data

    def _planned(
        self, n_samples: int, bins: Bins, budget: Budget
    ) -> tuple[NewtonBoosting, BoostingTask, str]:
        named = self._named()
        known, facts = check_count("n_samples", n_samples), self._loss_facts()
        task = self._task(*self._loss(), known, bins, facts)
        solver = named.kind.planned(named.given, task, budget)
        return solver, task, named.reason

    def forecast(self, n_samples: int, n_features: int = 1) -> Forecast:
        """Solver, and noise against signal, of a fit to a table of this shape.

        Nothing is read and nothing spent. A classifier without `classes` is taken to
        have two. A rule of thumb (``docs/boosting.md``), by which `fit` warns.

        Parameters
        ----------
        n_samples : int
            Of records, or of users.
        n_features : int, default=1
            Number of columns, where one Range is declared for all.

        Returns
        -------
        Forecast

        Raises
        ------
        ValueError, TypeError
            For a parameter out of range, if epsilon is inf, or if the solver refuses
            the job.
        """
        budget = self._check_privacy_params()
        check_real("epsilon", budget.epsilon, low=1e-6, high=1e8)
        bins = self._planned_bins(check_count("n_features", n_features))
        solver, task, reason = self._planned(n_samples, bins, budget)
        event = partial(solver.plan(task).event, relation=task.adjacency)
        return Forecast(
            epsilon=budget.epsilon,
            delta=budget.delta,
            adjacency=task.adjacency,
            solver=solver.key,
            why_solver=reason,
            solver_params=solver.params,
            noise_multiplier=calibrate(event, budget),
            **vars(signal_of(solver, task, budget)),
        )

    def _planned_bins(self, n_features: int) -> Bins:
        declared = as_declared(reader_of(self.columns).columns)
        names = tuple(declared) if isinstance(declared, dict) else ()
        if isinstance(declared, tuple):
            n_features = len(declared)
        names = names or tuple(f"x{i}" for i in range(n_features))
        return bins_of(names, declared_of(names, declared))

    def _signal(self, n_samples: int, rehearsed: Any) -> Signal:
        budget = Budget(self.epsilon, self.delta)
        solver, task, _ = self._planned(n_samples, rehearsed.bins_, budget)
        return signal_of(solver, task, budget)

    def _warn_of_noise(
        self, solver: NewtonBoosting, task: BoostingTask, budget: Budget
    ) -> tuple[str, ...]:
        """Warn before anything is spent; what stays on the record is returned."""
        if not budget.is_finite:
            return ()
        remedies = ("a larger epsilon", *relaxed(budget))
        return warn_of_noise(signal_of(solver, task, budget), remedies)

    def _read_to_fit(
        self, X: Any, groups: Any
    ) -> tuple[Budget, UsersToFit | None, Any]:
        """Checked parameters, users and codes; nothing is spent."""
        budget = self._check_privacy_params()
        self._named()
        self._interactions()
        users = users_to_fit(self, X, groups, budget)
        return budget, users, read_to_fit(self, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(TableReader()).input_tags
        return tags
