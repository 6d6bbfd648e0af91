"""``python -m benchmarks speed | peers | search | sparse | hamsi | <name>``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import (
    _accuracy,
    _contest,
    _defaults,
    _factorization,
    _published,
    _rating_data,
    _recommenders,
    _regression,
    _search,
    _sparse_defaults,
    _speed,
    _user_recommenders,
    _value_recommenders,
)

# Measurements that take no options.
_PLAIN = {
    "speed": _speed.run,
    "defaults": _defaults.run,
    "sparse_defaults": _sparse_defaults.run,
}
# By what is protected.
_RECOMMENDERS = {
    "user_recommenders": _user_recommenders.run,
    "value_recommenders": _value_recommenders.run,
}


def main(arguments: list[str] | None = None) -> int:
    """Run one measurement and print it."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Repeat a measurement."
    )
    kinds = parser.add_subparsers(dest="what", required=True, metavar="what")
    kinds.add_parser("speed", help="speed side by side")
    kinds.add_parser("defaults", help="the constants behind the defaults")
    kinds.add_parser("sparse_defaults", help="the choices behind sparse defaults")
    _add_peers(kinds.add_parser("peers", help="ours against peers and references"))
    _add_search(kinds.add_parser("search", help="private searches side by side"))
    for path in sorted(_accuracy.CONFIGS.glob("*.toml")):
        if path.stem not in ("peers", "search"):
            table = kinds.add_parser(path.stem, help="a table of scores")
            table.add_argument("--seeds", type=_count, help="fewer seeds than stated")
    for name in _published.names():
        _add_published(kinds.add_parser(name, help="a published table or figure"))
    _add_sparse(kinds.add_parser("sparse", help="few features of many"))
    _add_hamsi(kinds.add_parser("hamsi", help="HAMSI and peers on ratings"))
    for name in _RECOMMENDERS:
        table = kinds.add_parser(name, help="errors of private recommenders")
        table.add_argument("--runs", type=_count, help="at most so many runs")
        table.add_argument(
            "--validation",
            action="store_true",
            help="on a part of the training ratings",
        )
    race = kinds.add_parser("recommenders", help="held-out error of factorisations")
    race.add_argument("--size", action="append", default=[], choices=["1m", "100k"])
    race.add_argument("--solver", action="append", default=[], help="only these")
    race.add_argument(
        "--validation", action="store_true", help="on a part of the training ratings"
    )
    rules = kinds.add_parser("recommender_defaults", help="the studies of their rules")
    rules.add_argument("--solver", help="only this one's")
    options = parser.parse_args(arguments)
    if options.what == "hamsi":
        for section in options.section or _factorization.SECTIONS:
            _factorization.run(
                section,
                _factorization.Options(
                    data=options.data,
                    share=options.share,
                    seconds=options.seconds,
                    n_jobs=options.n_jobs,
                    seeds=options.seeds,
                    cpu=options.cpu,
                    folder=options.results,
                ),
            )
    elif options.what == "peers":
        _contest.run(
            _contest.Choice(
                datasets=tuple(options.dataset),
                ours=not (options.peers_only or options.stored),
                peers=not (options.ours_only or options.stored),
                results=options.results,
            )
        )
    elif options.what == "search":
        _search.run(tuple(options.dataset), options.results)
    elif options.what == "sparse":
        for section in options.section or _published.names(_published.SPARSE):
            _published.run(
                section,
                runs=2 if options.quick else options.runs,
                folder=options.results,
                configs=_published.SPARSE,
            )
    elif options.what in _RECOMMENDERS:
        measure = _RECOMMENDERS[options.what]
        measure(runs=options.runs, on_validation=options.validation)
    elif options.what == "recommenders":
        _recommenders.run(options.size, options.solver, options.validation)
    elif options.what == "recommender_defaults":
        _recommenders.run_defaults(options.solver)
    elif options.what in _PLAIN:
        _PLAIN[options.what]()
    elif options.what in _published.names():
        _published.run(options.what, runs=options.runs, folder=options.results)
    elif options.what in _regression.NAMES:
        _regression.run(options.what)
    else:
        _accuracy.run(options.what, options.seeds)
    return 0


def _add_peers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dataset",
        action="append",
        default=[],
        choices=_contest.datasets(),
        help="only this data set; may be repeated",
    )
    side = parser.add_mutually_exclusive_group()
    side.add_argument(
        "--ours-only",
        action="store_true",
        help="measure ours; take the peers from the results file, installed or not",
    )
    side.add_argument(
        "--peers-only",
        action="store_true",
        help="measure the peers; take ours from the results file",
    )
    side.add_argument(
        "--stored",
        action="store_true",
        help="measure nothing; print what the results file has",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=_contest.RESULTS,
        help="file that scores are kept in and taken from (default: %(default)s)",
    )


def _add_hamsi(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--section",
        action="append",
        default=[],
        choices=_factorization.SECTIONS,
        help="only this section; may be repeated",
    )
    parser.add_argument(
        "--data", default="1m", choices=_rating_data.NAMES, help="which ratings"
    )
    parser.add_argument(
        "--share", type=float, default=1.0, help="of the users that are generated"
    )
    parser.add_argument("--seconds", type=float, help="of each run; else the thesis's")
    parser.add_argument("--n-jobs", type=_count, default=2, help="threads")
    parser.add_argument("--seeds", type=_count, default=3, help="starts")
    parser.add_argument(
        "--cpu", action="store_true", help="processor time, for a busy machine"
    )
    parser.add_argument("--results", type=Path, default=_published.RESULTS)


def _add_published(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=_count, help="at most so many runs per line")
    parser.add_argument(
        "--results",
        type=Path,
        default=_published.RESULTS,
        help="folder for values kept, Parquet file and plot (default: %(default)s)",
    )


def _add_sparse(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--section",
        action="append",
        default=[],
        choices=_published.names(_published.SPARSE),
        help="only this section; may be repeated",
    )
    parser.add_argument(
        "--quick", action="store_true", help="two runs per line, to see that it works"
    )
    _add_published(parser)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text!r}")
    return int(text)


def _add_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dataset", action="append", default=[], help="only this data set"
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=_search.RESULTS,
        help="file that scores are kept in and taken from (default: %(default)s)",
    )


if __name__ == "__main__":
    sys.exit(main())
