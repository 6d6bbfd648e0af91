"""The letter to a data protection officer, filled in from a ledger."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from skdp.privacy.accounting._codec import event_from_dict
from skdp.privacy.accounting._events import ComposedEvent
from skdp.privacy.accounting._risk import bet_sentence, pair_advantage, risk_sentence
from skdp.privacy.ledger._report import on_one_line, seal_lines

# ----------------------------------------------------------------------------- Letter
# The text is the file letter.md beside this module. Everything follows from a report,
# so the same ledger gives the same letter. Blanks, in angle brackets, are left only for
# what no ledger can know.


_OF_RECORDS = (
    "The promise to a person with k {unit}s is weaker: it is that of a group of k. "
    "One person has at most ‹number› {unit}s."
)
_OF_USERS = "A user is ‹one person, by the column …›, with any number of rows."


def as_letter(signed: dict[str, Any]) -> str:
    """A report as a letter in Markdown.

    Parameters
    ----------
    signed : dict
        The result of `report_on`.

    Raises
    ------
    ValueError
        If a release of the ledger is not private.
    """
    told, cap = signed["report"], signed["report"]["cap"]
    for one in told["releases"]:
        if one["total"] == "inf":
            raise ValueError(
                "A letter needs a ledger whose releases are all private. Got release "
                f"{one['number']}, which is not. Use 'skdp report', which says so."
            )
    relation, unit = told["adjacency"], told["unit"]
    capped = pair_advantage(cap["epsilon"], cap["delta"])
    how, digest = seal_lines(signed["signature"])[0].rsplit(maxsplit=1)
    versions = [one["skdp_version"] for one in told["releases"]]
    persons = _OF_USERS if "user" in relation else _OF_RECORDS
    text = files("skdp.privacy.ledger").joinpath("letter.md").read_text("utf-8")
    return text.format(
        dataset=on_one_line(told["dataset"]) or "‹name›",
        released=_released(told),
        releases="".join(f"\n{_item(one)}" for one in told["releases"]) + "\n",
        versions=" and ".join(dict.fromkeys(versions)) or told["skdp_version"],
        means=told["adjacency_means"],
        cap_epsilon=cap["epsilon"],
        cap_delta=cap["delta"],
        cap_bet=bet_sentence(capped, relation, "the cap"),
        total=told["total"],
        total_bet=_total_bet(told),
        relation=relation,
        unit=unit,
        persons=persons.format(unit=unit),
        head=told["head"],
        how=how,
        digest=digest,
        seal=signed["signature"]["means"],
    )


def _released(told: dict[str, Any]) -> str:
    count = len(told["releases"])
    if count == 0:
        return "Nothing so far."
    results = "One result." if count == 1 else f"{count} results."
    return (
        f"{results} The total is the epsilon of all results up to here, at delta "
        f"{told['cap']['delta']:g}, if they were planned in advance."
    )


def _item(one: dict[str, Any]) -> str:
    asked = one["asked"]
    return (
        f"{one['number']}. {one['committed_at'][:10]}: `{on_one_line(one['label'])}`, "
        f"epsilon {asked['epsilon']:g}, delta {asked['delta']:g}; total "
        f"{one['total']:.4g}"
    )


def _total_bet(told: dict[str, Any]) -> str:
    """The bet on all releases so far, if they were planned in advance."""
    if not told["releases"]:
        return ""
    parts = tuple(event_from_dict(one["event"]) for one in told["releases"])
    total = told["releases"][-1]["total"], told["cap"]["delta"]
    bet = risk_sentence(ComposedEvent(parts), *total, told["adjacency"])
    return f"* The total as a bet, if all were planned in advance: {bet}\n"
