"""Sources: data as solvers see it."""

from skdp.data._arriving import Arriving, parts_of
from skdp.data._buckets import Bucket, buckets
from skdp.data._centred import (
    CentredRows,
    CentredSource,
    Centring,
    StateRows,
)
from skdp.data._code_rows import CodeBasis, CodeRows, CodeSource, added_up
from skdp.data._held import HeldSource, held, in_memory
from skdp.data._memory import MemorySource
from skdp.data._offset import WithOffset
from skdp.data._permuted import Order, drawn_order, in_order
from skdp.data._source import (
    LEAST_PART,
    Block,
    Elsewhere,
    Source,
    counted,
    crowding,
    elsewhere,
    has_room,
    has_shares,
    holds_rows,
    holds_users,
    is_stable,
    most_entries,
    n_places,
    nothing,
)
from skdp.data._table import Table
from skdp.data._users import (
    MOST_ROWS_OF_A_USER,
    UserSource,
    equal_shares,
    places_of_own,
)
from skdp.data._views import (
    CentredDense,
    ColumnsOf,
    ConstantColumn,
    Encoded,
    EntriesClipped,
)

__all__ = [
    "LEAST_PART",
    "MOST_ROWS_OF_A_USER",
    "Arriving",
    "Block",
    "Bucket",
    "CentredDense",
    "CentredRows",
    "CentredSource",
    "Centring",
    "CodeBasis",
    "CodeRows",
    "CodeSource",
    "ColumnsOf",
    "ConstantColumn",
    "Elsewhere",
    "Encoded",
    "EntriesClipped",
    "HeldSource",
    "MemorySource",
    "Order",
    "Source",
    "StateRows",
    "Table",
    "UserSource",
    "WithOffset",
    "added_up",
    "buckets",
    "counted",
    "crowding",
    "drawn_order",
    "elsewhere",
    "equal_shares",
    "has_room",
    "has_shares",
    "held",
    "holds_rows",
    "holds_users",
    "in_memory",
    "in_order",
    "is_stable",
    "most_entries",
    "n_places",
    "nothing",
    "parts_of",
    "places_of_own",
]
