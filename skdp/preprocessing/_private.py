"""What private transformers share: one commit, then noisy answers to fixed queries."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from sklearn.base import TransformerMixin

from skdp._base import PrivateEstimator, public_of_tables
from skdp._floats import FloatArray
from skdp._users import Users, users_to_fit
from skdp.data._source import Source
from skdp.io._rows import unlabelled
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._laws import LAWS, NoiseLaw
from skdp.privacy._plan import Line, Plan
from skdp.privacy._query import Query


class PrivateTransformer(TransformerMixin, PrivateEstimator):
    """A transformer whose `fit` releases noisy answers."""

    _allows_missing: ClassVar[bool] = False

    def _commit(
        self,
        query: Query,
        source: Source,
        budget: Budget,
        *,
        key: str,
        params: dict[str, Any],
        times: int = 1,
        data_norm: float = math.inf,
    ) -> Answers:
        """Plan, calibrate and commit; sets ``privacy_``. Reads nothing.

        `query` is the first of `times` like it; later ones may depend on answers.
        `source` is private. `key` names the mechanism in ``privacy_`` and `params` is
        its public configuration; rows are clipped to `data_norm` before they are
        queried.
        """
        plan = _plan(budget, math.prod(query.shape), times)
        door = self._door(budget)
        notes = self._warn_of_public_facts(budget, source.n_samples, door)
        label = f"{type(self).__name__}({key})"
        answers = door.commit(plan, source, label=label)
        law, has_noise = _law(budget).name, plan is not None
        self.privacy_ = self._record_of(
            answers,
            budget,
            mechanism=f"{law} noise, calibrated exactly",
            solver=key if has_noise else "exact",
            solver_params={"law": law} | params if has_noise else {},
            why_solver=(
                "the mechanism of this step"
                if has_noise
                else "epsilon=inf: the statistics themselves"
            ),
            sensitivity=query.bound().under(answers.relation)
            if has_noise
            else math.inf,
            noise_scale=answers.expected(query).deviation,
            n_samples=source.n_samples,
            n_features=source.n_features,
            data_norm=data_norm if has_noise else math.inf,
            assumed_public=public_of_tables(answers.relation),
            warnings=notes,
        )
        return answers

    def _source(self, given: Any, X: Any, groups: Any, budget: Budget) -> Source:
        """Checked rows as a source of records, or of users; refuses wrong ids."""
        users = users_to_fit(self, given, groups, budget)
        if isinstance(users, Users):
            return users.source(X, np.zeros(len(X)))
        return unlabelled(given, X, budget, allows_missing=self._allows_missing)

    @staticmethod
    def _shares(source: Source) -> FloatArray | None:
        """With which rows of users count, without noise; None: all alike."""
        return getattr(source, "shares", None)

    def _is_finite(self) -> bool:
        """Whether `fit` will clip and add noise."""
        return Budget(self.epsilon, self.delta).is_finite

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _plan(budget: Budget, size: int, times: int) -> Plan | None:
    """So many answers of a size; None without noise."""
    if not budget.is_finite:
        return None
    law = _law(budget)
    if not law.is_possible(times / budget.epsilon, size):
        raise ValueError(
            "The 'epsilon' parameter is too small for delta=0 with so many features. "
            f"Got {budget.epsilon:g}. Use a larger epsilon, or a delta above 0."
        )
    return Plan((Line(times, law=law),))


def _law(budget: Budget) -> NoiseLaw:
    return LAWS["gaussian" if budget.delta > 0 else "spherical"]
