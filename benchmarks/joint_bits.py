"""Noise that is drawn inside a protocol: what random bits that nobody knows cost.

Run ``python -m benchmarks.joint_bits -M3`` with MPyC installed (``pip install mpyc``):
three processes on the loopback address add up 104 whole numbers each, with noise from
joint random bits, and open the noisy sums only; then the sums alone. MPyC's shares hide
nothing from a majority: of three processes two see all. On a busy machine times say
little.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any

SIZE, RELEASES = 104, 5
BITS = (0, 32, 128, 512)


async def measured(mpc: Any, release: Callable[[], Awaitable[Any]]) -> float:
    """Seconds, the median."""
    took = []
    for _ in range(RELEASES):
        start = time.perf_counter()
        await release()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


async def main(mpc: Any) -> None:
    """Print the table."""
    await mpc.start()
    number = mpc.SecInt(64)
    own = list(range(SIZE))

    async def release(n_bits: int) -> Any:
        parts = mpc.input([number(value) for value in own])
        total = [mpc.sum(list(column)) for column in zip(*parts, strict=True)]
        if n_bits:
            bits = mpc.random_bits(number, SIZE * n_bits)
            groups = [bits[i * n_bits : (i + 1) * n_bits] for i in range(SIZE)]
            total = mpc.vector_add(total, [mpc.sum(group) for group in groups])
        return await mpc.output(total)

    for n_bits in BITS:
        took = await measured(mpc, lambda n_bits=n_bits: release(n_bits))
        if mpc.pid == 0:
            deviation = n_bits**0.5 / 2
            print(
                f"| {len(mpc.parties)} processes | {SIZE} numbers | {n_bits} bits each "
                f"| deviation {deviation:.1f} | {took:.3f} s |"
            )
    await mpc.shutdown()


if __name__ == "__main__":
    if find_spec("mpyc") is None:
        raise SystemExit("This needs MPyC: pip install mpyc.")
    from mpyc.runtime import mpc as runtime

    runtime.run(main(runtime))
