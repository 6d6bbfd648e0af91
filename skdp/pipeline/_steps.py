"""What each step of a pipeline costs on its own, and why."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from skdp.pipeline._alternatives import alternatives_to
from skdp.pipeline._clipped_rows import clipped_rows
from skdp.pipeline._data_independent import DATA_INDEPENDENT
from skdp.pipeline._walk import Leaf, costs
from skdp.privacy._adjacency import Relation, is_of_users
from skdp.privacy._step import StepPrivacy

DECLARED, PRIVATE = "declared rule", "private"
UNACCOUNTED, VOUCHED = "unaccounted", "vouched for by the user"


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """One step of a pipeline.

    Parameters
    ----------
    name : str
        Names from the outermost container down, joined by "/".
    estimator : str
        Its class.
    kind : {"declared rule", "private", "unaccounted", "vouched for by the user"}
    epsilon, delta : float
        Of the step alone: 0, 0 if it takes nothing from the data, inf if nobody knows.
    adjacency : str or None
        None if the step is not private or costs nothing.
    state : {"planned", "spent", ""}
        Empty if there is nothing to spend.
    note : str
        Why it costs nothing, or what is wrong and what to use instead.
    input_norm, output_norm : float or None, default=None
        Largest norm of a row that comes in and out, by what steps declare; None if they
        do not say.
    """

    name: str
    estimator: str
    kind: str
    epsilon: float
    delta: float
    adjacency: Relation | None
    state: str
    note: str
    input_norm: float | None = None
    output_norm: float | None = None


def step_reports(
    leaves: Sequence[Leaf], data_independent: Collection[Any] = ()
) -> tuple[StepReport, ...]:
    """The rows of all leaves that are fitted together.

    Where one of them is of users, others may take nothing from the number of rows.
    """
    relations = (leaf.privacy.adjacency for leaf in leaves if leaf.privacy)
    of_users = any(relation and is_of_users(relation) for relation in relations)
    return tuple(_report(leaf, data_independent, of_users) for leaf in leaves)


def _report(
    leaf: Leaf, data_independent: Collection[Any], of_users: bool
) -> StepReport:
    privacy = leaf.privacy
    if privacy is not None:
        return _own_word(leaf, privacy, of_users)
    kind, note = _judgement(leaf, data_independent, of_users)
    return StepReport(
        name=leaf.path,
        estimator=leaf.step if isinstance(leaf.step, str) else type(leaf.step).__name__,
        kind=kind,
        epsilon=math.inf if kind == UNACCOUNTED else 0.0,
        delta=0.0,
        adjacency=None,
        state="",
        note=note,
        input_norm=leaf.input_norm,
        output_norm=leaf.output_norm,
    )


def _own_word(leaf: Leaf, privacy: StepPrivacy, of_users: bool) -> StepReport:
    """What a step of skdp says of itself."""
    note, kind = privacy.note, PRIVATE if costs(privacy) else DECLARED
    epsilon = privacy.epsilon
    if of_users and privacy.of_users:
        note, kind, epsilon = privacy.of_users, UNACCOUNTED, math.inf
    elif leaf.inside:
        note = f"within {leaf.inside}, which may fit it more than once"
    clipped = [rows.note for rows in clipped_rows([leaf])]
    state = "planned" if privacy.event is None else "spent"
    return StepReport(
        name=leaf.path,
        estimator=type(leaf.step).__name__,
        kind=kind,
        epsilon=epsilon,
        delta=privacy.delta,
        adjacency=privacy.adjacency,
        state=state if costs(privacy) else "",
        note="; ".join([*([note] if note else []), *clipped]),
        input_norm=leaf.input_norm,
        output_norm=leaf.output_norm,
    )


def _judgement(
    leaf: Leaf, data_independent: Collection[Any], of_users: bool
) -> tuple[str, str]:
    """Kind and note of a step that is not of skdp."""
    step = leaf.step
    if isinstance(step, str) and step in ("passthrough", "drop"):
        return DECLARED, "nothing is learned"
    # Nobody can vouch for what a container does with private steps.
    if leaf.problem:
        return UNACCOUNTED, _advice(step, leaf.problem)
    if any(type(step) is item or step is item for item in data_independent):
        return VOUCHED, "given as data_independent"
    rule = DATA_INDEPENDENT.get(type(step))
    if rule is None:
        return UNACCOUNTED, _advice(step, "") or "reads the data on no books"
    asked = rule.asks_for(step)
    if asked:
        return UNACCOUNTED, _advice(step, f"set {asked}")
    refused = rule.of_users(step) if of_users else ""
    if refused:
        return UNACCOUNTED, refused
    return DECLARED, rule.reason


def _advice(step: Any, text: str) -> str:
    names = alternatives_to(step)
    use = f"use {' or '.join(names)}" if names else ""
    return "; ".join(part for part in (text, use) if part)


def unaccounted_in(rows: Sequence[StepReport]) -> str:
    """The unaccounted steps with what to do about each, for messages."""
    return ", ".join(
        f"{row.name} ({row.estimator}: {row.note})"
        for row in rows
        if row.kind == UNACCOUNTED
    )
