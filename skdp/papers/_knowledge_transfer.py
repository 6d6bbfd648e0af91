r"""Knowledge transfer: a private dense teacher, a sparse student.

The teacher is a registered solver and sees the records. The student is the model of at
most `n_nonzero` features that predicts most like the released teacher on rows that are
not sensitive. Only the teacher has noise: the student is computed from its weights.

The paper's teacher is sparse and has no noise, its labels have, and its claim is false
(``docs/errata.md``).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, Self

from skdp._configured import Checks, Given
from skdp._floats import FloatArray
from skdp.exceptions import Refused
from skdp.objectives._linear import LinearObjective
from skdp.papers._dense_part import (
    check_dense_key,
    check_params,
    named_part,
    needs_another,
    planned_part,
    shown,
)
from skdp.papers._public_rows import PublicRows
from skdp.privacy._accounting import Budget
from skdp.privacy._answers import Answers
from skdp.privacy._plan import Plan
from skdp.solvers._base import Solution, Solver
from skdp.solvers._boxed import boxed, farthest_weight
from skdp.solvers._named import Named
from skdp.solvers._nesterov import Nesterov
from skdp.solvers._progress import Progress
from skdp.solvers._thresholding import keep_rows, largest_rows

_ISOTROPIC: Literal["isotropic"] = "isotropic"
# The best default solver of those measured (docs/papers/knowledge_transfer.md).
_TEACHER = Named(Nesterov, {})


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
    """A sparse student of a private dense teacher (in place of the paper's DPSL-KT).

    Privacy
    -------
    That of the teacher, whose event, sensitivity and noise are those of the whole: the
    student is a function of released weights and of public rows. Both adjacencies:
    ``docs/proofs/knowledge_transfer.md`` and the teacher's page. Unit of privacy: one
    record, or all rows of a user if the teacher's may be.

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
    takes_users: ClassVar[bool] = True  # if its part does, which refuses for itself
    is_pure: ClassVar[bool] = True  # if the teacher is, which refuses for itself
    is_sparse: ClassVar[bool] = True
    # For study: what "auto" takes is more accurate on all data compared
    # (docs/sparse.md).
    is_recommended: ClassVar[bool] = False
    checks: ClassVar[Checks] = {"public_rows": _check_rows}
    given_checks: ClassVar[Checks] = {
        "teacher": check_dense_key,
        "teacher_params": check_params,
    }

    teacher: Solver
    public_rows: PublicRows | Literal["isotropic"] = _ISOTROPIC

    @classmethod
    def check_given(cls, given: Given) -> None:
        named_part("teacher", given)

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        teacher = named_part("teacher", given)
        return teacher is not None and teacher.adds_in_squares

    @classmethod
    def planned(cls, given: Given, objective: LinearObjective, budget: Budget) -> Self:
        cls.check(objective, budget)
        rows, d = given.get("public_rows", _ISOTROPIC), objective.n_features
        if isinstance(rows, PublicRows) and rows.shape[1] != d:
            raise Refused(
                f"solver={cls.key!r} needs 'public_rows' of {d} columns. Got "
                f"{rows.shape[1]}. Use rows with the features of X."
            )
        of_teacher = _of_teacher(objective)
        try:
            by_rule = _TEACHER if budget.delta > 0 else None
            named = named_part("teacher", given) or by_rule
            teacher = planned_part(named, of_teacher, budget)
        except ValueError as refused:
            raise needs_another(cls, "teacher", refused, of_teacher, budget) from None
        return cls(teacher=teacher, public_rows=rows)

    @property
    def params(self) -> dict[str, Any]:
        params = shown(super().params, "teacher")
        if isinstance(self.public_rows, PublicRows):
            params["public_rows"] = asdict(self.public_rows)
        return params

    def assumed_public(self, objective: LinearObjective) -> tuple[str, ...]:
        return ("public_rows",) if isinstance(self.public_rows, PublicRows) else ()

    @property
    def mechanism(self) -> str:
        return f"{self.teacher.mechanism}, in a teacher of all features"

    def plan(self, objective: LinearObjective) -> Plan:
        return self.teacher.plan(_of_teacher(objective))

    def sensitivity(self, objective: LinearObjective) -> float:
        """Of the teacher's queries; the student asks none."""
        return self.teacher.sensitivity(_of_teacher(objective))

    def run(
        self, answers: Answers, objective: LinearObjective, progress: Progress
    ) -> Solution:
        released = self.teacher.run(answers, _of_teacher(objective), progress)
        return Solution(self.student(released.weights, objective), released.noise_scale)

    def student(self, weights: FloatArray, objective: LinearObjective) -> FloatArray:
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
