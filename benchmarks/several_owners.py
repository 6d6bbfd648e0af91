"""Several owners: the noise of Wang's thesis, chapter 6, and that of shares.

``python -m benchmarks.several_owners --section noise`` prints table 6.1 at what it
truly costs, ``--section shares`` the variance and the time of noise that owners draw,
and of noise drawn once inside a protocol, for which a pooled fit stands in. Adult is
read from SKDP_DATA_HOME. The figures of the chapter are ``python -m benchmarks
owners_adult`` and ``owners_kddcup99``; bits that a protocol draws are in
``benchmarks/joint_bits.py``. On a busy machine times say little.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks._commands import count
from benchmarks._papers import _several_owners as owners
from benchmarks._papers._privacy import exact_multiplier
from benchmarks._papers._several_owners_data import Owned, owned
from benchmarks._papers._several_owners_tables import private_fit
from benchmarks.nonconvex import spread
from skdp.federated._secrets import Masked
from skdp.privacy.noise._noise import NoiseScale, NoiseSource, gaussian_scale

# Of table 6.1; KDD Cup 1999 has 122 columns in the thesis.
TABLE = owners.Chapter(m=100, smallest=500, d=122, alpha=0.01, n_steps=100)
_SAMPLES = 1000


@dataclass(frozen=True)
class Entry:
    """A column of table 6.1.

    Parameters
    ----------
    method : str
    printed, sampled : float
        The table's scale, and the deviation of a thousand draws.
    scale : float
        By the method's own formula.
    exact : float
        Deviation of the Gaussian noise that the claim needs, in the same place.
    is_gaussian : bool
    released : float
        The scale in what one owner, or all together, release.
    sensitivity : float
        L2, of that.
    """

    method: str
    printed: float
    sampled: float
    scale: float
    exact: float
    is_gaussian: bool
    released: float
    sensitivity: float

    def drawn(self, rng: np.random.Generator) -> float:
        """Deviation of a thousand draws at the printed scale."""
        draw = rng.normal if self.is_gaussian else rng.laplace
        return float(np.std(draw(0, self.printed, _SAMPLES)))

    def true_epsilon(self, of: owners.Chapter) -> float:
        """At the table's scale: of Gaussian noise with delta, of Laplace without."""
        if self.is_gaussian:
            return of.true_epsilon(self.released)
        multiplier = self.released / self.sensitivity
        return owners.coordinatewise_epsilon(multiplier, of.d, 0.0)


def entries(of: owners.Chapter) -> Iterator[Entry]:
    """The columns; local noise is that of the mean of all owners' releases."""
    root = math.sqrt(of.m)
    once = exact_multiplier(of.epsilon, of.delta)
    local, mean = of.local_sensitivity, of.mean_sensitivity
    wide = local / of.epsilon
    yield Entry("Pathak", 0.8, 1.15, wide, once * mean, False, wide, mean)
    yield Entry(
        "Local Out P", 0.08, 0.112, wide / root, once * local / root, False, wide, local
    )
    # Of local gradients both noise and sensitivity are m times as large: the same cost.
    table, right = of.table_deviation(), of.gradient_deviation()
    exact = of.exact_deviation()
    yield Entry(
        "Local Grad P", 5.66e-3, 5.63e-3, right * root, exact * root, True, table, 0.0
    )
    narrow = mean / of.epsilon
    yield Entry("MPC Out P", 8e-3, 12.2e-3, narrow, once * mean, False, narrow, mean)
    yield Entry("MPC Grad P", 0.57e-3, 0.572e-3, right, exact, True, table, 0.0)


def noise() -> None:
    """Table 6.1 with what it costs."""
    rng = np.random.default_rng(0)
    print(
        "| method | printed scale | its deviation, printed | drawn | by the chapter's "
        "formula | true epsilon of the entry | delta | deviation for 0.5 at 1e-3 |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for entry in entries(TABLE):
        delta = TABLE.delta if entry.is_gaussian else 0.0
        shown = [entry.printed, entry.sampled, entry.drawn(rng), entry.scale]
        cells = [*shown, entry.true_epsilon(TABLE), delta, entry.exact]
        print(f"| {entry.method} | {' | '.join(f'{cell:.3g}' for cell in cells)} |")
    coded, right = TABLE.coded_objective(), TABLE.objective()
    for name, tilt, independent in (
        ("Local Obj P, released code", coded, True),
        ("Local Obj P, as its theorem has it", right, False),
    ):
        cost = tilt.most_epsilon(TABLE, independent=independent)
        print(
            f"{name}: tilt of scale {tilt.scale / TABLE.smallest:.3g}, strength "
            f"{tilt.strength:.3g} beside lambda, epsilon at most {cost:.3g}"
        )


SIZE, _ROUNDS = 104, 60
_NUMBERS = 2000 * SIZE
_TIMED = 50


def shares(runs: int, among: Sequence[int]) -> None:
    """Variance and time of the noise for owners who trust many, few, or a protocol."""
    table = owned("adult", owners.ALPHA)
    print(
        "| owners | noise | variance, over that of one draw | of theory | ms a release "
        "and owner | loss above the least | accuracy | s a fit |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for m in among:
        for t in sorted({m - 1, 1}, reverse=True):
            name = f"shares, n_honest={t}"
            took = 1000 * release_seconds(m, t)
            factor = f"{variance(m, t):.4f} | {m / t:.4f} | {took:.2f}"
            print(
                f"| {m} | {name} | {factor} | {fitted(table, runs, m, t)} |", flush=True
            )
    inside = f"{variance(1, 1):.4f} | 1.0000 |"
    print(f"| any | drawn once | {inside} | {fitted(table, runs, 1, 1)} |", flush=True)
    needed = needed_bits()
    print(f"Bits a number for a rounding as large as the sensitivity: {needed:,.0f}")


def _scale(size: int) -> NoiseScale:
    return gaussian_scale(
        sensitivity=1.0, noise_multiplier=needed_multiplier(), size=size
    )


def needed_multiplier(n_steps: int = _ROUNDS) -> float:
    """Of one of so many rounds, for the thesis's epsilon and delta."""
    return exact_multiplier(TABLE.epsilon, TABLE.delta) * math.sqrt(n_steps)


def needed_bits() -> float:
    """Joint random bits a number, whose sum is the noise of one round.

    With d numbers on a grid of step g the sensitivity S grows to S + sqrt(d) g; at
    g = S / sqrt(d) the deviation is 2 z sqrt(d) steps, and that of k bits sqrt(k) / 2.
    """
    return (2 * 2 * needed_multiplier() * math.sqrt(SIZE)) ** 2


def variance(m: int, t: int) -> float:
    """Of the sum of m owners' shares, over sigma squared: an estimate."""
    scale = _scale(SIZE)
    source = NoiseSource(0)
    total = sum(source.gaussian_share(np.zeros(_NUMBERS), scale, t) for _ in range(m))
    return float(np.mean((total * scale.grid) ** 2)) / scale.sigma**2


def release_seconds(m: int, t: int) -> float:
    """Of one owner: its share of the noise, and masks with all others."""
    scale, source = _scale(SIZE), NoiseSource(None)
    secrets = {other: os.urandom(32) for other in range(1, m)}
    own = Masked(0, secrets)
    took = []
    for number in range(1, _TIMED + 1):
        start = time.perf_counter()
        share = source.gaussian_share(np.zeros(SIZE), scale, t)
        own.message(number, b"statement", share)
        took.append(time.perf_counter() - start)
    return float(np.median(took))


def fitted(table: Owned, runs: int, m: int, t: int) -> str:
    """Loss, accuracy and least seconds of private fits; of one owner a pooled one."""
    fit = private_fit(table, _ROUNDS, m, t)
    found, took = [], []
    for _ in range(runs):
        start = time.perf_counter()
        weights = fit()
        took.append(time.perf_counter() - start)
        found.append(table.measured(weights))
    gaps, accuracies = zip(*found, strict=True)
    error = np.std(gaps, ddof=1) / math.sqrt(runs) if runs > 1 else math.nan
    gap = f"{np.mean(gaps):.2e} ± {error:.0e}"
    return f"{gap} | {spread(list(accuracies))} | {min(took):.2f}"


SECTIONS = ("noise", "shares")


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--section", choices=SECTIONS, required=True)
    parser.add_argument("--runs", type=count, default=10)
    parser.add_argument("--among", type=count, nargs="*", default=[3, 10, 100])
    options = parser.parse_args()
    if options.section == "noise":
        noise()
    else:
        shares(options.runs, options.among)


if __name__ == "__main__":
    main()
