"""What meta-estimators of scikit-learn do with the data besides fitting steps."""

from __future__ import annotations

from typing import Any

_ANY = "may fit its private steps more than once, and read the data itself"
_CHOICE = "what it chooses follows from scores of raw records"
_STACK = "its final estimator is fitted on predictions for raw records"
_VOTE = "it takes the labels from y"

# By name: importing these classes only to say what they do would take long.
_BESIDES: dict[str, str] = {
    "CalibratedClassifierCV": "its calibrators are fitted on raw labels, without noise",
    "GridSearchCV": _CHOICE,
    "RandomizedSearchCV": _CHOICE,
    "StackingClassifier": _STACK,
    "StackingRegressor": _STACK,
    "TunedThresholdClassifierCV": _CHOICE,
    "VotingClassifier": _VOTE,
    "OneVsRestClassifier": _VOTE,
    "OneVsOneClassifier": _VOTE,
    "TransformedTargetRegressor": "its transformer may learn from y, and check_inverse "
    "looks at y; transform y by a declared rule before fit",
}


def what_it_does(meta: Any) -> str:
    """Why a meta-estimator is on no books, as far as it is known."""
    known = type(meta).__module__.startswith("sklearn.")
    besides = _BESIDES.get(type(meta).__name__, "") if known else ""
    return f"{_ANY}: {besides}" if besides else _ANY
