"""The command ``skdp``: plans, descriptions and ledgers from a terminal."""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skdp.exceptions import BudgetExceeded, LedgerError, SourceError

# Commands import what they need, so that ``skdp --help`` does not wait for all of skdp.


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status, 1 if the command is refused.

    The exit status of ``skdp verify`` is that of `skdp._verify`.
    """
    given = _parser().parse_args(arguments)
    try:
        return given.run(given) or 0
    except (
        BudgetExceeded,
        ImportError,
        LedgerError,
        OSError,
        SourceError,
        TypeError,
        ValueError,
        sqlite3.Error,
    ) as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="skdp",
        description="Differentially private estimators for scikit-learn.",
        epilog="One model of several data owners has commands of its own: "
        "python -m skdp.federated --help",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")

    def command(name: str, run: Callable[[Any], int | None], what: str) -> Any:
        described = f"{what[0].upper()}{what[1:]}."
        added = commands.add_parser(name, help=what, description=described)
        added.set_defaults(run=run)
        return added

    plan = command(
        "plan",
        _plan,
        "print which solver a fit takes and how it compares "
        "its noise with the signal; reads no data",
    )
    plan.add_argument("rows", type=int, help="number of records")
    plan.add_argument("features", type=int, help="number of columns after encoding")
    _add_budget(plan)

    template = command(
        "template",
        _template,
        "print a declaration of a table's "
        "columns to fill in; reads names and types, no cells",
    )
    template.add_argument("table", help="a Parquet file, or a CSV file with a header")

    describe = command(
        "describe", _describe, "describe a table privately, charged to a ledger"
    )
    describe.add_argument("table", help="a Parquet file, or a CSV file with a header")
    describe.add_argument("columns", help="a TOML file, as 'skdp template' prints it")
    describe.add_argument("--ledger", required=True, help="file of an existing ledger")
    _add_budget(describe)

    ledger = command(
        "ledger", _ledger, "print a ledger's cap, its releases and how much is left"
    )
    ledger.add_argument("path", help="the ledger's file")
    ledger.add_argument("--full", action="store_true", help="print all figures")
    ledger.add_argument(
        "--verify",
        action="store_true",
        help="compute every charge again; exit status 1 if one was too small",
    )

    report = command(
        "report",
        _report,
        "print a report on a ledger, sealed by a digest or signed with a key",
    )
    report.add_argument("path", help="the ledger's file, which is not changed")
    report.add_argument("--json", action="store_true", help="as JSON, for 'skdp check'")
    _add_key(report)

    check = command("check", _check, "check that a report in JSON is unchanged")
    check.add_argument("path", help="the file that 'skdp report --json' printed")
    _add_key(check)

    letter = command(
        "letter",
        _letter,
        "print a letter to the data protection officer, filled in from a ledger",
    )
    letter.add_argument("path", help="the ledger's file, which is not changed")
    _add_key(letter)

    verify = command(
        "verify",
        _verify,
        "compute the epsilon of records and ledgers again, without skdp's accounting; "
        "exit status 1 if a statement does not hold, 2 if it cannot be checked",
    )
    verify.add_argument(
        "paths", nargs="+", metavar="file", help="a ledger, or a privacy_ as JSON"
    )
    return parser


def _add_budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument(
        "--adjacency", choices=["replace_one", "zero_out"], default="replace_one"
    )


def _add_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", help="a file with a secret key of 16 bytes or more")


# ------------------------------------------------------------------------------- Tables


def _plan(given: Any) -> None:
    from skdp import forecast

    budget = {"delta": given.delta, "adjacency": given.adjacency}
    print(forecast(given.rows, given.features, given.epsilon, **budget))


def _template(given: Any) -> None:
    from skdp.io._csv import read_header
    from skdp.io._reading import arrow, kind_of
    from skdp.tables._columns import toml_template

    if _is_csv(given.table):
        kinds = dict.fromkeys(read_header(given.table), "unknown")
    else:
        arrow()  # or an error that says how to install it
        from pyarrow.parquet import read_schema

        kinds = {each.name: kind_of(each.type) for each in read_schema(given.table)}
    print(toml_template(kinds))


def _describe(given: Any) -> None:
    import pandas as pd

    from skdp import BudgetLedger, TableEncoder, describe
    from skdp.io._csv import read_csv
    from skdp.tables._columns import from_toml

    columns = from_toml(Path(given.columns).read_text(encoding="utf-8"))
    ledger = BudgetLedger.open(given.ledger)
    if _is_csv(given.table):
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


def _is_csv(path: str) -> bool:
    return Path(path).suffix.lower() == ".csv"


# ------------------------------------------------------------------------------ Ledgers


def _ledger(given: Any) -> None:
    from skdp.privacy.ledger._ledger import BudgetLedger
    from skdp.privacy.ledger._report import as_table, report_on

    ledger = BudgetLedger.open(given.path)  # which undoes an unfinished write
    ledger.spends(verify=given.verify)
    told = report_on(ledger.path)["report"]
    print(f"ledger        {ledger.path}\n{as_table(told)}")
    if given.verify:
        print("Verified: every release was charged what its event costs.")
    if given.full:
        kept = ledger.remaining("any")
        print(
            f"\nreserve       epsilon {ledger.reserve_epsilon:g}, delta "
            f"{ledger.reserve_delta:g}, for releases whose noise is not Gaussian\n"
            f"any noise     up to epsilon {kept.epsilon:.4g}, delta {kept.delta:.4g} "
            "for the next release\n"
        )
        print(ledger.to_frame().to_string(index=False))


def _report(given: Any) -> None:
    from skdp.privacy.ledger._report import as_text

    path, signed = _signed(given)
    if given.json:
        print(json.dumps(signed, indent=2, sort_keys=True, allow_nan=False))
    else:
        print(f"Report on the ledger {path}\n\n{as_text(signed)}")


def _check(given: Any) -> None:
    from skdp.privacy.ledger._report import check_report

    text = Path(given.path).read_text(encoding="utf-8")
    found = check_report(text, _key_in(given.key))
    print(f"unchanged: {len(found['releases'])} releases, head {found['head']}")
    if given.key is None:
        print(
            "The report is sealed, not signed: anyone can seal a changed report. "
            "Compare it with a new report on the ledger."
        )


def _letter(given: Any) -> None:
    from skdp.privacy.ledger._letter import as_letter

    print(as_letter(_signed(given)[1]))


def _verify(given: Any) -> int:
    from skdp._verify import main as verify

    return verify(given.paths)


def _signed(given: Any) -> tuple[str, dict[str, Any]]:
    from skdp.privacy.ledger._report import report_on

    path = str(Path(given.path).absolute())
    return path, report_on(path, _key_in(given.key))


def _key_in(path: str | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes().strip()


if __name__ == "__main__":
    sys.exit(main())
