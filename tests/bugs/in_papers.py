"""Bugs in the methods of the papers."""

from __future__ import annotations

from tests.bugs.bug import Bug

PAPERS, TESTS = "skdp/papers", "tests/papers"
BOLT_ON, KERNEL = f"{PAPERS}/_bolt_on.py", f"{PAPERS}/_bolt_on_kernel.py"
FRANK_WOLFE, STREAMS = f"{PAPERS}/_frank_wolfe.py", f"{PAPERS}/_streams.py"
MOMENTUM, OUTPUT = f"{PAPERS}/_momentum.py", f"{PAPERS}/_output_perturbation.py"
LAST, SMOOTHING = f"{PAPERS}/_last_iterate.py", f"{PAPERS}/_smoothing.py"
TWO_STAGE, TREES = f"{PAPERS}/_two_stage.py", f"{PAPERS}/_tree_momentum.py"
CONVOLUTION = f"{PAPERS}/_convolution_sum.py"
POSTGRES = f"{PAPERS}/_bolt_on_postgres.py"
TEST_BOLT_ON = f"{TESTS}/test_bolt_on.py"
TEST_SENSITIVITY = f"{TESTS}/test_permutation_sensitivity.py"
TEST_FRANK_WOLFE = f"{TESTS}/test_frank_wolfe.py"
TEST_STREAMS = f"{TESTS}/test_partial_fit.py"
TEST_OUTPUT = f"{TESTS}/test_output_perturbation.py"
TEST_LAST = f"{TESTS}/test_last_iterate.py"

BUGS: list[Bug] = [
    Bug(
        "steps of bolt_on contract as fast as the flattest loss allows",
        "sensitivity",
        f"{PAPERS}/_bolt_on_recursion.py",
        "later *= max(abs(1.0 - step * strength)",
        "later *= min(abs(1.0 - step * strength)",
        (f"{TEST_SENSITIVITY}::test_sensitivity_is_attained",),
    ),
    Bug(
        "a short last batch of bolt_on is divided by its own size",
        "sensitivity",
        KERNEL,
        """                    gradient[k, j] += raw[k] * row[j]
        place += 1
        if place % batch_size == 0 or place == span[1]:
            t = (place - 1) // batch_size
            _update(weights, gradient, steps[t], batch_size, alpha, radius)
""",
        """                    gradient[k, j] += raw[k] * row[j]
        place += 1
        if place % batch_size == 0 or place == span[1]:
            t = (place - 1) // batch_size
            own = place - t * batch_size
            _update(weights, gradient, steps[t], own, alpha, radius)
""",
        (f"{TEST_BOLT_ON}::test_kernel_agrees_with_the_plain_twin",),
    ),
    Bug(
        "new orders in every pass are charged as one order",
        "sensitivity",
        BOLT_ON,
        "            reshuffle=self.reshuffle,\n            rounding",
        "            rounding",
        (f"{TEST_SENSITIVITY}::test_sensitivity_is_attained",),
    ),
    Bug(
        "bolt_on draws new orders when none are asked for",
        "sensitivity",
        BOLT_ON,
        "            if self.reshuffle:\n                order",
        "            if not self.reshuffle:\n                order",
        (
            f"{TEST_BOLT_ON}::test_order_comes_from_the_noise_source_and_is_new_if_"
            "asked_for",
        ),
    ),
    Bug(
        "iterates of bolt_on are bounded without the intercept",
        "sensitivity",
        BOLT_ON,
        "    gradient = objective.row_norm * objective.loss.zero_out_bound(math.inf)\n"
        "    farthest = float(steps.sum()) * gradient",
        "    gradient = objective.data_norm * objective.loss.zero_out_bound(math.inf)\n"
        "    farthest = float(steps.sum()) * gradient",
        (f"{TEST_SENSITIVITY}::test_every_iterate_is_within_its_public_bound",),
    ),
    Bug(
        "gradients are compared at half of the weights that are reached",
        "sensitivity",
        BOLT_ON,
        "    bound = sums.real_bound(sums.radius(farthest))",
        "    bound = sums.real_bound(sums.radius(farthest / 2))",
        (
            f"{TEST_SENSITIVITY}::test_gradients_differ_most_at_the_weights_that_are_"
            "reached",
        ),
    ),
    Bug(
        "rows in a database are clipped only if they are huge",
        "clip",
        POSTGRES,
        '''        is_long = f"size > {norm} * {norm} OR largest >= {_power(_FAR)}"''',
        '''        is_long = f"size < 0 AND {norm} < 0 OR largest >= {_power(_FAR)}"''',
        (f"{TESTS}/io/test_postgres_descent.py::test_weights_are_those_of_memory",),
    ),
    Bug(
        "two users' rows count as one in the scores of vertices",
        "users",
        FRANK_WOLFE,
        '_GONE = ("zero_out", "zero_out_user")',
        '_GONE = ("zero_out", "zero_out_user", "replace_user")',
        (
            f"{TEST_FRANK_WOLFE}::test_no_neighbour_moves_a_score_by_more_than_the_"
            "sensitivity",
        ),
    ),
    Bug(
        "residuals of frank_wolfe are rounded and never clipped",
        "clip",
        f"{PAPERS}/_frank_wolfe_kernel.py",
        "        rounded = int(shares[i] * round(min(max(error, -own), own)))",
        "        rounded = int(shares[i] * round(error))",
        (
            f"{TEST_FRANK_WOLFE}::test_no_neighbour_moves_a_score_by_more_than_the_"
            "sensitivity",
        ),
    ),
    Bug(
        "null records stand in the scores of vertices",
        "users",
        FRANK_WOLFE,
        "            shares.append(weighed(np.ones(len(block.y)), block))",
        "            shares.append(np.ones(len(block.y)))",
        (f"{TEST_FRANK_WOLFE}::test_null_records_are_in_no_sum",),
    ),
    Bug(
        "a minimiser of output perturbation counts the certificate for nothing",
        "rounding",
        OUTPUT,
        "        sensitivity = (change + 2 * (tolerance + rounding)) / self.strength",
        "        sensitivity = (change + 2 * rounding) / self.strength",
        (f"{TEST_OUTPUT}::test_one_draw_of_the_stated_sensitivity",),
    ),
    Bug(
        "a minimiser moves by a row without its intercept",
        "sensitivity",
        OUTPUT,
        "    return objective.row_norm * bound",
        "    return objective.data_norm * bound",
        (
            f"{TEST_OUTPUT}::test_no_neighbours_minimisers_are_farther_apart_than_stated",
        ),
    ),
    Bug(
        "a bucket of online descent is divided by the last one's size",
        "sensitivity",
        OUTPUT,
        "    def sample_size(self, objective: LinearObjective) -> int:\n"
        "        return self.bucket_size",
        "    def sample_size(self, objective: LinearObjective) -> int:\n"
        "        return (objective.n_samples - 1) % self.bucket_size + 1",
        (f"{TESTS}/test_online.py::test_the_divisor_is_the_same_for_a_short_bucket",),
    ),
    Bug(
        "changes of gradients are bounded without the rounding of predictions",
        "rounding",
        MOMENTUM,
        "        moved += _RAW_ERROR * (norm + earlier)\n",
        "",
        (
            f"{TESTS}/test_srm.py::test_rounded_predictions_of_far_weights_are_in_the_"
            "bound",
        ),
    ),
    Bug(
        "changes of gradients are bounded by half of their smoothness",
        "sensitivity",
        MOMENTUM,
        "loss.smoothness * moved)",
        "loss.smoothness * moved / 2)",
        (f"{TESTS}/test_srm.py::test_no_pair_of_neighbours_exceeds_the_bound",),
    ),
    Bug(
        "srm clips changes and not the gradients beside them",
        "clip",
        MOMENTUM,
        "        if math.isfinite(changes.residual_clip):\n"
        "            own = clipped(own, changes.residual_clip)\n",
        "",
        (f"{TESTS}/test_srm.py::test_the_query_is_the_sum_of_what_records_add",),
    ),
    Bug(
        "diff_gd spends the share of changes on fresh gradients too",
        "fraction",
        MOMENTUM,
        "        return 1 - self.first_share - self.change_share",
        "        return 1 - self.first_share",
        (f"{TESTS}/test_diff_gd.py::test_shares_add_up_to_one_gaussian",),
    ),
    Bug(
        "hidden steps contract by the regulariser however long they are",
        "accounting",
        LAST,
        "        return min(from_below, 2 - self.step_size * bend * (1 + _MARGIN))",
        "        return min(from_below, 2 - self.step_size * self.objective.alpha)",
        (f"{TEST_LAST}::test_steps_are_contractions_as_stated",),
    ),
    Bug(
        "a hidden path charges the grid of its last iterate only",
        "rounding",
        LAST,
        "        return exact + rounding if rounding <= exact else math.nan  # refused",
        "        return exact if rounding <= exact else math.nan  # refused",
        (f"{TEST_LAST}::test_rounding_is_charged",),
    ),
    Bug(
        "one user's rows are one record of a hidden path",
        "users",
        LAST,
        "        if is_of_users(objective.adjacency):\n            raise",
        "        if is_of_users(objective.adjacency) and objective.alpha == 0:\n"
        "            raise",
        (f"{TEST_LAST}::test_what_breaks_the_theorem_is_refused",),
    ),
    Bug(
        "gains of several steps are charged as of the longest",
        "sensitivity",
        SMOOTHING,
        "        return self.clip * float(np.linalg.norm(self.lengths)) * ABOVE",
        "        return self.clip * float(np.max(self.lengths)) * ABOVE",
        (
            f"{TESTS}/test_line_search_gd.py::test_one_record_moves_no_more_than_is_said",
        ),
    ),
    Bug(
        "losses in samples are asked although their rounding has no bound",
        "rounding",
        SMOOTHING,
        "        if layout.moved_rows > 1:\n            raise",
        "        if layout.moved_rows > 10**9:\n            raise",
        (f"{TESTS}/test_line_search_gd.py::test_gains_of_samples_are_refused",),
    ),
    Bug(
        "norms of filters leave their biases out",
        "clip",
        CONVOLUTION,
        '        for own in np.einsum("ijk,ijk->ik", units, units).T:',
        '        for own in np.einsum("ijk,ijk->ik", units[:, :-1], units[:, :-1]).T:',
        (
            f"{TESTS}/test_convolution_sum.py::test_no_term_is_longer_than_the_clip_"
            "but_for_what_is_charged",
        ),
    ),
    Bug(
        "images are predicted without the clip that they were fitted with",
        "model",
        f"{PAPERS}/_convolution.py",
        "    values = clip_rows(rows, norm) if math.isfinite(norm) else rows",
        "    values = rows if math.isfinite(norm) else clip_rows(rows, norm)",
        (f"{TESTS}/test_convolution_sum.py::test_predictions_are_of_clipped_images",),
    ),
    Bug(
        "a process that forks goes on with its parent's stream",
        "noise",
        STREAMS,
        "    os.register_at_fork(after_in_child=_LIVE.clear)",
        "    os.register_at_fork(after_in_child=_LIVE.copy)",
        (f"{TEST_STREAMS}::test_a_forked_process_does_not_go_on",),
    ),
    Bug(
        "a part that was cut short is answered about again",
        "order",
        STREAMS,
        "(now is not None and now.n_taken > n_taken)",
        "(now is not None and now.n_taken < n_taken)",
        (f"{TEST_STREAMS}::test_a_part_that_is_cut_short_ends_the_stream",),
    ),
    Bug(
        "target bounds may grow while a stream goes on",
        "sensitivity",
        STREAMS,
        '_MAY_CHANGE = ("columns", "classes", "verbose")',
        '_MAY_CHANGE = ("columns", "classes", "verbose", "target_bounds")',
        (f"{TEST_STREAMS}::test_parameters_stay_while_a_stream_goes_on",),
    ),
    Bug(
        "the second part of a stream is not in the ledger",
        "ledger",
        STREAMS,
        "            if self.n_taken:\n                books",
        "            if self.n_taken > 1:\n                books",
        (
            f"{TEST_STREAMS}::test_the_first_part_charges_the_stream_and_each_later_one_"
            "itself",
        ),
    ),
    Bug(
        "parts of a stream may be twice as large as the first",
        "rounding",
        STREAMS,
        "        if n_samples > self.part_size:",
        "        if n_samples > 2 * self.part_size:",
        (f"{TEST_STREAMS}::test_parts_may_be_smaller_than_the_first_and_not_larger",),
    ),
    Bug(
        "features that were left out shorten the rows that are predicted",
        "model",
        TWO_STAGE,
        "    clips_selected: ClassVar[bool] = True",
        "    clips_selected: ClassVar[bool] = False",
        (f"{TESTS}/test_two_stage.py::test_as_an_estimator_s_solver",),
    ),
    Bug(
        "the constant model beside a pure refit is Gaussian",
        "accounting",
        TWO_STAGE,
        '            law="spherical" if is_pure else "gaussian",',
        '            law="gaussian",',
        (f"{TESTS}/test_two_stage.py::test_delta_zero_is_pure_in_every_stage",),
    ),
    Bug(
        "a refit's intercept is the weight of another constant",
        "model",
        TWO_STAGE,
        "            released[-1] = ratio * refitted.weights[-1]",
        "            released[-1] = refitted.weights[-1]",
        (
            f"{TESTS}/test_two_stage.py::test_without_noise_it_is_least_squares_on_the_"
            "right_columns",
        ),
    ),
    Bug(
        "public rows follow the array that they were given as",
        "fact",
        TWO_STAGE,
        "dtype=np.float64, copy=True, input_name=name",
        "dtype=np.float64, copy=False, input_name=name",
        (
            f"{TESTS}/test_knowledge_transfer.py::test_rows_are_kept_as_they_were_and_"
            "named_by_their_digest",
        ),
    ),
    Bug(
        "changes within an epoch of trees have the nodes of one epoch less",
        "accounting",
        TREES,
        "between, line(self.n_epochs, self.within_share)",
        "between, line(1, self.within_share)",
        (f"{TESTS}/test_tree_momentum.py::test_all_nodes_cost_one_gaussian_answer",),
    ),
    Bug(
        "candidates are scored on records that they were fitted to",
        "accounting",
        f"{PAPERS}/_disjoint_splits.py",
        "order[scored + i * part : scored + (i + 1) * part]",
        "order[i * part : (i + 1) * part]",
        (
            f"{TESTS}/test_disjoint_splits.py::test_parts_are_disjoint_equal_and_cover_"
            "all",
        ),
    ),
]
