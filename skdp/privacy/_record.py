"""`PrivacyRecord`: the privacy statement that a fitted object carries."""

from __future__ import annotations

import html
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.privacy._adjacency import Relation
from skdp.privacy._codec import event_to_dict
from skdp.privacy._events import Event, GaussianEvent

_ADJACENCY_MEANING = {
    "replace_one": "one record exchanged for any other; the number of records public",
    "zero_out": "one record exchanged for the null record, which contributes nothing; "
    "the number of records public",
    "rating_value": "the value of one rating changed; who rated what is public",
    "user": "all ratings of one user replaced; the number of users and the catalogue "
    "public",
}


@dataclass(frozen=True, kw_only=True)
class PrivacyRecord:
    """What was released, under which relation, by which mechanism, at what cost.

    Every field is a public fact or post-processing of a private output.

    Parameters
    ----------
    estimator : str
        Class that made the release.
    is_private : bool
    reason : str
        Why the release is private, or why it is not.
    epsilon, delta : float
        The guarantee; epsilon is inf if the release is not private.
    adjacency : {"replace_one", "zero_out", "rating_value", "user"}
        The relation of neighbours.
    unit : str
        What one record stands for.
    solver : str
        Key of the solver.
    solver_params : dict
        Its resolved configuration.
    why_solver : str
        Why this solver was used.
    event : Event
        What accounting charges.
    noise_multiplier : float
        sigma / sensitivity of every query; of a search, as a whole. Where noise is
        divided over the steps, that of one query for the whole budget: the event has
        those of the steps. With samples, what the event is made from.
    sensitivity : float or None
        Largest L2 sensitivity of one query, in its units. None for a search.
    noise_scale : float or None
        Largest sigma that any query received, in the same units. None for a search.
    n_samples, n_features : int
    data_norm : float or None
        Rows were clipped to this norm (inf: not clipped; None: by their own rule).
    assumed_public : tuple of str
        Facts that the guarantee takes as public.
    warnings : tuple of str
    ledger, dataset : str
        The ledger's file and data set label, or empty strings.
    release : str, default=""
        Name of the joint release that this one is a part of. Its epsilon, delta and
        event stand here; they are paid once.
    feature_bound : float or None, default=None
        Entries were clipped to this magnitude before rows were (inf: not clipped;
        None: by no rule of their own).
    n_nonzero_coefs : int or None, default=None
        Most features with a nonzero coefficient; None: all of them.
    sensitivity_unit : str, default=""
        Unit of `sensitivity` and `noise_scale`, if it is not that of the query.
    """

    estimator: str
    is_private: bool
    reason: str
    epsilon: float
    delta: float
    adjacency: Relation
    unit: str
    solver: str
    solver_params: dict[str, Any]
    why_solver: str
    event: Event
    noise_multiplier: float
    sensitivity: float | None
    noise_scale: float | None
    n_samples: int
    n_features: int
    data_norm: float | None
    assumed_public: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    ledger: str = ""
    dataset: str = ""
    release: str = ""
    feature_bound: float | None = None
    n_nonzero_coefs: int | None = None
    sensitivity_unit: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The record with JSON-ready values; an infinite number becomes ``"inf"``."""
        values = dict(vars(self)) | {"event": event_to_dict(self.event)}
        return {name: _json_ready(value) for name, value in values.items()}

    def to_json(self) -> str:
        """The record as JSON text with sorted keys."""
        return json.dumps(self.to_dict(), sort_keys=True, indent=2, allow_nan=False)

    def statement(self) -> str:
        """The guarantee in one sentence, to be quoted."""
        if not self.is_private:
            return f"{self.estimator}: NOT a private release. {self.reason}"
        part = f", as a part of {self.release}" if self.release else ""
        return (
            f"{self.estimator}: ({self.epsilon:g}, {self.delta:g})-differentially "
            f"private under {self.adjacency} "
            f"({_ADJACENCY_MEANING[self.adjacency]}), unit: one {self.unit}{part}."
        )

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            ("epsilon, delta", f"{self.epsilon:g}, {self.delta:g}"),
            ("adjacency", f"{self.adjacency}: {_ADJACENCY_MEANING[self.adjacency]}"),
            ("unit", self.unit),
            ("why", self.reason),
            ("solver", f"{self.solver} {_compact(self.solver_params)}"),
            ("why this solver", self.why_solver),
            ("event", _describe(event_to_dict(self.event))),
            ("noise", self._noise()),
            ("assumed public", "; ".join(self.assumed_public)),
        ]
        if self.n_nonzero_coefs is not None:
            rows.insert(-1, ("features", self._features()))
        if self.warnings:
            rows.append(("warnings", "; ".join(self.warnings)))
        if self.ledger:
            rows.append(("ledger", f"{self.ledger} {self.dataset}".strip()))
        return rows

    def _noise(self) -> str:
        text = f"multiplier {self.noise_multiplier:.4g}"
        parts = self.event.leaves
        own = [x.noise_multiplier for x in parts if isinstance(x, GaussianEvent)]
        if 1 < len(parts) == len(own):  # divided over the queries
            text = f"multipliers {min(own):.4g} to {max(own):.4g}"
        if self.noise_scale is None or self.sensitivity is None:
            return text
        unit = f"; unit: {self.sensitivity_unit}" if self.sensitivity_unit else ""
        return (
            f"{text}, sigma at most {self.noise_scale:.4g} for a sensitivity of "
            f"{self.sensitivity:.4g}{unit}"
        )

    def _features(self) -> str:
        text = f"at most {self.n_nonzero_coefs:,} of {self.n_features:,} are nonzero"
        if self.feature_bound is None or not math.isfinite(self.feature_bound):
            return text
        return f"{text}; entries clipped to {self.feature_bound:.4g}"

    def __repr__(self) -> str:
        lines = [f"  {name:<16} {value}" for name, value in self._rows()]
        return "\n".join([self.statement(), *lines])

    def _repr_html_(self) -> str:
        color = "#1a7f37" if self.is_private else "#b42318"
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self._rows()
        )
        return (
            f"<div><p style='border-left:4px solid {color};padding-left:8px'>"
            f"<b>{html.escape(self.statement())}</b></p><table>{rows}</table></div>"
        )


def _compact(fields: dict[str, Any]) -> str:
    return ", ".join(
        f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in fields.items()
    )


def _describe(event: dict[str, Any]) -> str:
    """An event in one line; of a composed one, part by part."""
    if event["event"] == "composed":
        return "; ".join(_describe(part) for part in event["parts"])
    return _compact(event)


def _json_ready(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, dict):
        return {name: _json_ready(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_ready(item) for item in value]
    return value
