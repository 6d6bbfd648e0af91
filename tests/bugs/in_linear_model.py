"""Bugs in the linear models."""

from __future__ import annotations

from tests.bugs.bug import Bug

BASE = "skdp/linear_model/_base.py"
CLASSIFIERS = "skdp/linear_model/_classifiers.py"
FIT = "skdp/_fit.py"
LOG_LINK = "skdp/linear_model/_log_link.py"
REGRESSORS = "skdp/linear_model/_regressors.py"
ROWS = "skdp/linear_model/_rows.py"
SPARSE = "skdp/linear_model/_sparse.py"
TEST_CONTACT = "tests/contract/test_first_contact.py"
TEST_CLIPPED = "tests/linear_model/test_clipped_predictions.py"
TEST_COLUMNS = "tests/linear_model/test_columns.py"
TEST_CONTINUED = "tests/contract/test_continued.py"
TEST_EXPORT = "tests/test_export.py"
TEST_REGRESSION = "tests/linear_model/test_linear_regression.py"
TEST_TARGETS = "tests/linear_model/test_target_losses.py"
TEST_USERS = "tests/linear_model/test_users.py"

BUGS: list[Bug] = [
    Bug(
        "the hint about rows looks at them",
        "message",
        ROWS,
        "is_default = budget.is_finite and model.data_norm == _DEFAULT_NORM",
        "is_default = budget.is_finite and abs(X).max() > _DEFAULT_NORM",
        (f"{TEST_CONTACT}::test_it_is_said_once_for_all_folds_and_looks_at_no_row",),
    ),
    Bug(
        "a fit is undone by the warning that its release is a constant",
        "message",
        BASE,
        """            Table.of(X, y, groups).fitted(self, self._fit)
        return self._warned_of_release()""",
        """            Table.of(X, y, groups).fitted(self, self._fit)
            return self._warned_of_release()""",
        (f"{TEST_CONTACT}::test_as_an_error_it_keeps_the_fit_that_was_paid_for",),
    ),
    Bug(
        "a released constant is not said",
        "message",
        BASE,
        "return not np.any(self.coef_)",
        "return not np.any(self.coef_) and len(self.privacy_.warnings) > 0",
        (f"{TEST_CONTACT}::test_it_depends_on_released_numbers_only",),
    ),
    Bug(
        "a penalty counts the rows of users",
        "users",
        BASE,
        "return (rows.n_rows if users is None else users.n_users) * n_parts",
        "return rows.n_rows * n_parts",
        (f"{TEST_USERS}::test_without_noise_each_row_weighs_its_share",),
    ),
    Bug(
        "curves have knots for the number of rows of users",
        "fact",
        ROWS,
        "n_units = n_samples if users is None else users.n_users",
        "n_units = n_samples",
        (f"{TEST_USERS}::test_the_number_of_users_stands_in_every_rule",),
    ),
    Bug(
        "predictions clip by what the norm has become",
        "model",
        BASE,
        "return clipped_products(X, coef, norm)",
        "return clipped_products(X, coef, self.data_norm)",
        (f"{TEST_CLIPPED}::test_norm_is_that_of_the_fit",),
    ),
    Bug(
        "entries are not clipped before sparse solvers read them",
        "clip",
        BASE,
        "if objective.feature_bound < objective.data_norm:",
        "if objective.feature_bound > objective.data_norm:",
        (
            "tests/linear_model/test_sparse_estimators.py::"
            "test_entries_beyond_the_bound_count_as_the_bound",
        ),
    ),
    Bug(
        "sparse models predict from entries beyond the bound",
        "model",
        SPARSE,
        """if record.feature_bound < record.data_norm:
            X =""",
        """if record.feature_bound > record.data_norm:
            X =""",
        (f"{TEST_CLIPPED}::test_predictions_are_those_of_the_clipped_rows",),
    ),
    Bug(
        "exported models take rows longer than the norm",
        "clip",
        BASE,
        'if math.isfinite(norm) and not hasattr(self, "encoder_"):',
        'if math.isinf(norm) and not hasattr(self, "encoder_"):',
        (f"{TEST_EXPORT}::test_a_file_predicts_the_same_without_skdp",),
    ),
    Bug(
        "targets below 0 exceed the unit of those above",
        "clip",
        REGRESSORS,
        "scale = max(abs(low - middle), abs(high - middle))",
        "scale = abs(high - middle)",
        (f"{TEST_REGRESSION}::test_without_intercept_zero_stays_zero",),
    ),
    Bug(
        "targets are clipped from above only",
        "clip",
        "skdp/io/_table.py",
        "np.clip(y, low, high)",
        "np.minimum(y, high)",
        (f"{TEST_REGRESSION}::test_targets_beyond_their_bounds_count_as_the_bounds",),
    ),
    Bug(
        "labels from y are called declared",
        "fact",
        CLASSIFIERS,
        'labels = "taken from y" if self.classes is None else "declared"',
        'labels = "declared"',
        (
            "tests/linear_model/test_classifiers.py::"
            "test_labels_from_y_are_named_as_assumed_public",
        ),
    ),
    Bug(
        "a model keeps the centre of the fit before",
        "model",
        BASE,
        "for name in (*released, *_PATHS):",
        "for name in _PATHS:",
        ("tests/solvers/test_centred_descent.py::test_fitted_anew_without_centring",),
    ),
    Bug(
        "a model keeps the encoder of the fit before",
        "encoder",
        ROWS,
        '        vars(model).pop("encoder_", None)\n',
        "",
        (f"{TEST_COLUMNS}::test_fitted_anew_without_columns",),
    ),
    Bug(
        "an encoder that was handed on is fitted itself",
        "encoder",
        ROWS,
        "encoder: TableEncoder = clone(columns)",
        "encoder: TableEncoder = columns",
        (f"{TEST_COLUMNS}::test_an_encoder_says_how",),
    ),
    Bug(
        "a penalty is not brought to the units of the weights",
        "model",
        CLASSIFIERS,
        "        alpha /= largest_weight(self.class_weight, classes)\n",
        "",
        (
            "tests/linear_model/test_class_weights.py::"
            "test_without_privacy_it_is_scikit_learns_optimum",
        ),
    ),
    Bug(
        "variances of coefficients are scaled as their errors",
        "model",
        BASE,
        "covariance = scale**2 * solution.covariance",
        "covariance = scale * solution.covariance",
        (
            "tests/solvers/test_noisy_newton.py::"
            "test_with_little_noise_they_are_those_of_a_sandwich",
        ),
    ),
    Bug(
        "a forecast puts an encoder into the model",
        "fact",
        BASE,
        "own = clone(self)",
        "own = self",
        (
            "tests/linear_model/test_forecast.py::"
            "test_declared_columns_say_how_many_there_are",
        ),
    ),
    Bug(
        "means below the lowest target are told apart",
        "model",
        "skdp/losses/_regression.py",
        "cls(math.log(means.high / means.start), means.low / means.high)",
        "cls(math.log(means.high / means.start))",
        (f"{TEST_TARGETS}::test_the_lowest_target_is_the_lowest_mean",),
    ),
    Bug(
        "a sparse model that may select adds up in squares",
        "accounting",
        SPARSE,
        'return self.solver != "auto" and super()._adds_in_squares()',
        "return super()._adds_in_squares()",
        (
            "tests/linear_model/test_sparse_estimators.py::"
            "test_which_solver_is_one_of_several",
        ),
    ),
    Bug(
        "models of delta 0 add up in squares",
        "accounting",
        BASE,
        "return bool(self.delta > 0 and adds)",
        "return bool(adds)",
        (
            "tests/linear_model/test_classifiers.py"
            "::test_costs_add_up_in_squares_with_gaussian_noise_only",
        ),
    ),
    Bug(
        "the default is said to add up in squares whatever its noise",
        "accounting",
        BASE,
        "by_default = self._adds_up() or not self._may_be_constant",
        "by_default = True",
        (
            "tests/linear_model/test_classifiers.py"
            "::test_costs_add_up_in_squares_with_gaussian_noise_only",
        ),
    ),
    Bug(
        "a constant has pure noise beside a ledger",
        "accounting",
        "skdp/_base.py",
        "return self.ledger is not None or owners_now() is not None",
        "return owners_now() is not None",
        (
            "tests/solvers/test_constant.py"
            "::test_a_constant_whose_cost_adds_up_has_gaussian_noise",
        ),
    ),
    Bug(
        "a constant of several owners has pure noise",
        "accounting",
        "skdp/_base.py",
        "return self.ledger is not None or owners_now() is not None",
        "return self.ledger is not None",
        (
            "tests/federated/test_estimators.py"
            "::test_a_constant_of_several_owners_has_gaussian_noise",
        ),
    ),
    Bug(
        "boosting with pure noise is said to add up in squares beside a ledger",
        "accounting",
        "skdp/ensemble/_estimators.py",
        'return named != "laplace" and adds and super()._adds_in_squares()',
        "return adds and super()._adds_in_squares()",
        ("tests/solvers/test_constant.py::test_a_law_that_is_named_is_kept",),
    ),
    Bug(
        "a default model keeps pure noise where several steps share a budget",
        "accounting",
        BASE,
        "self.solver_params = dict(GAUSSIAN_PARAMS)",
        "pass",
        (
            "tests/solvers/test_constant.py"
            "::test_a_constant_whose_cost_adds_up_has_gaussian_noise",
        ),
    ),
    # ------------------------------------------------ fits that continue a model
    Bug(
        "what a fit learns replaces the model that it continues",
        "model",
        "skdp/solvers/_centred_descent.py",
        "mixed = first + share * (mean - first)",
        "mixed = mean",
        (f"{TEST_CONTINUED}::test_what_is_learned_counts_with_its_share",),
    ),
    Bug(
        "the statement does not name the model that was continued",
        "message",
        FIT,
        "public = planned.assumed_public + _continued(model)",
        "public = planned.assumed_public",
        (f"{TEST_CONTINUED}::test_the_statement_names_the_model_and_its_guarantee",),
    ),
    Bug(
        "a clone continues an unfitted copy",
        "model",
        FIT,
        "found.init = self.init",
        "pass",
        (f"{TEST_CONTINUED}::test_copies_continue_the_same_model",),
    ),
    Bug(
        "a model of other labels is continued",
        "model",
        FIT,
        """facts.append(("classes", classes, given.classes_))""",
        "pass",
        (
            f"{TEST_CONTINUED}::"
            "test_what_cannot_be_continued_is_refused_and_spends_nothing",
        ),
    ),
    Bug(
        "the noise that the gate expects is that of the last fit alone",
        "model",
        "skdp/solvers/_run_noise.py",
        "of_given = by_start + (1 - self.share) * gain",
        "of_given = 0 * gain",
        (
            f"{TEST_CONTINUED}::"
            "test_noise_in_mixed_weights_is_what_two_runs_of_noise_make",
        ),
    ),
]
