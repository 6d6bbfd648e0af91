"""Conversion of events and costs to dp-accounting and OpenDP, and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from skdp.privacy.accounting._calibrate import epsilon_of
from skdp.privacy.accounting._events import (
    ComposedEvent,
    EpsilonDeltaEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    PoissonGaussianEvent,
    PureEvent,
)
from skdp.privacy.accounting._relations import Adjacency

if TYPE_CHECKING:
    from dp_accounting import DpEvent, NeighboringRelation


# ------------------------------------------------- Conversion to and from dp-accounting
# A ``DpEvent`` does not name its adjacency, so the adjacency must be passed with it. Of
# dp-accounting's three adjacencies, REPLACE_SPECIAL is zero_out and REPLACE_ONE is
# replace_one.
#
# The noise multiplier has another meaning in dp-accounting. There it is the standard
# deviation over the largest norm of one record's contribution. In skdp it is the
# standard deviation over the sensitivity, which under replace_one is up to twice the
# norm: :math:`|v - v'| \le 2C`. So under replace_one the multiplier of dp-accounting is
# twice that of skdp. For samples both multipliers are equal, because skdp uses that of
# zero_out under both adjacencies.


_RELATIONS = {"REPLACE_SPECIAL": "zero_out", "REPLACE_ONE": "replace_one"}
_RELATION_NAMES = {ours: theirs for theirs, ours in _RELATIONS.items()}
# The sensitivity over the largest norm of a contribution.
_SENSITIVITIES: dict[str, float] = {"zero_out": 1.0, "replace_one": 2.0}
_NOISES: dict[str, type[GaussianEvent] | type[LaplaceEvent]] = {
    "GaussianDpEvent": GaussianEvent,
    "LaplaceDpEvent": LaplaceEvent,
}
_NOISE_NAMES: dict[type[Any], str] = {ours: name for name, ours in _NOISES.items()}


def to_dp_event(event: Event, *, adjacency: str) -> tuple[DpEvent, NeighboringRelation]:
    """Convert an event to a ``DpEvent`` of dp-accounting and its adjacency.

    Parameters
    ----------
    event : Event
        Gaussian and Laplace noise, Poisson samples with Gaussian noise, non-private
        releases, and compositions of these.
    adjacency : {"replace_one", "zero_out"}
        The adjacency for which the event was declared.

    Returns
    -------
    DpEvent, NeighboringRelation
        Use both together: for another adjacency the event would claim too little cost.

    Raises
    ------
    ValueError
        If dp-accounting has no equivalent event or adjacency.

    Examples
    --------
    >>> from skdp.privacy import GaussianEvent, to_dp_event
    >>> to_dp_event(GaussianEvent(3.0), adjacency="zero_out")[0]
    GaussianDpEvent(noise_multiplier=3.0)
    >>> to_dp_event(GaussianEvent(3.0), adjacency="replace_one")[0]
    GaussianDpEvent(noise_multiplier=6.0)
    """
    import dp_accounting

    if adjacency not in _RELATION_NAMES:
        raise ValueError(
            "The 'adjacency' parameter must be one that dp-accounting knows: "
            f"{sorted(_RELATION_NAMES)}. Got {adjacency!r}. Account for it in skdp."
        )
    relation = dp_accounting.NeighboringRelation[_RELATION_NAMES[adjacency]]
    return _theirs(event, cast(Adjacency, adjacency), dp_accounting), relation


def from_dp_event(
    dp_event: DpEvent, *, relation: NeighboringRelation
) -> tuple[Event, Adjacency]:
    """Convert a ``DpEvent`` of dp-accounting to an event and its adjacency.

    Parameters
    ----------
    dp_event : DpEvent
        A ``GaussianDpEvent``, ``LaplaceDpEvent``, ``PoissonSampledDpEvent`` of a
        ``GaussianDpEvent``, ``NoOpDpEvent``, ``NonPrivateDpEvent``, ``ComposedDpEvent``
        or ``SelfComposedDpEvent``.
    relation : NeighboringRelation
        The adjacency for which the mechanisms were declared: REPLACE_SPECIAL, whose
        special record must contribute exactly 0, or REPLACE_ONE. The number of records
        must be public. skdp cannot check the adjacency, since the event does not name
        it.

    Returns
    -------
    Event, {"zero_out", "replace_one"}
        Pass both to `BudgetLedger.commit`, which refuses an adjacency other than the
        ledger's.

    Raises
    ------
    ValueError
        If the adjacency is a different one, or skdp has no equivalent event.

    Examples
    --------
    >>> from dp_accounting import GaussianDpEvent, NeighboringRelation
    >>> from skdp.privacy import from_dp_event
    >>> from_dp_event(GaussianDpEvent(6.0), relation=NeighboringRelation.REPLACE_ONE)
    (GaussianEvent(noise_multiplier=3.0, count=1), 'replace_one')
    """
    adjacency = _adjacency_of(relation)
    return _ours(dp_event, adjacency, 1), adjacency


def _adjacency_of(relation: Any) -> Adjacency:
    import dp_accounting

    if isinstance(relation, dp_accounting.NeighboringRelation):
        if relation.name in _RELATIONS:
            return cast(Adjacency, _RELATIONS[relation.name])
        got = relation.name
    else:
        got = f"an instance of {type(relation).__name__}"
    raise ValueError(
        "The 'relation' parameter must be dp-accounting's "
        "NeighboringRelation.REPLACE_SPECIAL or REPLACE_ONE, in which the number of "
        f"records is public. Got {got}. Declare the mechanism for one of the two "
        "adjacencies, or use another accountant."
    )


def _theirs(event: Event, adjacency: Adjacency, library: Any) -> Any:
    if isinstance(event, ComposedEvent):
        parts = [_theirs(part, adjacency, library) for part in event.parts]
        return library.ComposedDpEvent(parts)
    if isinstance(event, NonPrivateEvent):
        return library.NonPrivateDpEvent()
    if isinstance(event, (GaussianEvent, LaplaceEvent)):
        multiplier = event.noise_multiplier * _SENSITIVITIES[adjacency]
        one = getattr(library, _NOISE_NAMES[type(event)])(multiplier)
        return _repeated(one, event.count, library)
    if isinstance(event, PoissonGaussianEvent):
        if event.adjacency != adjacency:
            raise ValueError(
                f"The parts of an event must be declared for adjacency={adjacency!r}. "
                f"Got samples for {event.adjacency!r}. Pass the adjacency of the fit."
            )
        noise = library.GaussianDpEvent(event.noise_multiplier)
        one = library.PoissonSampledDpEvent(event.sampling_rate, noise)
        return _repeated(one, event.count, library)
    raise ValueError(
        "An event must be Gaussian or Laplace noise, Gaussian noise on Poisson "
        "samples, or composed of these to be converted to dp-accounting. Got "
        f"{type(event).__name__}. Account for it in skdp, or pass on its (epsilon, "
        "delta) by to_opendp."
    )


def _repeated(one: Any, count: int, library: Any) -> Any:
    return one if count == 1 else library.SelfComposedDpEvent(one, count)


def _ours(event: Any, adjacency: Adjacency, count: int) -> Event:
    """The event repeated `count` times; subclasses, which may differ, are refused."""
    import dp_accounting

    name = type(event).__name__
    if type(event) is not getattr(dp_accounting, name, None):
        raise _unknown(name)
    if name == "NoOpDpEvent":
        return ComposedEvent(())
    if name == "NonPrivateDpEvent":
        return NonPrivateEvent()
    if name == "ComposedDpEvent":
        return ComposedEvent(tuple(_ours(x, adjacency, count) for x in event.events))
    if name == "SelfComposedDpEvent":
        return _ours(event.event, adjacency, count * _checked_count(event.count))
    if name in _NOISES:
        multiplier = event.noise_multiplier / _SENSITIVITIES[adjacency]
        return _NOISES[name](multiplier, count)
    if name == "PoissonSampledDpEvent":
        if type(event.event) is not dp_accounting.GaussianDpEvent:
            raise _unknown(f"{name} of {type(event.event).__name__}")
        return PoissonGaussianEvent(
            event.event.noise_multiplier, event.sampling_probability, count, adjacency
        )
    raise _unknown(name)


def _checked_count(count: Any) -> int:
    return GaussianEvent(1.0, count).count


def _unknown(name: str) -> ValueError:
    return ValueError(
        "An event of dp-accounting must be a GaussianDpEvent, a LaplaceDpEvent, a "
        "PoissonSampledDpEvent of a GaussianDpEvent, a NoOpDpEvent, a "
        "NonPrivateDpEvent, or a ComposedDpEvent or SelfComposedDpEvent of these. Got "
        f"{name}. Commit its (epsilon, delta), if known, as an EpsilonDeltaEvent."
    )


# -------------------------------------------------------- Conversion to and from OpenDP
# OpenDP need not be installed: both directions use a plain dictionary with the names of
# OpenDP's metric and measure and with the distances. replace_one is HammingDistance at
# 1: in a table of public size one row is replaced, at the same position.
# ChangeOneDistance ignores the order of the rows. A guarantee under ChangeOneDistance
# also holds under HammingDistance, but not the reverse. SymmetricDistance and
# InsertDeleteDistance add and remove rows, so the number of rows is not public under
# them. None of these metrics has a null record, so zero_out has no metric in OpenDP.


_METRIC = "HammingDistance"
_METRICS_READ = (_METRIC, "ChangeOneDistance")
_PURE, _APPROXIMATE = "MaxDivergence", "Approximate(MaxDivergence)"
_CONCENTRATED = "ZeroConcentratedDivergence"
_FIELDS = {"input_metric", "d_in", "output_measure", "d_out"}
# Factor above the rounding of the sums in rho.
_ROUNDED_UP = 1 + 1e-12


def to_opendp(
    event: Event, *, adjacency: str, delta: float | None = None
) -> dict[str, Any]:
    """Convert the cost of an event to OpenDP's terms.

    Parameters
    ----------
    event : Event
    adjacency : {"replace_one"}
        The adjacency for which the event was declared.
    delta : float in [0, 1) or None, default=None
        Delta at which epsilon is computed: 0 gives a ``MaxDivergence``, a larger delta
        an ``Approximate(MaxDivergence)``. None gives rho of a
        ``ZeroConcentratedDivergence``.

    Returns
    -------
    dict
        It has ``input_metric``, ``d_in``, ``output_measure`` and ``d_out``, which is a
        number, or a list of epsilon and delta. An infinite number is the string
        ``"inf"``.

    Raises
    ------
    ValueError
        If OpenDP has no equivalent adjacency, or the event has no finite rho.

    Examples
    --------
    >>> from skdp.privacy import PureEvent, to_opendp
    >>> told = to_opendp(PureEvent(0.5), adjacency="replace_one", delta=0.0)
    >>> told["input_metric"], told["d_in"], told["output_measure"], told["d_out"]
    ('HammingDistance', 1, 'MaxDivergence', 0.5)
    """
    if adjacency != "replace_one":
        raise ValueError(
            "The 'adjacency' parameter must be 'replace_one', which is OpenDP's "
            f"{_METRIC} at 1. Got {adjacency!r}, for which OpenDP has no metric: its "
            "SymmetricDistance adds and removes rows, but in skdp the number of rows "
            "is public. Fit under replace_one, or account for the event in skdp."
        )
    measure, distance = _distance(event, delta)
    values = (_METRIC, 1, measure, distance)
    names = ("input_metric", "d_in", "output_measure", "d_out")
    return dict(zip(names, values, strict=True))


def from_opendp(told: dict[str, Any]) -> tuple[Event, Adjacency]:
    """Convert the cost of an OpenDP measurement to an event.

    Parameters
    ----------
    told : dict
        In the form that `to_opendp` returns. Its metric may also be
        ``ChangeOneDistance``. Its measure must not be ``ZeroConcentratedDivergence``,
        which has no event in skdp.

    Returns
    -------
    Event, {"replace_one"}
        Pass both to `BudgetLedger.commit`.

    Raises
    ------
    ValueError
        If the metric is not one of the two at distance 1, or the measure is not
        supported.

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
            "Got something else. Pass a dictionary as to_opendp returns it."
        )
    metric, distance = told["input_metric"], told["d_in"]
    if metric not in _METRICS_READ or type(distance) is not int or distance != 1:
        raise ValueError(
            f"The metric must be one of {list(_METRICS_READ)} with d_in=1, which is "
            f"replace_one. Got {metric!r} with d_in={distance!r}. Compute the loss of "
            "the measurement for this metric: under SymmetricDistance the number of "
            "rows is not public."
        )
    return _event_of(told["output_measure"], told["d_out"]), "replace_one"


def _distance(event: Event, delta: float | None) -> tuple[str, Any]:
    if delta is None:
        return _CONCENTRATED, _rho(event)
    epsilon: Any = epsilon_of(event, delta)
    epsilon = "inf" if math.isinf(epsilon) else epsilon
    return (_PURE, epsilon) if delta == 0 else (_APPROXIMATE, [epsilon, delta])


def _rho(event: Event) -> float:
    """rho: half the square of mu, a bound for events dominated by Gaussian noise."""
    rho = event.gdp_mu_squared / 2 * _ROUNDED_UP
    if math.isfinite(rho):
        return rho
    raise ValueError(
        "An event must have a cost that adds up in squares to have a rho. Got "
        f"{type(event).__name__} with samples, a separate delta, secret trials or no "
        "privacy. Pass a delta."
    )


def _event_of(measure: Any, distance: Any) -> Event:
    if measure == _PURE:
        return PureEvent(distance)
    is_pair = isinstance(distance, (list, tuple)) and len(distance) == 2
    if measure == _APPROXIMATE and is_pair:
        return EpsilonDeltaEvent(*distance)
    raise ValueError(
        f"The measure must be {_PURE} with an epsilon, or {_APPROXIMATE} with a pair "
        f"of epsilon and delta. Got {measure!r}. Compute the loss of the measurement "
        "in one of these measures."
    )
