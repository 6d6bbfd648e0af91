"""Records that lie in files, in databases or on other machines, as X of estimators."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skdp.io._external import TableSource
from skdp.io._parquet import ParquetSource
from skdp.io._sql import SqlSource

__all__ = ["DaskSource", "ParquetSource", "SqlSource", "TableSource"]

if TYPE_CHECKING:
    from skdp.io.engines._dask import DaskSource
else:

    def __getattr__(name: str) -> Any:
        """`DaskSource`, which is loaded when it is asked for."""
        if name == "DaskSource":
            return importlib.import_module("skdp.io.engines._dask").DaskSource
        raise AttributeError(f"module 'skdp.io' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
