"""The names that ``python -m benchmarks`` knows; each measurement adds its own."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path


class Commands:
    """What can be asked for.

    Parameters
    ----------
    parser : ArgumentParser
        The first argument it takes is the name of a command.
    """

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._kinds = parser.add_subparsers(dest="what", required=True, metavar="what")

    def __contains__(self, name: str) -> bool:
        return name in self._kinds.choices

    def add(
        self, name: str, summary: str, run: Callable[[argparse.Namespace], None]
    ) -> argparse.ArgumentParser:
        """A parser for the options of a command; `run` is given what it finds.

        Parameters
        ----------
        name, summary : str
        run : callable
            Its argument has the name of the command as `what`, and the options.
        """
        parser = self._kinds.add_parser(name, help=summary)
        parser.set_defaults(run=run)
        return parser


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text!r}")
    return int(text)


def add_results_file(parser: argparse.ArgumentParser, default: Path) -> None:
    """The option ``--results`` of tables that keep their scores in one file."""
    parser.add_argument(
        "--results",
        type=Path,
        default=default,
        help="file that scores are kept in and taken from (default: %(default)s)",
    )


def add_validation(parser: argparse.ArgumentParser) -> None:
    """The option ``--validation`` of tables of recommenders."""
    parser.add_argument(
        "--validation", action="store_true", help="on a part of the training ratings"
    )
