"""The errors and warnings that skdp defines, each with a remedy."""

from __future__ import annotations

from typing import Any, Literal

# The site of `make docs`; pyproject.toml has the same address.
DOCUMENTATION = "https://skdp.readthedocs.io/en/stable/"


class _Documented(BaseException):
    """Appends to its message the link to its section of `docs/guide/faq.md`.

    The link follows from the class alone. ``args[0]`` is the message without the link,
    for use within another message.
    """

    def __str__(self) -> str:
        return f"{super().__str__()} {self._see()}"

    def _see(self) -> str:
        # A class that a user derives has no section: link that of its base class.
        own = next(each for each in type(self).__mro__ if each.__module__ == __name__)
        return f"See {DOCUMENTATION}guide/faq.html#{own.__name__.lower()}"


class BudgetExceeded(_Documented, RuntimeError):
    """A ledger refused an event that would exceed its cap; nothing was spent.

    Remedy: ask for a smaller epsilon, or start a new ledger if the owner of the data
    set allows more spending.

    Attributes
    ----------
    ledger : str
        Path of the ledger's file.
    exhausted : {"epsilon", "delta"}
        Which part of the cap ran out.
    """

    def __init__(
        self, message: str, *, ledger: str, exhausted: Literal["epsilon", "delta"]
    ) -> None:
        super().__init__(message)
        self.ledger = ledger
        self.exhausted = exhausted

    # Python's default pickling of exceptions loses keyword attributes, and joblib
    # sends this exception from its workers to the parent process.
    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_budget_exceeded, (self.args[0], self.ledger, self.exhausted)


def _rebuild_budget_exceeded(
    message: str, ledger: str, exhausted: Literal["epsilon", "delta"]
) -> BudgetExceeded:
    return BudgetExceeded(message, ledger=ledger, exhausted=exhausted)


class LedgerError(_Documented, ValueError):
    """A ledger file is missing, damaged, not a ledger, or made with other values.

    The file is left unchanged.

    Remedy: check the path and the arguments of `BudgetLedger`, or restore the file from
    a backup.
    """


class UnplannedEventError(_Documented, RuntimeError):
    """The steps of a trial tried to release more than their search had paid for.

    Nothing was read.

    Remedy: use steps whose queries follow from public facts alone.
    """


class Refused(_Documented, ValueError):
    """A solver or a search method does not support the problem; nothing was spent.

    Nothing was read either.

    Remedy: use the solver, noise law or parameter that the message names.
    """


class PlanUsedUpError(_Documented, RuntimeError):
    """A solver asked a query that its plan does not declare; nothing was read.

    Remedy: this is a defect of skdp or of a user's solver. Declare every query in the
    plan.
    """


class StreamOverError(_Documented, RuntimeError):
    """`partial_fit` was called on a stream that is over; nothing was read.

    Remedy: clone the estimator to begin another stream, which is another release.
    """


class UnboundedQueryError(_Documented, ValueError):
    """The sensitivity of a query is not known under the adjacency; nothing was read.

    Remedy: use a solver that supports the adjacency.
    """


class UnaccountedStepError(_Documented, ValueError):
    """A step of a pipeline reads the data, and its privacy cost is not accounted for.

    Remedy: use the private or declared alternative that the message names.
    """


class PublicLabelsWarning(_Documented, UserWarning):
    """The set of labels was taken from ``y`` and is assumed public.

    Remedy: pass ``classes=``.
    """


class SeededNoiseWarning(_Documented, UserWarning):
    """A seed makes the noise reproducible, so the fit is not a private release.

    Remedy: use ``random_state=None`` for everything that is published.
    """


class TuningCostWarning(_Documented, UserWarning):
    """With this budget a search can hardly distinguish its candidates.

    Remedy: fit the untuned default with the whole budget, or use fewer candidates.
    """


class CloseCandidatesWarning(_Documented, UserWarning):
    """The best candidate of a search leads the next by less than the noise.

    The warning follows from released scores only and comes after the search, which is
    paid for and kept. If warnings are turned into errors, the search stays fitted.

    Remedy: use fewer candidates, more records, a larger epsilon, a larger share of it
    for the choice, or a score with a narrower range.
    """


class LargeDeltaWarning(_Documented, UserWarning):
    """delta is at least 1/n_samples, which permits publishing whole records.

    Remedy: pass the delta that the message names. The default, 1e-6, is too large for
    tables of a million records or more.
    """


class NoiseDominatesWarning(_Documented, UserWarning):
    """At this budget noise leaves hardly more than a constant model.

    The warning follows from public facts and comes before anything is read or spent. If
    warnings are turned into errors, it stops the fit before the fit is paid for.

    Remedy: what the message names: more records, a larger epsilon or fewer columns.
    """


class CoefficientErrorsWarning(_Documented, UserWarning):
    """Noise hides coefficients, or biases them: some records weigh less.

    The warning follows from released numbers only and comes after the fit, which is
    paid for and kept.

    Remedy: use more records or a larger epsilon; leave out one of the columns that the
    message names.
    """


class ConstantModelWarning(_Documented, UserWarning):
    """Every released weight is 0: the model predicts the same for every row.

    The warning depends on released numbers only, and comes after the fit, which is
    paid for and kept. If warnings are turned into errors, the estimator stays fitted.

    Remedy: use a larger epsilon or more records; declare ``columns=`` for a table.
    """


class UndeclaredRowsWarning(_Documented, UserWarning):
    """Nothing declares how long rows are, and longer rows are clipped to `data_norm`.

    The warning follows from public facts: from the type of X, from the parameters of
    the estimator, and from the steps before it in a pipeline. No row is looked at.

    Remedy: declare ``columns=``, put `BoundedScaler` before the estimator, or pass a
    `data_norm` that is known beforehand.
    """


class NewLedgerWarning(_Documented, UserWarning):
    """A new ledger has the same folder and data set label as another ledger.

    Remedy: open the existing ledger with ``BudgetLedger.open(path)``, or label each
    data set with ``dataset=``.
    """


class StandInDataWarning(_Documented, UserWarning):
    """A loader returns other data than its name says.

    Remedy: put the data where the message says that the loader looks for them.
    """


class StratifiedFoldsWarning(_Documented, UserWarning):
    """Folds depend on the labels, so that fits cost more than the ledger is charged.

    Remedy: pass ``cv=KFold(5)``.
    """


class ClippedRowsWarning(_Documented, UserWarning):
    """Rows that reach a private step may exceed its `data_norm`, and are then clipped.

    Remedy: use the `data_norm` that the message names, or put `RowNormClipper` before
    the step if rows should be clipped.
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
    "committed to a ledger stays charged. Check the data, its files or its connection, "
    "and fit again."
)


class SourceError(_Documented, RuntimeError):
    """Records could not be read or added up to the end, or changed meanwhile.

    The message is always the same, for data in memory and in a source, so that it does
    not reveal the cause or the record concerned. What was committed to a ledger before
    stays charged.

    Remedy: check files and connections, make a new source and fit again, which spends
    again.
    """
