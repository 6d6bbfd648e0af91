"""``python -m skdp.privacy study.db``: print a ledger's books."""

from __future__ import annotations

import argparse
import sqlite3
import sys

from skdp.exceptions import LedgerError
from skdp.privacy._ledger import BudgetLedger

_KIND_OF_NOISE = {"any": "with any noise", "gaussian": "with Gaussian noise,"}


def main(arguments: list[str] | None = None) -> int:
    """Print the books of one ledger; 1 if the file is none."""
    parser = argparse.ArgumentParser(
        prog="python -m skdp.privacy",
        description="Print the cap, the spends and what is left of a ledger.",
    )
    parser.add_argument("path", help="the ledger's file")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="find again what every spend is charged; 1 if one was charged less",
    )
    given = parser.parse_args(arguments)
    try:
        ledger = BudgetLedger.open(given.path)
        ledger.spends(verify=given.verify)
        kept = ledger.remaining("any")
        spent, remaining = ledger.spent(), ledger.remaining()
        table = ledger.to_frame()
    except (LedgerError, sqlite3.Error) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"ledger     {ledger.path}")
    print(f"data set   {ledger.dataset or '(no label)'}, unit {ledger.unit}")
    print(f"adjacency  {ledger.adjacency}")
    print(f"cap        epsilon {ledger.epsilon:g}, delta {ledger.delta:g}")
    print(
        f"set aside  epsilon {ledger.reserve_epsilon:g}, delta "
        f"{ledger.reserve_delta:g}, for what does not add up in squares"
    )
    print(f"spent      epsilon {spent.epsilon:.4g} in {len(table)} releases")
    print(
        f"left       epsilon {remaining.epsilon:.4g}, delta {remaining.delta:.4g} for "
        f"one more release {_KIND_OF_NOISE[remaining.noise]}"
    )
    if remaining.noise == "gaussian":
        print(f"           or epsilon {remaining.pure_epsilon:.4g} for a pure one:")
        print("           noise adds up in squares, and spent and left exceed the cap")
        print(f"           or epsilon {kept.epsilon:.4g}, delta {kept.delta:.4g} for")
        print("           one of any kind, from what is set aside")
    print("covers     what carried this ledger: fits, searches, private scores. Raw")
    print("           scores and choices made from them are not private. Spent is the")
    print("           cost of these releases fixed in advance; for adaptively chosen")
    print("           ones the guarantee is the cap.")
    if given.verify:
        print("verified   every spend is charged what its event costs")
    if len(table):
        print()
        print(table.drop(columns="event").to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
