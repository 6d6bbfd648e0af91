"""Bugs in the adder and in the queries."""

from __future__ import annotations

from tests.bugs.bug import Bug

SUMS = "skdp/sums"
ADDER = f"{SUMS}/_adder.py"
TEST = "tests/sums/test_"
TEST_CODES = "tests/tables/test_code_rows.py"
PLAIN = (
    f"{TEST_CODES}::test_compiled_sums_are_those_of_plain_arithmetic_to_the_last_bit"
)
NOTICED = f"{TEST}leaf_sums.py::test_a_reader_notices_what_changes_between_queries"
TEST_ADDER = f"{TEST}adder.py"
RECORDS = f"{TEST_ADDER}::test_a_record_moves_a_sum_by_no_more_than_its_bound"
USERS = f"{TEST_ADDER}::test_a_user_moves_a_sum_by_no_more_than_is_charged"

OF_THE_ADDER = [
    Bug(
        "null rows count in sums of users",
        "users",
        ADDER,
        "    is_there = weights > 0\n",
        "    is_there = weights >= 0\n",
        (f"{TEST_ADDER}::test_null_rows_add_exactly_nothing",),
    ),
    Bug(
        "rounding of several rows is charged as of one",
        "rounding",
        ADDER,
        "        rows = float(layout.rows_of_unit)\n",
        "        rows = float(min(layout.rows_of_unit, 1))\n",
        (f"{TEST_ADDER}::test_rounding_moves_a_user_by_no_more_than_half_the_slack",),
    ),
    Bug(
        "counts of a user are rounded to the nearest",
        "users",
        ADDER,
        "            weights = [np.floor(factor)] * len(form.places)\n",
        "            weights = [np.rint(factor)] * len(form.places)\n",
        (f"{TEST_ADDER}::test_counts_of_a_user_add_up_to_at_most_one",),
    ),
    Bug(
        "rows of a user multiply by their weight and not by its root",
        "users",
        ADDER,
        "    return np.floor(np.sqrt(weights) / ROOT_UNIT)\n",
        "    return np.floor(weights**0.25 / ROOT_UNIT)\n",
        (USERS,),
    ),
    Bug(
        "arithmetic is charged for one of two neighbours",
        "rounding",
        ADDER,
        "        return rounded + 2 * self.arithmetic + totals\n",
        "        return rounded + self.arithmetic / 2 + totals\n",
        (f"{TEST_ADDER}::test_arithmetic_moves_a_record_by_no_more_than_is_charged",),
    ),
    Bug(
        "runs of products are longer than exact sums are",
        "rounding",
        ADDER,
        "_DENSE_PRODUCTS, _SPARSE_PRODUCTS = 1 << 11, 1 << 16\n",
        "_DENSE_PRODUCTS, _SPARSE_PRODUCTS = 1 << 16, 1 << 16\n",
        (f"{TEST}exact_sums.py::test_products_of_many_rows_add_up_exactly",),
    ),
    Bug(
        "units are finer than the largest sum allows",
        "rounding",
        f"{SUMS}/_exact.py",
        "    return 2.0 ** -min(_FINEST, 52 - bits)\n",
        "    return 2.0 ** -min(_FINEST, 56 - bits)\n",
        (f"{TEST}exact_sums.py::test_the_largest_sums_are_exact",),
    ),
    Bug(
        "a sample has the null rows of its table",
        "users",
        f"{SUMS}/_gradient_sum.py",
        "            there = present_rows(block)\n",
        "            there = replace(block, present=None)\n",
        (
            f"{TEST}exact_gradient.py::"
            "test_sums_of_parts_add_up_and_samples_are_sums_of_their_rows",
        ),
    ),
]

OF_COUNTS = [
    Bug(
        "codes of a group are counted twice",
        "sensitivity",
        f"{SUMS}/_counts.py",
        "Entries((place,), size * self.n_labels))",
        "Entries((place,) * 2, size * self.n_labels))",
        (
            f"{TEST}code_counts.py"
            "::test_no_neighbour_is_farther_than_the_bound_which_is_attained",
        ),
    ),
    Bug(
        "an exchange of codes moves no more than a missing record",
        "sensitivity",
        f"{SUMS}/_counts.py",
        "gone, replaced = float(n_parts), 2.0 * n_parts\n",
        "gone, replaced = float(n_parts), float(n_parts)\n",
        (RECORDS,),
    ),
    Bug(
        "codes of a label are counted beside those of the next label",
        "model",
        f"{SUMS}/_counts.py",
        "place = place + block.y.astype(np.int64) * size\n",
        "place = place + block.y.astype(np.int64)\n",
        ("tests/naive_bayes/test_categorical.py",),
    ),
    Bug(
        "rows of clusters are as long as they come",
        "clip",
        f"{SUMS}/_moments.py",
        "return np.asarray(whole_rows(moved, self.radius))",
        "return np.rint(moved * (_LARGEST / self.radius))",
        ("tests/cluster/test_k_means.py",),
    ),
    Bug(
        "the number of rows of a cluster is charged like nothing",
        "sensitivity",
        f"{SUMS}/_moments.py",
        "Bound(zero_out=math.sqrt(2) * ABOVE, replace_one=2 * ABOVE)",
        "Bound(zero_out=1 * ABOVE, replace_one=2 * ABOVE)",
        ("tests/cluster/test_k_means.py",),
    ),
    Bug(
        "rows belong to the centre with the largest product",
        "model",
        f"{SUMS}/_moments.py",
        "halves = np.sum(self.centers**2, axis=1) / -2",
        "halves = np.sum(self.centers**2, axis=1) * 0",
        ("tests/cluster/test_k_means.py",),
    ),
    Bug(
        "one of two thresholds is charged",
        "sensitivity",
        f"{SUMS}/_counts.py",
        "            replace_one=math.sqrt(2 * n_features) * ABOVE,\n",
        "            replace_one=math.sqrt(n_features) * ABOVE,\n",
        (RECORDS,),
    ),
    Bug(
        "squares weigh more than an exchange allows",
        "sensitivity",
        f"{SUMS}/_counts.py",
        "SQUARES = Pairs(_squares, math.sqrt(2))\n",
        "SQUARES = Pairs(_squares, math.sqrt(3))\n",
        (RECORDS,),
    ),
    Bug(
        "squares are not centred",
        "sensitivity",
        f"{SUMS}/_counts.py",
        "    return values, values * values - 0.5\n",
        "    return values, values * values\n",
        (RECORDS,),
    ),
    Bug(
        "targets are no part of their own",
        "sensitivity",
        f"{SUMS}/_counts.py",
        "        return self.most_parts + (self._n_knots > 0)\n",
        "        return max(self.most_parts, self._n_knots > 0)\n",
        (RECORDS,),
    ),
    Bug(
        "targets beyond the knots are not clipped",
        "clip",
        f"{SUMS}/_counts.py",
        "        inside = np.clip(targets, places[0], places[-1])\n",
        "        inside = targets\n",
        (RECORDS,),
    ),
    Bug(
        "parts of a table are charged as the largest of them",
        "sensitivity",
        f"{SUMS}/_counts.py",
        "        return math.hypot(\n            *(\n",
        "        return max(\n            *(\n",
        (RECORDS,),
    ),
    Bug(
        "missing cells keep the place of a value in moments",
        "encoder",
        f"{SUMS}/_counts.py",
        "        values[is_missing] = squares[is_missing] = 0.0\n",
        "        values[is_missing], squares[is_missing] = 0.0, 1.0\n",
        (RECORDS,),
    ),
    Bug(
        "numbers of records are not clipped",
        "clip",
        f"{SUMS}/_record_sums.py",
        "        return np.clip(np.nan_to_num(self.numbers(block)), low, high)\n",
        "        return np.nan_to_num(self.numbers(block))\n",
        (RECORDS,),
    ),
    Bug(
        "probabilities of two labels are as near as one is to none",
        "sensitivity",
        f"{SUMS}/_record_sums.py",
        "        return Bound(zero_out=ABOVE, replace_one=math.sqrt(2) * ABOVE)\n",
        "        return Bound(zero_out=ABOVE, replace_one=ABOVE)\n",
        (RECORDS,),
    ),
    Bug(
        "the squared norm beside a row is free",
        "sensitivity",
        f"{SUMS}/_record_sums.py",
        "        one = math.hypot(1.0, self.weight) * ABOVE\n",
        "        one = ABOVE\n",
        (RECORDS,),
    ),
    Bug(
        "a record moves the score of one model alone",
        "sensitivity",
        f"{SUMS}/_record_sums.py",
        "        several = float(len(self.models) ** (1 / self.norm))\n",
        "        several = 1.0\n",
        (f"{TEST}scores.py::test_bounds_are_attained_and_never_exceeded",),
    ),
    Bug(
        "moments of opposite targets are forgotten",
        "sensitivity",
        f"{SUMS}/_moments.py",
        "        return math.sqrt(max(same, opposite) + self.squares**2)\n",
        "        return math.sqrt(same)\n",
        (RECORDS,),
    ),
    Bug(
        "an exchange of Newton sums has one gradient",
        "sensitivity",
        f"{SUMS}/_moments.py",
        "        apart = 4 * of_gradient + of_matrices\n"
        "        between = min(of_gradient / (2 * of_matrices), 1.0)\n"
        "        both = of_gradient * 2 * (1 + between) + of_matrices * 2 "
        "* (1 - between**2)\n",
        "        apart = 2 * of_gradient + of_matrices\n"
        "        both = 2 * of_gradient\n",
        (RECORDS,),
    ),
    Bug(
        "rows longer than the frame's norm keep their length",
        "sensitivity",
        f"{SUMS}/_moments.py",
        "        rows *= (weight * (_LARGEST / frame.norm))[:, None]\n",
        "        rows *= _LARGEST / frame.norm\n",
        (RECORDS,),
    ),
    Bug(
        "residuals of rows that weigh less keep their size",
        "model",
        f"{SUMS}/_moments.py",
        "        residual *= weight[:, None]\n",
        "",
        ("tests/solvers/test_noisy_newton.py::test_sums_are_those_of_the_definition",),
    ),
    Bug(
        "counts of long rows add to all shorter limits",
        "sensitivity",
        f"{SUMS}/_moments.py",
        "(place[:, None] == np.arange(len(self.limits)))",
        "(place[:, None] >= np.arange(len(self.limits)))",
        (RECORDS,),
    ),
]

OF_GRADIENTS = [
    Bug(
        "the intercept's entry is free",
        "sensitivity",
        f"{SUMS}/_gradient.py",
        "            norm *= math.sqrt(1 + self.intercept_weight**2)\n",
        "            norm *= max(1.0, self.intercept_weight)\n",
        (f"{TEST}gradient_settings.py::test_no_neighbours_exceed_what_is_charged",),
    ),
    Bug(
        "the intercept's weight in predictions is not divided by its share",
        "sensitivity",
        f"{SUMS}/_gradient.py",
        "            weights = weights / self.weight\n",
        "            weights = weights + 0.0\n",
        (f"{TEST}gradient_settings.py::test_the_weights_count_as_the_query_sees_them",),
    ),
    Bug(
        "two clipped users are as near as one and none",
        "sensitivity",
        f"{SUMS}/_gradient.py",
        "            return Bound(zero_out_user=most, replace_user=2 * most)\n",
        "            return Bound(zero_out_user=most, replace_user=most)\n",
        (
            f"{TEST}gradient_settings.py::"
            "test_no_users_exceed_what_is_charged_for_a_clip_of_users",
        ),
    ),
    Bug(
        "the grid of residuals is free",
        "rounding",
        f"{SUMS}/_gradient.py",
        "plain_error(self.objective.loss, self.residual_clip) + self.half_unit\n",
        "plain_error(self.objective.loss, self.residual_clip)\n",
        (f"{TEST}gradient_settings.py::test_the_weights_count_as_the_query_sees_them",),
    ),
    Bug(
        "residuals are not clipped",
        "clip",
        f"{SUMS}/_gradient_sum.py",
        "        residual = clipped(residual, clip_of(loss, block.y, clip))\n",
        "        residual = clipped(residual, math.inf)\n",
        (f"{TEST}gradient_settings.py::test_no_neighbours_exceed_what_is_charged",),
    ),
    Bug(
        "long rows of codes count in full",
        "clip",
        f"{SUMS}/_gradient_kernel.py",
        "        residuals[i] = np.floor(residuals[i] * factor[i] * fine + 0.5)\n",
        "        residuals[i] = np.floor(residuals[i] * fine + 0.5)\n",
        (f"{TEST_CODES}::test_bounds_hold_at_any_weights_and_are_attained", PLAIN),
    ),
    Bug(
        "several residuals of a row of codes are not clipped as one vector",
        "clip",
        f"{SUMS}/_gradient_kernel.py",
        "            factors[i] = limit / max(np.sqrt(factors[i]), limit)\n",
        "            factors[i] = 1.0\n",
        (PLAIN,),
    ),
    Bug(
        "null rows of codes count",
        "users",
        f"{SUMS}/_gradient_kernel.py",
        "        if len(present) and not present[i]:\n            residuals[i] = 0.0\n",
        "",
        (PLAIN,),
    ),
    Bug(
        "the intercept of users with rows of codes moves along another ray",
        "users",
        f"{SUMS}/_gradient_kernel.py",
        "            residuals[i] = own * unit\n",
        "            residuals[i] *= present[i]\n",
        (PLAIN,),
    ),
    Bug(
        "a user's clip leaves the intercept out",
        "users",
        f"{SUMS}/_gradient_sum.py",
        "            squares += (self._constant * own) ** 2\n",
        "            squares += own**2\n",
        (
            f"{TEST}gradient_settings.py::"
            "test_no_users_exceed_what_is_charged_for_a_clip_of_users",
        ),
    ),
    Bug(
        "far rows are not shortened",
        "clip",
        f"{SUMS}/_grid_rows.py",
        "            _shorten(grid, SHORTENED / np.sqrt(np.maximum(squares, 1.0)))\n",
        "",
        (
            f"{TEST}exact_gradient.py::"
            "test_no_row_is_longer_than_the_norm_and_each_is_that_of_itself",
        ),
    ),
    Bug(
        "compiled sums have far rows that are not shortened",
        "clip",
        f"{SUMS}/_gradient_kernel.py",
        "    _shorten(units, max(squares, 1.0), shortened)\n",
        "",
        (f"{TEST}exact_gradient.py::test_compiled_sums_of_rows_have_the_same_bits",),
    ),
    Bug(
        "features of a score are bounded by the row",
        "sensitivity",
        f"{SUMS}/_features.py",
        "self.family.bound(radius, self.part, self.family.entry_bound)\n",
        "self.family.bound(radius, self.part, self.family.entry_bound / 2)\n",
        (f"{TEST}gradient_settings.py::test_no_neighbours_exceed_what_is_charged",),
    ),
    Bug(
        "two records in one leaf have residuals of one sign",
        "sensitivity",
        f"{SUMS}/_leaves.py",
        "            pair = heaviest_pair(self.loss, self.clip)\n",
        "            pair = 1.0\n",
        (
            f"{TEST}leaf_sums.py::"
            "test_no_pair_passes_the_bound_and_the_search_attains_it",
        ),
    ),
    Bug(
        "two records in one leaf have the same mean of counts",
        "sensitivity",
        f"{SUMS}/_leaves.py",
        "        return math.hypot(pair * residual, one * largest - least)\n",
        "        return pair * residual\n",
        (
            f"{TEST}leaf_sums.py::"
            "test_no_pair_passes_the_bound_and_the_search_attains_it",
        ),
    ),
    Bug(
        "leaves are charged the second weight of labels",
        "sensitivity",
        f"{SUMS}/_leaves.py",
        "        one = heaviest(self.loss)[0] * math.hypot(residual, curvature)\n",
        "        one = heaviest(self.loss)[1] * math.hypot(residual, curvature)\n",
        (
            f"{TEST}leaf_sums.py::"
            "test_no_pair_passes_the_bound_and_the_search_attains_it",
        ),
    ),
    Bug(
        "vectors of residuals in leaves are not clipped",
        "clip",
        f"{SUMS}/_leaves_kernel.py",
        "        squares[i] = clip / math.sqrt(squares[i]) if far else 1.0\n",
        "        squares[i] = 1.0\n",
        (
            f"{TEST}leaf_sums.py::"
            "test_no_pair_passes_the_bound_and_the_search_attains_it",
        ),
    ),
    Bug(
        "gains by several shares are charged as the largest",
        "sensitivity",
        f"{SUMS}/_leaves.py",
        "        return self.clip * math.hypot(*self.shares) * ABOVE\n",
        "        return self.clip * max(self.shares) * ABOVE\n",
        (RECORDS,),
    ),
    Bug(
        "a reader of leaves does not compare the trees that it knows",
        "model",
        f"{SUMS}/_leaves.py",
        " and grown.digests[done] == self._done\n",
        " and self._done != b''\n",
        (NOTICED,),
    ),
    Bug(
        "values of leaves are no part of a digest",
        "model",
        f"{SUMS}/_leaves.py",
        "_digest(self.digests[-1], tree.digest, values)",
        "_digest(self.digests[-1], tree.digest)",
        (NOTICED,),
    ),
    Bug(
        "a query has the values of leaves where a caller overwrites them",
        "model",
        f"{SUMS}/_leaves.py",
        "        values = np.array(values, dtype=np.float64)\n",
        "",
        (f"{TEST}leaf_sums.py::test_a_query_keeps_the_values_that_it_was_made_of",),
    ),
    Bug(
        "norms of a network's gradients leave the first biases out",
        "clip",
        f"{SUMS}/_network.py",
        "        squares = squares_of(rows.entries) * of_unit + 1.0\n",
        "        squares = squares_of(rows.entries) * of_unit\n",
        (f"{TEST}network_gradient.py::test_no_neighbours_exceed_what_is_charged",),
    ),
    Bug(
        "a network's gradients are rounded to the nearest",
        "rounding",
        f"{SUMS}/_network.py",
        "    return cut(units, factors * 2.0**bits)\n",
        "    return np.rint(units * (factors * 2.0**bits)[:, None])\n",
        (
            f"{TEST}network_gradient.py::"
            "test_clipped_gradients_are_no_longer_than_the_clip_but_for_what_is_charged",
        ),
    ),
]

BUGS: list[Bug] = [*OF_THE_ADDER, *OF_COUNTS, *OF_GRADIENTS]
