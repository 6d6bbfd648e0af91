"""`BudgetLedger`: the privacy budget spent on one data set, in one SQLite file."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

from skdp._checks import check_bool, check_choice, check_real, explained
from skdp._configured import warn_of_version
from skdp._quiet import warn
from skdp._show import Display, aligned, card, gauge
from skdp.exceptions import BudgetExceeded, LedgerError, NewLedgerWarning
from skdp.privacy.accounting._calibrate import Budget, epsilon_of
from skdp.privacy.accounting._codec import event_to_json
from skdp.privacy.accounting._events import ComposedEvent, Event, GaussianEvent
from skdp.privacy.accounting._relations import Relation, check_relation
from skdp.privacy.ledger._filter import Charge, FilterState, release
from skdp.privacy.ledger._report import draw_ledger, next_within, total_of
from skdp.privacy.ledger._store import (
    LedgerEntries,
    LedgerTerms,
    Spend,
    SpendStore,
    find_terms,
    history_of,
    ledgers_beside,
    start_of,
    state_of,
    underpaid,
)

if TYPE_CHECKING:
    import pandas as pd


# ---------------------------------- Refusals: the request, and the largest possible fit
# A refusal's text follows from the ledger's entries and from public facts of the fit.


# Candidate set-asides of epsilon, as fractions of the cap.
_TRIED = tuple(i / 15 for i in range(15))
# Longer ledgers, or ledgers with more kinds of events, are not searched: it takes long.
MOST_SEARCHED, _MOST_KINDS = 300, 4
# Digits of a reported set-aside.
_DIGITS = 4


def refusal(state: FilterState, event: Event, delta: float) -> str:
    """Two sentences: the largest possible fit, and what to do."""
    most = f"epsilon={state.remaining_epsilon():.4g}, delta={state.delta_left():.4g}"
    noise = " with any noise"
    if state.is_open:
        pure = state.remaining_pure_epsilon()
        noise = f" with Gaussian noise, or epsilon={pure:.4g} if it is pure"
    return (
        f"One more fit may cost at most {most}{noise}"
        f"{_other_noise(state, event, delta)}. Nothing was read or spent: ask for "
        "less, or start a new ledger if more may be spent on this data set."
    )


def _other_noise(state: FilterState, event: Event, delta: float) -> str:
    """What counts against an event that is neither Gaussian nor pure."""
    is_gaussian = all(isinstance(leaf, GaussianEvent) for leaf in event.leaves)
    is_pure = event.mu_squared == 0 == event.box_delta
    if not state.is_open or is_gaussian or is_pure:
        return ""
    charge = state.in_squares(event, delta) or release(event, delta)
    return (
        f"; this one has other noise and counts as {_named(charge)}, where "
        f"{_named(state.room) or 'nothing'} is left"
    )


def _named(charge: Charge) -> str:
    """A charge in words, without the parts that are 0."""
    parts = [f"mu={math.sqrt(charge.mu_squared):.4g}"] * (charge.mu_squared > 0)
    parts += [f"epsilon={charge.epsilon:.4g}"] * (charge.epsilon > 0)
    parts += [f"delta={charge.delta:.4g}"] * (charge.delta > 0)
    return ", ".join(parts)


def sufficient_reserve(
    cap: Budget, earlier: Sequence[tuple[Event, float]], event: Event, delta: float
) -> Charge | None:
    """A reserve with which a ledger would have had room for all events.

    `earlier` holds the earlier events and the deltas of their fits. The result is None
    if no such amounts are found; long ledgers are not searched.
    """
    kinds = {event for event, _ in earlier}
    if len(earlier) > MOST_SEARCHED or len(kinds) > _MOST_KINDS:
        return None
    wanted = [*earlier, (event, delta)]
    for reserve in _candidates(cap, event, delta):
        state = FilterState(cap, reserve)
        for one, at in wanted:
            state = state.charged(one, at)
            if state.exhausted() is not None:
                break
        else:
            return reserve
    return None


def _candidates(cap: Budget, event: Event, delta: float) -> Iterator[Charge]:
    """Candidate set-asides, those with small epsilons first."""
    alone = release(event, delta)
    deltas = [cap.delta / 2, 0.0]
    epsilons = [share * cap.epsilon for share in _TRIED]
    if alone.is_finite and alone.epsilon < cap.epsilon:
        epsilons.append(alone.epsilon)
    if 0 < alone.delta < cap.delta:
        deltas.append(alone.delta)
    for epsilon in sorted(map(_rounded_up, epsilons)):
        for at in deltas:
            if epsilon < cap.epsilon:
                yield Charge(epsilon, at)


def _rounded_up(value: float) -> float:
    """The next larger number with few digits."""
    if value == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - _DIGITS)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.{_DIGITS}g}")


# ------------------------------------------------------------------------- BudgetLedger
# The object holds only the arguments of its constructor and opens a connection for each
# call, so copies made by ``clone``, pickling or worker processes use the same file.


# Kinds of noise of a remaining budget.
Kind = Literal["gaussian", "pure", "any"]
# Largest number of other ledgers that the warning about a new one names.
_MOST_NAMED = 3
_COUNTS = (
    "The ledger counts only releases made with it, no raw scores and no effect of "
    "stratified folds."
)
_NO_CAP = "Use BudgetLedger.open(path) for a ledger that exists; a new one needs a cap."


class BudgetLedger:
    """A file that adds up the privacy loss of all fits, and enforces a cap on it.

    Every fit with ``ledger=`` this object commits its event to the file before it reads
    the data. A fit that would exceed the cap raises `BudgetExceeded` and reads nothing.
    Spends are never refunded. The cap also holds for adaptively chosen fits, by the
    privacy filter of ``docs/guide/before_you_sign.md``: fits with Gaussian noise, whose
    costs add up in squares, share the part of the cap that remains after
    `reserve_epsilon` and `reserve_delta` are subtracted.

    The ledger covers **fitted objects of skdp only**. It does not cover other code that
    reads raw data, and this includes code in scikit-learn's meta-estimators: scores,
    out-of-fold predictions and choices made from them, calibrators, tuned thresholds,
    and the final estimator of a stack if it is not one of skdp. Folds must not depend
    on the data. Stratified folds do, since the label of one record can move other
    records to other folds: pass ``cv=KFold(5)``. Under "user" all of scikit-learn's
    folds depend on the data, since the number of rows does: pass
    `skdp.model_selection.UserKFold`, and no other. See ``docs/guide/pipelines.md``.

    Parameters
    ----------
    path : str or path-like
        The ledger's file. It is created if it does not exist; the repr of a new ledger
        says that it is new. `open` never creates a file. Copies of this object use the
        same file.
    epsilon : float in [1e-6, 1e8]
        Cap on the privacy loss of all fits together.
    delta : 0 or float in [1e-50, 1)
        Cap on delta. With 0 only pure fits are possible.
    adjacency : str, default="replace_one"
        Adjacency of all fits: "replace_one" or "zero_out" for records of a table,
        "replace_user" or "zero_out_user" for users of a table, "rating_value" or "user"
        for `DPMatrixFactorization`. Fits under another adjacency are refused.
    unit : str, default="record"
        Privacy unit: "record" for "replace_one" and "zero_out", "rating" for
        "rating_value", "user" for the others. Fits with another unit are
        refused.
    dataset : str, default=""
        A name for the data set, which skdp never computes from the data.
    allow_nonprivate : bool, default=False
        Whether fits with a random_state or ``epsilon=inf`` are recorded, as infinite
        events, instead of refused. The total is inf after the first of them.
    reserve_epsilon : float in [0, epsilon], default=0.0
        Part of epsilon that is reserved for costs that do not add up in squares: pure
        releases and searches by random stopping after the first Gaussian fit, and a
        part of the cost of objective perturbation. Public, and fixed when the ledger is
        made.
    reserve_delta : float in [0, delta] or None, default=None
        Part of delta that is reserved for fits on samples, objective perturbation and
        searches by random stopping. None: half of delta, which costs Gaussian fits 3 to
        8 percent of mu. With 0 Gaussian fits lose nothing.

    Raises
    ------
    LedgerError
        If the file is not a ledger, is damaged, or was made with other values. The file
        is left unchanged.

    Warns
    -----
    NewLedgerWarning
        Before a ledger is created in a folder that already has a ledger for a data set
        with the same label: with a mistyped path the data set would get a second
        budget.
    InconsistentVersionWarning
        If another minor version of skdp wrote the last spend. The ledger can be used.

    Examples
    --------
    >>> import tempfile, os
    >>> from skdp.privacy import Budget, BudgetLedger, GaussianEvent
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = BudgetLedger(
    ...     os.path.join(folder.name, "study.db"), epsilon=3.0, delta=1e-6
    ... )
    >>> ledger.commit(
    ...     GaussianEvent(4.3), adjacency="replace_one", budget=Budget(1.0, 1e-6),
    ...     label="first model",
    ... )
    >>> round(ledger.spent().epsilon, 2), round(ledger.remaining().epsilon, 2)
    (0.98, 2.68)
    >>> again = BudgetLedger.open(ledger.path)  # with the values it was made with
    >>> again == ledger, again.remaining().noise
    (True, 'gaussian')
    >>> folder.cleanup()
    """

    @partial(explained, when_missing=_NO_CAP)
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        epsilon: float,
        delta: float,
        adjacency: Relation = "replace_one",
        unit: str = "record",
        dataset: str = "",
        allow_nonprivate: bool = False,
        reserve_epsilon: float = 0.0,
        reserve_delta: float | None = None,
    ) -> None:
        self.path = _check_path(path)
        self.epsilon = check_real(
            "epsilon", epsilon, low=1e-6, high=1e8, remedy="A ledger is a cap."
        )
        self.delta = Budget(self.epsilon, delta).delta
        self.adjacency = check_relation(adjacency)
        self.unit = _check_text("unit", unit)
        self.dataset = _check_text("dataset", dataset)
        self.allow_nonprivate = check_bool("allow_nonprivate", allow_nonprivate)
        self.reserve_epsilon = check_real(
            "reserve_epsilon", reserve_epsilon, low=0.0, high=self.epsilon
        )
        if reserve_delta is None:
            reserve_delta = self.delta / 2
        self.reserve_delta = check_real(
            "reserve_delta", reserve_delta, low=0.0, high=self.delta
        )
        if not os.path.exists(self.path):
            self._warn_of_neighbours()
            self._store.create()
        entries = self._store.read()
        if entries.rows:
            warn_of_version(
                f"the ledger {self.path!r}",
                entries.last_version,
                "Its entries have kept their meaning; their computed sum may be "
                "smaller. The next fit that is charged to it ends this warning.",
            )

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open an existing ledger file, with the cap and adjacency that it has.

        Parameters
        ----------
        path : str or path-like

        Returns
        -------
        BudgetLedger

        Raises
        ------
        LedgerError
            If the file is missing, damaged or not a ledger. No file is created.
        """
        name = _check_path(path)
        if not os.path.exists(name):
            raise LedgerError(
                f"The ledger {name!r} cannot be read: there is no such file. Check the "
                "path and the working directory, or create a ledger with "
                "BudgetLedger(path, epsilon=..., delta=...)."
            )
        terms = vars(find_terms(name))
        terms = terms | {"allow_nonprivate": bool(terms["allow_nonprivate"])}
        problem = ""
        try:
            return cls(name, **terms)
        except LedgerError:
            raise
        except (TypeError, ValueError) as error:
            problem = str(error)
        raise LedgerError(
            f"The ledger {name!r} must be unchanged since skdp wrote it. Got a damaged "
            f"or forged file: {problem} It was left untouched; restore a backup."
        )

    @property
    def is_rehearsal(self) -> bool:
        """Always false: a fit with this ledger may read its data."""
        return False

    @property
    def cap(self) -> Budget:
        """The largest (epsilon, delta) of all fits together."""
        return Budget(self.epsilon, self.delta)

    def commit(
        self, event: Event, *, adjacency: Relation, budget: Budget, label: str
    ) -> None:
        """Write an event durably to the file, or raise an error and change nothing.

        Parameters
        ----------
        event : Event
        adjacency : str
            The adjacency for which the event was declared.
        budget : Budget
            The epsilon and delta that the fit asks for. The delta is charged if the
            event must be charged as one (epsilon, delta)-DP release; the epsilon is
            only recorded.
        label : str
            Name of the fitted object.

        Raises
        ------
        BudgetExceeded
            If the cap does not allow the event.
        ValueError
            If the event has another adjacency than the ledger, or is not private and
            `allow_nonprivate` is False.
        LedgerError
            If the file cannot be read as this ledger.
        """
        self.check_accepts(adjacency=adjacency, is_private=_is_private(event))
        _check_adjacency_of(event, adjacency)
        with self._store.appending() as (entries, writer):
            state = self._state(entries)
            charge = state.charge_of(event, budget.delta)
            refused = state.after(charge).exhausted() if _is_private(event) else None
            if refused is None:
                writer.append(event, budget.epsilon, budget.delta, label, charge)
        # After the transaction, since the search for a sufficient reserve takes time.
        if refused is not None:
            raise BudgetExceeded(
                f"The ledger {self.path!r} (cap epsilon={self.epsilon:g}, delta="
                f"{self.delta:g}) refuses {label} at epsilon={budget.epsilon:g}, delta="
                f"{budget.delta:g}: {refused} ran out. "
                f"{refusal(state, event, budget.delta)}"
                f"{self._hint(entries, event, budget.delta)}",
                ledger=self.path,
                exhausted=refused,
            )

    def check_accepts(self, *, adjacency: Relation, is_private: bool) -> None:
        """Raise ValueError if the ledger can never accept a fit of this kind."""
        if adjacency != self.adjacency:
            raise ValueError(
                f"The ledger {self.path!r} accepts only fits with "
                f"adjacency={self.adjacency!r}. Got a fit with adjacency={adjacency!r}."
                " Use one ledger for each adjacency."
            )
        if not is_private and not self.allow_nonprivate:
            raise ValueError(
                f"The ledger {self.path!r} accepts only private fits. Got a fit with a "
                "random_state (perhaps set by a meta-estimator) or with epsilon=inf, "
                "which is not private. Use random_state=None and a finite epsilon, "
                "or make the ledger with allow_nonprivate=True, which makes its total "
                "infinite."
            )

    def spends(self, *, verify: bool = False) -> list[Spend]:
        """All committed events, oldest first.

        Parameters
        ----------
        verify : bool, default=False
            Compute the cost of every event again, which takes a while for fits on
            samples, and raise `LedgerError` if an event was charged too little.
        """
        spends = self._store.read().spends()
        if check_bool("verify", verify):
            wrong = underpaid(start_of(self._store.terms), spends)
            if wrong is not None:
                raise LedgerError(
                    f"Every entry of the ledger {self.path!r} must be charged what its "
                    f"event costs. Got entry {wrong.id}, {wrong.label}, charged less. "
                    "Restore a backup, or use the release of skdp that wrote it, "
                    f"{wrong.skdp_version}."
                )
        return spends

    def to_event(self) -> Event:
        """All committed events as one event, in the order in which they were committed.

        Use it with the accountants of other libraries (`to_dp_event`). They compute the
        cost of these releases if they were fixed in advance; for adaptively chosen
        releases the guarantee is the cap.
        """
        return ComposedEvent(tuple(spend.event for spend in self.spends()))

    def spent(self) -> Amount:
        """The total cost of the fits so far, if they were all fixed in advance.

        Returns
        -------
        object with `epsilon` and `delta`
            At the cap's delta. If some fits were chosen after seeing other results,
            the guarantee is the cap, not this total.
        """
        return Amount(self._state(self._store.read()).spent_epsilon(), self.delta)

    def remaining(self, kind: Kind | None = None) -> Remaining:
        """The largest (epsilon, delta) of one more fit that the cap allows.

        Parameters
        ----------
        kind : {"gaussian", "pure", "any"} or None, default=None
            Kind of noise of that fit: "gaussian", "pure" (delta is then 0), or "any"
            other kind, such as a search with secret trials. None: "any" before the
            first fit with Gaussian noise, "gaussian" after it.

        Returns
        -------
        object with `epsilon`, `delta`, `noise` and `pure_epsilon`
            `noise` is "any" if epsilon and delta hold for a fit with any noise.
            `pure_epsilon` is the largest epsilon of a pure fit. For fits on samples and
            for objective perturbation the largest cost depends on their parameters; a
            refusal reports their charge.
        """
        state = self._state(self._store.read())
        if kind is not None:
            check_choice("kind", kind, ("gaussian", "pure", "any"))
        return _remaining(state, kind)

    def admits(self, events: Iterable[tuple[Event, float]]) -> bool:
        """Whether the cap allows these events, one after the other; records nothing.

        Parameters
        ----------
        events : iterable of pairs of an Event and a delta
            The delta is that of the fit's budget.
        """
        state = self._state(self._store.read())
        for event, delta in events:
            state = state.charged(event, delta)
            if state.exhausted() is not None:
                return False
        return True

    def to_frame(self) -> pd.DataFrame:
        """The ledger's entries as a table.

        Returns
        -------
        DataFrame
            One row per fit: number, time, label, the epsilon and delta that the fit
            asked for, the event as JSON, the epsilon of this event alone and the
            running total, both at the cap's delta, and the charge: epsilon and delta
            out of the reserve, and mu.
        """
        import pandas as pd

        rows = []
        for spend, state in history_of(self._store.terms, self._store.read()):
            charge = spend.charge
            rows.append(
                {
                    "id": spend.id,
                    "committed_at": spend.committed_at,
                    "label": spend.label,
                    "epsilon": spend.epsilon,
                    "delta": spend.delta,
                    "event": event_to_json(spend.event),
                    "epsilon_alone": epsilon_of(spend.event, self.delta),
                    "epsilon_total": state.spent_epsilon(),
                    "charged_epsilon": charge.epsilon,
                    "charged_delta": charge.delta,
                    "charged_mu": math.sqrt(charge.mu_squared),
                }
            )
        columns = ["id", "committed_at", "label", "epsilon", "delta", "event"]
        columns += ["epsilon_alone", "epsilon_total"]
        columns += ["charged_epsilon", "charged_delta", "charged_mu"]
        return pd.DataFrame(rows, columns=columns)

    def plot(self, *, over: str = "fit", ax: Any = None) -> Display:
        """Draw the epsilon of each fit and the running total, below the cap.

        Parameters
        ----------
        over : {"fit", "time"}, default="fit"
            Horizontal axis: the names of the fits at equal distances, or the times of
            their entries.
        ax : matplotlib Axes or None, default=None
            None makes a figure.

        Returns
        -------
        display
            Its `line_` is the running total at the cap's delta; it also has `ax_` and
            `figure_`.

        Raises
        ------
        LedgerError
            If the file cannot be read.
        ImportError
            Without matplotlib.
        """
        return draw_ledger(self, over, ax)

    def __repr__(self) -> str:
        text = (
            f"BudgetLedger({self.path!r}, epsilon={self.epsilon:g}, "
            f"delta={self.delta:g}, adjacency={self.adjacency!r}, unit={self.unit!r}"
        )
        text += f", dataset={self.dataset!r}" if self.dataset else ""
        text += ", allow_nonprivate=True" if self.allow_nonprivate else ""
        if self.reserve_epsilon > 0:
            text += f", reserve_epsilon={self.reserve_epsilon:g}"
        if self.reserve_delta != self.delta / 2:
            text += f", reserve_delta={self.reserve_delta:g}"
        try:
            entries = self._store.read()
            state = self._state(entries)
        except (LedgerError, OSError):
            return f"{text}): unreadable"
        total = total_of(state, len(entries.rows))
        following = f"next release: {next_within(state)}. {_COUNTS}"
        return f"{text}): total so far: {total}; {following}"

    def __str__(self) -> str:
        rows, _ = self._shown()
        return f"BudgetLedger {self.path}\n{aligned(rows.items(), 14)}"

    def _repr_html_(self) -> str:
        rows, share = self._shown()
        bar = [] if share is None else [gauge(share)]
        is_good = share is not None and share < 1
        title = f"BudgetLedger {self.path}"
        return card(title, rows.items(), is_good=is_good, below=bar)

    def _shown(self) -> tuple[dict[str, str], float | None]:
        """Names and values, and the fraction that is spent: None if unreadable."""
        rows = {
            "cap": f"epsilon {self.epsilon:g}, delta {self.delta:g}",
            "adjacency": f"{self.adjacency}, unit: one {self.unit}",
            "data set": self.dataset or "(no label)",
        }
        try:
            entries = self._store.read()
            state = self._state(entries)
        except (LedgerError, OSError) as error:
            return rows | {"unreadable": str(error)}, None
        rows["total so far"] = total_of(state, len(entries.rows))
        rows["next release"] = next_within(state)
        rows["covers"] = _COUNTS
        return rows, state.spent_epsilon() / self.epsilon

    def _warn_of_neighbours(self) -> None:
        """Warn if the user may have meant another ledger in the same folder."""
        others = ledgers_beside(self.path, self.dataset)
        if not others:
            return
        named = f"labelled {self.dataset!r}" if self.dataset else "without a label"
        shown, more = others[:_MOST_NAMED], len(others) - _MOST_NAMED
        held = f"{shown} and {more} more" if more > 0 else f"{shown}"
        warn(
            f"A new ledger {self.path!r} is created for a data set {named}. Its folder "
            f"already has {held}, also for a data set {named}. If it is the same data "
            "set, the caps of the ledgers add up: use BudgetLedger.open(path). If not, "
            "give each data set a label with dataset=.",
            NewLedgerWarning,
        )

    @property
    def _store(self) -> SpendStore:
        terms = LedgerTerms(
            self.epsilon,
            self.delta,
            self.adjacency,
            self.unit,
            self.dataset,
            int(self.allow_nonprivate),
            self.reserve_epsilon,
            self.reserve_delta,
        )
        return SpendStore(self.path, terms)

    def _state(self, entries: LedgerEntries) -> FilterState:
        return state_of(self._store.terms, entries)

    def _hint(self, entries: LedgerEntries, event: Event, delta: float) -> str:
        """A sentence on a reserve that would have sufficed, or no text."""
        if len(entries.rows) > MOST_SEARCHED:
            return ""
        earlier = [(spend.event, spend.delta) for spend in entries.spends()]
        found = sufficient_reserve(self.cap, earlier, event, delta)
        if found is None:
            return ""
        return (
            f" A ledger made with reserve_epsilon={found.epsilon:g} and reserve_delta="
            f"{found.delta:g} would have had room for this fit too."
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "reserve_delta" not in state:
            raise LedgerError(
                "A pickled BudgetLedger must have reserve_delta. Got one that was "
                "pickled before skdp 1.0. Use the release of skdp that pickled it."
            )
        vars(self).update(state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BudgetLedger) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))


@dataclass(frozen=True)
class Amount:
    """An amount of privacy loss, which unlike a `Budget` may be zero."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Remaining(Amount):
    """Largest cost of one more fit, and the kind of noise for which it holds."""

    noise: Kind
    pure_epsilon: float


def _remaining(state: FilterState, kind: Kind | None = None) -> Remaining:
    pure = state.remaining_pure_epsilon()
    if kind == "pure":
        return Remaining(pure, 0.0, "pure", pure)
    if kind == "any" and state.is_open:
        left = state.room_for_releases
        return Remaining(left.epsilon, left.delta, "any", pure)
    noise: Kind = "gaussian" if state.is_open else "any"
    return Remaining(state.remaining_epsilon(), state.delta_left(), noise, pure)


def _is_private(event: Event) -> bool:
    return math.isfinite(event.pure_epsilon)


def _check_adjacency_of(event: Event, adjacency: Relation) -> None:
    for leaf in _leaves_within(event):
        own = getattr(leaf, "adjacency", adjacency)
        if own != adjacency:
            raise ValueError(
                f"All parts of an event must be declared for adjacency={adjacency!r}. "
                f"Got {leaf!r}. Declare this part for the adjacency of the fit."
            )


def _leaves_within(event: Event) -> Iterator[Event]:
    """The leaves, and the leaves of the events inside a leaf."""
    for leaf in event.leaves:
        yield leaf
        for part in getattr(leaf, "parts", ()):
            yield from _leaves_within(part)
        if hasattr(leaf, "trial"):
            yield from _leaves_within(leaf.trial)


def _check_path(path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise TypeError(
            "The 'path' parameter must be the name of a file. "
            f"Got an instance of {type(path).__name__}."
        )
    name = os.fspath(path)
    if not isinstance(name, str) or name.startswith((":memory:", "file:")):
        raise ValueError(
            f"The 'path' parameter must be the name of a file. Got {name!r}. A ledger "
            "in memory would not survive clone, workers or a restart."
        )
    return os.path.abspath(name)


def _check_text(name: str, value: Any) -> str:
    if isinstance(value, str) and value.isprintable():
        return value
    raise TypeError(
        f"The {name!r} parameter must be a printable string. "
        f"Got an instance of {type(value).__name__}."
    )
