"""Parameters of solvers, each of which takes another path through the code."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

from tests.outcomes.rows import rows

REGULARISED = {"penalty": 0.2}


@dataclass(frozen=True)
class Variant:
    """A name and what differs from the defaults.

    Parameters
    ----------
    name : str
    params : dict
        `solver_params`.
    table : str, default="plain"
    more : dict
        Other parameters of the estimator.
    losses : tuple of str, default=()
        None: all that the solver accepts.
    """

    name: str
    params: dict[str, Any]
    table: str = "plain"
    more: dict[str, Any] = field(default_factory=dict)
    losses: tuple[str, ...] = ()


_DESCENT = [
    Variant("step_size", {"step_size": 0.3}),
    Variant("clip", {"residual_clip": 0.3}),
    Variant("no_clip", {"residual_clip": inf}),
    Variant("intercept_weight", {"intercept_weight": 0.2}),
    Variant("even_weight", {"intercept_weight": 1.0}),
]
_TAILS = [
    Variant("no_momentum", {"momentum": 0.0}),
    Variant("momentum", {"momentum": 0.8}),
    Variant("last_only", {"tail": 1e-9}),
    Variant("all_averaged", {"tail": 1.0}),
]
_STEPS = [Variant("few_steps", {"n_steps": 4}), Variant("one_step", {"n_steps": 1})]
_ACCELERATED = [
    *_DESCENT,
    *_STEPS,
    Variant("many_steps", {"n_steps": 60}),
    Variant("even", {"division": "even"}),
    Variant("convexity", {"strong_convexity": 0.05}),
    Variant("spherical", {"law": "spherical"}),
    Variant("batches", {"law": "spherical", "batch_size": 40, "n_steps": 3}),
    Variant("all_in_batch", {"batch_size": 150}),
]
_SPHERICAL = Variant("spherical", {"law": "spherical"})
_DENSE_PARTS = [
    ("noisy_gd", {"n_steps": 5}),
    ("noisy_sgd", {"n_steps": 3, "batch_size": 30}),
    ("nesterov", {"n_steps": 4}),
    ("bolt_on", {"n_passes": 2, "batch_size": 40}),
    ("online", {"bucket_size": 50}),
    ("objective_perturbation", {}),
    ("output_perturbation", {"law": "spherical"}),
]

VARIANTS: dict[str, list[Variant]] = {
    "adassp": [
        _SPHERICAL,
        Variant("weights", {"intercept_weight": 0.1, "target_weight": 3.0}),
        Variant("no_ridge", {"ridge": 0.0}),
        Variant("ridge", {"ridge": 2.5}),
        Variant("regularised", {}, more=REGULARISED),
        Variant("wide", {}, "wide"),
    ],
    "bolt_on": [
        _SPHERICAL,
        Variant("batches", {"n_passes": 3, "batch_size": 7}),
        Variant("batches_csr", {"n_passes": 3, "batch_size": 7}, "csr"),
        Variant("batches_float32", {"n_passes": 3, "batch_size": 7}, "float32"),
        Variant("batches_fortran", {"n_passes": 3, "batch_size": 7}, "fortran"),
        Variant("batches_huge", {"n_passes": 3, "batch_size": 7}, "huge"),
        Variant("by_rule", {"n_passes": 5}),
        Variant("reshuffled", {"n_passes": 3, "batch_size": 20, "reshuffle": True}),
        Variant("single", {"n_passes": 2, "batch_size": 1}),
        Variant("long", {"n_passes": 70, "batch_size": 1}, losses=("logistic",)),
        Variant("decreasing", {"schedule": "decreasing", "batch_size": 10}),
        Variant("sqrt", {"schedule": "sqrt", "batch_size": 10, "average": "linear"}),
        Variant("uniform", {"average": "uniform", "batch_size": 30}),
        Variant(
            "offset",
            {"schedule": "sqrt", "offset": 3.0, "average": "last_log", "batch_size": 9},
        ),
        Variant("radius", {"radius": 0.5, "batch_size": 30}),
        Variant("step_size", {"step_size": 0.1, "n_passes": 4}),
        Variant(
            "strongly_convex",
            {"schedule": "strongly_convex", "batch_size": 10},
            more=REGULARISED,
        ),
    ],
    "diff_gd": [
        Variant("few_steps", {"n_steps": 4}),
        Variant("step_size", {"step_size": 0.3, "n_steps": 5}),
        Variant("shares", {"first_share": 0.3, "change_share": 0.4, "n_steps": 5}),
        Variant("last_only", {"tail": 1e-9, "n_steps": 5}),
        Variant("csr", {"n_steps": 4}, "csr"),
        Variant("regularised", {"n_steps": 4}, more=REGULARISED),
    ],
    "line_search_gd": [
        Variant("few_steps", {"n_steps": 4}),
        Variant("lengths", {"longest_step": 0.5, "n_lengths": 3, "n_steps": 5}),
        Variant("shares", {"search_share": 0.6, "gain_clip": 0.1, "n_steps": 5}),
        Variant("clipped", {"residual_clip": 0.3, "n_steps": 5}),
        Variant("last_only", {"tail": 1e-9, "n_steps": 5}),
        Variant("csr", {"n_steps": 4}, "csr"),
        Variant("regularised", {"n_steps": 4}, more=REGULARISED),
    ],
    "ftrl": [
        *_TAILS,
        Variant("one_part", {"n_parts": 1, "steps_per_part": 3}),
        Variant("many_parts", {"n_parts": 40, "steps_per_part": 1}),
        Variant("band", {"n_parts": 5, "steps_per_part": 3, "band": 4}),
        Variant("independent", {"n_parts": 5, "steps_per_part": 2, "band": 1}),
        Variant("csr", {"n_parts": 4}, "csr"),
        Variant("regularised", {"n_parts": 4}, more=REGULARISED),
    ],
    "tree_momentum": [
        Variant("one_leaf", {"n_leaves": 1, "n_epochs": 4}),
        Variant("many_leaves", {"n_leaves": 40, "n_epochs": 2}),
        Variant("momentum", {"momentum": 0.3, "n_epochs": 3}),
        Variant("step_length", {"step_length": 0.1, "tail": 1e-9, "n_epochs": 3}),
        Variant("differences", {"by_differences": True, "n_epochs": 4}),
        Variant("csr", {"n_epochs": 3}, "csr"),
        Variant("regularised", {"n_epochs": 3}, more=REGULARISED),
    ],
    "graduated_gd": [
        *_STEPS,
        Variant("none", {"convex_share": 0.0, "n_steps": 4}),
        Variant("all", {"convex_share": 1.0, "n_steps": 4}),
        Variant("clip", {"residual_clip": 0.2, "n_steps": 4}),
        Variant("regularised", {"n_steps": 4}, more=REGULARISED),
    ],
    "frank_wolfe": [
        Variant("few_steps", {"n_steps": 4}),
        Variant("radius", {"l1_radius": 2.0, "n_steps": 12}),
        Variant("clip", {"residual_clip": 0.2}),
        Variant("no_clip", {"residual_clip": inf}),
        Variant("coarse", {"residual_steps": 3}),
        Variant("fine", {"residual_steps": 2**14}),
        Variant("penalised", {"n_steps": 12}, more=REGULARISED),
        Variant("wide_csr", {"n_steps": 12}, "wide_csr", {"feature_bound": 0.5}),
    ],
    "heavy_ball": [*_ACCELERATED, Variant("momentum", {"momentum": 0.5})],
    "iht": [
        *_STEPS,
        Variant("long_steps", {"step_size": 30.0, "n_steps": 6}),
        Variant("clip", {"residual_clip": 0.3}),
        Variant("no_clip", {"residual_clip": inf}),
        Variant("no_threshold", {"threshold": 0.0}),
        Variant("accumulated", {"accumulate": True, "n_steps": 5}),
        Variant("started_again", {"accumulate": False, "n_steps": 5}),
        Variant("intercept_share", {"intercept_share": 0.3}),
        Variant("little_noise", {"n_steps": 8}, "wide", {"epsilon": 80.0}),
    ],
    "knowledge_transfer": [
        *(
            Variant(f"teacher_{key}", {"teacher": key, "teacher_params": params})
            for key, params in _DENSE_PARTS
        ),
        Variant("teacher_adassp", {"teacher": "adassp"}, losses=("squared",)),
        Variant("public_rows", {"public_rows": rows("fortran")[:40]}),
        Variant("public_csr", {"public_rows": rows("csr")[:60]}, "csr"),
    ],
    "laplacian_smoothing": [
        Variant("none", {"strength": 0.0, "n_steps": 4}),
        Variant("batches", {"batch_size": 12, "n_steps": 20, "strength": 3.0}),
        Variant("batches_csr", {"batch_size": 12, "n_steps": 20}, "csr"),
        Variant("grid", {"n_across": 1, "n_steps": 4}),
        Variant("regularised", {"n_steps": 4}, more=REGULARISED),
    ],
    "multistage": [*_ACCELERATED, Variant("first_stage", {"first_stage": 3})],
    "nesterov": _ACCELERATED,
    "noisy_gd": [
        *_DESCENT,
        *_TAILS,
        *_STEPS,
        Variant("last", {"release": "last"}, more=REGULARISED),
        Variant("last_short", {"release": "last", "n_steps": 5}, more=REGULARISED),
        Variant("last_csr", {"release": "last"}, "csr", REGULARISED),
    ],
    "noisy_newton": [
        *_STEPS,
        Variant("weights", {"intercept_weight": 0.2, "curvature_weight": 2.0}),
        Variant("squares", {"squares_weight": 1.0, "moment_steps": 1, "reach": 3.0}),
        Variant("regularised", {}, more=REGULARISED),
    ],
    "noisy_sgd": [
        *_DESCENT,
        *_TAILS,
        *_STEPS,
        Variant("batches", {"batch_size": 12, "n_steps": 20}),
        Variant("batches_csr", {"batch_size": 12, "n_steps": 20}, "csr"),
        Variant("batches_float32", {"batch_size": 12, "n_steps": 20}, "float32"),
        Variant("batches_huge", {"batch_size": 30, "n_steps": 20}, "huge"),
        Variant("all_in_batch", {"batch_size": 1000, "n_steps": 5}),
    ],
    "objective_perturbation": [
        _SPHERICAL,
        Variant("strength", {"strength": 30.0}),
        Variant("intercept_weight", {"intercept_weight": 0.3}),
    ],
    "online": [
        *_DESCENT,
        *_TAILS,
        _SPHERICAL,
        Variant("buckets", {"bucket_size": 13}),
        Variant("buckets_csr", {"bucket_size": 13}, "csr"),
        Variant("single", {"bucket_size": 1}),
        Variant("one_bucket", {"bucket_size": 1000}),
    ],
    "output_perturbation": [_SPHERICAL, Variant("strength", {"strength": 30.0})],
    "peeling": [
        _SPHERICAL,
        Variant("few_steps", {"n_steps": 3, "n_rounds": 1}),
        Variant("many_steps", {"n_steps": 12}),
        Variant("two_rounds", {"n_rounds": 2}),
        Variant("too_many_rounds", {"n_rounds": 9}),
        Variant("rounds", {"n_rounds": 4}, "wide", {"n_nonzero_coefs": 9}),
        Variant("selection_share", {"selection_share": 0.2}),
        Variant("step_size", {"step_size": 0.5}),
        Variant("clip", {"residual_clip": 0.3, "clip_decay": 0.6}),
        Variant("no_clip", {"residual_clip": inf, "score_clip": 1.0}),
        Variant("score_clip", {"score_clip": 0.05}),
        Variant("no_shortening", {"shortening": inf}),
        Variant("shortening", {"shortening": 0.3}),
    ],
    "srm": [
        *_STEPS,
        Variant("step_size", {"step_size": 0.3}),
        Variant("clips", {"residual_clip": 0.3, "change_clip": 0.05, "n_steps": 6}),
        Variant("no_clip", {"change_clip": inf, "n_steps": 6}),
        Variant("fresh", {"refresh": 1.0, "n_steps": 6}),
        Variant("penalty", {"penalty": 0.1, "longest_step": 0.2, "n_steps": 6}),
        Variant("batches", {"batch_size": 12, "n_steps": 20}),
        Variant("batches_csr", {"batch_size": 12, "n_steps": 20}, "csr"),
        Variant("batches_float32", {"batch_size": 12, "n_steps": 20}, "float32"),
        Variant("regularised", {"n_steps": 6}, more=REGULARISED),
    ],
    "two_stage": [
        Variant("gaussian", {"selection": "gaussian"}),
        Variant("peeling", {"selection": "peeling"}),
        Variant("selection_share", {"selection_share": 0.2}),
        Variant("clip", {"residual_clip": 0.3}),
        Variant("no_clip", {"residual_clip": inf}),
        Variant("levels", {"levels": (3.0, 2.0, 1.5)}),
        Variant("no_intercept", {}, "wide", {"fit_intercept": False}),
        Variant("refit_adassp", {"refit": "adassp"}, losses=("squared",)),
        *(
            Variant(f"refit_{key}", {"refit": key, "refit_params": params})
            for key, params in _DENSE_PARTS
        ),
    ],
}
