"""Look for neighbours that can be told apart: ``python -m tests.fuzz``."""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import time
from collections import Counter
from contextlib import ExitStack

from tests.fuzz.cases import Case
from tests.fuzz.families import FAMILIES
from tests.fuzz.twins import MENDS, without


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="default: 60")
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--family", choices=FAMILIES, help="default: all, in turn")
    parser.add_argument("--case", type=int, nargs="+", help="do these seeds alone")
    parser.add_argument(
        "--without", choices=MENDS, action="append", default=[], help="take a mend back"
    )
    given = parser.parse_args()
    faulthandler.enable()  # a compiled loop that leaves its table ends the process
    with ExitStack() as stack:
        for name in given.without:
            stack.enter_context(without(name))
        if given.case is not None:
            results = [Case(given.family or "linear", n).result() for n in given.case]
            for result in results:
                print(f"{result}\n    {result.first.end}")
            return int(any(result.found for result in results))
        return _many(given)


def _many(given: argparse.Namespace) -> int:
    names = [given.family] if given.family else list(FAMILIES)
    n_found, ends, start = 0, Counter(), time.monotonic()
    said = start
    for number in itertools.count():
        case = Case(names[number % len(names)], given.seed + number // len(names))
        result = case.result()
        end = "done" if result.first.problem is None else result.first.end[:90]
        ends[case.family, end] += 1
        if result.found:
            n_found += 1
            print(result, flush=True)
        now = time.monotonic()
        if now - said > 10 or now - start > given.seconds:
            said, speed = now, (number + 1) / (now - start)
            print(
                f"{number + 1} cases, {speed:.1f} a second, {n_found} found; "
                f"last seed {case.seed}",
                flush=True,
            )
        if now - start > given.seconds:
            break
    for (family, end), count in sorted(ends.items()):
        print(f"{count:6} {family:13} {end}")
    return int(n_found > 0)


if __name__ == "__main__":
    raise SystemExit(main())
