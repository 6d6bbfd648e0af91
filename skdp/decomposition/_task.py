"""`Task`: what is to be minimised, and the public facts of a factorisation."""

from __future__ import annotations

from dataclasses import dataclass

from skdp.decomposition._ratings import Pattern
from skdp.privacy._adjacency import Unit


@dataclass(frozen=True, kw_only=True)
class Task:
    r"""Public facts of one factorisation. Nothing here may be computed from ratings.

    The objective over biases b, c and factors p, q is the mean over ratings of

    ``((r - mean - b_u - c_i - p_u q_i)^2
    + alpha (b_u^2 + c_i^2 + |p_u|^2 + |q_i|^2)) / 2``

    in which a user's penalty grows with the number of his ratings, as in [1]_, so that
    it is a sum of one function for each rating. The mean of all ratings is subtracted
    first with biases, and is 0 without.

    Parameters
    ----------
    n_users, n_items : int
        Ids that are known.
    n_components : int
        k; 0 for biases alone.
    alpha : float in [0, inf)
        Penalty of each rating.
    unit : {"rating_value", "user"} or None
        What the release protects; None: nothing.
    rating_bounds : pair of floats
        Ratings are clipped to them if there is a unit.
    max_ratings : int or None
        Most ratings of a user that are used, under ``unit="user"``.
    pattern : Pattern or None
        Who rated what, where that is public: not under ``unit="user"``.

    References
    ----------
    .. [1] Zhou, Wilkinson, Schreiber and Pan (2008). Large-scale parallel
       collaborative filtering for the Netflix prize. AAIM, equation (3).
    """

    n_users: int
    n_items: int
    n_components: int
    alpha: float
    biases: bool
    unit: Unit | None = None
    rating_bounds: tuple[float, float] | None = None
    max_ratings: int | None = None
    pattern: Pattern | None = None

    @property
    def n_units(self) -> int:
        """How many ratings or, where who rated what is private, users: public."""
        return self.n_users if self.pattern is None else len(self.pattern)

    @property
    def declared_bounds(self) -> tuple[float, float]:
        """`rating_bounds` of a private task, which has to have them."""
        if self.rating_bounds is None:
            raise ValueError("This task declares no rating_bounds. Set them.")
        return self.rating_bounds

    @property
    def public_pattern(self) -> Pattern:
        """`pattern` of a task in which it is public."""
        if self.pattern is None:
            raise ValueError("Who rated what is private here. Use another unit.")
        return self.pattern
