"""What an audit found."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from skdp._card import card
from skdp._floats import FloatArray

if TYPE_CHECKING:
    from skdp.audit._audit_display import AuditDisplay


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What an estimator promises.

    Parameters
    ----------
    epsilon, delta : float
    adjacency : str
        The relation of neighbours.
    source : str
        Who says so.
    is_gaussian : bool, default=True
        Whether all noise is taken to be Gaussian. Then the promise is one of mu, which
        scores can refute where they are seen; else by epsilon alone, since their tails
        are not seen.
    """

    epsilon: float
    delta: float
    adjacency: str
    source: str
    is_gaussian: bool = True


@dataclass(frozen=True, kw_only=True)
class EpsilonBound:
    """A lower bound on epsilon, at the delta of the claim.

    Parameters
    ----------
    method : str
    epsilon : float
    confidence : float
        With which it holds, by itself; 1.0 if nothing was sampled.
    assumption : str
        What it rests on; empty if on nothing.
    is_main : bool
        Whether it is the one that was chosen before the runs that it is from.
    """

    method: str
    epsilon: float
    confidence: float
    assumption: str
    is_main: bool = False


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that should not be.

    Parameters
    ----------
    kind : str
        "epsilon", "noiseless", "repeats", "low_bits" or "transcript".
    message : str
        In one sentence.
    refutes : bool
        Whether the claim is refuted, wrongly with probability below 1e-6 where the
        assumptions hold that are told; else it is something to look at.
    """

    kind: str
    message: str
    refutes: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditResult:
    """What an audit found: never that a claim holds, only whether it was refuted.

    Everything in here is about data that were made up or given up for the audit, and
    nothing of it is private.

    Parameters
    ----------
    estimator : str
    access : {"model", "transcript"}
    claimed : Claim
    bounds : tuple of EpsilonBound
    findings : tuple of Finding
    n_runs : int
        Fits that the result rests on.
    neighbours : str
        How the two data sets differ.
    score : str
        What was made of the models, in words.
    interrupted : bool
        Whether the user ended it before its time.
    scores : tuple of two ndarray of shape (n_scores,)
        Of the runs that test, on either data set; empty for transcripts.
    parts : dict of str to tuple of float
        Of transcripts: what each line of the plan tells apart and what it is charged,
        as mu or as epsilon.
    """

    estimator: str
    access: str
    claimed: Claim
    bounds: tuple[EpsilonBound, ...]
    findings: tuple[Finding, ...]
    n_runs: int
    neighbours: str
    score: str
    interrupted: bool
    scores: tuple[FloatArray, FloatArray]
    parts: dict[str, tuple[float, float]]

    @property
    def epsilon_lower_bound(self) -> float:
        """Epsilon is at least this, with the confidence that was asked for."""
        return max((x.epsilon for x in self.bounds if x.is_main), default=0.0)

    @property
    def passed(self) -> bool:
        """Whether nothing refutes the claim; a true claim passes all but surely."""
        return not any(finding.refutes for finding in self.findings)

    def sentence(self) -> str:
        """The result in one sentence, to be quoted."""
        claim, verdict = self.claimed, "is refuted" if not self.passed else "stands"
        early = ", interrupted" if self.interrupted else ""
        return (
            f"{self.estimator}: the claim of ({claim.epsilon:g}, {claim.delta:g}) "
            f"under {claim.adjacency} {verdict}; epsilon is at least "
            f"{self.epsilon_lower_bound:.3f} ({self._main()}, {self.n_runs} "
            f"fits{early})."
        )

    def _main(self) -> str:
        return next((_how(x) for x in self.bounds if x.is_main), "nothing was tested")

    def to_dict(self) -> dict[str, Any]:
        """All but the scores, JSON-ready; an infinite number becomes ``"inf"``."""
        values = {
            "estimator": self.estimator,
            "access": self.access,
            "claimed": asdict(self.claimed),
            "passed": self.passed,
            "epsilon_lower_bound": self.epsilon_lower_bound,
            "bounds": [asdict(bound) for bound in self.bounds],
            "findings": [asdict(finding) for finding in self.findings],
            "n_runs": self.n_runs,
            "neighbours": self.neighbours,
            "score": self.score,
            "interrupted": self.interrupted,
            "is_private": False,
            "sentence": self.sentence(),
        }
        plain: dict[str, Any] = _plain(values)
        return plain

    def to_json(self) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True, allow_nan=False)

    def plot(self, *, ax: Any = None) -> AuditDisplay:
        """Draw the scores, or the lines of the plan; see `AuditDisplay`."""
        from skdp.audit._audit_display import AuditDisplay

        return AuditDisplay(self).plot(ax=ax)

    def _rows(self) -> list[tuple[str, str]]:
        claim = self.claimed
        return [
            ("claimed", f"{claim.epsilon:g}, {claim.delta:g} ({claim.source})"),
            *(
                (x.method, f"epsilon >= {x.epsilon:.3f}; {_how(x)}")
                for x in self.bounds
            ),
            ("neighbours", self.neighbours),
            ("score", self.score),
            *((_mark(x), x.message) for x in self.findings),
        ]

    def __repr__(self) -> str:
        lines = [f"  {name:<22} {value}" for name, value in self._rows()]
        return "\n".join([self.sentence(), *lines])

    def _repr_html_(self) -> str:
        return card(self.sentence(), self._rows(), is_good=self.passed)


def _how(bound: EpsilonBound) -> str:
    sure = "exact" if bound.confidence == 1 else f"confidence {bound.confidence:g}"
    return f"{sure}, if {bound.assumption}" if bound.assumption else sure


def _mark(finding: Finding) -> str:
    return f"{'FOUND' if finding.refutes else 'look at'}: {finding.kind}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value
