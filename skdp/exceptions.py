"""Every error and warning skdp raises, each with the remedy in one line."""

from __future__ import annotations

from typing import Any

# The site of `make docs`; pyproject.toml has the same address.
DOCUMENTATION = "https://skdp.readthedocs.io/en/stable/"


class _Documented(BaseException):
    """Ends its message with the address of what `docs/guide/faq.md` says of its class.

    The address follows from the class alone. ``args[0]`` is the message without the
    address, for use within another message.
    """

    def __str__(self) -> str:
        return f"{super().__str__()} {self._see()}"

    def _see(self) -> str:
        # Classes that users derive have no page.
        own = next(each for each in type(self).__mro__ if each.__module__ == __name__)
        return f"See {DOCUMENTATION}guide/faq.html#{own.__name__.lower()}"


class BudgetExceeded(_Documented, RuntimeError):
    """A ledger refused an event; nothing was spent.

    Remedy: ask for a smaller epsilon, or start a new ledger if the data set's
    owner allows more spending.

    Attributes
    ----------
    ledger : str
        Path of the ledger's file.
    exhausted : {"epsilon", "delta"}
        Which part of the cap ran out.
    """

    def __init__(self, message: str, *, ledger: str, exhausted: str) -> None:
        super().__init__(message)
        self.ledger = ledger
        self.exhausted = exhausted

    # Keyword attributes do not survive the default exception pickling, and
    # joblib sends this exception from its workers to the parent process.
    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_budget_exceeded, (self.args[0], self.ledger, self.exhausted)


def _rebuild_budget_exceeded(
    message: str, ledger: str, exhausted: str
) -> BudgetExceeded:
    return BudgetExceeded(message, ledger=ledger, exhausted=exhausted)


class LedgerError(_Documented, ValueError):
    """A ledger file is foreign, damaged or does not match its handle.

    Remedy: check the path and the arguments; restore the file from a backup.
    The file is left as it was found.
    """


class UnplannedEventError(_Documented, RuntimeError):
    """The steps of a trial tried to release more than their search had paid for.

    Remedy: use steps whose releases follow from public facts alone. Nothing was read.
    """


class Refused(_Documented, ValueError):
    """A solver, or a search's method, cannot do a job; nothing was read or spent.

    Remedy: what the message names: another solver, law or parameter.
    """


class PlanUsedUpError(_Documented, RuntimeError):
    """More was asked of the records than had been declared; nothing was read.

    Remedy: skdp or a user's solver has a defect: declare every query in the plan.
    """


class StreamOverError(_Documented, RuntimeError):
    """A part was given to a stream that cannot take another part; nothing was read.

    Remedy: clone the estimator for another stream, which is another release.
    """


class UnboundedQueryError(_Documented, ValueError):
    """A query has no derived bound under the relation asked for; nothing was read.

    Remedy: use a solver that supports the relation.
    """


class UnaccountedStepError(_Documented, ValueError):
    """A pipeline has a step that reads data and whose privacy nobody accounts for.

    Remedy: use the private or declared alternative that the message names.
    """


class PublicLabelsWarning(_Documented, UserWarning):
    """The set of labels was taken from ``y`` and is assumed public.

    Remedy: pass ``classes=``.
    """


class SeededNoiseWarning(_Documented, UserWarning):
    """A seed makes the noise reproducible, so the fit is not a private release.

    Remedy: use ``random_state=None`` for anything that leaves the room.
    """


class TuningCostWarning(_Documented, UserWarning):
    """A search will hardly tell its candidates apart at this budget.

    Remedy: fit the untuned default with the whole budget, or use fewer candidates.
    """


class LargeDeltaWarning(_Documented, UserWarning):
    """delta is at least 1/n_samples, which permits publishing whole records.

    Remedy: use a delta far below ``1 / n_samples``.
    """


class NoiseDominatesWarning(_Documented, UserWarning):
    """At this budget noise leaves hardly more than a constant model.

    Public facts say so, and nothing has been read or spent: as an error it stops the
    fit before it is paid for.

    Remedy: what the message says: more records, a larger epsilon, fewer columns.
    """


class NewLedgerWarning(_Documented, UserWarning):
    """A ledger is created beside one for a data set of the same label.

    Remedy: open the existing ledger with ``BudgetLedger.open(path)``, or label each
    data set by ``dataset=``.
    """


class StandInDataWarning(_Documented, UserWarning):
    """A loader returns other data than its name says.

    Remedy: put the data where the message says that they are looked for.
    """


class StratifiedFoldsWarning(_Documented, UserWarning):
    """Labels decide who is in which fold, so that fits cost more than is booked.

    Remedy: pass ``cv=KFold(5)``.
    """


class ClippedRowsWarning(_Documented, UserWarning):
    """Rows may come to a private step longer than its `data_norm`, and are clipped.

    Remedy: the `data_norm` that the message names, or `RowNormClipper` before the step
    if clipping is meant.
    """


class InconsistentVersionWarning(_Documented, UserWarning):
    """Another minor version of skdp wrote the object that is being loaded.

    Remedy: check the loaded object, make it again, or load it with the version that
    wrote it.

    Attributes
    ----------
    what : str
        What was loaded.
    original_version, current_version : str
        The versions of skdp that wrote it and that loads it.
    remedy : str
    """

    def __init__(
        self, what: str, original_version: str, current_version: str, remedy: str
    ) -> None:
        super().__init__(what, original_version, current_version, remedy)
        self.what, self.remedy = what, remedy
        self.original_version = original_version
        self.current_version = current_version

    def __str__(self) -> str:
        return (
            f"Loading {self.what} that was stored by skdp {self.original_version} "
            f"into skdp {self.current_version}. {self.remedy} {self._see()}"
        )


# The one message for every failure between the commit and the release.
READ_FAILED = (
    "The records could not be read to the end, or a source changed meanwhile. What was "
    "committed stays on the books. Check the data, its files or its connection, and "
    "fit again."
)


class SourceError(_Documented, RuntimeError):
    """Records could not be read or added up to the end, or changed meanwhile.

    The message is always the same, whatever happened and in whichever record, in
    memory as well as in a source. What was committed before stays on the books.

    Remedy: check files and connections, make the source anew, and fit again, which
    spends again.
    """
