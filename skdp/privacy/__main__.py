"""``python -m skdp.privacy study.db``: print a ledger's entries, or a signed report."""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
from pathlib import Path

from skdp.exceptions import LedgerError
from skdp.privacy.ledger._ledger import BudgetLedger
from skdp.privacy.ledger._report import as_text, check_report, report_on

_KIND_OF_NOISE = {"any": "with any noise", "gaussian": "with Gaussian noise,"}


def main(arguments: list[str] | None = None) -> int:
    """Print the entries of one ledger, or run a command; 1 if there is no ledger."""
    words = sys.argv[1:] if arguments is None else arguments
    # A single word is the name of a ledger, even if it is also a command.
    if len(words) > 1 and words[0] in _COMMANDS:
        return _COMMANDS[words[0]](words[1:])
    return _print_books(words)


def _print_report(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m skdp.privacy report",
        description="Print a signed report on a ledger, whose file is only read.",
    )
    parser.add_argument("path", help="the ledger's file")
    parser.add_argument("--json", action="store_true", help="as JSON, to be checked")
    _add_key(parser)
    given = parser.parse_args(arguments)
    path = os.path.abspath(given.path)
    try:
        signed = report_on(path, _key_in(given.key))
    except (LedgerError, OSError, ValueError, sqlite3.Error) as error:
        print(error, file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps(signed, indent=2, sort_keys=True, allow_nan=False))
    else:
        print(f"Report on the ledger {path}\n\n{as_text(signed)}")
    return 0


def _check_report(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m skdp.privacy check",
        description="Whether a report in JSON says what it said when it was made.",
    )
    parser.add_argument("path", help="the report's file")
    _add_key(parser)
    given = parser.parse_args(arguments)
    try:
        text = Path(given.path).read_text(encoding="utf-8")
        told = check_report(text, _key_in(given.key))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"as signed: {len(told['releases'])} releases, head {told['head']}")
    if given.key is None:
        print(
            "Without a key anybody can sign: compare it with the ledger's own report."
        )
    return 0


def _add_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", help="file with a secret key, for an HMAC")


def _key_in(path: str | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes().strip()


def _print_books(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m skdp.privacy",
        description="Print the cap, the spends and what is left of a ledger.",
        epilog="'report FILE' prints a signed report, 'check FILE' checks one.",
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
        reserve = ledger._state(ledger._books.read()).reserve
    except (LedgerError, sqlite3.Error) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"ledger     {ledger.path}")
    print(f"data set   {ledger.dataset or '(no label)'}, unit {ledger.unit}")
    print(f"adjacency  {ledger.adjacency}")
    print(f"cap        epsilon {ledger.epsilon:g}, delta {ledger.delta:g}")
    print(
        f"set aside  epsilon {reserve.epsilon:g}, delta "
        f"{reserve.delta:g}, for what does not add up in squares"
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


_COMMANDS = {"report": _print_report, "check": _check_report}

if __name__ == "__main__":
    sys.exit(main())
