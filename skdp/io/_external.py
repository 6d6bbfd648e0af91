"""`TableSource`: records outside of memory, the steps they pass, and their batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn, Self, SupportsIndex

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack
from sklearn.utils import get_tags

from skdp._arrays import rows_at, rows_in_places
from skdp._checks import check_count, similar_to
from skdp._quiet import silence
from skdp.io._external_users import UserIds, check_groups
from skdp.io._passes import check_place, predict_to
from skdp.io._reading import Reading, declared_at, kind_of, reading_of, sample_row
from skdp.io._session import (
    NO_POSITIONS,
    RowBatch,
    RowPositions,
    Session,
    Snapshot,
    UserBuckets,
    refused,
)
from skdp.tables._block_file import free_disk
from skdp.tables._columns import as_declared
from skdp.tables._source import MEMORY, KeptRows, Remote, Room

# --------------------------------------------- Steps: row-wise transformers of a source


@dataclass(frozen=True, eq=False)
class Step:
    """A fitted transformer whose output rows each follow from one input row.

    Parameters
    ----------
    transformer : transformer
        Public.
    declared : dict, tuple, Range or None
        The transformer's declarations of its input columns.
    shown : ndarray, CSR or data frame of one row
        The transformed sample row.
    refuses_unknown, allows_missing : bool
        As in `Reading`.
    """

    transformer: Any
    declared: Any
    shown: Any
    refuses_unknown: bool
    allows_missing: bool

    def transform(self, rows: Any) -> Any:
        return self.transformer.transform(rows)

    def applied(
        self, rows: Any, is_present: NDArray[np.bool_]
    ) -> tuple[Any, NDArray[np.bool_]]:
        """Transformed rows, and which of them are records; refused rows are not."""
        return applied(self.transform, rows, is_present, self.shown)


def applied(
    change: Callable[[Any], Any], rows: Any, is_present: NDArray[np.bool_], shown: Any
) -> tuple[Any, NDArray[np.bool_]]:
    """Rows changed one by one, and which of them are records; refused rows are not.

    Parameters
    ----------
    change : callable
        Changes each row by itself, and may refuse rows. It gets copies, since it may
        change rows in place before it refuses one, and must not change them twice.
    rows : ndarray, CSR or data frame
    is_present : ndarray of bool of shape (n_rows,)
    shown : ndarray, CSR or data frame of one row
        Replaces all rows if all of them are refused.
    """
    every = np.arange(len(is_present))
    with silence():
        try:
            return change(rows_at(rows, every)), is_present
        except KeyboardInterrupt:
            raise
        except BaseException:  # steps raise more than exceptions
            is_fine = np.array([_passes(change, rows, int(i)) for i in every])
            if not is_fine.any():
                return _stacked([shown] * every.size), np.zeros_like(is_present)
            # Once more in the same shape: no other row's last bits may depend on
            # whether one is refused. The rows that replace refused rows are in no sum.
            places = np.where(is_fine, every, np.argmax(is_fine))
            return change(rows_in_places(rows, places)), is_present & is_fine


def _passes(change: Callable[[Any], Any], rows: Any, i: int) -> bool:
    try:
        change(rows_at(rows, np.array([i])))
    except KeyboardInterrupt:
        raise
    except BaseException:  # a row that is refused is a null record
        return False
    return True


def of_step(transformer: Any, before: Any) -> Step:
    """A fitted transformer as a step after rows like the given row."""
    takes = get_tags(transformer).input_tags
    declared = getattr(transformer, "columns_", None)
    refuses = getattr(transformer, "handle_unknown", "") == "error"
    shown = transformer.transform(before)
    return Step(transformer, declared, shown, refuses, bool(takes.allow_nan))


def _stacked(rows: list[Any]) -> Any:
    if isinstance(rows[0], pd.DataFrame):
        return pd.concat(rows, ignore_index=True)
    return vstack(rows, format="csr") if issparse(rows[0]) else np.concatenate(rows)


# -------------------------------------------------------------------------- TableSource


_BYTES = "Pass a number of bytes, such as 4 * 2**30; 0 keeps nothing."
_DISK = "Pass a number of bytes, None for half of what is free, or 0 for no file."
# Key of an order by ids; the positions in it are drawn separately.
_ANY_KEY = "0"
_NO_ARRAY = (
    "A source of rows that are not in memory cannot become an array, be indexed, "
    "copied or stored. Pass it to estimators of skdp, alone or in a Pipeline of skdp's "
    "steps without memory=; for anything else read a part of it into a data frame."
)


class TableSource(ABC):
    """Records in files or in a database, as X of `fit`, `score` and `predict`.

    A source is read block by block, as often as an estimator needs it. Its target is
    one of its columns, so that `y` is left out.

    Attributes
    ----------
    shape : (int, int)
        Declared number of records, or of users, and number of features.
    feature_names : tuple of str
    dtypes : dict of str to str
        Arrow type of each feature.
    target : str or None
    groups : str or None
        The column of user ids, of a source of users.
    columns : mapping, sequence, Range or None
        As declared.
    is_ordered : bool
        Whether predictions have an order.
    has_fixed_order : bool
        Whether every reading has the records in an order that no record changes.
    is_permutable : bool
        Whether records have ids, from which a random order can follow.
    assumed_public : tuple of str
        What a guarantee takes as public or as given, in addition to a table's facts.
    """

    is_permutable = False
    # Whether several owners have the records; they answer only sums with Gaussian
    # noise.
    is_shared = False
    # The order in which a database returns rows; empty for the source's own.
    _order_text = ""

    def __init__(
        self,
        *,
        target: str | None,
        n_samples: int,
        features: Sequence[str] | None,
        columns: Any,
        batch_size: int,
        memory: int = MEMORY,
        disk: int | None = None,
        groups: str | None = None,
    ) -> None:
        self.target, self.columns, self.groups = target, columns, groups
        self.n_samples = self._n_declared = check_count("n_samples", n_samples)
        self.batch_size = check_count("batch_size", batch_size, high=1 << 20)
        self.memory = check_count("memory", memory, low=0, remedy=_BYTES)
        self.disk = (
            None if disk is None else check_count("disk", disk, low=0, remedy=_DISK)
        )
        self._declared = None if columns is None else as_declared(columns)
        self._steps: tuple[Step, ...] = ()
        self._places: RowPositions | None = None
        self._slots: UserBuckets | None = None
        self._reads: list[Session] = []  # shared by all that is derived from a source
        self._schema: Any = self._opened_schema()
        self._names = self._features(features)
        self._check_target()
        self._check_groups()
        self._snapshot = self._taken()

    # ------------------------------------------------- what a kind of source provides

    is_ordered: bool
    has_fixed_order: bool

    @abstractmethod
    def _opened_schema(self) -> Any:
        """Names and Arrow types of all columns, target and keys included."""

    @abstractmethod
    def _taken(self) -> Snapshot:
        """A snapshot of the current state."""

    @abstractmethod
    def _count(self) -> int:
        """Number of rows."""

    @abstractmethod
    def _scan(
        self, names: tuple[str, ...]
    ) -> Iterator[tuple[Any, NDArray[np.bool_] | None]]:
        """Record batches of these columns, and which of their rows are records."""

    def _connected(self) -> AbstractContextManager[None]:
        """A context that holds connections open during a session."""
        return nullcontext()

    @property
    def assumed_public(self) -> tuple[str, ...]:
        """Assumptions for the record of a fit."""
        kind = self._snapshot.kind
        return (f"data that did not change during the fit, as checked by {kind}",)

    # -------------------------------------------------------------------- public facts

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of records (as declared) or of users, and of features."""
        return self.n_samples, self.sample_row().shape[1]

    def __len__(self) -> int:
        return self.n_samples

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""
        shown = self.sample_row()
        if isinstance(shown, pd.DataFrame):
            return tuple(map(str, shown.columns))
        return tuple(f"x{i}" for i in range(shown.shape[1]))

    @property
    def dtypes(self) -> dict[str, str]:
        """Types of the features."""
        if self._steps:
            shown = self.sample_row()
            return dict.fromkeys(self.feature_names, str(pd.DataFrame(shown).dtypes[0]))
        return {name: str(self._schema.field(name).type) for name in self._names}

    def __repr__(self) -> str:
        n, d = self.shape
        unit = "records" if self.groups is None else "users"
        return f"{type(self).__name__}({n:,} {unit}, {d} features)"

    # ------------------------------------------------------------ what a source is not

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise TypeError(_NO_ARRAY)

    def __getitem__(self, rows: Any) -> NoReturn:
        raise TypeError(_NO_ARRAY)

    def __iter__(self) -> NoReturn:
        raise TypeError(_NO_ARRAY)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(_NO_ARRAY)

    # -------------------------------------------------------------------- predictions

    def predict_to(
        self, model: Any, path: Any, *, keys: Sequence[str], method: str = "predict"
    ) -> None:
        """Write keys and predictions of all records to a Parquet file.

        Predictions of records that cannot be read are empty. Predictions of raw records
        are as private as the records.

        Parameters
        ----------
        model : fitted estimator or Pipeline
            With one prediction for each row.
        path : str or path
            Path of a file that does not exist yet.
        keys : list of str
            Columns that identify the record of each prediction.
        method : {"predict", "decision_function"}, default="predict"

        Raises
        ------
        ValueError
            If an argument is not as described. Nothing was written.
        SourceError
            If the source could not be read to the end; what was written is removed.
        """
        check_place(self, path, keys, method)
        self.during(lambda: predict_to(self, model, path, keys, method))

    # ------------------------------------------------------------------ for estimators

    def sample_row(self, declared: Any = None) -> Any:
        """One row that looks like the source's rows; nothing is read.

        Parameters
        ----------
        declared : dict, tuple, Range or None
            An estimator's declarations of the columns.
        """
        if self._steps:
            return self._steps[-1].shown
        if declared is None:
            declared = self._declared
        return pd.DataFrame(
            {
                name: sample_row(
                    self._schema.field(name).type, declared_at(declared, i, name)
                )
                for i, name in enumerate(self._names)
            }
        )

    def appended(self, step: Any) -> Self:
        """The same source with one more step, which all rows pass through."""
        other = self._copied()
        declared = getattr(step, "columns_", None)
        other._steps = (*self._steps, of_step(step, self.sample_row(declared)))
        other.columns = other._declared = None
        return other

    def taking(self, positions: NDArray[np.int64] | slice) -> Self:
        """The same source with only the records at some positions, in their order.

        A source of users keeps the users in as many buckets: see `UserBuckets`. How
        many users these are is private, up to all of them, and `n_samples` is the
        number of buckets.

        Parameters
        ----------
        positions : ndarray of int or slice
            Distinct positions, drawn without regard to the data.

        Raises
        ------
        ValueError
            If other records can change a record's position.
        """
        if self.groups is not None:
            return self._in_slots(self.groups, positions)
        if self.has_fixed_order:
            other = self._copied()
        elif self.is_permutable:
            other = self.permuted(_ANY_KEY)
        else:
            raise ValueError(NO_POSITIONS)
        # Its positions belong to one order.
        other.has_fixed_order, other.is_permutable = True, False
        whole = (
            RowPositions.all(self._n_declared) if self._places is None else self._places
        )
        other._places = whole.taking(positions)
        other.n_samples = len(other._places)
        return other

    def _in_slots(self, ids: str, positions: NDArray[np.int64] | slice) -> Self:
        other = self._copied()
        own = self._slots
        whole = UserBuckets.all(ids, self._n_declared) if own is None else own
        other._slots = whole.taking(positions)
        other.n_samples = len(other._slots)
        return other

    @property
    def max_overcount(self) -> float:
        """Largest ratio of units to `n_samples`; 1 except for parts of users."""
        return self._n_declared / self.n_samples if self._slots is not None else 1.0

    def permuted(self, key: str) -> Self:
        """The same source in the order of a keyed permutation of its records' ids.

        Parameters
        ----------
        key : str
            Hexadecimal; different keys give different orders. It is not a secret.
        """
        raise TypeError("A source without ids of its records cannot be permuted.")

    def _copied(self) -> Self:
        other: Self = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def reading(
        self,
        declared: Any = None,
        *,
        refuses_unknown: bool = False,
        allows_missing: bool = False,
    ) -> Reading:
        """How columns are read for an estimator with these declarations."""
        given = Declared(declared, refuses_unknown, allows_missing)
        return reading_through(self._steps, self._schema, self._names, given)

    def check_kinds(self, reading: Reading) -> None:
        """Refuse columns that are stored as another type than they are read as.

        Some of their cells may be readable by chance: an error at another cell would
        come after the commit, and reveal something about a record.
        """
        fine = {"number", "boolean"}
        if not reading.is_numeric:
            fine |= {"string", "date"}
        kinds = {name: kind_of(self._schema.field(name).type) for name in reading.names}
        bad = [name for name, kind in kinds.items() if kind not in fine]
        if bad:
            wanted = "numeric" if reading.is_numeric else "numeric, texts or dates"
            raise ValueError(
                f"The columns of a source must be {wanted} for this model. Got other "
                f"kinds in the columns {bad}. Leave them out by features=[...], or "
                "store them as the types that the model was fitted to."
            )

    def target_kind(self) -> str:
        """The kind of the targets: number, boolean, string, date or other."""
        if self.target is None:
            raise ValueError(
                "The source must name the column of its target. Got target=None. Make "
                "it with target='name'."
            )
        return kind_of(self._schema.field(self.target).type)

    def rows(
        self, reading: Reading, also: tuple[str, ...] = ()
    ) -> Iterator[tuple[Any, NDArray[np.bool_], Any]]:
        """One pass: rows after all steps, which are records, and further columns."""
        (session,) = self._reads
        if self._slots is not None:
            also = (*also, self._slots.ids)
        some = session.passed(names_of(reading, also), self._order_text, self._batches)
        if self._places is not None:
            some = self._places.of(some)
        if self._slots is not None:
            some = self._slots.of(some, self.users)
        yield from rows_of(some, reading, self._steps)

    def _batches(self, names: tuple[str, ...]) -> Iterator[RowBatch]:
        return RowBatch.of(self._scan(names), self.batch_size)

    def keep_cells(self) -> None:
        """Keep cells from the next pass to the end of the session, for other passes."""
        (session,) = self._reads
        also = (self.target, self.groups)
        names = tuple(name for name in also if name is not None)
        session.keep_cells(self._schema, names, Room(self.memory, self.disk_room))

    def keep_rows(self) -> None:
        """Keep encoded rows too, for fits whose number and kind are public."""
        (session,) = self._reads
        session.keep_rows()

    def kept_rows(
        self, encoding: Callable[[], Any], n_bytes: float
    ) -> KeptRows[Any] | None:
        """Where encoded rows are kept; None if they are encoded anew.

        Parameters
        ----------
        encoding : callable
            Gives a value that is equal for equal encodings.
        n_bytes : float
            Largest memory of the rows; public.
        """
        (session,) = self._reads
        if not session.has_room(n_bytes):
            return None
        return session.kept_rows((self, encoding()))

    @property
    def users(self) -> UserIds:
        """The users of the rows, within the current session. Private."""
        (session,) = self._reads
        assert session.users is not None  # since there are `groups`
        return session.users

    @property
    def remote(self) -> Remote | None:
        """Where the records are added up; None if they are read here."""
        return None

    @property
    def handed_over(self) -> tuple[Any, ...]:
        """Public facts that a part needs to replace the source."""
        return (
            self.target,
            self.batch_size,
            self._steps,
            self.n_partitions,
            self.memory,
            self.disk_room,
        )

    @property
    def disk_room(self) -> int:
        """Largest number of bytes in a temporary file; public."""
        return free_disk() if self.disk is None else self.disk

    @property
    def n_partitions(self) -> int:
        """Number of places that hold what is kept of the rows."""
        return 1

    def during(
        self, call: Callable[[], Any], label: str = "", is_asked: bool = True
    ) -> Any:
        """The result of a call that reads the source; see `Session`.

        Raises
        ------
        ValueError
            If the data are not as declared. Nothing was read or spent.
        SourceError
            If they could not be read to the end. Everything committed stays committed.
        """
        if self._reads:
            self._reads[0].check_own()
            return call()
        session = Session(self._snapshot, label, is_asked)
        problem: BaseException | None = None
        self._reads.append(session)
        try:
            with self._connected():
                self._accept(session)
                result = call()
                session.check_unbroken()
                session.snapshot.check()
                return result
        except BaseException as error:
            problem = error
        finally:
            self._reads.clear()
            session.forget()
        # Outside of the handler, and in no variable of this frame, so that the first
        # error is not carried along.
        told, problem = session.told(problem), None
        raise told from None

    def _accept(self, session: Session) -> None:
        """Refuse data that are not as declared; reads only counts, and ids of users."""
        message = (
            "The data of a source must be as they were when it was made, and "
            "'n_samples' must be their number of rows. Got other data or another "
            "number. Make the source anew, with the right n_samples."
            if self.groups is None
            else "The data of a source must be as they were when it was made. Got "
            "other data. Make the source anew."
        )
        refused(session.snapshot.check, message)
        session.n_rows = refused(self._count, message)
        if self.groups is not None:
            session.users = self._counted_users(self.groups)
        elif session.n_rows != self._n_declared:
            raise ValueError(message)

    def _counted_users(self, name: str) -> UserIds:
        """The users, by a pass over their ids; more users than declared are refused."""
        message = (
            "The ids of a source must be readable, and 'n_samples' must be at least "
            "the number of users, including users without rows. Got unreadable ids "
            "or more users. Make the source anew, with the right n_samples."
        )

        ids = (columns.column(0) for columns, _ in self._scan((name,)))
        users: UserIds = refused(lambda: UserIds.counted(ids), message)
        if users.n_users > self._n_declared:
            raise ValueError(message)
        return users

    def _features(self, given: Sequence[str] | None) -> tuple[str, ...]:
        """Names of features; the target and the ids of users are not features."""
        known = list(self._schema.names)
        if given is None:
            given = [name for name in known if name not in (self.target, self.groups)]
        names = tuple(given)
        strange = [name for name in names if name not in known]
        if strange or len(set(names)) < len(names) or not names:
            raise ValueError(
                "The 'features' argument must name different columns of the source, or "
                f"be None. Got {strange or list(names)}."
                f"{similar_to(strange[0], known) if strange else ''} Its columns are "
                f"{known}."
            )
        if self.target in names:
            raise ValueError(
                "The target must not be a feature. Got it among 'features'. Leave it "
                "out of them."
            )
        if self.groups is not None and self.groups in (self.target, *names):
            raise ValueError(
                "The column of 'groups' must be neither the target nor a feature. Got "
                f"{self.groups!r}. Leave it out of them."
            )
        return names

    def _check_target(self) -> None:
        if self.target is not None and self.target not in self._schema.names:
            raise ValueError(no_column("target", self.target, self._schema.names))

    def _check_groups(self) -> None:
        if self.groups is None:
            return
        if self.groups not in self._schema.names:
            raise ValueError(no_column("groups", self.groups, self._schema.names))
        check_groups(self._schema.field(self.groups).type, self.groups)


def no_column(argument: str, name: str, names: Sequence[str]) -> str:
    """The message about a name that no column of a source has."""
    return (
        f"The {argument!r} argument must name a column of the source. Got {name!r}."
        f"{similar_to(name, names)} Its columns are {list(names)}."
    )


@dataclass(frozen=True)
class Declared:
    """Declarations of the columns that are read; see `Reading`."""

    columns: Any
    refuses_unknown: bool
    allows_missing: bool


def reading_through(
    steps: tuple[Step, ...], schema: Any, names: tuple[str, ...], given: Declared
) -> Reading:
    """How columns are read for the first step, or as declared if there is none."""
    if steps:
        first = steps[0]
        given = Declared(first.declared, first.refuses_unknown, first.allows_missing)
    return reading_of(
        schema,
        names,
        given.columns,
        refuses_unknown=given.refuses_unknown,
        allows_missing=given.allows_missing,
    )


# Rows that are fetched at once: more than a block, and few enough for the cache.
FETCHED = 1 << 16


def names_of(reading: Reading, also: tuple[str, ...]) -> tuple[str, ...]:
    """Columns of a pass, each once."""
    return tuple(dict.fromkeys((*reading.names, *also)))


def rows_of(
    batches: Iterator[RowBatch], reading: Reading, steps: tuple[Step, ...]
) -> Iterator[tuple[Any, NDArray[np.bool_], Any]]:
    """Rows after all steps, which of them are records, and the columns as read."""
    for batch in batches:
        rows, is_present = reading.cleaned(batch.columns)
        if batch.is_record is not None:
            is_present &= batch.is_record
        for step in steps:
            rows, is_present = step.applied(rows, is_present)
        yield rows, is_present, batch.columns
