"""``python -m benchmarks NAME [--runs N] [--only TEXT]``; without a name, all names."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks._runner import BENCHMARKS, RESULTS, Benchmark, run

# By what they measure.
MODULES = {
    "speed and memory": ("speed", "checkouts", "sources", "clusters", "exports"),
    "peers and defaults": (
        "peers", "tabular", "default", "declared", "edges", "boosting"
    ),
    "coverage, errors and audits": (
        "intervals", "conformal", "errors", "score_errors", "audits"
    ),
    "other models": (
        "users", "federation", "continued", "recommenders", "networks", "choices",
        "sparse", "simple", "survival"
    ),
    "papers": (
        "_papers.accelerated", "_papers.thesis", "_papers.bolt_on",
        "_papers.nonconvex", "_papers.owners",
    ),
}  # fmt: skip


def benchmarks() -> dict[str, dict[str, Benchmark]]:
    """All benchmarks by name, in their groups."""
    found: dict[str, dict[str, Benchmark]] = {}
    for group, modules in MODULES.items():
        names = {import_module(f"benchmarks.{module}").__name__ for module in modules}
        found[group] = {
            name: each for name, each in BENCHMARKS.items() if each.module in names
        }
    return found


def listed(groups: dict[str, dict[str, Benchmark]]) -> str:
    """The names with a line each."""
    lines = []
    for group, members in groups.items():
        lines += ["", f"{group}:"]
        lines += [f"  {name:<32} {each.summary}" for name, each in members.items()]
    return "\n".join(lines)


def settings_of(benchmark: Benchmark, texts: Iterable[str]) -> dict[str, Any]:
    """Keyword arguments from ``KEY=VALUE``, of the kinds of the defaults."""
    known = {
        name: each.default
        for name, each in inspect.signature(benchmark.lines).parameters.items()
        if isinstance(each.default, str | int | float)
    }
    found = {}
    for text in texts:
        key, _, value = text.partition("=")
        if key not in known:
            raise SystemExit(f"{benchmark.name} takes {known or 'nothing'}: {text!r}")
        kind = type(known[key])
        if kind is bool and value not in ("True", "False"):
            raise SystemExit(f"{key} must be True or False. Got {value!r}.")
        found[key] = value == "True" if kind is bool else kind(value)
    return found


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text!r}")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    """Run one benchmark and print it, or list all of them."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Repeat a measurement."
    )
    parser.add_argument("name", nargs="?", help="without one, all are listed")
    parser.add_argument("--runs", type=_count, help="at most so many runs of a line")
    parser.add_argument(
        "--only", default="", help="a part of a line's place and method"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="a folder")
    options = parser.parse_args(arguments)
    groups = benchmarks()
    known = {name: each for group in groups.values() for name, each in group.items()}
    if options.name is None:
        print(listed(groups))
        return 0
    if options.name not in known:
        parser.error(f"unknown name {options.name!r}; without a name all are listed")
    chosen = known[options.name]
    run(
        chosen,
        runs=options.runs,
        only=options.only,
        folder=options.results,
        given=settings_of(chosen, options.set),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
