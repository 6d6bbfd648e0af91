"""`RatingSource`: ratings as the door holds them."""

from __future__ import annotations

from dataclasses import dataclass

from skdp.decomposition._ratings import Ratings


@dataclass(frozen=True, eq=False)
class RatingSource:
    """Ratings, and the public facts that answers need of them.

    `ratings` are private; `n_samples`, the units of privacy, ratings or users, is
    public.
    """

    ratings: Ratings
    n_samples: int

    @property
    def largest_block(self) -> int:
        """Sums are not taken in blocks."""
        return self.n_samples
