"""How rows of declared columns are centred and scaled before a fit; the rules."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from skdp._configured import Checks, Configured, Given
from skdp._validation import check_real
from skdp.exceptions import Refused
from skdp.losses import Loss, SquaredLoss
from skdp.objectives import Expected, LinearObjective
from skdp.preprocessing._table_plan import Encoding
from skdp.privacy import Budget
from skdp.solvers._as_they_come import tried
from skdp.solvers._auto import FEW_STEPS, Chosen
from skdp.solvers._budget_parts import part_of
from skdp.solvers._flow_time import FlowTime
from skdp.solvers._heavy_ball import HeavyBall
from skdp.solvers._multistage import Multistage
from skdp.solvers._named import Named
from skdp.solvers._nesterov import Nesterov
from skdp.solvers._noisy_gd import NoisyGD
from skdp.solvers._preconditioned import Preconditioned, States
from skdp.solvers._strength import TARGET_INTERVALS, strength_of

# Deviation of the noise in a share of the records that is worth paying for.
_WANTED = 0.01
_LEAST_SHARE, _MOST_SHARE = 0.002, 0.1
# Below this strength over the root of the columns nothing is released.
_WORTH_RELEASING = 120.0
# Noise in a unit row's prediction at which a descent stops, over the default: less,
# since centred rows spend none of it on what all rows share.
_ADMITTED, _ADMITTED_SQUARED = 0.5, 0.35
# Deviation of what is to be learned, in units of the loss; of decisions the more the
# sharper answers about the weights are, which take back what was too much.
_SIGNAL, _FAR_MORE, _MOST_SIGNAL = 1.5, 100.0, 3.0
_SIGNAL_SQUARED = 0.5
# With several outputs from this strength on.
_WORTH_SEVERAL, _ADMITTED_SEVERAL = 100.0, 1.0
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
    n, g = objective.n_samples, len(encoding.blocks)
    strength = strength_of(n, budget, objective.adjacency)
    n_intervals = TARGET_INTERVALS if isinstance(objective.loss, SquaredLoss) else 0
    share, reads_columns = given.share, True
    if share is None:
        share, reads_columns = _share(strength, len(encoding.parts), g, n_intervals)
    left = part_of(budget, 1 - share)
    states = States(encoding.parts, encoding.basis, encoding.weights)
    objective = replace(objective, expected=_expected(objective.loss, strength, states))
    if named is None:
        inner = tried(_by_rule, objective, left, strength, flattens=False)
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


def _expected(loss: Loss, strength: float, states: States) -> Expected:
    if loss.n_outputs > 1:
        several = strength >= _WORTH_SEVERAL
        return Expected(noise=_ADMITTED_SEVERAL if several else _ADMITTED)
    if isinstance(loss, SquaredLoss):
        return Expected(
            noise=_ADMITTED_SQUARED, signal=_SIGNAL_SQUARED, spectrum=states.spectrum
        )
    signal = min(_SIGNAL + strength / _FAR_MORE, _MOST_SIGNAL)
    return Expected(noise=_ADMITTED, signal=signal, spectrum=states.spectrum)


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


def _share(
    strength: float, n_parts: int, n_columns: int, n_intervals: int
) -> tuple[float, bool]:
    """Of mu squared, for the first release, and whether it is of the columns."""
    wanted = (n_parts + (n_intervals > 0)) / (_WANTED * strength) ** 2
    if wanted <= _MOST_SHARE or strength >= _WORTH_RELEASING * math.sqrt(n_columns):
        return min(max(wanted, _LEAST_SHARE), _MOST_SHARE), True
    if not n_intervals:
        return 0.0, False
    return min(max(1 / (_WANTED * strength) ** 2, _LEAST_SHARE), _MOST_SHARE), False


def _by_rule(objective: LinearObjective, budget: Budget) -> Chosen:
    rule = FlowTime.of(objective, budget)
    clip, weight = rule.clip_and_weight(None, None)
    steps = rule.wanted_steps(rule.flow(clip, weight))
    if objective.loss.n_outputs == 1 and steps < FEW_STEPS:
        reason = "noise limits the fit: few accelerated steps with divided noise"
        return Chosen(Nesterov.planned({}, objective, budget), reason)
    reason = "averaged noisy descent on centred rows"
    return Chosen(NoisyGD.planned({}, objective, budget), reason)
