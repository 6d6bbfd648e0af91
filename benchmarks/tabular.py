"""Declared tables: boosting and linear models of skdp beside rivals and references.

All fits of a table have the same training and test part, and delta = 1 / n_train^2;
runs differ in noise. Rivals and references are tuned by an oracle, at no cost in
privacy: on validation parts, by log-loss or R2.

A rival is asked only under the relation that it guarantees. interpret's DP-EBM adds
Gaussian noise to sums of residuals that one record changes by at most 1 (or by the
width of the target's bounds), and divides by released counts: this is removing a
record while the number of records is public, as in zero_out. It is taken at its word
(residuals of numbers are not clipped; categories that occur are read). A tree of
diffprivlib's forest draws the label of each leaf with probabilities that one count
changes by a factor of exp(epsilon): zero_out, with delta = 0. dp-xgboost
states the same for trees that each see a random share of the records. diffprivlib's
linear models are calibrated to exchanged records: replace_one, with delta = 0.

``python -m benchmarks tabular_peers`` measures what is installed, and
``python -m benchmarks.tabular TABLE.csv`` puts its table into `SAVED`, `PAGE` and
`PICTURE`, and counts.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

import skdp
from benchmarks._models import Constant, Facts, Trees, scored
from benchmarks._results import fingerprint, versions_of
from benchmarks._runner import FIRST_TUNING_RUN, Line, at_hand, benchmark
from benchmarks._tables import DECLARED, Declared, declared, parts, table
from benchmarks.declared import EPSILONS, METRICS, aligned
from skdp import TableEncoder

# ------------------------------------------------------------------- rivals


def cells(known: Declared, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions in declared ranges and places in declared lists, with their ends.

    Returns
    -------
    rows, ends, is_listed : ndarray of shape (n, d), (2, d) and (d,)
    """
    encoder = TableEncoder(known.columns, numeric="linear").fit(X)
    rows = encoder.transform(X) / encoder.entry_bound_
    columns, ends = [], []
    for block in encoder.blocks_.values():
        size = block.stop - block.start
        if size == 1:
            columns.append(rows[:, block.start])
            ends.append((-1.0, 1.0))
        else:
            part = rows[:, block]
            is_in = part.any(axis=1)
            columns.append(np.where(is_in, part.argmax(axis=1), size).astype(float))
            ends.append((0.0, float(size)))
    found = np.array(ends).T
    return np.column_stack(columns), found, found[0] == 0


class AdditiveTrees:
    """interpret's DP-EBM of cells; numbers are predicted from the middle of bounds."""

    def __init__(self, facts: Facts, **settings: Any) -> None:
        self._facts, self._settings = facts, settings

    def fit(self, X: Any, y: np.ndarray) -> AdditiveTrees:
        """Nothing but declarations is known of columns and target."""
        from interpret.privacy import (
            DPExplainableBoostingClassifier,
            DPExplainableBoostingRegressor,
        )

        rows, ends, is_listed = cells(self._facts.known, X)
        kind, given = DPExplainableBoostingClassifier, dict(self._settings)
        self._middle = 0.0
        if self._facts.known.target_bounds is not None:
            low, high = self._facts.known.target_bounds
            # Sums start at 0, and the first residuals must be within the width.
            self._middle, half = (low + high) / 2, (high - low) / 2
            given |= {"privacy_target_min": -half, "privacy_target_max": half}
            kind, y = DPExplainableBoostingRegressor, y - self._middle
        self._model = kind(
            epsilon=self._facts.epsilon,
            delta=self._facts.delta,
            random_state=self._facts.seed,
            feature_types=np.where(is_listed, "nominal", "continuous").tolist(),
            privacy_bounds=ends.T,
            n_jobs=1,
            **given,
        ).fit(rows, y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the labels."""
        rows, _, _ = cells(self._facts.known, X)
        return np.asarray(self._model.predict_proba(rows))

    def predict(self, X: Any) -> np.ndarray:
        """Labels or numbers."""
        rows, _, _ = cells(self._facts.known, X)
        found = np.asarray(self._model.predict(rows))
        return found + self._middle if self._middle else found


class Forest:
    """diffprivlib's random forest of cells, one vote added for each label."""

    def __init__(self, facts: Facts, **settings: Any) -> None:
        self._facts, self._settings = facts, settings

    def fit(self, X: Any, y: np.ndarray) -> Forest:
        """Nothing but declarations is known of columns and labels."""
        from diffprivlib.models import RandomForestClassifier

        rows, ends, _ = cells(self._facts.known, X)
        self._model = RandomForestClassifier(
            epsilon=self._facts.epsilon,
            bounds=tuple(ends),
            classes=self._facts.known.classes,
            random_state=self._facts.seed,
            **self._settings,
        ).fit(rows, y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Shares of votes; without the added ones some log-losses were infinite."""
        rows, _, _ = cells(self._facts.known, X)
        shares = np.asarray(self._model.predict_proba(rows))
        n_trees, n_labels = len(self._model.estimators_), shares.shape[1]
        return (n_trees * shares + 1) / (n_trees + n_labels)

    def predict(self, X: Any) -> np.ndarray:
        """The labels with most votes."""
        labels = np.array(self._facts.known.classes)
        return labels[self.predict_proba(X).argmax(axis=1)]


class GreedyTrees:
    """dp-xgboost of cells: squared errors of a target between 0 and 1."""

    def __init__(self, facts: Facts, *, n_trees: int, **settings: Any) -> None:
        self._facts, self._n_trees, self._settings = facts, n_trees, settings
        self._low, high = facts.known.target_bounds or (0.0, 1.0)
        self._width = high - self._low

    def fit(self, X: Any, y: np.ndarray) -> GreedyTrees:
        """Nothing but declarations is known of columns and target."""
        import dp_xgboost

        self._library = dp_xgboost
        # A tree that sees a share of the records costs less than its epsilon.
        share = self._settings["subsample"]
        epsilon = math.log1p(math.expm1(self._facts.epsilon / self._n_trees) / share)
        given = {
            "objective": "reg:squarederror",
            "tree_method": "approxDP",
            "dp_epsilon_per_tree": epsilon,
            "lambda": 0.1,
            "base_score": 0.5,
            "nthread": 1,
            "seed": self._facts.seed,
        }
        target = (y - self._low) / self._width
        self._trees = dp_xgboost.train(
            given | self._settings,
            self._matrix(X, label=target),
            num_boost_round=self._n_trees,
        )
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of 0 and 1, from 0.01 to 0.99."""
        positive = np.clip(self._trees.predict(self._matrix(X)), 0.01, 0.99)
        return np.stack([1 - positive, positive], axis=1).astype(float)

    def predict(self, X: Any) -> np.ndarray:
        """Labels or numbers."""
        found = self._trees.predict(self._matrix(X)).astype(float)
        if self._facts.known.classes is not None:
            return (found > 0.5).astype(int)
        return self._low + self._width * found

    def _matrix(self, X: Any, **more: Any) -> Any:
        rows, (low, high), _ = cells(self._facts.known, X)
        given = {"feature_min": low, "feature_max": high}
        # It asks for a name that NumPy 2 dropped.
        with patch.object(np, "cfloat", np.complex128, create=True):
            return self._library.DMatrix(rows.astype(np.float32), **given, **more)


def _logistic(facts: Facts, C: float) -> Any:
    from diffprivlib.models import LogisticRegression as Private

    # n_jobs stays None: with two jobs all classes would get the same noise.
    model = Private(
        epsilon=facts.epsilon,
        data_norm=1.0,
        C=C,
        max_iter=200,
        random_state=facts.seed,
    )
    return make_pipeline(TableEncoder(facts.columns, numeric="linear"), model)


def _least_squares(facts: Facts) -> Any:
    from diffprivlib.models import LinearRegression

    largest = 1 / math.sqrt(len(facts.known.names))
    model = LinearRegression(
        epsilon=facts.epsilon,
        bounds_X=(-largest, largest),
        bounds_y=facts.known.target_bounds,
        random_state=facts.seed,
    )
    return make_pipeline(TableEncoder(facts.columns, numeric="linear"), model)


def _linear(facts: Facts, C: float = 1.0) -> Any:
    """scikit-learn's, of columns encoded as for the default of skdp: not private."""
    encoder = TableEncoder(facts.columns, sparse_output=True)
    is_number = facts.known.classes is None
    model = Ridge(alpha=1 / C) if is_number else LogisticRegression(C=C, max_iter=300)
    return make_pipeline(encoder, model)


def _grid(**values: list[Any]) -> tuple[dict[str, Any], ...]:
    chosen = product(*values.values())
    return tuple(dict(zip(values, each, strict=True)) for each in chosen)


def _is_number(known: Declared) -> bool:
    return known.classes is None


def _is_any(known: Declared) -> bool:
    return True


def _is_one_sum(known: Declared) -> bool:
    return known.classes is None or len(known.classes) == 2


def _is_labelled(known: Declared) -> bool:
    return known.classes is not None


@dataclass(frozen=True)
class Model:
    """One method.

    Parameters
    ----------
    make : callable
        From `Facts` and settings.
    adjacencies : tuple of str
        Relations that it guarantees; none for a reference.
    packages : tuple of str
        What it is made of; nothing but skdp without one.
    suits : callable
        Whether it can learn a declared target.
    """

    make: Callable[..., Any]
    adjacencies: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    suits: Callable[[Declared], bool] = _is_any
    grid: tuple[dict[str, Any], ...] = ()


BOOSTING, LINEAR, TUNED = "skdp boosting", "skdp linear", "DP-EBM, tuned"
_BOTH = ("zero_out", "replace_one")
_EBM: Any = (("zero_out",), ("interpret-core",), _is_one_sum)
_PRIVATE: Any = ("replace_one",), ("diffprivlib", "scikit-learn")
MODELS = {
    BOOSTING: Model(lambda f: f.boosted(columns=f.columns), _BOTH),
    LINEAR: Model(lambda f: f.dense(columns=f.columns), _BOTH),
    "DP-EBM": Model(AdditiveTrees, *_EBM),
    "DP-EBM, rate 0.1": Model(partial(AdditiveTrees, learning_rate=0.1), *_EBM),
    TUNED: Model(
        AdditiveTrees,
        *_EBM,
        _grid(
            learning_rate=[0.01, 0.03, 0.1, 0.3],
            max_rounds=[30, 300],
            max_bins=[16, 32],
        ),
    ),
    "forest, tuned": Model(
        Forest,
        ("zero_out",),
        ("diffprivlib", "scikit-learn"),
        _is_labelled,
        _grid(n_estimators=[3, 10, 30], max_depth=[4, 8]),
    ),
    "dp-xgboost, tuned": Model(
        GreedyTrees,
        ("zero_out",),
        ("dp-xgboost",),
        _is_one_sum,
        _grid(
            n_trees=[5, 20],
            min_child_weight=[100, 500],
            subsample=[0.2, 1.0],
            max_depth=[5],
            learning_rate=[0.3],
        ),
    ),
    "diffprivlib logistic, tuned": Model(
        _logistic, *_PRIVATE, _is_labelled, _grid(C=[0.001, 0.01, 0.1, 1.0])
    ),
    "diffprivlib least squares": Model(_least_squares, *_PRIVATE, _is_number),
    "trees, not private": Model(
        lambda f, **settings: Trees(f.known, **settings),
        packages=("scikit-learn",),
        grid=_grid(max_iter=[50, 200], max_leaf_nodes=[7, 31]),
    ),
    "linear, not private": Model(
        _linear, packages=("scikit-learn",), grid=_grid(C=[1.0, 10.0, 100.0, 1000.0])
    ),
    "constant": Model(lambda f: Constant(f.known), packages=("scikit-learn",)),
}


@benchmark("tabular_peers", runs=5)
def contest() -> Iterator[Line]:
    """Boosting and linear models of declared tables beside rivals, on test parts."""
    ours = f"skdp {fingerprint(Path(skdp.__file__).parent)}"
    for name in at_hand(DECLARED, table):
        known = declared(name)
        for method, model in MODELS.items():
            if not model.suits(known):
                continue
            # A reference has no noise: other runs would only repeat it.
            once = None if model.adjacencies else 1
            stamp = versions_of(*model.packages) if model.packages else ours
            for adjacency in model.adjacencies or ("",):
                for epsilon in EPSILONS if adjacency else (math.inf,):
                    yield Line(
                        place={
                            "data": name,
                            "adjacency": adjacency,
                            "epsilon": epsilon,
                        },
                        method=method,
                        measure=partial(_measured, name, model, adjacency, epsilon),
                        metrics=METRICS,
                        private=not model.packages,
                        grid=model.grid,
                        better="higher" if known.classes is None else "lower",
                        most_runs=once,
                        # One run's noise would mislead the oracle.
                        tuning_runs=2 if epsilon < 1 else 1,
                        stamp=stamp,
                        note=(stamp or "").replace(",", ""),
                    )


def _measured(
    name: str,
    model: Model,
    adjacency: str,
    epsilon: float,
    runs: Iterable[int],
    **settings: Any,
) -> Iterator[list[float]]:
    known = declared(name)
    for run in runs:
        part = "settle" if run >= FIRST_TUNING_RUN else "report"
        split_of = parts(name, run, part)
        delta = 1 / len(split_of.y_train) ** 2
        facts = Facts(known, epsilon, delta, adjacency, run)
        fitted = model.make(facts, **settings)
        yield aligned(scored(fitted, split_of, known), known)


# ------------------------------------------------------------- table and picture

_HERE = Path(__file__).parent
SAVED = _HERE / "saved" / "tabular_peers.csv"
PAGE = _HERE.parent / "docs" / "notebook" / "benchmarks.md"
PICTURE = _HERE.parent / "docs" / "_static" / "tabular_peers.svg"
_BEGIN, _END = "<!-- tabular_peers: made by benchmarks.tabular -->", "<!-- end -->"
_SCORE, _ERROR = METRICS[0], f"error of {METRICS[0]}"
_KEY = ["data", "adjacency", "epsilon", "method"]
# A gain is none unless it is larger than this, and than two standard errors.
_LEAST = 0.002
_COLUMNS = {
    ("zero_out", BOOSTING): "boosting",
    ("zero_out", LINEAR): "linear",
    ("zero_out", "DP-EBM"): "DP-EBM",
    ("zero_out", "DP-EBM, rate 0.1"): "rate 0.1",
    ("zero_out", TUNED): "tuned",
    ("zero_out", "forest, tuned"): "forest",
    ("zero_out", "dp-xgboost, tuned"): "dp-xgboost",
    ("replace_one", BOOSTING): "boosting (r)",
    ("replace_one", LINEAR): "linear (r)",
    ("replace_one", "diffprivlib logistic, tuned"): "diffprivlib (r)",
    ("replace_one", "diffprivlib least squares"): "diffprivlib (r)",
    ("", "trees, not private"): "trees",
    ("", "linear, not private"): "linear, not private",
    ("", "constant"): "constant",
}


def read(path: Path) -> pd.DataFrame:
    """A table of `tabular_peers`, each row with the date of its file."""
    texts: Any = {"adjacency": str, "note": str}
    frame = pd.read_csv(path, comment="#", dtype=texts)
    frame = frame.fillna({"adjacency": "", "note": ""})
    dates = [line for line in path.read_text().splitlines() if line[:7] == "# date:"]
    if "date" not in frame and dates:
        frame["date"] = dates[0][7:].strip()
    return frame[frame["runs"] > 0].set_index(_KEY)


def merged(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Rows of all tables; a later one replaces the row of an earlier one."""
    frame = pd.concat(list(tables))
    return frame[~frame.index.duplicated(keep="last")].sort_index()


def gains(
    frame: pd.DataFrame, adjacency: str, ours: tuple[str, ...], rival: str
) -> dict[tuple[str, float], tuple[float, float]]:
    """By how much the better of ours is better, and the standard error, by cell.

    Fits to the same records differ in noise alone, so that squares of errors add.
    """
    found = {}
    for name in DECLARED:
        sign = 1 if declared(name).classes is None else -1
        for epsilon in EPSILONS:
            keys = [(name, adjacency, epsilon, method) for method in (*ours, rival)]
            if all(key in frame.index for key in keys):
                *own, theirs = [frame.loc[key, [_SCORE, _ERROR]] for key in keys]
                best = max(own, key=lambda row: sign * row[_SCORE])
                gain = sign * (best[_SCORE] - theirs[_SCORE])
                found[name, epsilon] = gain, math.hypot(best[_ERROR], theirs[_ERROR])
    return found


def verdict(gain: float, error: float) -> str:
    """Ahead, even or behind."""
    if abs(gain) <= max(_LEAST, 2 * error):
        return "even"
    return "ahead" if gain > 0 else "behind"


def counted(frame: pd.DataFrame) -> Iterator[str]:
    """In how many cells ours are ahead of each rival, and where they are behind."""
    yield "| relation | skdp | rival | ahead | even | behind |"
    yield "|---|---|---|---|---|---|"
    behind = []
    for adjacency, rival in _COLUMNS:
        if not adjacency or rival in (BOOSTING, LINEAR):
            continue
        for ours in ((BOOSTING, LINEAR), (BOOSTING,), (LINEAR,)):
            cells_of = gains(frame, adjacency, ours, rival)
            said = [verdict(*each) for each in cells_of.values()]
            name = ours[0].removeprefix("skdp ") if len(ours) == 1 else "better of both"
            counts = (str(said.count(kind)) for kind in ("ahead", "even", "behind"))
            yield f"| {adjacency} | {name} | {rival} | {' | '.join(counts)} |"
            behind += [
                f"{name} behind {rival}: {data}, epsilon {epsilon:g}, {-gain:.4f}"
                for (data, epsilon), (gain, error) in cells_of.items()
                if verdict(gain, error) == "behind"
            ]
    yield from ("", *behind)


def rendered(frame: pd.DataFrame) -> str:
    """The table of the page: log-loss or R2; the best of a row and relation is bold."""
    titles = list(dict.fromkeys(_COLUMNS.values()))
    lines = [f"| table | epsilon | {' | '.join(titles)} |", "|---" * (len(titles) + 2)]
    lines[1] += "|"
    for name, epsilon in product(DECLARED, EPSILONS):
        sign = 1 if declared(name).classes is None else -1
        shown = dict.fromkeys(titles, "")
        for relation in ("zero_out", "replace_one", ""):
            own = {
                title: frame.at[key, _SCORE]
                for (adjacency, method), title in _COLUMNS.items()
                if (
                    key := (name, adjacency, epsilon if adjacency else math.inf, method)
                )
                in frame.index
                and adjacency == relation
            }
            shown |= {title: f"{value:.3f}" for title, value in own.items()}
            if own and relation:
                best = max(own, key=lambda title: sign * own[title])
                shown[best] = f"**{shown[best]}**"
        lines.append(f"| {name} | {epsilon:g} | {' | '.join(shown.values())} |")
    return "\n".join(lines)


_STYLES: dict[str, dict[str, Any]] = {
    BOOSTING: {"color": "C0", "marker": "o", "lw": 2},
    LINEAR: {"color": "C2", "marker": "s", "lw": 2},
    TUNED: {"color": "C3", "marker": "^"},
    "DP-EBM, rate 0.1": {"color": "C3", "marker": ".", "ls": "--"},
    "DP-EBM": {"color": "C3", "marker": ".", "ls": ":"},
    "forest, tuned": {"color": "C4", "marker": "x"},
    "dp-xgboost, tuned": {"color": "C5", "marker": "+"},
    "trees, not private": {"color": "0.2", "ls": "-."},
    "linear, not private": {"color": "0.5", "ls": "--"},
    "constant": {"color": "0.7", "ls": "-"},
}


def drawn(frame: pd.DataFrame, path: Path) -> None:
    """Scores under zero_out by epsilon, a panel a table."""
    import matplotlib.pyplot as plt

    plt.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "skdp", "font.size": 8}
    figure, axes = plt.subplots(4, 4, figsize=(10, 9), layout="constrained")
    for axis, name in zip(axes.flat, DECLARED, strict=False):
        is_number = declared(name).classes is None
        for method, style in _STYLES.items():
            own = frame[
                (frame.index.get_level_values("data") == name)
                & (frame.index.get_level_values("method") == method)
                & (frame.index.get_level_values("adjacency") != "replace_one")
            ][_SCORE].sort_index()
            epsilons = own.index.get_level_values("epsilon")
            if len(own) == 1 and math.isinf(epsilons[0]):
                axis.axhline(own.iloc[0], label=method, **style)
            elif len(own):
                axis.plot(epsilons, own, label=method, ms=4, **style)
        known = frame.loc[(name, "", math.inf), _SCORE]
        ends = np.array([known["constant"], known["trees, not private"]])
        # Some rivals are far worse than a constant, and leave the panel.
        axis.set_ylim(
            sorted(
                ends + np.ptp(ends) * np.array([0.15, -0.08]) * (-1 if is_number else 1)
            )
        )
        axis.set(
            xscale="log", xticks=EPSILONS, xticklabels=map("{:g}".format, EPSILONS)
        )
        axis.minorticks_off()
        axis.set_title(f"{name}, {'R2' if is_number else 'log-loss'}")
    for axis in axes.flat[len(DECLARED) :]:
        axis.axis("off")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    axes.flat[-2].legend(handles, labels, loc="center", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def main(paths: list[str]) -> None:
    """Put new tables into what is saved, and write the page and the picture."""
    files = [SAVED] * SAVED.exists() + [Path(path) for path in paths]
    frame = merged(map(read, files))
    head = "# command: python -m benchmarks tabular_peers\n# seeds: 0 to 4\n"
    SAVED.write_text(head + frame.to_csv(float_format="%.5g"))
    frame = read(SAVED)  # Rounded: the page shows what is saved.
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    after = rest.partition(_END)[2]
    PAGE.write_text(f"{before}{_BEGIN}\n\n{rendered(frame)}\n\n{_END}{after}")
    drawn(frame, PICTURE)
    print(*counted(frame), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
