"""What users may name as ``solver=`` of networks.

The keys of linear models, where it is the same algorithm. One key in all places: this
table, the module ``skdp/neural_network/_<key>.py``, its test
``tests/neural_network/test_<key>.py`` and its page ``docs/solvers/<key>.md``; what is
asked has one proof, ``docs/proofs/networks.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skdp._configured import Given, given_params
from skdp._validation import check_choice
from skdp.neural_network._descent import NetworkDescent
from skdp.neural_network._noisy_adam import NetworkAdam
from skdp.neural_network._noisy_gd import NetworkGD
from skdp.neural_network._noisy_sgd import NetworkSGD

NETWORK_SOLVERS: dict[str, type[NetworkDescent]] = {
    "noisy_adam": NetworkAdam,
    "noisy_gd": NetworkGD,
    "noisy_sgd": NetworkSGD,
}


@dataclass(frozen=True)
class NamedDescent:
    """A solver as it was asked for: its kind, what was given, and why it is used."""

    kind: type[NetworkDescent]
    given: Given
    reason: str

    @property
    def adds_in_squares(self) -> bool:
        """Whether at delta > 0 all that will be released has Gaussian noise."""
        return self.kind.adds_in_squares(self.given)


def named_descent(
    key: str,
    params: Mapping[str, Any] | None,
    *,
    is_private: bool,
    is_of_users: bool = False,
) -> NamedDescent:
    """What ``solver=key, solver_params=params`` names.

    Parameters
    ----------
    is_private : bool
        Whether there will be noise.
    is_of_users : bool, default=False
        Whether records are users, whose rows are not sampled.

    Raises
    ------
    ValueError, TypeError
        If the key or a parameter is unknown or out of range.
    """
    check_choice("solver", key, ["auto", *NETWORK_SOLVERS])
    if key != "auto":
        kind = NETWORK_SOLVERS[key]
        return NamedDescent(kind, given_params(kind, key, params), "named by the user")
    if params:
        raise ValueError(
            "The 'solver_params' parameter must be None with solver='auto'. Got a "
            f"mapping. Name the solver: one of {sorted(NETWORK_SOLVERS)}."
        )
    if not is_private:
        reason = "epsilon=inf: Adam suits rows of any length"
        return NamedDescent(NetworkAdam, {}, reason)
    if is_of_users:
        return NamedDescent(NetworkGD, {}, "rows of users are not sampled")
    return NamedDescent(NetworkSGD, {}, "of networks the best at most budgets")
