r"""Knowledge transfer: a private dense teacher, a sparse student.

The teacher is a registered solver and sees the records. The student is the model of at
most `n_nonzero` features that predicts most like the released teacher on rows that are
not sensitive. Only the teacher has noise: the student is computed from its weights.

The paper's teacher is sparse and has no noise, its labels have, and its claim is false
(``docs/errata.md``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from skdp.data import Source
from skdp.objectives import LinearObjective
from skdp.privacy._accounting import Budget
from skdp.privacy._events import Event
from skdp.privacy._noise import NoiseSource
from skdp.solvers._base import Progress, Solution, Solver
from skdp.solvers._boxed import boxed, farthest_weight
from skdp.solvers._configured import Checks
from skdp.solvers._dense_part import (
    Params,
    check_dense_key,
    check_params,
    dense_solver,
    resolved_dense,
)
from skdp.solvers._public_rows import PublicRows
from skdp.solvers._thresholding import keep_rows, largest_rows

_ISOTROPIC: Literal["isotropic"] = "isotropic"
# The best default solver of those measured (docs/solvers/knowledge_transfer.md).
_TEACHER = "nesterov"


def _check_rows(name: str, value: Any) -> Any:
    if isinstance(value, str) and value == _ISOTROPIC:
        return value
    if isinstance(value, str):
        raise ValueError(
            f"The {name!r} parameter must be 'isotropic' or rows. Got {value!r}."
        )
    return PublicRows.of(name, value)


@dataclass(frozen=True, kw_only=True)
class KnowledgeTransfer(Solver):
    r"""A sparse student of a private dense teacher (in place of the paper's DPSL-KT).

    Privacy
    -------
    That of the teacher, whose event, sensitivity and noise are those of the whole: the
    student is a function of released weights and of public rows. Both adjacencies:
    ``docs/proofs/knowledge_transfer.md`` and the teacher's page. Unit of privacy: one
    record.

    Utility
    -------
    With ``"isotropic"`` the student's weights are at most twice as far as the
    teacher's from any weights of `n_nonzero` features: of those, none are nearer to the
    teacher. So they are for predictions on public rows, if the nearest are found.

    Parameters
    ----------
    teacher : str or None, default=None
        Key of a solver in `skdp.solvers.SOLVERS` that gives every feature a weight.
        None: ``"nesterov"``, or if delta is 0 what ``solver="auto"`` takes for the same
        problem without selection.
    teacher_params : mapping or None, default=None
        Its hyper-parameters, as ``solver_params`` of that solver.
    public_rows : "isotropic", or array or CSR of shape (m, n_features), \
default="isotropic"
        Rows, in the units of the features, on which student and teacher are to agree.
        **They are not protected**: use rows that anyone may know, such as another
        public data set's; labels are not needed. ``"isotropic"`` stands for features of
        mean 0 and equal variance without correlation, for which the nearest student is
        the teacher's largest weights, exactly, so that nothing is simulated.

    References
    ----------
    .. [1] Wang (2021). Towards efficient and effective privacy-preserving machine
       learning. PhD thesis, UCLA, chapter 3.
    .. [2] Foucart (2011). Hard thresholding pursuit. SIAM J. Numer. Anal. 49(6).

    Deviations: noise in the teacher's training instead of on its labels, since the
    paper's mechanism is not private; a student with an intercept.
    """

    key: ClassVar[str] = "knowledge_transfer"
    is_pure: ClassVar[bool] = True  # if the teacher is, which refuses for itself
    is_sparse: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        "teacher": check_dense_key,
        "teacher_params": check_params,
        "public_rows": _check_rows,
    }

    teacher: str | None = None
    teacher_params: Params | None = None
    public_rows: Any = _ISOTROPIC

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._named_teacher  # refuses parameters that the teacher has not

    @cached_property
    def _named_teacher(self) -> Solver | None:
        return dense_solver(self.teacher, self.teacher_params)

    @property
    def _resolved_teacher(self) -> Solver:
        assert self._named_teacher is not None, "resolve() fills in the teacher"
        return self._named_teacher

    def refusal(self, objective: LinearObjective, budget: Budget) -> str:
        reason = super().refusal(objective, budget)
        if reason:
            return reason
        rows, d = self.public_rows, objective.n_features
        if isinstance(rows, PublicRows) and rows.shape[1] != d:
            return (
                f"solver={self.key!r} needs 'public_rows' of {d} columns. Got "
                f"{rows.shape[1]}. Use rows with the features of X."
            )
        try:
            self.resolve(objective, budget)
        except ValueError as refused:
            return f"solver={self.key!r} needs another teacher. {refused}"
        return ""

    @property
    def is_gaussian(self) -> bool:
        teacher = self._named_teacher
        return teacher is not None and teacher.is_gaussian

    @property
    def assumed_public(self) -> tuple[str, ...]:
        return ("public_rows",) if isinstance(self.public_rows, PublicRows) else ()

    def resolve(self, objective: LinearObjective, budget: Budget) -> Self:
        key = self.teacher or (_TEACHER if budget.delta > 0 else None)
        key, params = resolved_dense(
            key, self.teacher_params, _of_teacher(objective), budget
        )
        return replace(self, teacher=key, teacher_params=params)

    @property
    def mechanism(self) -> str:
        return f"{self._resolved_teacher.mechanism}, in a teacher of all features"

    def event(self, noise_multiplier: float, objective: LinearObjective) -> Event:
        teacher = self._resolved_teacher
        return teacher.event(noise_multiplier, _of_teacher(objective))

    def sensitivity(self, objective: LinearObjective) -> float:
        """Of the teacher's queries; the student asks none."""
        return self._resolved_teacher.sensitivity(_of_teacher(objective))

    def run(
        self,
        source: Source,
        objective: LinearObjective,
        noise_multiplier: float,
        noise: NoiseSource,
        progress: Progress,
    ) -> Solution:
        released = self._resolved_teacher.run(
            source,
            _of_teacher(objective),
            noise_multiplier,
            noise,
            progress,
        )
        return Solution(self.student(released.weights, objective), released.noise_scale)

    def student(self, weights: Any, objective: LinearObjective) -> Any:
        """The nearest weights of few features; post-processing of released ones."""
        d, most = objective.n_features, objective.most_features
        if most == d:
            return weights
        student = weights.copy()
        if not isinstance(self.public_rows, PublicRows):
            student[:d] = keep_rows(weights[:d], largest_rows(weights[:d], most))
            return student
        student[:d], shift = self.public_rows.nearest(
            weights[:d], most, is_centred=objective.fit_intercept
        )
        student[d:] += shift / objective.intercept_value
        # A column that hardly varies in public may ask for any weight.
        return boxed(student, farthest_weight(objective))


def _of_teacher(objective: LinearObjective) -> LinearObjective:
    """The same problem, with a weight for every feature."""
    return replace(objective, n_nonzero=None)
