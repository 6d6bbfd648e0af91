"""Records that lie in files or databases, as X of estimators."""

from skdp.io._parquet import ParquetSource
from skdp.io._sql import SqlSource
from skdp.io._table_source import TableSource

__all__ = ["ParquetSource", "SqlSource", "TableSource"]
