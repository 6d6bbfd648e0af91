"""``python -m skdp.federated``: make keys, show plans, serve, and coordinate."""

from __future__ import annotations

import argparse
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skdp.exceptions import BudgetExceeded, LedgerError, SourceError
from skdp.federated._plan import FederationPlan
from skdp.federated._remote import PATIENCE, coordinate, serve
from skdp.federated._secrets import Key
from skdp.pipeline._walk import private_steps
from skdp.privacy.ledger._ledger import BudgetLedger


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 1 if it is refused, 2 if a fit ended early."""
    parser = argparse.ArgumentParser(prog="python -m skdp.federated")
    commands = parser.add_subparsers(required=True)
    _command(commands, "keygen", _keygen, "write a new private key", ["path"])
    _command(commands, "show", _show, "print what a plan asks", ["plan"])
    party = _command(commands, "serve", _serve, "take part with a party's records", [])
    party.add_argument("--data", required=True, help="a Parquet file")
    party.add_argument("--ledger", required=True, help="an existing ledger's file")
    party.add_argument("--approve", required=True, help="the plan, which this approves")
    party.add_argument("--key", required=True, help="the file that keygen wrote")
    party.add_argument(
        "--authorities", help="authorities of the coordinator's certificate"
    )
    hub = _command(
        commands, "coordinate", _coordinate, "add up what parties send", ["plan"]
    )
    hub.add_argument("--key", required=True, help="the file that keygen wrote")
    hub.add_argument("--certificate", help="the coordinator's, for encrypted plans")
    hub.add_argument("--certificate-key", help="the certificate's key")
    for one in (party, hub):
        one.add_argument(
            "--record",
            help="a file for the privacy record",
        )
        one.add_argument(
            "--patience", type=float, default=PATIENCE, help="seconds to wait"
        )
    given = parser.parse_args(arguments)
    try:
        given.run(given)
    except (BudgetExceeded, LedgerError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    except SourceError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _command(
    commands: Any, name: str, run: Callable[[Any], None], what: str, places: list[str]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, description=what)
    for place in places:
        parser.add_argument(place)
    parser.set_defaults(run=run)
    return parser


def _keygen(given: Any) -> None:
    key = Key.new()
    key.save(given.path)
    print(key.public.hex())


def _show(given: Any) -> None:
    plan = FederationPlan.load(given.plan)
    print(plan)
    print(plan.charges())


def _serve(given: Any) -> None:
    plan = FederationPlan.load(given.approve)
    ledger = BudgetLedger.open(given.ledger)
    print(plan)
    print(plan.charges(), flush=True)
    key = Key.load(given.key)
    tls = None
    if given.authorities:
        tls = ssl.create_default_context(cafile=given.authorities)
    patience = given.patience
    _told(given, serve(plan, key, given.data, ledger, patience=patience, tls=tls))


def _coordinate(given: Any) -> None:
    plan = FederationPlan.load(given.plan)
    print(plan, flush=True)
    key = Key.load(given.key)
    tls = None
    if given.certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(given.certificate, given.certificate_key)
    _told(given, coordinate(plan, key, patience=given.patience, tls=tls))


def _told(given: Any, model: Any) -> None:
    records = [step.privacy_ for _, step in private_steps(model)]
    print(*records, sep="\n")
    told = [record.to_json() for record in records]
    if given.record:
        text = told[0] if len(told) == 1 else "[" + ",\n".join(told) + "]"
        Path(given.record).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
