r"""The default solver: a noisy descent on centred rows.

Five releases in one Gaussian plan:

1. histograms of declared columns, or the mean of rows of numbers; and where the
   targets lie: label counts, or a histogram and the mean;
2. to 5.: a descent over rows that are centred by the first answer and clipped to a
   common norm, from the base rate on, and its gate (`skdp.solvers._gated_descent`).

Below a strength of 50 the constant model is taken in its place. Proofs:
``docs/proofs/centred_descent.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from skdp._configured import Given
from skdp._floats import FloatArray
from skdp.data._centred import Centring
from skdp.exceptions import Refused
from skdp.objectives._linear import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers, Released
from skdp.privacy._plan import Line, Part, Plan
from skdp.privacy._query import Query
from skdp.solvers._base import Solution, Solver
from skdp.solvers._centred_descent_rules import Pace, Shares
from skdp.solvers._centred_rows import Centred, CentredRows
from skdp.solvers._gated_descent import GatedDescent
from skdp.solvers._progress import Progress
from skdp.solvers._strength import strength_of
from skdp.solvers._target_base import Base, released_base


@dataclass(frozen=True, kw_only=True)
class CentredSolution(Solution):
    """Weights of centred rows, and how rows are centred.

    Parameters
    ----------
    weights : ndarray of float64 of shape (n_features, n_outputs)
        Of rows ``(x - centre) * scale / norm``.
    constant : ndarray of float64 of shape (n_outputs,)
        Raw predictions of a row at the centre.
    centring : Centring
    """

    constant: FloatArray
    centring: Centring

    def unpack(self, objective: LinearObjective) -> tuple[FloatArray, FloatArray]:
        """Weights in units of the features, and what is added to ``x @ coef``."""
        coef = self.centring.weights(self.weights).T
        return coef, self.constant - coef @ self.centring.centre


@dataclass(frozen=True, kw_only=True)
class CentredDescent(Solver):
    """A noisy descent on centred rows, from the base rate, with a gate.

    Privacy
    -------
    All answers are Gaussian: exactly mu-GDP for their squares together. Both
    adjacencies, users and the null record: ``docs/proofs/centred_descent.md``.

    Parameters
    ----------
    rows : CentredRows
    strength : float in (0, inf]
        Records times mu, over what a record can change.
    shares : Shares
    pace : Pace
    """

    key: ClassVar[str] = "centred_descent"
    is_pure: ClassVar[bool] = False
    takes_users: ClassVar[bool] = True
    takes_nonconvex: ClassVar[bool] = True

    rows: CentredRows
    strength: float
    shares: Shares
    pace: Pace

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        """`given` has the rows.

        Raises
        ------
        Refused
            Without an intercept, which a centre is.
        """
        cls.check_possible(objective, budget)
        rows = given["rows"]
        strength = strength_of(objective.n_telling, budget, objective.adjacency)
        shares = Shares.of(objective.loss, strength, rows.share(strength))
        pace = Pace.of(objective, strength)
        return cls(rows=rows, strength=strength, shares=shares, pace=pace)

    @classmethod
    def check_possible(cls, objective: LinearObjective, budget: Budget) -> None:
        """Raise what no parameter can mend.

        Raises
        ------
        Refused
        """
        me = f"solver={cls.key!r}"
        if not objective.fit_intercept:
            raise Refused(f"{me} needs an intercept. Use fit_intercept=True.")
        if objective.n_nonzero is not None:
            raise Refused(f"{me} gives every feature a weight. Use solver='iht'.")
        if budget.delta == 0 and budget.is_finite:
            raise Refused(f"{me} adds Gaussian noise. Use a delta above 0.")

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return True

    @property
    def mechanism(self) -> str:
        return "Gaussian noise, calibrated exactly"

    @property
    def params(self) -> dict[str, Any]:
        given = {"strength": self.strength, "shares": vars(self.shares)}
        return {**vars(self.pace), **given}

    @property
    def descent(self) -> GatedDescent:
        """What follows the first answers."""
        return GatedDescent(shares=self.shares, pace=self.pace)

    def sensitivity(self, objective: LinearObjective) -> float:
        """Of a gradient sum at any weights."""
        return self.descent.sensitivity(objective)

    def plan(self, objective: LinearObjective) -> Plan:
        first = [Line(mu_share=share) for share in self._first.values()]
        return Plan((*first, Part(self.descent.plan())))

    @property
    def _first(self) -> dict[str, float]:
        """Shares of the lines before the descent, in their order."""
        shares = self.shares
        asked = {
            "states": shares.states,
            "targets": shares.targets,
            "mean": shares.mean,
        }
        return {name: share for name, share in asked.items() if share > 0}

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        centred = self.asked_of_rows(answers, objective)
        base = self.asked_of_targets(answers, objective)
        # After the first answer, from which its view follows.
        rows = answers.part(len(self._first), centred.view)
        found = self.descent.run(rows, objective, base, centred.variances, progress)
        return CentredSolution(
            weights=found.weights,
            noise_scale=answers.noise_scale,
            constant=found.constant,
            centring=centred.centring,
        )

    def asked_of_rows(self, answers: Answers, objective: LinearObjective) -> Centred:
        """Where the rows lie; released."""
        n = objective.n_samples
        released = answers.ask(self.rows.query(n), list(self._first).index("states"))
        return self.rows.centred(released, n)

    def asked_of_targets(self, answers: Answers, objective: LinearObjective) -> Base:
        """Where the targets lie; released."""
        lines = list(self._first)

        def ask(name: str, query: Query) -> Released:
            return answers.ask(query, lines.index(name))

        loss, n = objective.loss, objective.n_samples
        return released_base(loss, n, ask, lines)
