"""What a fit is given, accepted or refused; nothing is spent and nothing released yet.

Pairs and ratings are looked at once. What parameters leave open is decided by rule,
from public facts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skdp._input import check_targets
from skdp._quiet import warn
from skdp._validation import check_alpha, check_bool, check_count
from skdp.decomposition._factorizer import PrivateFactorizer
from skdp.decomposition._ids import Ids, check_pairs, declared_ids, found_ids
from skdp.decomposition._ratings import Pattern, Ratings
from skdp.decomposition._registry import Chosen, Named
from skdp.decomposition._task import Task
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Unit

if TYPE_CHECKING:
    from skdp.decomposition._matrix_factorization import DPMatrixFactorization

_MOST_COMPONENTS = 4096


@dataclass(frozen=True)
class Terms:
    """What a fit promises, and of which ratings.

    `bounds` are those of the ratings.
    """

    unit: Unit
    budget: Budget
    bounds: tuple[float, float] | None

    @property
    def protects_users(self) -> bool:
        """Whether who rated what is private."""
        return self.unit == "user" and self.budget.is_finite


@dataclass(frozen=True)
class Accepted:
    """Pairs and ratings, as codes of known ids."""

    users: Ids
    items: Ids
    ratings: Ratings


def accepted(model: DPMatrixFactorization, X: Any, y: Any, terms: Terms) -> Accepted:
    """Pairs and ratings, looked at once.

    Raises `ValueError` or `TypeError` if they cannot be factorised, or a public fact is
    not declared.
    """
    user_column, item_column = check_pairs(model, X, reset=True)
    values = check_targets(model, user_column, y)
    users, user_codes = found_ids(user_column, "users")
    if model.item_ids is None:
        _require(terms, "item_ids", "all items of the catalogue")
        items, item_codes = found_ids(item_column, "items")
    else:
        items = declared_ids("item_ids", model.item_ids, "items")
        item_codes = items.codes(item_column)
    if (item_codes < 0).any():
        raise ValueError(
            "The items in X must be among 'item_ids'. Got others. Declare the "
            "whole catalogue, or leave such ratings out."
        )
    n_users = _checked_n_users(model, len(users), terms)
    if min(n_users, len(items)) < 2:
        raise ValueError(
            "A factorisation needs at least two users and two items. Got one of "
            "them. Use the mean of its ratings."
        )
    pattern = Pattern(user_codes, item_codes, n_users, len(items))
    check_once(pattern)
    if terms.bounds is not None:
        values = _clipped(values, terms.bounds, tell=not terms.budget.is_finite)
    if not terms.budget.is_finite and np.asarray(y).dtype != np.float64:
        values = values.astype(np.float32)
    return Accepted(users, items, Ratings(pattern, values))


def _require(terms: Terms, name: str, what: str) -> None:
    if terms.protects_users:
        raise ValueError(
            f"The {name!r} parameter must be declared with privacy_unit='user': "
            f"{what}, known without looking at the data. Got None."
        )


def _checked_n_users(model: DPMatrixFactorization, found: int, terms: Terms) -> int:
    if model.n_users is None:
        _require(terms, "n_users", "how many users there are")
        return found
    n_users = check_count("n_users", model.n_users)
    if found > n_users:
        raise ValueError(
            "The 'n_users' parameter must be the number of all users. Got ratings "
            "of more users than that. Declare all of them."
        )
    return n_users


def check_once(pattern: Pattern) -> None:
    """Raise if a pair is there twice."""
    places = pattern.users.astype(np.int64) * pattern.n_items + pattern.items
    places.sort()
    if (places[1:] == places[:-1]).any():
        raise ValueError(
            "Each pair of a user and an item must be in X once. Got one twice. Keep "
            "one rating of each pair, or their mean."
        )


def _clipped(
    values: np.ndarray, bounds: tuple[float, float], *, tell: bool
) -> np.ndarray:
    """Ratings within bounds; how many were not is said if nothing is private."""
    clipped = np.asarray(np.clip(values, *bounds))
    outside = int(np.count_nonzero(clipped != values)) if tell else 0
    if outside:
        warn(
            f"{outside} ratings were outside of rating_bounds={bounds} and have been "
            "clipped."
        )
    return clipped


def open_task(model: DPMatrixFactorization, ratings: Ratings, terms: Terms) -> Task:
    """What is to be minimised, without what solvers have rules for."""
    pattern = ratings.pattern
    return Task(
        n_users=pattern.n_users,
        n_items=pattern.n_items,
        n_components=0,
        alpha=0.0,
        biases=check_bool("biases", model.biases),
        unit=terms.unit if terms.budget.is_finite else None,
        rating_bounds=terms.bounds,
        max_ratings=checked_max_ratings(model, terms.protects_users),
        pattern=None if terms.protects_users else pattern,
    )


def checked_max_ratings(
    model: DPMatrixFactorization, protects_users: bool
) -> int | None:
    """`max_ratings`, which is for users that are protected only."""
    if model.max_ratings is None:
        return None
    if not protects_users:
        raise ValueError(
            "The 'max_ratings' parameter must be None unless privacy_unit='user' "
            f"and epsilon is finite. Got {model.max_ratings!r}. All ratings are "
            "used."
        )
    return check_count("max_ratings", model.max_ratings)


def planned(
    model: DPMatrixFactorization, named: Named, task: Task, budget: Budget
) -> tuple[Chosen, Task]:
    """All that was not given decided by the rules of the solver.

    Raises `ValueError` or `TypeError` if a parameter is wrong, or the solver refuses
    the job.
    """
    kind, given = named.kind, named.given
    k, alpha = model.n_components, model.alpha
    if k is not None:
        k = check_count("n_components", k, low=0, high=_MOST_COMPONENTS)
    if issubclass(kind, PrivateFactorizer):
        if alpha is not None:
            raise ValueError(
                "The 'alpha' parameter must be None in a private fit, which weighs "
                f"what it releases by its known noise. Got {alpha!r}."
            )
        if k is None:
            k = kind.default_components(given, task, budget)
        task = replace(task, n_components=k)
        return Chosen(kind.planned(given, task, budget), named.reason), task
    task = replace(task, n_components=kind.components if k is None else k)
    if alpha is None:
        alpha = kind.default_alpha(task)
    elif not kind.uses_alpha:
        raise ValueError(
            f"The 'alpha' parameter must be None with solver={kind.key!r}, which "
            f"learns its penalties. Got {alpha!r}. Use solver='sgd' or 'als'."
        )
    task = replace(task, alpha=check_alpha(alpha))
    return Chosen(kind.planned(given, task), named.reason), task
