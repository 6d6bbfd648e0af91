"""One seeded outcome: what an object released, and what its record says, as digests."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

# Released by linear models, transformers and factorisers; those that are there count.
RELEASED = (
    "coef_",
    "intercept_",
    "coefs_",
    "intercepts_",
    "init_seed_",
    "classes_",
    "n_nonzero_coefs_",
    "mean_",
    "var_",
    "scale_",
    "low_",
    "high_",
    "statistics_",
    "components_",
    "explained_variance_",
    "data_norm_",
    "item_factors_",
    "item_biases_",
    "item_ids_",
    "user_factors_",
    "user_biases_",
    "user_ids_",
    "n_iter_",
)
# Of a record: everything but texts, so that a message may be reworded.
FACTS = (
    "epsilon",
    "delta",
    "adjacency",
    "unit",
    "is_private",
    "solver",
    "solver_params",
    "event",
    "noise_multiplier",
    "sensitivity",
    "noise_scale",
    "n_samples",
    "n_features",
    "data_norm",
    "feature_bound",
    "n_nonzero_coefs",
    "release",
)


@dataclass(frozen=True)
class Released:
    """What a fit or a score gave.

    Parameters
    ----------
    values : arrays, numbers and texts, nested in mappings and sequences
    facts : the same
        What the privacy record says in numbers.
    """

    values: Any
    facts: Any


@dataclass(frozen=True)
class Outcome:
    """A key and what it stands for."""

    key: str
    make: Callable[[], Released]


def digest(value: Any) -> str:
    """SHA-256 of the exact bytes, with kind, dtype and shape, of all that is inside."""
    total = hashlib.sha256()
    _add(total, value)
    return total.hexdigest()


def _add(total: Any, value: Any) -> None:
    if isinstance(value, Mapping):
        total.update(b"{%d" % len(value))
        for name in sorted(value):
            total.update(repr(name).encode())
            _add(total, value[name])
    elif isinstance(value, (list, tuple)):
        total.update(b"[%d" % len(value))
        for item in value:
            _add(total, item)
    elif issparse(value):
        _add(total, [value.shape, value.data, value.indices, value.indptr])
    elif isinstance(value, (np.ndarray, np.generic, float, int)):
        _add_array(total, np.asarray(value))
    else:
        assert value is None or isinstance(value, str), f"no bytes of {type(value)}"
        total.update(repr(value).encode())


def _add_array(total: Any, array: np.ndarray) -> None:
    if array.dtype == object:  # ids
        _add(total, [str(item) for item in array.ravel()])
        return
    total.update(f"{array.dtype.str}{array.shape}".encode())
    total.update(np.ascontiguousarray(array).tobytes())


def values_of(estimator: Any) -> Any:
    """The fitted attributes of an estimator, or of each step of a pipeline."""
    if isinstance(estimator, Pipeline):
        return [values_of(step) for _, step in estimator.steps]
    found = {name: getattr(estimator, name, None) for name in RELEASED}
    return {name: value for name, value in found.items() if value is not None}


def facts_of(record: Any) -> str:
    """The numbers of a privacy record as JSON."""
    known = record.to_dict()
    facts = {name: known.get(name) for name in FACTS}
    return json.dumps(facts, sort_keys=True, allow_nan=False)


def of_fitted(estimator: Any, **more: Any) -> Released:
    """Released by a fitted estimator, with outputs made from it."""
    record = getattr(estimator, "privacy_", None)
    facts = None if record is None else facts_of(record)
    return Released({"fitted": values_of(estimator), **more}, facts)


def digests(outcome: Outcome) -> dict[str, str]:
    """Digests of values and facts, or the class of the error instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            released = outcome.make()
        except Exception as error:
            return {"refused": type(error).__name__}
    return {"values": digest(released.values), "record": digest(released.facts)}


def matching(found: Mapping[str, Any], pattern: str) -> dict[str, Any]:
    """The outcomes with these keys."""
    return {key: value for key, value in found.items() if fnmatchcase(key, pattern)}


def run(
    outcomes: Iterable[Outcome],
    pattern: str = "*",
    say: Callable[[str], None] | None = None,
) -> dict[str, dict[str, str]]:
    """Digests of all outcomes whose keys match, by key."""
    found: dict[str, dict[str, str]] = {}
    # The order of additions, and with it the last bit, follows the number of threads.
    with threadpool_limits(1):
        for outcome in outcomes:
            if not fnmatchcase(outcome.key, pattern):
                continue
            assert outcome.key not in found, f"two outcomes are called {outcome.key}"
            found[outcome.key] = digests(outcome)
            if say is not None:
                say(f"{outcome.key} {found[outcome.key]}")
    return found


@dataclass(frozen=True)
class Difference:
    """Keys of outcomes that are not as they were."""

    changed: dict[str, list[str]]
    missing: list[str]
    new: list[str]

    @property
    def is_failure(self) -> bool:
        """Whether an outcome that was there is another, or is gone."""
        return bool(self.changed or self.missing)

    def summary(self) -> str:
        """How many there are of each."""
        counts = len(self.changed), len(self.missing), len(self.new)
        return "{} differ, {} missing, {} new".format(*counts)

    def lines(self) -> list[str]:
        """One line for each key."""
        changed = [f"differs: {k} ({', '.join(p)})" for k, p in self.changed.items()]
        missing = [f"missing: {key}" for key in self.missing]
        return changed + missing + [f"new: {key}" for key in self.new]


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Difference:
    """What differs between two runs, and in which part."""
    both = sorted(set(before) & set(after))
    parts = {
        key: [
            part
            for part in sorted({*before[key], *after[key]})
            if before[key].get(part) != after[key].get(part)
        ]
        for key in both
    }
    return Difference(
        {key: which for key, which in parts.items() if which},
        sorted(set(before) - set(after)),
        sorted(set(after) - set(before)),
    )
