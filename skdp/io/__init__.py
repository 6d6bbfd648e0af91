"""Records that lie in files, in databases or on other machines, as X of estimators."""

from skdp.io._dask import DaskSource
from skdp.io._parquet import ParquetSource
from skdp.io._sql import SqlSource
from skdp.io._table_source import TableSource

__all__ = ["DaskSource", "ParquetSource", "SqlSource", "TableSource"]
