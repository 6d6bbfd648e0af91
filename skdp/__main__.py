"""``skdp``: forecasts, ledgers, reports and descriptions from a terminal."""

from __future__ import annotations

import argparse
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skdp.exceptions import BudgetExceeded, LedgerError, SourceError


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status, 1 if the command is refused."""
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in _OF_BOOKS:
        return _books(words)
    parser = argparse.ArgumentParser(
        prog="skdp",
        description="Differentially private estimators for scikit-learn.",
        epilog="Ledgers: 'skdp books FILE' prints a ledger, 'skdp report FILE' prints "
        "a signed report on it, 'skdp check FILE' checks such a report. Several data "
        "owners: 'python -m skdp.federated'.",
    )
    commands = parser.add_subparsers(required=True)
    _add_plan(commands)
    _add_describe(commands)
    given = parser.parse_args(words)
    try:
        given.run(given)
    except (
        BudgetExceeded,
        LedgerError,
        OSError,
        SourceError,
        TypeError,
        ValueError,
        sqlite3.Error,
    ) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


# Commands for one ledger, which ``python -m skdp.privacy`` has too.
_OF_BOOKS: dict[str, Callable[[list[str]], list[str]]] = {
    "books": lambda rest: rest,
    "report": lambda rest: ["report", *rest],
    "check": lambda rest: ["check", *rest],
}


def _books(words: list[str]) -> int:
    from skdp.privacy.__main__ import main as of_books

    return of_books(_OF_BOOKS[words[0]](words[1:]))


def _add_plan(commands: Any) -> None:
    what = "Print a linear model's solver and its noise against signal; reads no data."
    parser = commands.add_parser("plan", description=what)
    parser.add_argument("rows", type=int)
    parser.add_argument("features", type=int)
    _add_budget(parser)
    parser.set_defaults(run=_plan)


def _plan(given: Any) -> None:
    from skdp import forecast

    budget = {"delta": given.delta, "adjacency": given.adjacency}
    print(forecast(given.rows, given.features, given.epsilon, **budget))


def _add_describe(commands: Any) -> None:
    what = "Describe a table of declared columns privately, charged to a ledger."
    parser = commands.add_parser("describe", description=what)
    parser.add_argument("table", help="a Parquet or CSV file")
    parser.add_argument("columns", help="JSON file from skdp.columns.to_json")
    parser.add_argument("--ledger", required=True, help="file of an existing ledger")
    _add_budget(parser)
    parser.set_defaults(run=_describe)


def _describe(given: Any) -> None:
    import pandas as pd

    from skdp import BudgetLedger, TableEncoder, describe
    from skdp.io._csv import read_csv
    from skdp.tables._columns import from_json

    columns = from_json(Path(given.columns).read_text(encoding="utf-8"))
    if not isinstance(columns, dict):
        raise ValueError(
            "The columns of a file must be declared by name. Got declarations by "
            "position. Write a mapping with skdp.columns.to_json."
        )
    ledger = BudgetLedger.open(given.ledger)
    if Path(given.table).suffix.lower() == ".csv":
        table, columns = read_csv(given.table, columns)
    else:
        table = pd.read_parquet(given.table)
    found = describe(
        table,
        TableEncoder(columns, remainder="drop"),
        epsilon=given.epsilon,
        delta=given.delta,
        adjacency=given.adjacency,
        ledger=ledger,
    )
    print(found.to_frame().to_string())


def _add_budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument(
        "--adjacency", choices=["replace_one", "zero_out"], default="replace_one"
    )


if __name__ == "__main__":
    sys.exit(main())
