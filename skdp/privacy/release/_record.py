"""`PrivacyRecord`: the privacy statement of a fitted object."""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, dataclass, fields
from importlib.resources import files
from typing import Any, Protocol, Self

import numpy as np

from skdp._configured import check_schema, check_version, warn_of_version
from skdp._show import Shown, aligned, card
from skdp._version import __version__
from skdp.privacy.accounting._codec import event_from_dict, event_to_dict
from skdp.privacy.accounting._events import Event, GaussianEvent
from skdp.privacy.accounting._relations import Relation, check_relation

# -------------------------------------------------------------- The privacy of one step


@dataclass(frozen=True, kw_only=True)
class StepPrivacy:
    """Privacy cost of one step: planned before its fit, spent after it.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee of the step alone. Both are 0 if the step applies a declared rule to
        each row separately; epsilon is inf if the step is not private.
    adjacency : str or None, default=None
        None if the step costs nothing.
    event : Event or None, default=None
        Event of the release. None before the fit, and for a step that costs nothing.
    adds_in_squares : bool, default=False
        Whether a step that is not fitted yet will add Gaussian noise only, and will
        stay within the largest mu that its epsilon and delta allow.
    note : str, default=""
        A remark for the reader.
    release : str, default=""
        Name of the joint release to which this step belongs. Parts of one release, such
        as the steps that a search selected, are paid for once.
    of_users : str, default=""
        The change that this step needs if other steps protect users, because the number
        of rows is then private; empty if it needs none.
    """

    epsilon: float
    delta: float
    adjacency: Relation | None = None
    event: Event | None = None
    adds_in_squares: bool = False
    note: str = ""
    release: str = ""
    of_users: str = ""


class PrivacyStep(Protocol):
    """Cost of an estimator of skdp, without any fit."""

    def step_privacy(self) -> StepPrivacy:
        """The cost of this object, planned or spent."""
        ...


class NormStep(Protocol):
    """A step that bounds the norm of the rows it returns, without reading data."""

    def output_norm(self, input_norm: float | None = None) -> float | None:
        """Largest L2 norm of a returned row; None if unknown.

        `input_norm` is the largest norm of an input row. Before the fit the bound
        follows from the parameters, after it from public facts of the fit; it holds up
        to rounding.
        """
        ...


FREE = StepPrivacy(
    epsilon=0.0, delta=0.0, note="declared rule for each row separately: costs nothing"
)


# ------------------------------------------------------------------------ PrivacyRecord


# Meanings of fields never change; a new meaning gets a new field or a new number.
RECORD_SCHEMA = 1
_WHAT = "A stored record"
# The statement explains why a report or a ledger may show another epsilon for this fit.
_AS_ASKED = "(as requested; the event may cost slightly less, or more at a lower delta)"
_MAY_BE_SHOWN = (
    "What it released, and everything that is computed from this without the data. Not "
    "what is computed from the data again, such as score(), unless it is private too."
)
ADJACENCY_MEANING = {
    "replace_one": "one record is replaced by any other; the number of records is "
    "public",
    "zero_out": "one record is replaced by the null record, which contributes nothing; "
    "the number of records is public",
    "replace_user": "all rows of one user are replaced by any other rows, or by none; "
    "the number of users is public, the number of rows is not",
    "zero_out_user": "all rows of one user are removed, and the user still counts; the "
    "number of users is public, the number of rows is not",
    "rating_value": "the value of one rating is changed; which user rated which item "
    "is public",
    "user": "all ratings of one user are replaced; the number of users and the "
    "catalogue of items are public",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivacyRecord(Shown):
    """Privacy statement of a release: its adjacency, its mechanism and its cost.

    Every field is a public fact or post-processing of a private output. In print it
    begins with three points for everybody: what was released, how much it reveals, and
    what may be shown. The technical record follows.

    Parameters
    ----------
    estimator : str
        Class that made the release.
    is_private : bool
    reason : str
        Why the release is private, or why it is not.
    epsilon, delta : float
        The guarantee; epsilon is inf if the release is not private.
    adjacency : str
        The adjacency: "replace_one", "zero_out", "replace_user",
        "zero_out_user", "rating_value" or "user".
    unit : str
        The privacy unit: "record", "user" or "rating".
    solver : str
        Key of the solver.
    solver_params : dict
        Parameters of the solver, with the values that its rules decided.
    why_solver : str
        Why this solver was used.
    event : Event
        The event that is charged.
    noise_multiplier : float
        Standard deviation of the noise over the sensitivity, the same for every query;
        for a search, of the search as a whole. If the noise is divided over the steps,
        this is the multiplier that one query would have with the whole budget, and
        `event` has the multipliers of the steps. With sampling, the multiplier from
        which the event is computed.
    sensitivity : float or None
        Largest sensitivity of one query, in the query's units and in L2, or in L1 if
        its noise is Laplace. None for a search.
    noise_scale : float or None
        Largest standard deviation of the noise of any query, in the same units. None
        for a search.
    n_samples, n_features : int
        If the release protects users of a table, `n_samples` is the number of users.
    data_norm : float or None
        Norm to which rows were clipped; inf if they were not clipped, None if they were
        clipped by another rule.
    assumed_public : tuple of str
        Facts that the guarantee takes as public.
    warnings : tuple of str
    ledger, dataset : str
        The ledger's file and the label of its data set, or empty strings.
    release : str, default=""
        Name of the joint release to which this one belongs. `epsilon`, `delta` and
        `event` are those of the joint release, which is paid for once.
    feature_bound : float or None, default=None
        Magnitude to which entries were clipped before rows were clipped; inf if they
        were not clipped, None if the model has no bound on entries.
    n_nonzero_coefs : int or None, default=None
        Largest number of features with a nonzero coefficient; None: all of them.
    sensitivity_unit : str, default=""
        Unit of `sensitivity` and `noise_scale`, if it is not the query's unit.
    skdp_version : str
        The version of skdp that made the release.
    risk : str, default=""
        The largest risk of a record, in one sentence; empty if the release is not
        private or an older version of skdp made it. `skdp.audit.membership_risk`
        computes more.
    """

    _width = 16

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
    skdp_version: str = __version__
    risk: str = ""

    def __setstate__(self, state: dict[str, Any]) -> None:
        check_version(_WHAT, state.get("skdp_version"))
        vars(self).update(state)

    def to_dict(self) -> dict[str, Any]:
        """The record with JSON-ready values; an infinite number becomes ``"inf"``.

        The result has every field, and ``"schema"``, the number of the version of their
        meaning. `record_schema` describes the format.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values |= {"event": event_to_dict(self.event), "schema": RECORD_SCHEMA}
        return {name: json_ready(value) for name, value in values.items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Read the result of `to_dict`, also from an older version of skdp.

        Reading a record does not verify what it states.

        Parameters
        ----------
        values : dict
            It is not changed.

        Raises
        ------
        ValueError
            If the record has a newer schema, or `values` are not a record.

        Warns
        -----
        InconsistentVersionWarning
            If another minor version of skdp wrote it.
        """
        return cls(**_read_fields(values))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the result of `to_json`; raises and warns as `from_dict` does."""
        return cls(**_read_fields(json.loads(text)))

    def statement(self) -> str:
        """The guarantee in one sentence that can be quoted."""
        if not self.is_private:
            return f"{self.estimator}: NOT a private release. {self.reason}"
        part = f", as a part of {self.release}" if self.release else ""
        return (
            f"{self.estimator}: ({self.epsilon:g}, {self.delta:g})-differentially "
            f"private under {self.adjacency} "
            f"({ADJACENCY_MEANING[self.adjacency]}), unit: one {self.unit}{part}."
        )

    def _for_readers(self) -> list[tuple[str, str]]:
        """What was released, how much it reveals, and what of it may be shown."""
        what = f"{self.estimator}, computed from {self.n_samples:,} {self.unit}s."
        if not self.is_private:
            return [
                ("What", f"NOT private: {what} {self.reason}"),
                ("How much", "No promise limits what it reveals."),
                ("May be shown", "Nothing to anybody who may not see the data."),
            ]
        part = f", as a part of {self.release}" if self.release else ""
        cost = f"epsilon {self.epsilon:g}, delta {self.delta:g}{part}."
        hidden = f"Noise hides whether {ADJACENCY_MEANING[self.adjacency]}."
        return [
            ("What", f"{what} {hidden}"),
            ("How much", f"{cost} {self.risk}".strip()),
            ("May be shown", _MAY_BE_SHOWN),
        ]

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            ("epsilon, delta", f"{self.epsilon:g}, {self.delta:g} {_AS_ASKED}"),
            ("reason", self.reason),
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

    def __repr__(self) -> str:
        width = self._width + 1
        technical = [("adjacency", f"{self.adjacency}, unit: one {self.unit}")]
        return (
            f"{aligned(self._for_readers(), width)}\n\n"
            f"{aligned([*technical, *self._rows()], width)}"
        )

    def _repr_html_(self) -> str:
        (_, what), *rest = self._for_readers()
        technical = super()._repr_html_()
        return card(what, rest, is_good=self.is_private, below=[technical])

    def _noise(self) -> str:
        text = f"multiplier {self.noise_multiplier:.4g}"
        parts = self.event.leaves
        own = [x.noise_multiplier for x in parts if isinstance(x, GaussianEvent)]
        if 1 < len(parts) == len(own):  # divided over the queries
            text = f"multipliers {min(own):.4g} to {max(own):.4g}"
        if self.noise_scale is None or self.sensitivity is None:
            return f"{text} of the release as a whole" if self.event.leaves else text
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

    sentence = statement


def step_of(record: PrivacyRecord) -> StepPrivacy:
    """The cost in a record, as the cost of one of several steps."""
    note = "" if record.is_private else record.reason
    if record.release:
        note = f"part of {record.release}, which is paid for once"
    return StepPrivacy(
        epsilon=record.epsilon,
        delta=record.delta,
        adjacency=record.adjacency,
        event=record.event,
        note=note,
        release=record.release,
    )


def _read_fields(stored: Any) -> dict[str, Any]:
    """The fields of a stored record; raises and warns as `from_dict` does."""
    if not isinstance(stored, dict):
        raise ValueError(f"{_WHAT} must be an object. Got something else.")
    values: dict[str, Any] = _plain(stored)
    version = check_version(_WHAT, values.get("skdp_version"))
    check_schema(_WHAT, values.pop("schema", None), RECORD_SCHEMA, version)
    known = {field.name for field in fields(PrivacyRecord)}
    needed = {x.name for x in fields(PrivacyRecord) if x.default is MISSING}
    if not needed <= set(values) <= known:
        raise ValueError(
            f"{_WHAT} must have the fields of a PrivacyRecord. Got other fields, "
            f"written by skdp {version}. Read the result of to_dict or to_json with "
            "that release of skdp or a newer one."
        )
    remedy = "Its fields have kept their meaning; new fields have their defaults."
    warn_of_version("a record", version, remedy)
    check_relation(values["adjacency"])
    values["event"] = event_from_dict(values["event"])
    for name in ("assumed_public", "warnings"):
        values[name] = tuple(values[name])
    return values


def _plain(value: Any) -> Any:
    """A value before `json_ready`, except that tuples stay lists."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return float(value) if value in ("inf", "-inf", "nan") else value


def _compact(fields: dict[str, Any]) -> str:
    return ", ".join(
        f"{name}={_short(value)}" for name, value in fields.items() if value is not None
    )


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return f"({_compact(value)})"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _describe(event: dict[str, Any]) -> str:
    """An event in one line; a composed event part by part."""
    leaves = _flat(event)
    if all(leaf["event"] == "gaussian" for leaf in leaves):
        return "gaussian, noise_multiplier " + ", ".join(map(_times, leaves))
    if event["event"] == "composed":
        return "; ".join(map(_describe, leaves))
    if event["event"] == "parallel":
        parts = "; ".join(_describe(part) for part in event["parts"])
        return f"in parallel, on disjoint sets of records: ({parts})"
    if "trial" in event:
        rest = {name: event[name] for name in event if name not in ("event", "trial")}
        return (
            f"the best of a secret number of trials: ({_describe(event['trial'])}), "
            + _compact(rest)
        )
    return _compact(event)


def _flat(event: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of a composed event, none of them composed; or the event alone."""
    if event["event"] != "composed":
        return [event]
    return [part for each in event["parts"] for part in _flat(each)]


def _times(gaussian: dict[str, Any]) -> str:
    """The multiplier of a Gaussian event, and how often it was used."""
    multiplier, count = gaussian["noise_multiplier"], gaussian["count"]
    return f"{multiplier:.4g}" + (f" ({count:,} times)" if count > 1 else "")


def json_ready(value: Any) -> Any:
    """A value of JSON; an infinite number becomes text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, dict):
        return {name: json_ready(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(item) for item in value]
    return value


# ------------------------------------------------------ JSON Schema of a privacy record
# The schema is a file beside this module.


_NAME = "record.schema.json"


def record_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the result of `PrivacyRecord.to_json`.

    Its ``$id`` contains the schema number of the record. A record from an older version
    may lack fields; `PrivacyRecord.from_json` reads it, and writes a complete record.

    Returns
    -------
    dict

    Examples
    --------
    >>> from skdp.privacy import record_schema
    >>> record_schema()["$id"]
    'urn:skdp:privacy-record:1'
    """
    text = files("skdp.privacy").joinpath(_NAME).read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
