"""The base class of private networks: layers, solver, privacy record, forecast."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import FloatArray, in_dtype
from skdp._base import Forecast, relaxed
from skdp._checks import check_alpha, check_choice, check_count, check_data_norm
from skdp._export import Exported, Step, step
from skdp._fit import ContinuesModel, NamedKind, PlannedFit, PrivateSolver, fit
from skdp.io._table import TakesSources
from skdp.linear_model._rows import (
    LinearRows,
    encoder_of,
    rows_to_predict,
    step_to_predict,
)
from skdp.losses._base import Loss
from skdp.losses._objective import (
    ACTIVATIONS,
    MOST_LAYERS,
    MOST_UNITS,
    Layer,
    LinearObjective,
    NetworkObjective,
    Shape,
)
from skdp.neural_network._solvers import (
    INPUT_NORM,
    ConstantNetwork,
    NetworkDescent,
    Trained,
    named_descent,
)
from skdp.neural_network._solvers import signal_of as network_signal
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._relations import relation_for
from skdp.solvers._base import Solution
from skdp.solvers._default_rules import signal_of_centred
from skdp.solvers._registry import constant_if_dominated
from skdp.sums._grid_rows import clipped_products
from skdp.tables._source import Source


class PrivateNetwork(TakesSources, Exported, ContinuesModel):
    """Fully connected layers, trained along noisy sums of clipped gradients.

    A subclass's ``fit`` validates its input, states the loss, calls `_train`, and keeps
    what predictions need.
    """

    hidden_layer_sizes: Any
    convolutions: Any
    image_shape: Any
    activation: str
    solver: str
    columns: Any
    coefs_: list[np.ndarray]
    intercepts_: list[np.ndarray]
    # What a later fit continues; only of a network that is no constant.
    _released: Trained

    # ---------------------------------------------------------- before there are data

    def _check_privacy_params(self) -> Budget:
        norm = check_data_norm(self.data_norm)
        if self.columns is not None and norm != 1.0:
            raise ValueError(
                "The 'data_norm' parameter must be 1.0 with 'columns'. Got "
                f"{self.data_norm!r}. Leave it out: rows of declared columns are "
                "encoded so that none is longer than 1."
            )
        if self.columns is not None and self._convolutions():
            raise ValueError(
                "The 'convolutions' parameter needs rows that are images. Got "
                "declared 'columns' too. Leave one of them out."
            )
        return super()._check_privacy_params()

    def _hidden(self) -> tuple[int, ...]:
        """Units of each hidden layer."""
        given = self.hidden_layer_sizes
        sizes = tuple(given) if isinstance(given, Iterable) else (given,)
        if len(sizes) > MOST_LAYERS or isinstance(given, str):
            raise ValueError(
                "The 'hidden_layer_sizes' parameter must be an integer or at most "
                f"{MOST_LAYERS} of them. Got {given!r}. Use one or two layers."
            )
        return tuple(
            check_count("hidden_layer_sizes", size, high=MOST_UNITS) for size in sizes
        )

    def _convolutions(self) -> tuple[Layer, ...]:
        """The declared convolutions, which precede the layers of units."""
        given = self.convolutions
        several = tuple(given) if isinstance(given, Iterable) else (given,)
        if not all(isinstance(own, Layer) for own in several):
            raise TypeError(
                "The 'convolutions' parameter must be a sequence of "
                f"skdp.neural_network.Convolution. Got {given!r}. Use for example "
                "[Convolution(16, 8, stride=2)]."
            )
        if len(several) + len(self._hidden()) > MOST_LAYERS:
            raise ValueError(
                "The 'convolutions' and 'hidden_layer_sizes' parameters must be at "
                f"most {MOST_LAYERS} together. Got {len(several)} and "
                f"{len(self._hidden())}. Use one or two of each."
            )
        return several

    def _image(self) -> Shape:
        """Height, width and channels of a row; zeros without convolutions."""
        given = self.image_shape
        if not self._convolutions():
            if given is None:
                return 0, 0, 0
            raise ValueError(
                "The 'image_shape' parameter must be None without 'convolutions'. Got "
                f"{given!r}. Declare convolutions, or leave it out."
            )
        sizes = tuple(given) if isinstance(given, Iterable) else ()
        if len(sizes) not in (2, 3) or isinstance(given, str):
            raise ValueError(
                "The 'image_shape' parameter must be (height, width) or (height, "
                f"width, channels) with 'convolutions'. Got {given!r}. Declare the "
                "shape of the image that each row is."
            )
        height, width, channels = (
            check_count("image_shape", size, high=2**20) for size in (*sizes, 1)[:3]
        )
        return height, width, channels

    def _named(self) -> NamedKind[NetworkDescent]:
        return named_descent(
            self.solver,
            self.solver_params,
            is_private=math.isfinite(self.epsilon),
            is_of_users=self.privacy_unit == "user",
        )

    def _adds_in_squares(self) -> bool:
        named = self._named()
        return bool(self.delta > 0 and named.kind.adds_in_squares(named.given))

    def _use_composable_noise(self) -> None:
        if self.solver == "auto" and self.delta > 0:
            self.solver = "noisy_gd"

    def _objective(
        self, loss: Loss, n_samples: int, n_features: int, budget: Budget, seed: int = 0
    ) -> NetworkObjective:
        """The public facts of a fit as an objective."""
        check_choice("activation", self.activation, sorted(ACTIVATIONS))
        return NetworkObjective(
            loss=loss,
            n_samples=check_count("n_samples", n_samples),
            n_features=check_count("n_features", n_features),
            hidden=self._hidden(),
            activation=self.activation,
            data_norm=float(self.data_norm) if budget.is_finite else math.inf,
            input_factor=INPUT_NORM / float(self.data_norm),
            input_norm=INPUT_NORM,
            adjacency=relation_for(self.adjacency, self.privacy_unit),
            alpha=check_alpha(self.alpha),
            convolutions=self._convolutions(),
            image=self._image(),
            seed=seed,
        )

    @abstractmethod
    def _expected_loss(self) -> Loss:
        """The loss that follows from the declared parameters."""

    def forecast(self, n_samples: int, n_features: int) -> Forecast:
        """Solver, and noise against signal, of a fit to a table of this shape.

        Nothing is read and nothing spent. A classifier without `classes` is assumed to
        have two. Noise and signal are those of a linear model of the same rows: where
        noise drowns the linear model, a network cannot learn either.

        Parameters
        ----------
        n_samples, n_features : int
            Shape of X; with ``privacy_unit="user"`` the number of users. With
            `columns`, the shape of the encoded rows.

        Returns
        -------
        Forecast

        Raises
        ------
        ValueError, TypeError
            For a parameter out of range, if epsilon is inf, or if the solver refuses
            the job.
        """
        return self._forecast(n_samples, n_features)

    def _foreseen(
        self, budget: Budget, n_samples: int, n_features: int
    ) -> PlannedFit[NetworkObjective, Solution]:
        loss = self._expected_loss()
        objective = self._objective(loss, n_samples, n_features, budget)
        return self._planned(objective, budget)

    def _shape(self, n_samples: int) -> tuple[int, int]:
        return n_samples, self.privacy_.n_features

    def _planned(
        self, objective: NetworkObjective, budget: Budget
    ) -> PlannedFit[NetworkObjective, Solution]:
        """The fit to an objective; a constant if noise dominates the default.

        Noise and signal are those of a linear model of the same rows.
        """
        named, signal, given = self._named(), None, self._given()
        descent = named.kind.planned(named.given, objective, budget)
        reason = named.reason
        if given is not None:
            ratio = network_signal(objective, budget)
            descent = descent.after(given._released, ratio, named.given)
            reason += ", from the weights of 'init'"
        solver: PrivateSolver[NetworkObjective, Solution] = descent
        if budget.is_finite:
            linear = self._linear(objective)
            signal = signal_of_centred(linear, budget)
            noise = math.sqrt(descent.learned_share) * signal.coefficient_noise
            signal = replace(signal, coefficient_noise=noise)
            if self.solver == "auto" and given is None:
                constant = constant_if_dominated(None, linear, budget, signal)
                if constant is not None:
                    solver = ConstantNetwork(inner=constant.solver, linear=linear)
                    reason = constant.reason
        return PlannedFit(
            problem=objective,
            solver=solver,
            reason=reason,
            bounds={"data_norm": objective.data_norm},
            signal=signal,
            remedies=("a larger epsilon", *relaxed(budget)),
            verbose=self.verbose,
        )

    def _linear(self, objective: NetworkObjective) -> LinearObjective:
        """The objective of a linear model of the same rows."""
        n_features = objective.n_features
        if hasattr(self, "encoder_"):
            # The noise decides how fine a curve is; the coarsest curve is a line.
            n_features = self.encoder_._encoding.n_lines
        return LinearObjective(
            loss=objective.loss,
            n_samples=objective.n_samples,
            n_features=n_features,
            data_norm=objective.data_norm,
            adjacency=objective.adjacency,
        )

    # --------------------------------------------------------------------------- fits

    def _train(
        self,
        source: Source,
        rows: LinearRows,
        loss: Loss,
        budget: Budget,
        assumed_public: tuple[str, ...],
    ) -> None:
        """Fit to a source of checked rows; sets ``privacy_`` and the weights."""
        door = self._door(budget)
        given = self._given()
        # Public: the first weights hide nothing, and are independent of the noise.
        seed = door.public_seed() if given is None else given.init_seed_
        n_samples, n_features = source.n_samples, rows.n_features
        objective = self._objective(loss, n_samples, n_features, budget, seed)
        planned = replace(
            self._planned(objective, budget),
            assumed_public=(*assumed_public, "the seed of the first weights"),
        )
        solver, solution = planned.solver, fit(self, planned, source, door)
        self._keep(solution, objective, rows.X.dtype)
        self.__dict__.pop("_released", None)
        if isinstance(solver, NetworkDescent):
            information = network_signal(objective, budget) ** 2
            if solver.before is not None:
                information += solver.before.information
            self._released = Trained(solution.weights, information)

    def _keep(
        self, solution: Solution, objective: NetworkObjective, dtype: Any
    ) -> None:
        layers = objective.layers(solution.weights)
        layers[-1] = self._in_units(layers[-1])
        factors = [objective.input_factor] + [1.0] * (len(objective.shapes) - 1)
        self.coefs_ = [
            in_dtype(factor * layer[:-1], dtype)
            for factor, layer in zip(factors, layers, strict=True)
        ]
        self.intercepts_ = [in_dtype(layer[-1].copy(), dtype) for layer in layers]
        self.init_seed_ = objective.seed
        self._activation, self._row_norm = objective.activation, objective.data_norm
        self._convolved = objective.convolved

    def _in_units(self, layer: FloatArray) -> FloatArray:
        """The last layer, with the biases in its last row, in units of the targets."""
        return layer

    # -------------------------------------------------------------------- predictions

    def _raw_rows(self, X: Any) -> np.ndarray:
        """Raw predictions of rows, which are clipped as they were in `fit`."""
        check_is_fitted(self)
        X = rows_to_predict(self, X)
        if self._convolved:
            raw: np.ndarray = self._convolved[0].raw(
                X,
                self._row_norm,
                self._convolved,
                list(zip(self.coefs_, self.intercepts_, strict=True)),
                ACTIVATIONS[self._activation],
            )
            return raw
        raw = clipped_products(X, self.coefs_[0], self._row_norm) + self.intercepts_[0]
        layers = zip(self.coefs_[1:], self.intercepts_[1:], strict=True)
        for coef, intercept in layers:
            raw = ACTIVATIONS[self._activation].value(raw) @ coef + intercept
        return np.asarray(raw)

    def _steps(self) -> list[Step]:
        steps, placed = [step_to_predict(self)], self._convolved
        if math.isfinite(self._row_norm) and not hasattr(self, "encoder_"):
            steps.append(step("clip", norm=self._row_norm))
        for i, (coef, bias) in enumerate(
            zip(self.coefs_, self.intercepts_, strict=True)
        ):
            if i and self._activation != "identity":
                steps.append(step(self._activation))
            is_convolution = i < len(placed)
            name = "convolve" if is_convolution else "layer"
            places = placed[i].places if is_convolution else {}
            steps.append(step(name, **places, weights=coef, bias=bias))
        return steps

    def _is_constant(self) -> bool:
        return not hasattr(self, "_released")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "privacy_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        is_declared = self.columns is not None
        if is_declared:
            tags.input_tags = get_tags(encoder_of(self.columns)).input_tags
        tags.input_tags.sparse = not is_declared
        return tags
