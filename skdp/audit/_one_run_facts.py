"""Public facts of an audited estimator: its claim, relation, norm and labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from skdp import _validation as check
from skdp.audit._canary_pairs import Facts


def of_name(estimator: Any, name: str) -> list[Any]:
    """Values of a parameter of the estimator or of any step of it; None left out."""
    given = estimator.get_params()
    return [
        value
        for key, value in given.items()
        if key.rpartition("__")[2] == name and value is not None
    ]


def only(values: list[Any], default: Any) -> Any:
    return values[0] if len(values) == 1 else default


@dataclass(frozen=True)
class Claim:
    """What is claimed of a whole estimator; an `epsilon` of None is not known."""

    epsilon: float | None
    delta: float

    @property
    def is_of_gaussian_noise(self) -> bool:
        """Whether noise of a finite size could keep it."""
        return self.epsilon is not None and self.epsilon < math.inf and self.delta > 0


def claim_of(estimator: Any, epsilon: float | None, delta: float | None) -> Claim:
    """What is given, and else the estimator's only parameters of these names."""
    deltas = of_name(estimator, "delta")
    if delta is None and len(deltas) > 1:
        raise ValueError(
            "The 'delta' parameter must be given for an estimator of several private "
            f"steps, with 'epsilon'. Got {len(deltas)} deltas. Add up what they cost "
            "(privacy_report)."
        )
    if epsilon is None:
        epsilon = only(of_name(estimator, "epsilon"), None)
    if epsilon is not None:
        epsilon = check.check_epsilon(epsilon)
    return Claim(
        epsilon, check.check_delta(only(deltas, 0.0) if delta is None else delta)
    )


def check_auditable(estimator: Any) -> None:
    """Refuse ledgers, and units other than the record."""
    if of_name(estimator, "ledger"):
        raise ValueError(
            "audit_one_run needs an estimator without a ledger. Got one. An audit is a "
            "fit of made-up data and on no books: use set_params(ledger=None)."
        )
    if any(unit != "record" for unit in of_name(estimator, "privacy_unit")):
        raise ValueError(
            "audit_one_run needs privacy_unit='record': its coins turn one record at a "
            "time. Got another unit. Use audit_estimator, with groups=ids."
        )


def relation_of(estimator: Any, adjacency: str | None) -> str:
    """The adjacency that a turned coin is a step of."""
    own = {*of_name(estimator, "adjacency")}
    if adjacency is not None:
        own.add(adjacency)
    if len(own) != 1:
        raise ValueError(
            "The 'adjacency' parameter must be that of the estimator, and be given if "
            f"it has none. Got {sorted(map(str, own))}. Use 'replace_one' for one "
            "record exchanged, or 'zero_out' for one replaced by the null record."
        )
    relation = check.check_choice("adjacency", own.pop(), ("replace_one", "zero_out"))
    if relation == "zero_out" and any(of_name(estimator, "fit_intercept")):
        raise ValueError(
            "Under zero_out a canary's other version is the null record, which can be "
            "written as a row of zeros only where no intercept is fitted. Got "
            "fit_intercept=True. Audit it with fit_intercept=False, or under "
            "replace_one."
        )
    return relation


def facts_of(estimator: Any, y: Any, relation: str) -> Facts:
    """How long canaries may be, and which labels they have."""
    name = "classes" if is_classifier(estimator) else "target_bounds"
    known = only(of_name(estimator, name), None)
    labels = np.unique(np.asarray(y) if known is None else np.asarray(known))
    if len(labels) < 2:
        raise ValueError(
            "Canaries need two labels or targets that differ. Got one in y. Pass a y "
            "that has both, or declare classes or target_bounds."
        )
    norm = check.check_data_norm(only(of_name(estimator, "data_norm"), 1.0))
    low, high = labels[0], labels[-1]
    # Any label will do for a row of zeros; a target is added up by some solvers.
    null = low if is_classifier(estimator) else min(max(low, 0.0), high)
    return Facts(norm, low, high, null, relation == "replace_one")
