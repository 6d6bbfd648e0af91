"""Adult through joined steps: what the norm of rows and the weights of blocks do.

Run ``python -m benchmarks.joined_columns`` at the root of a checkout.

Accuracy on the official test records, which is not private. The last column has the
same rows, clipped alike, and a model without noise.
"""

from __future__ import annotations

import argparse
import math
import statistics
import warnings
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

from skdp import (
    BoundedScaler,
    DeclaredOneHotEncoder,
    DPLogisticRegression,
    RowNormClipper,
    TableEncoder,
    privacy_report,
)
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES, Dataset, load_adult
from skdp.exceptions import ClippedRowsWarning

EPSILONS = (1.0, 10.0)


def joined(weight: float = 1.0) -> ColumnTransformer:
    """Numbers in one block, categories in another."""
    return ColumnTransformer(
        [
            ("numbers", BoundedScaler(ADULT_BOUNDS), list(ADULT_BOUNDS)),
            (
                "categories",
                DeclaredOneHotEncoder(ADULT_CATEGORIES),
                list(ADULT_CATEGORIES),
            ),
        ],
        transformer_weights={"numbers": weight},
    )


def named_norm(steps: Any) -> float:
    """The largest norm of a row that comes to the model, by its report."""
    model = make_pipeline(steps, DPLogisticRegression())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClippedRowsWarning)
        norm = privacy_report(model).steps[-1].input_norm
    return 1.0 if norm is None else norm


def accuracies(
    data: Dataset, steps: Any, norm: float, epsilon: float, repeats: int
) -> list[float]:
    """Of that many fits on the training records, under replace_one."""
    model = DPLogisticRegression(epsilon, delta=1e-6, classes=[0, 1], data_norm=norm)
    # A model without noise does not clip.
    clip = RowNormClipper(norm) if math.isinf(epsilon) else "passthrough"
    pipeline = make_pipeline(steps, clip, model)
    return [
        float(pipeline.fit(data.X_train, data.y_train).score(data.X_test, data.y_test))
        for _ in range(repeats)
    ]


def main() -> None:
    """Print a line for each way to make rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    data = load_adult()
    if data.name != "adult":
        raise SystemExit("Adult is not there; see docs/data.md.")
    equal = math.sqrt(len(ADULT_BOUNDS))
    ways = {
        "joined, no norm given": (joined(), 1.0),
        "joined, norm of the report": (joined(), named_norm(joined())),
        "numbers times their root": (joined(equal), 1.0),
        "the same, norm of the report": (joined(equal), named_norm(joined(equal))),
        "TableEncoder, linear": (
            TableEncoder(ADULT_BOUNDS | ADULT_CATEGORIES, numeric="linear"),
            1.0,
        ),
    }
    for name, (steps, norm) in ways.items():
        cells = []
        for epsilon in EPSILONS:
            got = accuracies(data, steps, norm, epsilon, options.repeats)
            error = statistics.stdev(got) / math.sqrt(len(got))
            cells.append(f"{statistics.mean(got):.4f} ± {error:.4f} ({min(got):.4f})")
        (limit,) = accuracies(data, steps, norm, math.inf, 1)
        print(f"{name:<30} {norm:.3f}", *cells, f"{limit:.4f}", sep="  ", flush=True)


if __name__ == "__main__":
    main()
