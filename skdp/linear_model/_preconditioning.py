"""How rows of declared columns are centred and scaled before a fit; the rules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from skdp._configured import Checks, Configured, Given
from skdp._validation import check_real
from skdp.exceptions import Refused
from skdp.objectives import LinearObjective
from skdp.preprocessing._table_plan import Encoding
from skdp.privacy import Budget
from skdp.solvers._as_they_come import tried
from skdp.solvers._auto import Chosen
from skdp.solvers._budget_parts import part_of
from skdp.solvers._centred_rules import by_rule, expected_of, share_of_states
from skdp.solvers._heavy_ball import HeavyBall
from skdp.solvers._multistage import Multistage
from skdp.solvers._named import Named
from skdp.solvers._nesterov import Nesterov
from skdp.solvers._noisy_gd import NoisyGD
from skdp.solvers._preconditioned import Preconditioned, States
from skdp.solvers._strength import TARGET_INTERVALS, strength_of

# Solvers whose answers are sums of gradients over all records.
_OF_GRADIENTS = (NoisyGD, Nesterov, HeavyBall, Multistage)


def _check_share(name: str, value: Any) -> float | None:
    return None if value is None else check_real(name, value, low=0.0, high=0.9)


@dataclass(frozen=True, kw_only=True)
class Preconditioning(Configured):
    """Centring and scaling of declared columns by a private release.

    Parameters
    ----------
    share : float in [0, 0.9] or None, default=None
        Of the squared privacy loss (mu squared), for the columns' histograms, and a
        regression's of its targets, in one release. 0 releases nothing and centres on
        evenly spread columns. None: what brings the noise in a share of the records
        down to 0.01, between 0.002 and 0.1; where that does not do, 0, or what the
        targets' histogram alone needs.
    power : float in [0, 1], default=0.0
        Features are divided by this power of their private standard deviation, over
        that of an evenly spread column. No power gained anything on the tables that the
        defaults were settled on.
    clip : float in [0.1, 100], default=1.0
        Norm to which centred rows are clipped, over their root mean square as the
        histograms tell it.
    """

    key: ClassVar[str] = "preconditioning"
    checks: ClassVar[Checks] = {
        "share": _check_share,
        "power": partial(check_real, low=0.0, high=1.0),
        "clip": partial(check_real, low=0.1, high=100.0),
    }

    share: float | None = None
    power: float = 0.0
    clip: float = 1.0


def check_preconditioning(value: Any) -> Any:
    """Return "auto", None, or a `Preconditioning`."""
    if value is None or isinstance(value, Preconditioning):
        return value
    if isinstance(value, str) and value == "auto":
        return value
    raise ValueError(
        "The 'preconditioning' parameter must be 'auto', None or a Preconditioning. "
        f"Got {value!r}. Use for example Preconditioning(share=0.05)."
    )


def preconditioned(
    given: Preconditioning,
    named: Named | None,
    encoding: Encoding,
    objective: LinearObjective,
    budget: Budget,
) -> Chosen:
    """A Gaussian solver on centred rows, everything decided from public facts.

    Raises
    ------
    Refused
        If the solver reads more than sums of gradients, or its noise is not Gaussian,
        or there is a penalty, which would be one of centred and scaled features, or no
        intercept, without which no centre can be taken off.
    """
    _check_possible(named, objective, budget)
    g = len(encoding.blocks)
    strength = strength_of(objective.n_telling, budget, objective.adjacency)
    moves = objective.loss.form.moves_with_targets
    n_intervals = TARGET_INTERVALS if moves else 0
    share, reads_columns = given.share, True
    if share is None:
        share, reads_columns = share_of_states(
            strength, len(encoding.parts), g, n_intervals
        )
    left = part_of(budget, 1 - share)
    states = States(encoding.parts, encoding.basis, encoding.weights)
    objective = replace(
        objective, expected=expected_of(objective.loss, strength, states.spectrum)
    )
    if named is None:
        inner = tried(by_rule, objective, left, strength, flattens=False)
    else:
        inner = Chosen(named.planned(objective, left), "named by the user")
    facts: Given = {
        "inner": inner.solver,
        "states": states,
        "share": share,
        "reads_columns": reads_columns,
        "n_intervals": n_intervals,
        "power": given.power,
        "clip": given.clip,
    }
    return Chosen(Preconditioned.planned(facts, objective, budget), inner.reason)


def _check_possible(
    named: Named | None, objective: LinearObjective, budget: Budget
) -> None:
    what = "The 'preconditioning' parameter must be 'auto' or None"
    if budget.delta == 0:
        raise Refused(f"{what} with delta=0. Got another. Use a delta above 0.")
    if objective.alpha > 0:
        raise Refused(
            f"{what} with C or alpha, which penalise coefficients in the units of "
            "the features. Got another. Leave C or alpha at None."
        )
    if not objective.fit_intercept:
        raise Refused(
            f"{what} with fit_intercept=False: a centre is taken off, which is an "
            "intercept. Got another. Use fit_intercept=True."
        )
    if named is not None and named.kind not in _OF_GRADIENTS:
        keys = [kind.key for kind in _OF_GRADIENTS]
        raise Refused(
            f"{what} with a solver that asks more than sums of gradients. Got "
            f"solver={named.kind.key!r}. Use one of {keys}."
        )
    if named is not None and not named.adds_in_squares:
        raise Refused(
            f"{what} with a solver whose noise is not Gaussian. Got "
            f"solver={named.kind.key!r}. Leave 'law' and 'batch_size' at None."
        )
