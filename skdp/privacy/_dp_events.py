r"""Events of dp-accounting, to and from, where the relations agree.

A ``DpEvent`` names no relation of neighbours; whoever passes one on must. Of
dp-accounting's three, REPLACE_SPECIAL is zero_out and REPLACE_ONE is replace_one.

What a noise multiplier is differs. There it is the standard deviation over the largest
norm of one record's contribution. Here, but for samples, it is that over the
sensitivity, which under replace_one is up to twice the norm: :math:`|v - v'| \le 2C`.
So under replace_one a multiplier there is twice the one here; for samples, whose
multiplier is that of zero_out under both relations, they are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from skdp.privacy._adjacency import Adjacency
from skdp.privacy._events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    PoissonGaussianEvent,
)

if TYPE_CHECKING:
    from dp_accounting import DpEvent, NeighboringRelation

_RELATIONS = {"REPLACE_SPECIAL": "zero_out", "REPLACE_ONE": "replace_one"}
_RELATION_NAMES = {ours: theirs for theirs, ours in _RELATIONS.items()}
# Largest norm of a contribution, over it the sensitivity.
_SENSITIVITIES: dict[str, float] = {"zero_out": 1.0, "replace_one": 2.0}
_NOISES: dict[str, type[GaussianEvent] | type[LaplaceEvent]] = {
    "GaussianDpEvent": GaussianEvent,
    "LaplaceDpEvent": LaplaceEvent,
}
_NOISE_NAMES: dict[type[Any], str] = {ours: name for name, ours in _NOISES.items()}


def to_dp_event(event: Event, *, adjacency: str) -> tuple[DpEvent, NeighboringRelation]:
    """The ``DpEvent`` of dp-accounting for an event, and the relation it is for.

    Parameters
    ----------
    event : Event
        Gaussian and Laplace noise, Poisson samples with Gaussian noise, what is not
        private, and compositions of these.
    adjacency : {"replace_one", "zero_out"}
        The relation for which the event was declared.

    Returns
    -------
    DpEvent, NeighboringRelation
        Pass both on: under another relation the event says too little.

    Raises
    ------
    ValueError
        If dp-accounting has no such event or no such relation.

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
    """The event for a ``DpEvent`` of dp-accounting, and the adjacency it is for.

    Parameters
    ----------
    dp_event : DpEvent
        A ``GaussianDpEvent``, ``LaplaceDpEvent``, ``PoissonSampledDpEvent`` of a
        Gaussian one, ``NoOpDpEvent``, ``NonPrivateDpEvent``, ``ComposedDpEvent`` or
        ``SelfComposedDpEvent``.
    relation : NeighboringRelation
        The one its mechanisms were declared for: REPLACE_SPECIAL, its special record
        being one that contributes exactly 0, or REPLACE_ONE. The number of records
        must be public. The event does not name its relation, so nothing can check it.

    Returns
    -------
    Event, {"zero_out", "replace_one"}
        Pass both to `BudgetLedger.commit`, which refuses another adjacency than its
        own.

    Raises
    ------
    ValueError
        If the relation is another one, or skdp has no such event.

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
        f"records is public. Got {got}. Declare the mechanism for one of the two, or "
        "account for it elsewhere."
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
        "An event that goes to dp-accounting must be of Gaussian or Laplace noise, of "
        f"Poisson samples, or composed of these. Got {type(event).__name__}, which it "
        "cannot express. Account for it in skdp, or pass on its (epsilon, delta) by "
        "to_opendp."
    )


def _repeated(one: Any, count: int, library: Any) -> Any:
    return one if count == 1 else library.SelfComposedDpEvent(one, count)


def _ours(event: Any, adjacency: Adjacency, count: int) -> Event:
    """The event of `count` times an exact class, since a subclass may differ."""
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
        f"{name}. Commit the (epsilon, delta) that is known of it, as an "
        "EpsilonDeltaEvent."
    )
