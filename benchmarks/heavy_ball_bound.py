"""Figure 1 of Kuru, Birbil, Gürbüzbalaban and Yıldırım (2022), in numbers.

Run ``python -m benchmarks.heavy_ball_bound``: the least logarithm of bound (25) over 1
to 250 steps, and at how many, with the rate as printed and with that of the heavy ball.
Curvatures are 0.1 and 1: those with which the published curves agree, where the text
says 0.5. Takes seconds.
"""

from __future__ import annotations

import numpy as np

from benchmarks._papers._heavy_ball_bound import (
    Rate,
    fastest_momentum,
    least,
    printed_rate,
    right_rate,
)

CURVATURES = np.array([0.1, 1.0])
RATES: dict[str, Rate] = {"as printed": printed_rate, "heavy ball": right_rate}


def main() -> None:
    """Print the table."""
    print("| noise | step | momentum | as printed | heavy ball |")
    print("|---|---|---|---|---|")
    for scale in (1e-4, 1e-2):
        for step in (0.1, 0.5, 1.0):
            for momentum in (0.0, 0.3, 0.7, None):
                cells = []
                for rate in RATES.values():
                    own = momentum
                    if own is None:
                        own = fastest_momentum(step, CURVATURES, rate)
                    low, at = least(step, own, CURVATURES, scale, rate)
                    cells.append(f"{low:.2f} at {at}")
                name = "fastest" if momentum is None else f"{momentum:g}"
                print(f"| {scale:g} | {step:g} | {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
