"""All outcomes, family by family."""

from __future__ import annotations

from collections.abc import Iterator

from tests.outcomes import (
    boosted,
    budgets,
    factorizers,
    linear,
    networks,
    scores,
    searches,
    transformers,
)
from tests.outcomes.outcome import Outcome


def catalogue(n_jobs: int = 1) -> Iterator[Outcome]:
    """Every outcome; none depends on the number of jobs, nor on those before it."""
    yield from linear.outcomes()
    yield from transformers.outcomes()
    yield from boosted.outcomes()
    yield from networks.outcomes()
    yield from factorizers.outcomes(n_jobs)
    yield from scores.outcomes()
    yield from searches.outcomes(n_jobs)
    yield from budgets.outcomes()
