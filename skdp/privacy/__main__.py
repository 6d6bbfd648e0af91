"""``python -m skdp.privacy study.db``: print a ledger's entries or a signed report."""

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
    # A single word is the name of a ledger, even if a command has the same name.
    if len(words) > 1 and words[0] in _COMMANDS:
        return _COMMANDS[words[0]](words[1:])
    return _print_books(words)


def _print_report(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m skdp.privacy report",
        description="Print a signed report on a ledger. The file is not changed.",
    )
    parser.add_argument("path", help="the ledger's file")
    parser.add_argument("--json", action="store_true", help="as JSON, for 'check'")
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
        description="Check that a report in JSON is unchanged since it was made.",
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
    print(f"unchanged: {len(told['releases'])} releases, head {told['head']}")
    if given.key is None:
        print(
            "Without a key anyone can sign: compare it with a new report on the ledger."
        )
    return 0


def _add_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", help="file that contains a secret key (HMAC)")


def _key_in(path: str | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes().strip()


def _print_books(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m skdp.privacy",
        description="Print a ledger's cap, its releases and its remaining budget.",
        epilog="'report FILE' prints a signed report, 'check FILE' checks one.",
    )
    parser.add_argument("path", help="the ledger's file")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="compute every charge again; exit status 1 if one was too small",
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
        f"{reserve.delta:g}, for costs that do not add up in squares"
    )
    print(f"spent      epsilon {spent.epsilon:.4g} in {len(table)} releases")
    print(
        f"left       epsilon {remaining.epsilon:.4g}, delta {remaining.delta:.4g} for "
        f"one more release {_KIND_OF_NOISE[remaining.noise]}"
    )
    if remaining.noise == "gaussian":
        print(f"           or epsilon {remaining.pure_epsilon:.4g} for a pure one")
        print("           (Gaussian costs add up in squares: the sum exceeds the cap),")
        print(f"           or epsilon {kept.epsilon:.4g}, delta {kept.delta:.4g} for")
        print("           a release of any kind, out of the amount set aside")
    print("covers     releases made with this ledger: fits, searches, private scores.")
    print("           Raw scores and choices made from them are not private.")
    print("           'spent' holds for releases that were fixed in advance; for")
    print("           adaptively chosen releases the guarantee is the cap.")
    if given.verify:
        print("verified   every release was charged what its event costs")
    if len(table):
        print()
        print(table.drop(columns="event").to_string(index=False))
    return 0


_COMMANDS = {"report": _print_report, "check": _check_report}

if __name__ == "__main__":
    sys.exit(main())
