"""``python -m benchmarks speed | peers | search | sparse | hamsi | <name>``."""

from __future__ import annotations

import argparse
import sys

from benchmarks import (
    _accuracy,
    _contest,
    _declared,
    _defaults,
    _factorization,
    _published,
    _recommenders,
    _regression,
    _search,
    _sparse_defaults,
    _speed,
    _user_recommenders,
    _value_recommenders,
)
from benchmarks._commands import Commands

_MEASUREMENTS = (
    _speed,
    _defaults,
    _sparse_defaults,
    _contest,
    _search,
    _published,
    _factorization,
    _user_recommenders,
    _value_recommenders,
    _recommenders,
    _regression,
    _declared,
    _accuracy,  # last: a table of scores is any configuration without a command
)


def main(arguments: list[str] | None = None) -> int:
    """Run one measurement and print it."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Repeat a measurement."
    )
    commands = Commands(parser)
    for measurement in _MEASUREMENTS:
        measurement.add(commands)
    options = parser.parse_args(arguments)
    options.run(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
