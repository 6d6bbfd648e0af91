"""``python -m skdp.benchmarks speed | defaults | <configuration>``."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from skdp.benchmarks import _accuracy, _defaults, _regression, _speed


def main(arguments: list[str] | None = None) -> int:
    """Run one measurement and print it."""
    configs = sorted(path.stem for path in _accuracy.CONFIGS.glob("*.toml"))
    parser = argparse.ArgumentParser(
        prog="python -m skdp.benchmarks", description="Repeat a measurement."
    )
    parser.add_argument(
        "what",
        choices=["speed", "defaults", *configs],
        help="speed side by side, the defaults' constants, or a table of scores",
    )
    what = parser.parse_args(arguments).what
    runs = {"speed": _speed.run, "defaults": _defaults.run}
    runs |= {name: partial(_regression.run, name) for name in _regression.NAMES}
    runs.get(what, partial(_accuracy.run, what))()
    return 0


if __name__ == "__main__":
    sys.exit(main())
