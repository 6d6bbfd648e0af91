"""Bugs in the solvers of linear models and in the losses."""

from __future__ import annotations

from tests.bugs.bug import Bug

ACCELERATED = "skdp/solvers/_accelerated.py"
CENTRED = "skdp/solvers/_centred_descent.py"
DESCENT = "skdp/solvers/_descent.py"
EFFECTS = "skdp/solvers/_hazard_effects.py"
AVERAGE = "skdp/solvers/_average_descent.py"
HAZARDS = "skdp/solvers/_hazards.py"
LIFE_TABLE = "skdp/solvers/_life_table.py"
LABELS = "skdp/losses/_classification.py"
NEWTON = "skdp/solvers/_newton.py"
NUMBERS = "skdp/losses/_regression.py"
PLAIN = "skdp/losses/_base.py"
ROWS = "skdp/solvers/_centred_rows.py"
SPARSE = "skdp/solvers/_sparse.py"
TILT = "skdp/solvers/_objective_perturbation.py"
TRUE_WEIGHTS = "skdp/solvers/_true_weights.py"
TEST_CENTRED = "tests/solvers/test_centred_descent.py"
TEST_CERTIFIED = "tests/solvers/test_certified.py"
TEST_IHT = "tests/solvers/test_iht.py"
TEST_LOSSES = "tests/losses/test_losses.py"
TEST_NEWTON = "tests/solvers/test_noisy_newton.py"
TEST_PEELING = "tests/solvers/test_peeling.py"
TEST_RUN = "tests/solvers/test_run_noise.py"
TEST_ROWS = "tests/solvers/test_rows_of_numbers.py"
TEST_SURVIVAL = "tests/linear_model/test_survival.py"
TEST_USERS = "tests/linear_model/test_users.py"
TEST_TILT = "tests/solvers/test_objective_perturbation.py"
SEARCH = (f"{TEST_LOSSES}::test_search_never_exceeds_the_bound_and_comes_close",)
PERSONS = f"{TEST_SURVIVAL}::test_no_person_adds_more_than_the_bound_and_some_attain_it"
EVENT = (f"{TEST_TILT}::test_event_counts_the_corners_of_each_loss",)

BUGS: list[Bug] = [
    # ------------------------------------------------------------------- losses
    Bug(
        "a softmax's residual is that of the own label",
        "sensitivity",
        LABELS,
        "math.sqrt(q * (q + m)) * (1 + 1e-12)",
        "q * (1 + 1e-12)",
        SEARCH,
    ),
    Bug(
        "a wide hinge is as flat as at zero weights",
        "sensitivity",
        LABELS,
        "near_zero = (worst * (1 + self.h) + radius) / (2 * self.h)",
        "near_zero = worst * (1 + self.h) / (2 * self.h)",
        SEARCH,
    ),
    Bug(
        "a Cauchy loss's error stays below 1",
        "sensitivity",
        LABELS,
        "nearest = min(max(self.c, 1 - radius), 1 + radius)",
        "nearest = min(max(self.c, 1 - radius), 1.0)",
        SEARCH,
    ),
    Bug(
        "the least Poisson mean is that of zero weights",
        "sensitivity",
        NUMBERS,
        "least = max(math.exp(-self.top - radius), self.lowest)",
        "least = max(math.exp(-self.top), self.lowest)",
        SEARCH,
    ),
    Bug(
        "amounts above their mean have the residuals of amounts below",
        "sensitivity",
        NUMBERS,
        "return self.most - 1, 1 - math.exp(-2 * self.half)",
        "return self.most - 1, math.exp(-2 * self.half)",
        (
            "tests/sums/test_leaf_sums.py::"
            "test_no_pair_passes_the_bound_and_the_search_attains_it",
        ),
    ),
    Bug(
        "weights of labels may exceed 1",
        "sensitivity",
        LABELS,
        "is_scaled = all(0 < weight <= 1 for weight in weights) and 1 in weights",
        "is_scaled = all(0 < weight for weight in weights) and 1 in weights",
        (
            "tests/linear_model/test_class_weights.py::"
            "test_a_loss_is_weighted_once_and_in_units_of_the_largest",
        ),
    ),
    Bug(
        "residuals of light labels are clipped as those of heavy ones",
        "clip",
        LABELS,
        "    return np.asarray(clip * record_weights(loss, y)[:, None])\n",
        "    return clip\n",
        ("tests/solvers/test_gradient.py::test_blocks_storages_and_definition_agree",),
    ),
    Bug(
        "two unlike labels are as far apart as the heavier from nothing",
        "sensitivity",
        LABELS,
        "    return sum(loss.label_weights)\n",
        "    return max(loss.label_weights)\n",
        (
            "tests/ensemble/test_linear_start.py::"
            "test_two_records_are_no_farther_apart_than_is_charged",
        ),
    ),
    Bug(
        "bands of a linear start assume a preconditioner that no step has",
        "model",
        "skdp/ensemble/_linear_start.py",
        "            preconditioner=preconditioner_of(facts, descent.pace),\n",
        "",
        (
            "tests/ensemble/test_linear_start.py::"
            "test_steps_of_many_records_are_preconditioned",
        ),
    ),
    Bug(
        "the gate of a linear start takes long rows as clipped",
        "model",
        "skdp/ensemble/_linear_start.py",
        "are_weighted=True",
        "are_weighted=False",
        (
            "tests/ensemble/test_linear_start.py::"
            "test_noise_alone_passes_the_gate_at_a_ratio_near_1",
        ),
    ),
    Bug(
        "weights of columns by a linear model have the last bits of its curves",
        "order",
        "skdp/ensemble/_adaptive.py",
        "np.rint(weights / _UNIT) * _UNIT",
        "weights",
        (
            "tests/ensemble/test_adaptive.py::"
            "test_half_of_a_weight_is_by_the_linear_model_before",
        ),
    ),
    Bug(
        "noise in curvatures counts as parameters of trees",
        "model",
        "skdp/ensemble/_releases.py",
        "found.learned[is_reached] = factor * known",
        "found.learned[is_reached] = factor * curvature",
        (
            "tests/ensemble/test_gains.py::"
            "test_leaves_without_curvature_have_learned_nothing",
        ),
    ),
    Bug(
        "the error of an exponential is that of half its range",
        "rounding",
        PLAIN,
        "return most * _relative_error(2 * half)",
        "return most * _relative_error(half)",
        (
            "tests/losses/test_plain.py::test_of_wide_amounts_they_are_as_near_for_their_size",
        ),
    ),
    Bug(
        "counts above the bound are no longer clipped in plain arithmetic",
        "clip",
        PLAIN,
        "np.maximum(mean, second) - np.minimum(np.maximum(own, second), 1.0)",
        "np.maximum(mean, second) - np.maximum(own, second)",
        (
            "tests/losses/test_plain.py::test_they_are_the_residuals_but_for_what_is_stated",
        ),
    ),
    Bug(
        "a row with its intercept is as long as a row without",
        "sensitivity",
        "skdp/losses/_objective.py",
        "return self.data_norm * (math.sqrt(2) if self.fit_intercept else 1.0)",
        "return self.data_norm",
        EVENT,
    ),
    Bug(
        "the convex start forgets the weights of labels",
        "model",
        DESCENT,
        "return weighted(hinge, loss.label_weights)",
        "return weighted(hinge, ())",
        (
            "tests/solvers/test_graduated_gd.py::test_the_convex_loss_has_the_weights_of_the_labels",
        ),
    ),
    # --------------------------------------------------- objective perturbation
    Bug(
        "a tilt has no noise for the intercept",
        "sensitivity",
        TILT,
        "rho *= math.sqrt(1 + intercept_weight**2)",
        "rho *= max(1.0, intercept_weight)",
        (f"{TEST_TILT}::test_no_pair_of_neighbours_exceeds_the_sensitivity",),
    ),
    Bug(
        "an exchange has no corners of half the sensitivity",
        "accounting",
        TILT,
        '"replace_one": (corners**2, 2 * corners)}',
        '"replace_one": (corners**2, 0)}',
        EVENT,
    ),
    Bug(
        "the determinant of several outputs is that of one",
        "accounting",
        TILT,
        "objective.loss.n_outputs * math.log1p(ratio / objective.loss.n_outputs)",
        "math.log1p(ratio / objective.loss.n_outputs)",
        (f"{TEST_TILT}::test_exact_delta_of_two_outputs",),
    ),
    Bug(
        "the curvature of a tilt is a quarter of its bound",
        "accounting",
        TILT,
        "return objective.row_norm**2 / self.strength",
        "return objective.loss.smoothness * objective.row_norm**2 / self.strength",
        (f"{TEST_TILT}::test_exact_delta_around_the_free_curvature",),
    ),
    Bug(
        "the output noise of a tilt is not charged",
        "accounting",
        TILT,
        "return ComposedEvent((tilt, output))",
        "return tilt",
        (f"{TEST_TILT}::test_event_counts_the_corners_of_each_loss",),
    ),
    Bug(
        "the output noise covers the distance of one minimiser",
        "sensitivity",
        TILT,
        "            2 * (tolerance + rounding + moved) / self.strength,\n",
        "            (tolerance + rounding + moved) / self.strength,\n",
        (f"{TEST_TILT}::test_output_noise_covers_the_certificate",),
    ),
    Bug(
        "the tilt of the intercept is weighted twice",
        "noise",
        TILT,
        "tilt = (yield nothing) / unit",
        "tilt = (yield nothing) * unit",
        (f"{TEST_TILT}::test_output_noise_covers_the_certificate",),
    ),
    Bug(
        "a tilt has the coarse grid of a query",
        "rounding",
        TILT,
        "tilt = Line(law=law, is_hidden=True, is_fine=True)",
        "tilt = Line(law=law, is_hidden=True)",
        (f"{TEST_TILT}::test_output_noise_covers_the_certificate",),
    ),
    Bug(
        "a pure exchange has the whole epsilon for its curvature",
        "accounting",
        TILT,
        'record = {"zero_out": plain, "replace_one": plain / 2}[objective.adjacency]',
        'record = {"zero_out": plain, "replace_one": plain}[objective.adjacency]',
        (f"{TEST_TILT}::test_pure_epsilon_of_a_logistic_loss_by_brute_force",),
    ),
    Bug(
        "a minimiser that misses its bound is released",
        "noise",
        TILT,
        "return weights if left <= goal and within else None",
        "return weights if within else None",
        (f"{TEST_CERTIFIED}::test_an_impossible_tolerance_is_none_and_no_exception",),
    ),
    Bug(
        "the bound on a minimiser forgets the offset",
        "rounding",
        TILT,
        "start = objective.n_samples * (objective.loss.value_at_zero + of_offset)",
        "start = objective.n_samples * objective.loss.value_at_zero",
        ("tests/solvers/test_constant.py::test_the_certificate_allows_for_an_offset",),
    ),
    # -------------------------------------------------------- the default solver
    Bug(
        "a pure constant gets the minimisation's share",
        "fraction",
        "skdp/solvers/_constant.py",
        "strength=self.share / (1 - self.share)",
        "strength=(1 - self.share) / self.share",
        (
            "tests/solvers/test_constant.py::"
            "test_a_minimisation_about_the_constant_pays_for_both",
        ),
    ),
    Bug(
        "a minimisation is penalised for its distance from 0",
        "model",
        "skdp/solvers/_constant.py",
        "moved = replace(objective, offset=offset)",
        "moved = objective",
        (
            "tests/solvers/test_constant.py::test_a_pure_penalty_does_not_take_the_mean_away",
        ),
    ),
    Bug(
        "each gradient has the whole descent's fraction",
        "fraction",
        CENTRED,
        "gradients = Line(n_steps, mu_share=self.shares.descent / n_steps)",
        "gradients = Line(n_steps, mu_share=self.shares.descent)",
        (f"{TEST_CENTRED}::test_what_is_in_the_ledger_is_what_was_promised",),
    ),
    Bug(
        "centred rows are clipped to the norm of rows",
        "clip",
        CENTRED,
        "replace(objective, data_norm=1.0, offset=offset,",
        "replace(objective, offset=offset,",
        (f"{TEST_ROWS}::test_units_of_the_features_change_nothing",),
    ),
    Bug(
        "the gate leaves the intercept's part",
        "model",
        CENTRED,
        "constant = base + own.ravel() if own.size else self.start.constant",
        "constant = base + mixed[-1] if own.size else self.start.constant",
        (f"{TEST_CENTRED}::test_what_the_gate_refuses_leaves_the_constant",),
    ),
    Bug(
        "sparse rows are rounded to the nearest grid point",
        "rounding",
        ROWS,
        "np.trunc(own.data * 2.0**SHARE_BITS)",
        "np.rint(own.data * 2.0**SHARE_BITS)",
        (f"{TEST_ROWS}::test_sparse_rows_on_their_grid_are_no_longer_than_the_norm",),
    ),
    Bug(
        "sparse rows of numbers are not clipped before they are centred",
        "clip",
        ROWS,
        "own = csr_array(clip_rows(X, self.data_norm) * (1 / self.data_norm))",
        "own = csr_array(X * (1 / self.data_norm))",
        (f"{TEST_ROWS}::test_sparse_and_dense_rows_give_nearly_the_same",),
    ),
    Bug(
        "a record is in one declared column's state",
        "sensitivity",
        ROWS,
        "return StateSums(sum(self.parts), n_samples, len(self.parts))",
        "return StateSums(sum(self.parts), n_samples, 1)",
        (
            "tests/solvers/test_centred_descent.py::"
            "test_the_first_release_bounds_all_columns_of_a_record",
        ),
    ),
    Bug(
        "users who are exchanged count as users who leave",
        "users",
        "skdp/solvers/_default_rules.py",
        '_EXCHANGES = ("replace_one", "replace_user")',
        '_EXCHANGES = ("replace_one",)',
        (f"{TEST_USERS}::test_the_number_of_users_stands_in_every_rule",),
    ),
    Bug(
        "a preconditioner takes columns for independent",
        "model",
        "skdp/solvers/_default_rules.py",
        "return np.asarray(1 / (share * self.n_parts * variance + (1 - share)))",
        "return np.asarray(1 / (share * variance + (1 - share)))",
        (f"{TEST_CENTRED}::test_preconditioned_steps_are_stable",),
    ),
    Bug(
        "second moments of numbers are not those about the mean",
        "model",
        ROWS,
        "moments = moments - np.outer(mean, mean) + edge",
        "moments = moments + edge",
        (f"{TEST_CENTRED}::test_rows_of_numbers_have_the_released_moments",),
    ),
    Bug(
        "a continued descent expects moments that the model before has not",
        "model",
        CENTRED,
        "pace = Pace.of(objective, signal, before.centred.n_parts)",
        "pace = Pace.of(objective, signal, self.rows.n_parts)",
        (
            f"{TEST_CENTRED}::test_a_continued_descent_has_the_moments_of_the_model_before",
        ),
    ),
    Bug(
        "survival models clip rows in predictions",
        "model",
        "skdp/linear_model/_survival.py",
        "products = self._products(rows_to_predict(self, X), self.coef_.T)",
        "products = super()._products(rows_to_predict(self, X), self.coef_.T)",
        (f"{TEST_SURVIVAL}::test_the_error_of_a_row_is_that_of_its_weights",),
    ),
    Bug(
        "the descent on hazards clips rows in predictions",
        "model",
        "skdp/solvers/_hazards.py",
        "rows.raw(self.weights[:d]) / rows.factor[:, None]",
        "rows.raw(self.weights[:d])",
        (
            f"{TEST_SURVIVAL}::test_a_person_adds_what_the_rows_of_a_person_period_table_add",
        ),
    ),
    Bug(
        "a long row counts as much as a short one in gradients of hazards",
        "sensitivity",
        "skdp/solvers/_hazards.py",
        "of_row = residuals.sum(axis=1) * rows.factor",
        "of_row = residuals.sum(axis=1)",
        (
            f"{TEST_SURVIVAL}::test_no_person_adds_more_than_the_bound_and_some_attain_it",
        ),
    ),
    Bug(
        "the average descent on hazards has no noise",
        "model",
        AVERAGE,
        "spread += (deviation * sizes * noise) ** 2",
        "spread += (0.0 * sizes * noise) ** 2",
        (f"{TEST_SURVIVAL}::test_a_descent_finds_on_average_what_is_expected",),
    ),
    Bug(
        "typical persons are between a knot and a missing cell",
        "model",
        AVERAGE,
        "indicators = np.unique(basis.indices)[lines][1:]",
        "indicators = np.unique(basis.indices)[lines][:0]",
        (f"{TEST_SURVIVAL}::test_typical_persons_have_the_released_shares",),
    ),
    Bug(
        "the gate expects noise in rows longer than they are",
        "model",
        "skdp/solvers/_run_noise.py",
        "unit = max(float(spreads.sum()), 1.0)",
        "unit = float(spreads.sum())",
        (
            "tests/solvers/test_run_noise.py::"
            "test_rows_count_as_clipped_only_where_they_are_longer_than_one",
        ),
    ),
    Bug(
        "stated noise is that of plain steps",
        "model",
        "skdp/solvers/_run_noise.py",
        "by_gradient = pace.step_size * by_velocity * pace.speed(moments)",
        "by_gradient = pace.step_size * by_velocity",
        (
            f"{TEST_CENTRED}::test_noise_in_weights_is_what_a_run_of_noise_alone_makes",
            f"{TEST_RUN}::test_noise_in_related_directions_is_what_two_runs_make",
        ),
    ),
    Bug(
        "a released model has the preconditioner of the descent from it",
        "model",
        "skdp/solvers/_run_noise.py",
        "            pace = self.paces[t]\n",
        "            pace = replace(self.paces[t], preconditioning=0.9, n_parts=2)\n",
        (f"{TEST_RUN}::test_noise_in_related_directions_is_what_two_runs_make",),
    ),
    Bug(
        "a shift to the base rates is not limited",
        "model",
        "skdp/solvers/_target_base.py",
        "moved = np.clip(rates + known, least, most)",
        "moved = rates + known",
        (f"{TEST_CENTRED}::test_a_mean_probability_is_brought_to_the_base_rate",),
    ),
    Bug(
        "Laplace noise in counts of labels is for their bound in L2",
        "sensitivity",
        "skdp/sums/_counts.py",
        "    if norm == 2:\n",
        "    if norm >= 1:\n",
        (
            "tests/solvers/test_constant.py"
            "::test_a_transcript_of_a_constant_attains_its_claim",
        ),
    ),
    Bug(
        "one Laplace answer is calibrated with delta",
        "accounting",
        "skdp/privacy/accounting/_calibrate.py",
        "        budget = replace(budget, delta=0.0)\n",
        "        budget = replace(budget, delta=budget.delta)\n",
        (
            "tests/solvers/test_constant.py"
            "::test_a_constant_alone_keeps_epsilon_without_delta",
        ),
    ),
    Bug(
        "a lone constant prefers even labels at any noise",
        "model",
        "skdp/solvers/_target_base.py",
        "    return noise**2 / (noise**2 + _FREE * variance)\n",
        "    return 0.5\n",
        (
            "tests/solvers/test_constant.py"
            "::test_a_lone_constant_prefers_even_labels_only_in_much_noise",
        ),
    ),
    # ------------------------------------------------------------------ descents
    Bug(
        "a mean over a sample is over all records",
        "model",
        "skdp/solvers/_steps.py",
        "    def sample_size(self, problem: ProblemT) -> int:\n"
        "        return self.batch_size\n",
        "    def sample_size(self, problem: ProblemT) -> int:\n"
        "        return problem.n_samples\n",
        ("tests/solvers/test_noisy_sgd.py::test_the_divisor_is_the_public_batch_size",),
    ),
    Bug(
        "weights leave their box",
        "message",
        "skdp/solvers/_steps.py",
        "self.weights = projected_onto_box(moved, self.farthest)",
        "self.weights = moved",
        ("tests/solvers/test_rules.py::test_a_diverging_run_ends_like_any_other",),
    ),
    Bug(
        "rounded shares of the budget do not add up",
        "fraction",
        ACCELERATED,
        "shares = 2.0**doublings / np.sum(2.0**doublings)",
        "shares = 2.0**doublings",
        (
            "tests/solvers/test_nesterov.py::"
            "test_levels_are_few_and_cost_next_to_nothing",
        ),
    ),
    Bug(
        "a pure budget is divided as a Gaussian one",
        "fraction",
        ACCELERATED,
        "(1 / 3 if is_pure else 1 / 2)",
        "(1 / 2 if is_pure else 1 / 3)",
        ("tests/solvers/test_nesterov.py::test_no_other_division_has_a_smaller_bound",),
    ),
    Bug(
        "solvers without a proof for users take them",
        "users",
        "skdp/solvers/_base.py",
        "if is_of_users(objective.adjacency) and not cls.takes_users:",
        "if False and not cls.takes_users:",
        (f"{TEST_USERS}::test_what_has_no_proof_is_refused_in_one_sentence",),
    ),
    Bug(
        "the clip of a user's gradients is forgotten",
        "users",
        DESCENT,
        "return replace(sums, user_clip=self.user_clip)",
        "return replace(sums, user_clip=None)",
        (f"{TEST_USERS}::test_no_neighbour_whose_sum_is_clipped_tells_more",),
    ),
    # ---------------------------------------------------------------------- sparse
    Bug(
        "hard thresholding releases what it summed",
        "model",
        SPARSE,
        "return np.vstack([self._here.selected, self._intercept])",
        "return np.vstack([self._here.summed, self._intercept])",
        (
            f"{TEST_IHT}::"
            "test_at_most_n_nonzero_features_have_weights_in_all_outputs_together",
        ),
    ),
    Bug(
        "the intercept of hard thresholding has no share of its own",
        "fraction",
        SPARSE,
        "math.sqrt(self.intercept_queries(objective) / self.n_steps / odds)",
        "math.sqrt(self.intercept_queries(objective) / self.n_steps)",
        (f"{TEST_IHT}::test_event_is_exact_and_the_intercept_has_its_share",),
    ),
    Bug(
        "selections get the share of one step",
        "fraction",
        SPARSE,
        "odds *= self.n_steps / self.selections(objective)",
        "odds /= self.selections(objective)",
        (f"{TEST_PEELING}::test_what_is_drawn_is_what_is_declared",),
    ),
    Bug(
        "places among candidates are taken for features",
        "model",
        SPARSE,
        "more = scores.features(answers.choose(scores, rounds[t], line=1))",
        "more = answers.choose(scores, rounds[t], line=1)",
        (
            f"{TEST_PEELING}::"
            "test_without_noise_features_come_in_the_order_of_their_gradients",
        ),
    ),
    # ----------------------------------------------------------- standard errors
    Bug(
        "standard errors forget the noise in the curvatures",
        "model",
        NEWTON,
        "of_records + of_gradient + self.curvature_noise**2 * of_curvature",
        "of_records + of_gradient",
        (f"{TEST_NEWTON}::test_the_variance_of_the_noise_is_what_is_stated",),
    ),
    Bug(
        "Newton steps take rows that are longer in products",
        "sensitivity",
        NEWTON,
        "if objective.offset or objective.product_norm is not None:",
        "if objective.offset:",
        (f"{TEST_NEWTON}::test_what_the_query_does_not_know_of_is_refused",),
    ),
    Bug(
        "least squares has errors in directions that noise hides",
        "model",
        "skdp/solvers/_adassp.py",
        "eigenvalues > max(_CLEAR * edge, 0.0)",
        "eigenvalues > 0.0",
        (
            "tests/solvers/test_moment_errors.py::"
            "test_three_edges_of_the_noise_have_to_be_passed",
        ),
    ),
    Bug(
        "coefficients that hidden directions bias have errors",
        "model",
        "skdp/solvers/_adassp.py",
        "    found[is_unknown], found[:, is_unknown] = np.inf, np.inf\n",
        "",
        (
            "tests/solvers/test_moment_errors.py::"
            "test_columns_that_noise_leaves_alike_are_named_and_hide_no_others",
        ),
    ),
    # ------------------------------------------------------------------ hazards
    Bug(
        "a person counts however many events are expected",
        "sensitivity",
        HAZARDS,
        "counted = np.minimum(hazard, np.maximum(1.0 - before, 0.0))",
        "counted = hazard",
        (PERSONS,),
    ),
    Bug(
        "an event that nobody expected adds what its division makes",
        "clip",
        HAZARDS,
        "found[event] = -np.minimum(of_event, 1.0)",
        "found[event] = -np.minimum(of_event, 1e9)",
        (PERSONS,),
    ),
    Bug(
        "the bound of a person forgets the intervals",
        "sensitivity",
        HAZARDS,
        "most = math.hypot(1.0, self.weight) * ABOVE",
        "most = ABOVE",
        (PERSONS,),
    ),
    Bug(
        "a descent learns large effects as fast as small ones",
        "model",
        AVERAGE,
        "curvature = max(fall, 0.0) if energy > 0 else float(bend.sum())",
        "curvature = float(bend.sum())",
        (
            f"{TEST_SURVIVAL}::test_curvature_and_squares_are_those_of_the_gradients_of_persons",
        ),
    ),
    Bug(
        "the size of effects counts chance as signal",
        "model",
        TRUE_WEIGHTS,
        "expected = sizes * learned**2 + chance\n    log_likelihood",
        "expected = sizes * learned**2 + 1e-3\n    log_likelihood",
        (f"{TEST_SURVIVAL}::test_true_weights_are_as_near_as_is_said",),
    ),
    Bug(
        "bands of curves forget that the slope is not certain",
        "model",
        TRUE_WEIGHTS,
        "errors = np.hstack([np.diag(independent), common])",
        "errors = np.diag(independent)",
        (f"{TEST_SURVIVAL}::test_slopes_and_bends_are_those_of_normal_vectors",),
    ),
    Bug(
        "bands of curves forget what no hat can follow",
        "model",
        EFFECTS,
        "between_knots=_between_knots(rows, effects.found)",
        "between_knots=0.0",
        (f"{TEST_SURVIVAL}::test_bends_between_knots_are_those_of_finer_hats",),
    ),
    Bug(
        "indicators of missing cells are bends of the curve",
        "model",
        AVERAGE,
        "_LEAST_LINE = 0.4",
        "_LEAST_LINE = 0.6",
        (f"{TEST_SURVIVAL}::test_positions_heaps_and_missing_cells_are_no_bends",),
    ),
    Bug(
        "stated noise of effects forgets that they are shrunk",
        "model",
        EFFECTS,
        "part._replace(places=part.places @ each.gains)",
        "part._replace(places=part.places)",
        (f"{TEST_SURVIVAL}::test_stated_noise_shrinks_with_the_weights",),
    ),
    Bug(
        "bands forget that intervals make up for larger effects",
        "model",
        AVERAGE,
        "found[0, 1:], found[1:, 0] = each @ left, each @ right",
        "found[0, 1:], found[1:, 0] = 0.0 * each @ left, 0.0 * each @ right",
        (f"{TEST_SURVIVAL}::test_the_size_and_the_intervals_err_together_as_is_said",),
    ),
    Bug(
        "bands take the table and the gradients for two samples",
        "model",
        AVERAGE,
        "self.by_gradient.T + both + both.T",
        "self.by_gradient.T",
        (f"{TEST_SURVIVAL}::test_the_size_and_the_intervals_err_together_as_is_said",),
    ),
    Bug(
        "bands forget that the cap cuts an interval by the hazards before it",
        "model",
        AVERAGE,
        "residuals.by_earlier(some, pulls) / 2",
        "residuals.by_earlier(some, 0.0 * pulls) * 0.0",
        (f"{TEST_SURVIVAL}::test_the_size_and_the_intervals_err_together_as_is_said",),
    ),
    Bug(
        "bands forget the error of the common size of all effects",
        "model",
        "skdp/linear_model/_survival.py",
        "variance += moved * (moved",
        "variance += 0.0 * moved * (moved",
        (f"{TEST_SURVIVAL}::test_the_error_of_a_row_is_that_of_its_weights",),
    ),
    Bug(
        "the common size of all effects errs as far as single weights",
        "model",
        EFFECTS,
        "of_size=errors[0, 0] + by_weights",
        "of_size=2 * by_weights",
        (f"{TEST_SURVIVAL}::test_large_effects_err_as_far_as_is_said",),
    ),
    Bug(
        "a life table expects hazards that neither rise nor fall",
        "model",
        LIFE_TABLE,
        "prior = _OF_LEVEL**2 + _OF_SHAPE**2 * np",
        "prior = _OF_LEVEL**2 + 0.0 * np",
        (f"{TEST_SURVIVAL}::test_limits_of_a_table_count_how_hazards_change[rises]",),
    ),
    Bug(
        "a life table expects hazards of a Weibull model only",
        "model",
        LIFE_TABLE,
        "prior += walk**2",
        "prior += 1e-6 * walk**2",
        (f"{TEST_SURVIVAL}::test_limits_of_a_table_count_how_hazards_change[late]",),
    ),
    Bug(
        "the noise in a life table is taken to be a tenth of what it is",
        "model",
        LIFE_TABLE,
        "total = both * slopes + noise @ noise.T",
        "total = both * slopes + 0.01 * noise @ noise.T",
        (
            f"{TEST_SURVIVAL}::"
            "test_limits_of_a_table_count_how_hazards_change[constant]",
        ),
    ),
    Bug(
        "a life table forgets the noise in persons at risk",
        "model",
        LIFE_TABLE,
        "rates[:, None] * self.of_exposed\n",
        "0.0 * rates[:, None] * self.of_exposed\n",
        (f"{TEST_SURVIVAL}::test_a_hazard_is_near_the_mode_of_its_posterior",),
    ),
    Bug(
        "the evidence for a walk forgets how far counts may spread",
        "model",
        LIFE_TABLE,
        "np.linalg.slogdet(total)[1]) / 2",
        "0.0) / 2",
        (f"{TEST_SURVIVAL}::test_a_hazard_is_near_the_mode_of_its_posterior",),
    ),
    Bug(
        "the hazards of a life table forget that persons at high risk leave first",
        "model",
        LIFE_TABLE,
        "hazard = np.exp(effects)\n        survival",
        "hazard = np.exp(0.0 * effects)\n        survival",
        (
            f"{TEST_SURVIVAL}::test_hazards_of_a_table_are_those_of_persons_without_effects",
        ),
    ),
    Bug(
        "an event beyond the horizon counts as one at the horizon",
        "model",
        "skdp/linear_model/_survival.py",
        "is_event = event & (duration <= horizon)",
        "is_event = event",
        (f"{TEST_SURVIVAL}::test_y_has_many_forms_and_durations_are_clipped",),
    ),
]
