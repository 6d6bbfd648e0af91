"""Losses of classifiers, and declared weights of labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy.special import expit, logsumexp, softmax

from skdp._arrays import FloatArray
from skdp._checks import check_count, check_real
from skdp.losses._base import Loss, LossId, record_weights, signs_of
from skdp.losses._regression import GammaLoss, QuantileLoss

# --------------------------------------------------------------- Binary cross-entropy


# Angles at which the bound on the diameter is evaluated, and their spacing.
_ANGLES = np.linspace(0.0, math.pi / 2, 2049)
_COS_TWICE = np.cos(2 * _ANGLES)[1:]
_COS = np.cos(_ANGLES)[:-1]
with np.errstate(divide="ignore"):
    _PEAK = np.maximum(
        np.where(_COS_TWICE > 0, (1 - _COS_TWICE) / (2 * _COS_TWICE), math.inf), 0.0
    )


@lru_cache(maxsize=1024)
def _diameter(radius: float) -> float:
    # Proof page, Lemma 2: the squared diameter is at most the supremum over m of
    # max_{0 <= X <= T(m)} (1 + X)(1 - X cos 2m), T(m) = tanh(radius cos(m) / 2).
    # On a cell of angles, T is largest at its left end and cos 2m smallest at its
    # right end, so evaluating at those ends bounds the whole cell from above.
    x = np.minimum(np.tanh(radius * _COS / 2), _PEAK)
    return float(math.sqrt(np.max((1 + x) * (1 - x * _COS_TWICE))) * (1 + 1e-12))


@dataclass(frozen=True)
class LogisticLoss:
    r"""``log(1 + exp(raw)) - y raw`` for y in {0, 1}.

    The residual is ``expit(raw) - y``. Over unit rows and both labels the set of
    gradients is ``{expit(<u, w>) u : ||u|| <= 1}`` (the label is the sign of u).
    """

    n_outputs: ClassVar[int] = 1
    is_convex: ClassVar[bool] = True
    smoothness: ClassVar[float] = 0.25
    curvature_trace: ClassVar[float] = 0.25
    value_at_zero: ClassVar[float] = math.log(2)
    prediction_unit: ClassVar[float] = 1.0
    noisy_clip: ClassVar[float] = math.inf
    form: ClassVar[LossId] = LossId.SIGMOID
    form_constants: ClassVar[tuple[float, float]] = (0.0, 0.0)
    label_weights: ClassVar[tuple[float, ...]] = ()

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        raw = raw[:, 0]
        return np.asarray(np.logaddexp(0.0, raw) - y * raw, dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        residual = np.asarray(expit(raw), dtype=np.float64)
        residual -= y[:, None]
        return residual

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        p = np.asarray(expit(raw), dtype=np.float64)
        return p * (1 - p)

    def zero_out_bound(self, radius: float) -> float:
        """``expit(radius)``: 1/2 for w = 0, 1 for unbounded weights."""
        return float(expit(radius)) * (1 + 1e-12)

    def replace_one_bound(self, radius: float) -> float:
        """Diameter of the set of gradients: 1 for w = 0, 2 for unbounded weights."""
        return 2.0 if math.isinf(radius) else min(2.0, _diameter(radius))

    def leaf_curvature(self, residual: float, cap: float) -> tuple[float, float]:
        """``p (1 - p)``; records with smaller residuals add no longer vectors."""
        middle = min(max(residual, 0.5), 1.0)
        return 0.0, middle * (1 - middle)


# ---------------------------------------------------------- Multinomial cross-entropy


@dataclass(frozen=True)
class SoftmaxLoss:
    r"""``logsumexp(raw) - raw[y]`` for y in {0, ..., n_outputs - 1}.

    The coefficients of all classes form one joint vector. Its sensitivity is sqrt(2),
    and not sqrt(K) as for K models of one class against the rest.

    Parameters
    ----------
    n_outputs : int
        Number of classes, at least 3 (two classes use `LogisticLoss`).
    """

    n_outputs: int
    is_convex: ClassVar[bool] = True
    smoothness: ClassVar[float] = 0.5
    prediction_unit: ClassVar[float] = 1.0
    # A clip would cut residuals of rare labels and not those of frequent ones, so
    # frequent labels would be predicted too often.
    noisy_clip: ClassVar[float] = math.inf
    form: ClassVar[LossId] = LossId.SOFTMAX
    form_constants: ClassVar[tuple[float, float]] = (0.0, 0.0)
    label_weights: ClassVar[tuple[float, ...]] = ()

    @property
    def curvature_trace(self) -> float:
        return 1 - 1 / self.n_outputs

    @property
    def value_at_zero(self) -> float:
        return math.log(self.n_outputs)

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        own = raw[np.arange(len(raw)), y.astype(np.intp)]
        return np.asarray(logsumexp(raw, axis=1) - own, dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        residual = np.asarray(softmax(raw, axis=1), dtype=np.float64)
        residual[np.arange(len(raw)), y.astype(np.intp)] -= 1.0
        return residual

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        p = np.asarray(softmax(raw, axis=1), dtype=np.float64)
        return p * (1 - p)

    def zero_out_bound(self, radius: float) -> float:
        """About sqrt((K-1)/K) at W = 0, up to sqrt(2) for unbounded weights."""
        # Proof page, Lemma 3: ||p - e_y||^2 <= q (q + m), q = 1 - p_y, m = max p_k.
        k = self.n_outputs
        worst = math.sqrt(2.0)
        if radius > 50:
            return worst
        q = 1 - 1 / (1 + (k - 1) * math.exp(math.sqrt(2) * radius))
        m = 1 / (1 + (k - 1) * math.exp(-radius * math.sqrt(k / (k - 1))))
        return min(worst, math.sqrt(q * (q + m)) * (1 + 1e-12))

    def replace_one_bound(self, radius: float) -> float:
        """Twice the largest gradient, attained in the limit by x and nearly -x."""
        return 2 * self.zero_out_bound(radius)

    def leaf_curvature(self, residual: float, cap: float) -> tuple[float, float]:
        """The probabilities."""
        return 0.0, 1.0


# ----------------------------------------------------- Hinge loss with a rounded corner


@dataclass(frozen=True)
class HuberHingeLoss:
    r"""The hinge loss, quadratic within `h` of its corner.

    With z = s raw and s = 2 y - 1 for y in {0, 1}: 0 for ``z > 1 + h``,
    ``(1 + h - z)^2 / (4 h)`` for ``|1 - z| <= h``, and ``1 - z`` below [1]_.

    With several outputs, y is a class in {0, ..., n_outputs - 1}, and the loss is the
    sum of the binary losses of each class against the rest. The residuals of all
    outputs form one joint vector, which is released as a whole.

    Parameters
    ----------
    h : float in [1e-3, 1e3], default=0.5
        Half the width of the rounded corner.
    n_outputs : int, default=1
        1 for two classes, else the number of classes.

    References
    ----------
    .. [1] Chapelle (2007). Training a support vector machine in the primal. Neural
       Computation 19(5), equation 2.7.
    """

    h: float = 0.5
    n_outputs: int = 1
    is_convex: ClassVar[bool] = True
    form: ClassVar[LossId] = LossId.HINGE
    label_weights: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "h", check_real("h", self.h, low=1e-3, high=1e3))
        count = check_count("n_outputs", self.n_outputs)
        object.__setattr__(self, "n_outputs", count)

    @property
    def smoothness(self) -> float:
        """1 / (2 h): the Hessian is diagonal in the outputs."""
        return 1 / (2 * self.h)

    @property
    def curvature_trace(self) -> float:
        return self.n_outputs / (2 * self.h)

    @property
    def value_at_zero(self) -> float:
        inside = min(1 + self.h, 2 * self.h)
        return self.n_outputs * (inside**2 / (4 * self.h) + 1 + self.h - inside)

    @property
    def form_constants(self) -> tuple[float, float]:
        """The half-width of the corner."""
        return self.h, 0.0

    @property
    def prediction_unit(self) -> float:
        """Half of the hinge's margin."""
        return 0.5

    @property
    def noisy_clip(self) -> float:
        """A quarter of the residual norm at W = 0, for several outputs."""
        return math.inf if self.n_outputs == 1 else math.sqrt(self.n_outputs) / 4

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        short = 1 + self.h - signs_of(y, self.n_outputs) * raw
        inside = np.clip(short, 0.0, 2 * self.h)
        losses = inside**2 / (4 * self.h) + (np.maximum(short, 0.0) - inside)
        return np.asarray(losses.sum(axis=1), dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        signs = signs_of(y, self.n_outputs)
        slope = np.clip((1 + self.h - signs * raw) / (2 * self.h), 0.0, 1.0)
        return np.asarray(-signs * slope, dtype=np.float64)

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        short = 1 + self.h - signs_of(y, self.n_outputs) * raw
        is_round = (short > 0) & (short < 2 * self.h)
        return np.asarray(is_round / (2 * self.h), dtype=np.float64)

    def zero_out_bound(self, radius: float) -> float:
        """sqrt(n_outputs) for h <= 1; for a wider corner smaller near W = 0."""
        # Proof page, Lemma 4.
        worst = math.sqrt(self.n_outputs)
        near_zero = (worst * (1 + self.h) + radius) / (2 * self.h)
        return min(worst, near_zero) * (1 + 1e-12)

    def replace_one_bound(self, radius: float) -> float:
        """Twice the largest gradient, attained at W = 0 by opposite rows."""
        return 2 * self.zero_out_bound(radius)


# -------------------------------------------------------------------------- Cauchy loss
# A squared error that grows only slowly for large errors.


@dataclass(frozen=True)
class CauchyLoss:
    r"""``c^2 / 2 log(1 + ((raw - s) / c)^2)`` with s = 2 y - 1; not convex [1]_.

    It is a regression of the signs +1 and -1 on the rows. For errors beyond c the
    residual decreases with the error.

    With several outputs, y is a class in {0, ..., n_outputs - 1}, and the loss is the
    sum of the binary losses of each class against the rest. The residuals of all
    outputs form one joint vector, which is released as a whole.

    Parameters
    ----------
    c : float in [1e-3, 1e3], default=1.0
        The error with the largest residual.
    n_outputs : int, default=1
        1 for two classes, else the number of classes.

    References
    ----------
    .. [1] Black and Anandan (1996). The robust estimation of multiple motions. Computer
       Vision and Image Understanding 63(1). (the Lorentzian)
    """

    c: float = 1.0
    n_outputs: int = 1
    is_convex: ClassVar[bool] = False
    prediction_unit: ClassVar[float] = 0.5
    noisy_clip: ClassVar[float] = math.inf
    smoothness: ClassVar[float] = 1.0
    form: ClassVar[LossId] = LossId.CAUCHY
    label_weights: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", check_real("c", self.c, low=1e-3, high=1e3))
        count = check_count("n_outputs", self.n_outputs)
        object.__setattr__(self, "n_outputs", count)

    @property
    def form_constants(self) -> tuple[float, float]:
        """The error with the largest residual."""
        return self.c, 0.0

    @property
    def curvature_trace(self) -> float:
        return float(self.n_outputs)

    @property
    def value_at_zero(self) -> float:
        return self.n_outputs * self.c**2 / 2 * math.log1p(1 / self.c**2)

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        error = np.abs(raw - signs_of(y, self.n_outputs)) / self.c
        # log(1 + q^2) without the square of a large q.
        small, large = np.minimum(error, 1.0), np.maximum(error, 1.0)
        logs = np.log1p(small**2) + np.log((1 + large**-2) / 2) + 2 * np.log(large)
        losses = self.c**2 / 2 * logs
        return np.asarray(losses.sum(axis=1), dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        error = raw - signs_of(y, self.n_outputs)
        share = error / self.c
        return np.asarray(error / (1 + share * share), dtype=np.float64)

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        squares = ((raw - signs_of(y, self.n_outputs)) / self.c) ** 2
        return np.asarray((1 - squares) / (1 + squares) ** 2, dtype=np.float64)

    def zero_out_bound(self, radius: float) -> float:
        """C / 2 in every output, or less where no error comes near c."""
        # Proof page of gradient descent, Lemma 4: errors are from 1 - radius to 1 +
        # radius.
        nearest = min(max(self.c, 1 - radius), 1 + radius)
        worst = nearest / (1 + (nearest / self.c) ** 2)
        return math.sqrt(self.n_outputs) * worst * (1 + 1e-12)

    def replace_one_bound(self, radius: float) -> float:
        """Twice the largest gradient: opposite rows of both labels."""
        return 2 * self.zero_out_bound(radius)


# ----------------------------- Sigmoid loss: wrong predictions counted by a smooth step


@dataclass(frozen=True)
class SigmoidLoss:
    r"""``1 / (1 + exp(s raw))`` with s = 2 y - 1 for y in {0, 1}; not convex [1]_.

    The loss of a record is at most 1, even if the record is far on the wrong side. The
    gradient decreases with the distance from the decision boundary, so flipped labels
    far from it hardly count.

    With several outputs, y is a class in {0, ..., n_outputs - 1}, and the loss is the
    sum of the binary losses of each class against the rest. The residuals of all
    outputs form one joint vector, which is released as a whole.

    Parameters
    ----------
    n_outputs : int, default=1
        1 for two classes, else the number of classes.

    References
    ----------
    .. [1] Mason, Baxter, Bartlett and Frean (1999). Boosting algorithms as gradient
       descent. NeurIPS. (losses of margins that are not convex)
    """

    n_outputs: int = 1
    is_convex: ClassVar[bool] = False
    prediction_unit: ClassVar[float] = 1.0
    noisy_clip: ClassVar[float] = math.inf
    # The largest |expit(r) expit(-r) (1 - 2 expit(r))|, where expit is (3 + 3^.5) / 6.
    smoothness: ClassVar[float] = 1 / (6 * math.sqrt(3)) * (1 + 1e-12)
    form: ClassVar[LossId] = LossId.STEP
    form_constants: ClassVar[tuple[float, float]] = (0.0, 0.0)
    label_weights: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        count = check_count("n_outputs", self.n_outputs)
        object.__setattr__(self, "n_outputs", count)

    @property
    def curvature_trace(self) -> float:
        return self.n_outputs * self.smoothness

    @property
    def value_at_zero(self) -> float:
        return self.n_outputs / 2

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        losses = expit(-signs_of(y, self.n_outputs) * raw)
        return np.asarray(losses.sum(axis=1), dtype=np.float64)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        bell = expit(raw) * expit(-raw)
        return np.asarray(-signs_of(y, self.n_outputs) * bell, dtype=np.float64)

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        p = np.asarray(expit(raw), dtype=np.float64)
        return -signs_of(y, self.n_outputs) * p * (1 - p) * (1 - 2 * p)

    def zero_out_bound(self, radius: float) -> float:
        """A quarter in every output, attained at W = 0."""
        # Proof page of gradient descent, Lemma 4.
        return math.sqrt(self.n_outputs) / 4 * (1 + 1e-12)

    def replace_one_bound(self, radius: float) -> float:
        """Twice the largest gradient, attained at W = 0 by opposite rows."""
        return 2 * self.zero_out_bound(radius)


# ----------------------------------------------- A loss with declared weights of labels


# Losses whose residual has the sign of its label, at every prediction.
ONE_SIGN = (LossId.SIGMOID, LossId.HINGE, LossId.STEP)


@dataclass(frozen=True)
class WeightedLoss:
    r"""``v[y] * loss(y, raw)`` with public weights v in (0, 1], the largest of them 1.

    A record's weighted gradient lies between 0 and its gradient without the weight. So
    all bounds of the loss also hold with weights, under both adjacencies. The only cost
    of weights is that they are divided by the largest
    (``docs/proofs/gradient_descent.md``, Lemma 5).

    Parameters
    ----------
    loss : Loss
        Loss of labels: y is 0 or 1 for one output, else in {0, ..., n_outputs - 1}.
    label_weights : tuple of float in (0, 1]
        Weight of each label.
    """

    loss: Loss
    label_weights: tuple[float, ...]

    def __post_init__(self) -> None:
        weights, n_labels = self.label_weights, max(self.loss.n_outputs, 2)
        is_scaled = all(0 < weight <= 1 for weight in weights) and 1 in weights
        if self.loss.form.is_of_numbers or self.loss.label_weights:
            raise ValueError(
                "The 'loss' must be a loss of labels, without weights. Got "
                f"{self.loss!r}. Use for example LogisticLoss()."
            )
        if len(weights) != n_labels or not is_scaled:
            raise ValueError(
                f"The 'label_weights' must be {n_labels} numbers above 0, the largest "
                f"of them 1. Got {weights!r}. Divide them by the largest."
            )

    @property
    def n_outputs(self) -> int:
        return self.loss.n_outputs

    @property
    def is_convex(self) -> bool:
        return self.loss.is_convex

    @property
    def smoothness(self) -> float:
        return self.loss.smoothness

    @property
    def curvature_trace(self) -> float:
        return self.loss.curvature_trace

    @property
    def value_at_zero(self) -> float:
        return self.loss.value_at_zero

    @property
    def prediction_unit(self) -> float:
        return self.loss.prediction_unit

    @property
    def noisy_clip(self) -> float:
        """The clip of the loss; a record is clipped to it times the record's weight."""
        return self.loss.noisy_clip

    @property
    def form(self) -> LossId:
        return self.loss.form

    @property
    def form_constants(self) -> tuple[float, ...]:
        """The constants of the loss, and the weights."""
        return (*self.loss.form_constants, *self.label_weights)

    def value(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        return self.loss.value(y, raw) * record_weights(self, y)

    def residual(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        return self.loss.residual(y, raw) * record_weights(self, y)[:, None]

    def curvature(self, y: FloatArray, raw: FloatArray) -> FloatArray:
        return self.loss.curvature(y, raw) * record_weights(self, y)[:, None]

    def zero_out_bound(self, radius: float) -> float:
        """The bound of the loss, attained by the label of weight 1."""
        return self.loss.zero_out_bound(radius)

    def replace_one_bound(self, radius: float) -> float:
        """The bound of the loss: adding 0 to the convex hull keeps its diameter."""
        return self.loss.replace_one_bound(radius)


def weighted(loss: Loss, label_weights: tuple[float, ...]) -> Loss:
    """`loss` with these weights of labels; unchanged without weights."""
    return WeightedLoss(loss, label_weights) if label_weights else loss


def heaviest_pair(loss: Loss, clip: float = math.inf) -> float:
    """Largest sum of the sizes of residuals of opposite sign, over the largest size.

    It is 2 if all labels have the same weight. It is also 2 if residuals of one label
    have both signs, since two records of this label may then be as far apart. For a
    loss with `sides`, each side is clipped to `clip`.
    """
    if isinstance(loss, (QuantileLoss, GammaLoss)):
        sides = [min(side, clip) for side in loss.sides]
        return sum(sides) / max(sides)
    if not loss.label_weights or loss.n_outputs > 1 or loss.form not in ONE_SIGN:
        return 2.0
    return sum(loss.label_weights)


def without_weights(loss: Loss) -> Loss:
    """The loss with equal weights of labels."""
    return loss.loss if isinstance(loss, WeightedLoss) else loss


def heaviest(loss: Loss) -> tuple[float, float]:
    """The two largest weights of labels."""
    rising = sorted(loss.label_weights or (1.0, 1.0))
    return rising[-1], rising[-2]


def clip_of(loss: Loss, y: FloatArray, clip: float) -> FloatArray | float:
    """The norm to which each record's weighted residual is clipped: (n, 1), or one.

    It is the clip times the record's weight, so that weights count after the clip.
    """
    if math.isinf(clip) or not loss.label_weights:
        return clip
    return np.asarray(clip * record_weights(loss, y)[:, None])


def typical_weight(loss: Loss) -> float:
    """Mean label weight if labels are as rare as their weights are large.

    Only rules for defaults use it: this fraction of the records determines the model.
    """
    weights = loss.label_weights or (1.0,)
    return len(weights) / sum(1 / weight for weight in weights)


def typical_curvature(loss: Loss) -> float:
    """Typical curvature of a record's loss in one output, for rules; not a bound.

    It is at most 1 for losses of numbers, even if they have a kink.
    """
    typical = loss.curvature_trace / loss.n_outputs * typical_weight(loss)
    return min(typical, 1.0) if loss.form.is_of_numbers else typical
