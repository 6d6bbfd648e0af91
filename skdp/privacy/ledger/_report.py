"""What a ledger tells people: sentences, a table, a sealed report, a picture."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from typing import TYPE_CHECKING, Any

from skdp._checks import check_choice
from skdp._show import GREEN, RED, Display, axes_or_new
from skdp._version import __version__
from skdp.exceptions import LedgerError
from skdp.privacy.accounting._calibrate import epsilon_of
from skdp.privacy.accounting._codec import event_to_dict
from skdp.privacy.accounting._events import Event
from skdp.privacy.ledger._filter import FilterState
from skdp.privacy.ledger._store import (
    LedgerEntries,
    LedgerTerms,
    Spend,
    SpendStore,
    find_terms,
    history_of,
    state_of,
)
from skdp.privacy.release._record import ADJACENCY_MEANING, json_ready

if TYPE_CHECKING:
    from skdp.privacy.ledger._ledger import BudgetLedger


# ------------------------------------------------------------------- Report on a ledger
# The report is for the person who is responsible for the data. It says what was
# released, when, and at which cost. It is made from the ledger's file alone, which is
# opened for reading only; the same entries give the same report on any day and under
# any file name. Its seal is a digest of the whole report, including the head of the
# ledger's hash chain. Without a key the report is sealed: the digest detects accidental
# changes only, since anyone can compute a new one. With a key (HMAC) it is signed: only
# a person who has the key can compute the digest. It is not a public-key signature.


# Meanings of fields never change; a new meaning gets a new number.
REPORT_SCHEMA = 1
LEAST_KEY = 16  # bytes
COVERS = (
    "The ledger covers the releases that were made with it: fits, searches and private "
    "scores. Raw scores, and choices made from them, are not private and not covered."
)
_PLAIN, _KEYED = "sha256", "hmac-sha256"
_SEALS = {_PLAIN: "sealed", _KEYED: "signed"}
_MEANS = {
    _PLAIN: "Sealed: the digest of all fields under 'report' detects changes. Anyone "
    "can compute a new digest, so it does not prove who made the report.",
    _KEYED: "Signed: the digest of all fields under 'report' with a secret key. Only a "
    "holder of the key can make or check it; it is not a public-key signature.",
}
_KINDS = {
    "GaussianEvent": "Gaussian noise",
    "PureEvent": "a pure mechanism",
    "BoundedRangeEvent": "a noisy selection",
    "LaplaceEvent": "Laplace noise",
    "EpsilonDeltaEvent": "an (epsilon, delta) mechanism",
    "PoissonGaussianEvent": "Gaussian noise on samples",
    "ObjectiveEvent": "objective perturbation",
    "SelectionEvent": "the best of a secret number of trials",
    "ParallelEvent": "disjoint sets of records",
    "NonPrivateEvent": "no private mechanism",
}


def report_on(path: str, key: bytes | None = None) -> dict[str, Any]:
    """The report on a ledger, with JSON-ready values.

    Parameters
    ----------
    path : str
    key : bytes of at least 16, or None

    Returns
    -------
    dict
        ``report``, and its ``signature``.

    Raises
    ------
    LedgerError
        If the file is missing, damaged or not a ledger, or if a process that wrote to
        it was killed and left it incomplete.
    ValueError
        If the key is too short.
    """
    terms = find_terms(path, read_only=True)
    entries = SpendStore(path, terms, read_only=True).read()
    told = _told(terms, entries)
    return {"report": told, "signature": _signature(told, key)}


def check_report(text: str, key: bytes | None = None) -> dict[str, Any]:
    """The report in a text, if the text is unchanged.

    Parameters
    ----------
    text : str
        JSON of the result of `report_on`.
    key : bytes or None
        The key with which the report was made.

    Raises
    ------
    ValueError
        If it is no report, was changed, or was made with another key or without one.
    """
    try:
        given = json.loads(text)
        told, signature = given["report"], given["signature"]
        found, digest = signature["algorithm"], signature["digest"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(
            "A report must be the JSON text that 'report --json' printed. Got "
            "something else. Make a new report from the ledger."
        ) from None
    wanted = _signature(told, key)
    if found != wanted["algorithm"]:
        raise ValueError(
            f"The report must be {_SEALS[wanted['algorithm']]} by "
            f"{wanted['algorithm']!r} to be checked "
            f"{'without a' if key is None else 'with this'} key. Got another "
            "algorithm. Pass the key with which the report was signed, if there is one."
        )
    if not hmac.compare_digest(str(digest).encode(), wanted["digest"].encode()):
        raise ValueError(
            "The report must be unchanged since it was made. Got another digest: the "
            "report was changed, or signed with another key. Make a new report from "
            "the ledger."
        )
    return dict(told)


def as_text(signed: dict[str, Any]) -> str:
    """A report as lines of text."""
    told, signature = signed["report"], signed["signature"]
    aside = told["set_aside"]
    lines = [
        *_head(told),
        f"reserve       epsilon {aside['epsilon']:g}, delta {aside['delta']:g}",
        "",
    ]
    for one in told["releases"]:
        lines += [
            f"{one['number']:>4}  {one['committed_at']}  {on_one_line(one['label'])}",
            f"      {one['cost']}",
        ]
    lines += ["", told["covers"], "", f"{'head of the chain':<20}{told['head']}"]
    return "\n".join([*lines, *seal_lines(signature)])


def as_table(told: dict[str, Any]) -> str:
    """The releases of a report: what each asked for, and the total after it."""
    rows = [("", "date", "release", "epsilon", "total")]
    for one in told["releases"]:
        asked, total = float(one["asked"]["epsilon"]), float(one["total"])
        date, label = one["committed_at"][:10], on_one_line(one["label"])
        rows.append((f"{one['number']}", date, label, f"{asked:g}", f"{total:.4g}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        f"{number:>{widths[0]}}  {date:<10}  {label:<{widths[2]}}  "
        f"{asked:>{widths[3]}}  {total:>{widths[4]}}"
        for number, date, label, asked, total in rows
    ]
    return "\n".join([*_head(told), "", *lines, "", told["covers"]])


def _head(told: dict[str, Any]) -> list[str]:
    cap = told["cap"]
    return [
        f"data set      {told['dataset'] or '(no label)'}, unit {told['unit']}",
        f"adjacency     {told['adjacency']}: {told['adjacency_means']}",
        f"cap           epsilon {cap['epsilon']:g}, delta {cap['delta']:g}, for all "
        "releases together",
        f"total so far  {told['total']}",
        f"next release  {told['next']}",
    ]


def seal_lines(signature: dict[str, str]) -> list[str]:
    """How a report is sealed or signed, its digest, and what that means."""
    algorithm = signature["algorithm"]
    how = f"{_SEALS[algorithm]}, {algorithm}"
    return [f"{how:<20}{signature['digest']}", signature["means"]]


def _told(terms: LedgerTerms, entries: LedgerEntries) -> dict[str, Any]:
    if terms.adjacency not in ADJACENCY_MEANING:
        raise LedgerError(
            f"The ledger {entries.path!r} must have an adjacency that this version of "
            "skdp knows. Got another one: the file was forged, or a newer version of "
            "skdp wrote it. Use that version."
        )
    state, count = state_of(terms, entries), len(entries.rows)
    return {
        "schema": REPORT_SCHEMA,
        "skdp_version": __version__,
        "dataset": terms.dataset,
        "unit": terms.unit,
        "adjacency": terms.adjacency,
        "adjacency_means": ADJACENCY_MEANING[terms.adjacency],
        "cap": {"epsilon": terms.epsilon, "delta": terms.delta},
        "set_aside": {
            "epsilon": state.reserve.epsilon,
            "delta": state.reserve.delta,
        },
        "releases": [_release(*one) for one in history_of(terms, entries)],
        "total": total_of(state, count) + (_IF_PLANNED if count > 1 else "."),
        "next": f"{next_within(state)}.",
        "covers": COVERS,
        "head": entries.head,
    }


def _release(spend: Spend, state: FilterState) -> dict[str, Any]:
    return {
        "number": spend.id,
        "committed_at": spend.committed_at,
        "label": spend.label,
        "skdp_version": spend.skdp_version,
        "asked": {"epsilon": json_ready(spend.epsilon), "delta": spend.delta},
        "event": event_to_dict(spend.event),
        "total": json_ready(state.spent_epsilon()),
        "cost": _cost(spend.event, state),
    }


def _cost(event: Event, state: FilterState) -> str:
    """The cost of a release, in one sentence."""
    names = sorted({_KINDS[type(leaf).__name__] for leaf in event.leaves})
    by = f"With {' and '.join(names) or 'no mechanism'}"
    delta = state.cap.delta
    alone = epsilon_of(event, delta)
    if math.isinf(event.pure_epsilon):
        return f"{by}: it is not private, and from here on the total is infinite."
    return (
        f"{by}: it costs {_epsilon(alone)} at delta {delta:g} by itself, and "
        f"{_epsilon(state.spent_epsilon())} together with all releases before it."
    )


_IF_PLANNED = (
    ", if they were planned in advance. If some were chosen after others had been "
    "seen, the guarantee is the cap."
)


def total_of(state: FilterState, count: int) -> str:
    """What `count` releases cost together, without a full stop."""
    if count == 0:
        return "new, nothing is spent"
    releases = "1 release costs" if count == 1 else f"{count} releases together cost"
    return f"{releases} {_epsilon(state.spent_epsilon())} at delta {state.cap.delta:g}"


def next_within(state: FilterState) -> str:
    """How large one more release may be, without a full stop."""
    most = f"epsilon {state.remaining_epsilon():.4g}, delta {state.delta_left():.4g}"
    how = "with any noise"
    if state.is_open:
        pure = state.remaining_pure_epsilon()
        how = f"with Gaussian noise (epsilon {pure:.4g} if it is pure)"
    return f"up to {most} {how}; all releases together then stay within the cap"


def _epsilon(value: float) -> str:
    return f"epsilon {value:.4g}" if math.isfinite(value) else "no finite epsilon"


def _signature(told: Any, key: bytes | None) -> dict[str, str]:
    text = json.dumps(told, sort_keys=True).encode()
    if key is None:
        digest, algorithm = hashlib.sha256(text).hexdigest(), _PLAIN
    else:
        if len(key) < LEAST_KEY:
            raise ValueError(
                f"A key must have at least {LEAST_KEY} bytes. Got {len(key)}. Make one "
                "with: python -c 'import secrets; print(secrets.token_hex(32))'"
            )
        digest, algorithm = hmac.new(key, text, hashlib.sha256).hexdigest(), _KEYED
    return {"algorithm": algorithm, "digest": digest, "means": _MEANS[algorithm]}


def on_one_line(label: str) -> str:
    """A label on one line, whatever a forged file contains."""
    return label if label.isprintable() else json.dumps(label)


# ------------------------------------------------------------------ Picture of a ledger


def draw_ledger(ledger: BudgetLedger, over: str, ax: Any) -> Display:
    """Draw the joint cost of a ledger's fits, in order, below the cap."""
    check_choice("over", over, ("fit", "time"))
    history = ledger.to_frame()
    ax = axes_or_new(ax, "to_frame()")
    places: Any = list(range(1, len(history) + 1))
    if over == "time":
        import pandas as pd

        places = pd.to_datetime(history["committed_at"]).to_numpy()
    (line,) = ax.plot(
        places,
        history["epsilon_total"],
        drawstyle="steps-post",
        marker="o",
        color=GREEN,
        label="all so far",
    )
    ax.plot(
        places,
        history["epsilon_alone"],
        linestyle="",
        marker="_",
        markersize=12,
        color="0.4",
        label="each alone",
    )
    ax.axhline(ledger.cap.epsilon, linestyle="--", color=RED, label="cap")
    if over == "fit":
        names = [label.partition("(")[0] for label in history["label"]]
        ax.set_xticks(places, names, rotation=30, ha="right", fontsize="small")
    else:
        ax.tick_params(axis="x", rotation=30)
    ax.set(ylabel="epsilon", ylim=(0, None))
    ax.set_title(
        f"{ledger.dataset or 'ledger'}: {ledger.adjacency}, one {ledger.unit}, "
        f"delta {ledger.delta:g}",
        fontsize="medium",
    )
    ax.legend()
    return Display.of(ax, line)
