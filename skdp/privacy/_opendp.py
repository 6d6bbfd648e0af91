"""Costs in OpenDP's terms, to and from, where the metrics agree.

OpenDP is not needed: what goes either way is a plain dictionary with the names of its
metric and measure and the distances. replace_one is its HammingDistance at 1: one row
of a table of public size is another one, in the same place. ChangeOneDistance forgets
the order of the rows. What is promised under it holds under HammingDistance, and not
the other way round. SymmetricDistance and InsertDeleteDistance add and remove rows:
the number of rows is not public there. None of them has a null record, so zero_out has
no metric there.
"""

from __future__ import annotations

import math
from typing import Any

from skdp.privacy._accounting import epsilon_of
from skdp.privacy._adjacency import Adjacency
from skdp.privacy._events import EpsilonDeltaEvent, Event, PureEvent

_METRIC = "HammingDistance"
_METRICS_READ = (_METRIC, "ChangeOneDistance")
_PURE, _APPROXIMATE = "MaxDivergence", "Approximate(MaxDivergence)"
_CONCENTRATED = "ZeroConcentratedDivergence"
_FIELDS = {"input_metric", "d_in", "output_measure", "d_out"}
# Above the rounding of the sums that rho is made of.
_ROUNDED_UP = 1 + 1e-12


def to_opendp(
    event: Event, *, adjacency: str, delta: float | None = None
) -> dict[str, Any]:
    """What an event costs, in OpenDP's terms.

    Parameters
    ----------
    event : Event
    adjacency : {"replace_one"}
        The relation for which the event was declared.
    delta : float in [0, 1) or None, default=None
        Where its epsilon is taken: 0 gives a ``MaxDivergence``, more an
        ``Approximate(MaxDivergence)``. None: rho of a ``ZeroConcentratedDivergence``.

    Returns
    -------
    dict
        ``input_metric``, ``d_in``, ``output_measure`` and ``d_out``: a number, or the
        list of epsilon and delta. Infinite numbers are the text ``"inf"``.

    Raises
    ------
    ValueError
        If OpenDP has no such relation, or the event no finite rho.

    Examples
    --------
    >>> from skdp.privacy import PureEvent, to_opendp
    >>> told = to_opendp(PureEvent(0.5), adjacency="replace_one", delta=0.0)
    >>> told["input_metric"], told["d_in"], told["output_measure"], told["d_out"]
    ('HammingDistance', 1, 'MaxDivergence', 0.5)
    """
    if adjacency != "replace_one":
        raise ValueError(
            "The 'adjacency' parameter must be 'replace_one', OpenDP's "
            f"{_METRIC} at 1. Got {adjacency!r}, for which OpenDP has no metric: its "
            "SymmetricDistance adds and removes rows, whose number is public here. "
            "Fit under replace_one, or account for it in skdp."
        )
    measure, distance = _distance(event, delta)
    values = (_METRIC, 1, measure, distance)
    names = ("input_metric", "d_in", "output_measure", "d_out")
    return dict(zip(names, values, strict=True))


def from_opendp(told: dict[str, Any]) -> tuple[Event, Adjacency]:
    """The event for what OpenDP says that a measurement costs.

    Parameters
    ----------
    told : dict
        Of the form that `to_opendp` gives. Its metric may be ``ChangeOneDistance`` too;
        its measure not be ``ZeroConcentratedDivergence``, which no event of skdp is.

    Returns
    -------
    Event, {"replace_one"}
        Pass both to `BudgetLedger.commit`.

    Raises
    ------
    ValueError
        If the metric is not one of the two at 1, or the measure is another one.

    Examples
    --------
    >>> from skdp.privacy import from_opendp
    >>> from_opendp({
    ...     "input_metric": "ChangeOneDistance", "d_in": 1,
    ...     "output_measure": "MaxDivergence", "d_out": 0.5,
    ... })
    (PureEvent(epsilon=0.5, count=1), 'replace_one')
    """
    if not isinstance(told, dict) or set(told) != _FIELDS:
        raise ValueError(
            f"A cost in OpenDP's terms must be a dictionary with {sorted(_FIELDS)}. "
            "Got something else. See to_opendp."
        )
    metric, distance = told["input_metric"], told["d_in"]
    if metric not in _METRICS_READ or type(distance) is not int or distance != 1:
        raise ValueError(
            f"The metric must be one of {list(_METRICS_READ)} with d_in=1, which is "
            f"replace_one. Got {metric!r} with d_in={distance!r}. Ask the measurement "
            "for its loss there: under SymmetricDistance the number of rows is not "
            "public."
        )
    return _event_of(told["output_measure"], told["d_out"]), "replace_one"


def _distance(event: Event, delta: float | None) -> tuple[str, Any]:
    if delta is None:
        return _CONCENTRATED, _rho(event)
    epsilon: Any = epsilon_of(event, delta)
    epsilon = "inf" if math.isinf(epsilon) else epsilon
    return (_PURE, epsilon) if delta == 0 else (_APPROXIMATE, [epsilon, delta])


def _rho(event: Event) -> float:
    """Half the square of mu: what is no harder to tell apart than two Gaussians."""
    rho = event.gdp_mu_squared / 2 * _ROUNDED_UP
    if math.isfinite(rho):
        return rho
    raise ValueError(
        "An event must be of noise that adds up in squares to have a rho. Got "
        f"{type(event).__name__} with samples, a delta of its own, secret trials or no "
        "privacy. Name a delta."
    )


def _event_of(measure: Any, distance: Any) -> Event:
    if measure == _PURE:
        return PureEvent(distance)
    is_pair = isinstance(distance, (list, tuple)) and len(distance) == 2
    if measure == _APPROXIMATE and is_pair:
        return EpsilonDeltaEvent(*distance)
    raise ValueError(
        f"The measure must be {_PURE} with an epsilon, or {_APPROXIMATE} with a pair "
        f"of epsilon and delta. Got {measure!r}. Ask the measurement for one of them."
    )
