"""Bugs in encoders, private steps, budgets of pipelines, and descriptions."""

from __future__ import annotations

from tests.bugs.bug import Bug

BLOCKS = "skdp/preprocessing/_blocks.py"
PRIVATE = "skdp/preprocessing/_private.py"
RANGES = "skdp/statistics/_ranges.py"
T = "tests/preprocessing"
P = "tests/pipeline"
S = "tests/statistics"

BUGS: list[Bug] = [
    Bug(
        "counts of naive Bayes are smoothed as if they had no noise",
        "noise",
        "skdp/naive_bayes/_categorical.py",
        "    added = max(_SMOOTHING * deviation, 1.0)\n",
        "    added = 1.0\n",
        ("tests/naive_bayes/test_categorical.py",),
    ),
    Bug(
        "a threshold for the noise of one bin serves for all bins",
        "noise",
        RANGES,
        "    chance = _FALSE_ALARM / n_bins\n",
        "    chance = _FALSE_ALARM\n",
        (
            f"{S}/test_ranges.py::test_the_threshold_is_the_quantile_of_the_noise_in_all_bins",
        ),
    ),
    Bug(
        "numbers beyond the last power of two are in other bins",
        "clip",
        RANGES,
        "    bins = np.clip(bins, 0, _MISSING - 1)\n",
        "",
        (f"{S}/test_ranges.py::test_every_number_has_one_bin_at_its_power_of_two",),
    ),
    Bug(
        "a trimmed range still starts at the first bin",
        "model",
        RANGES,
        "    start = 0.0 if low == _ZERO else _EDGES[low]\n",
        "    start = 0.0 if low == _ZERO else _EDGES[np.flatnonzero(of_bins)[0]]\n",
        (f"{S}/test_ranges.py::test_trim_cuts_no_more_than_its_fraction_off_each_end",),
    ),
    Bug(
        "a heap is counted partly where its curve is",
        "encoder",
        BLOCKS,
        "            share = np.where(is_heap, 0.0, share)\n",
        "",
        (f"{T}/test_heaps.py::test_a_heap_is_the_curve_and_an_indicator",),
    ),
    Bug(
        "a value beyond an end is not in the heap at the end",
        "clip",
        BLOCKS,
        "heaps, clipped = np.array(self.heaps), self.axis.clipped(values)",
        "heaps, clipped = np.array(self.heaps), values.astype(float)",
        (f"{T}/test_heaps.py::test_a_heap_is_the_curve_and_an_indicator",),
    ),
    Bug(
        "the indicator of a heap makes rows longer than 1",
        "sensitivity",
        BLOCKS,
        "        heap = [1.0] if self.heaps else []\n",
        "        heap = []\n",
        (
            f"{T}/test_table_encoder.py::test_every_block_of_numbers_has_norm_at_most_one",
        ),
    ),
    Bug(
        "a heap shares an interval with the numbers above it",
        "encoder",
        BLOCKS,
        "np.unique(np.concatenate([first[is_below], after[is_above]]))",
        "np.unique(first[is_below])",
        (f"{T}/test_heaps.py::test_codes_keep_their_order_and_heaps_are_alone",),
    ),
    Bug(
        "an exported curve has no heaps",
        "encoder",
        "skdp/preprocessing/_exported.py",
        '"heaps": list(block.heaps)} if block.heaps',
        '"heaps": [None] * len(block.heaps)} if block.heaps',
        (f"{T}/test_heaps.py::test_a_file_predicts_the_same_at_heaps_and_beside_them",),
    ),
    Bug(
        "exported trees put numbers at an edge below it",
        "encoder",
        "skdp/preprocessing/_exported.py",
        "(axis.to_unit(middle), block.count)[0] >= codes",
        "(axis.to_unit(middle), block.count)[0] > codes",
        ("tests/test_export.py::test_numbers_at_edges_are_in_the_same_interval",),
    ),
    Bug(
        "an exported curve of missing cells is that of its middle",
        "encoder",
        "skdp/preprocessing/_exported.py",
        'if each["is"] == "curve" else _NONE}',
        'if each["is"] != "curve" else _NONE}',
        ("tests/test_export.py::test_a_file_predicts_the_same_without_skdp",),
    ),
    Bug(
        "a category that is not declared is the first one",
        "encoder",
        BLOCKS,
        "        return np.maximum(codes, 0), (codes >= 0).astype(np.float64)\n",
        "        return np.maximum(codes, 0), np.ones(codes.shape)\n",
        (
            "tests/preprocessing/test_table_encoder.py::test_lists_of_mixed_types_and_arrays_of_strings",
        ),
    ),
    Bug(
        "a missing value is also at the end of its range",
        "encoder",
        BLOCKS,
        "        shares = np.where(is_missing, 0.0, shares)\n",
        "",
        (
            "tests/preprocessing/test_table_encoder.py::test_the_null_of_a_missing_value_is_a_state_of_its_own",
        ),
    ),
    Bug(
        "the parts of a date are not divided by the root of their number",
        "sensitivity",
        BLOCKS,
        "        return np.asarray(along / math.sqrt(len(self.blocks)))\n",
        "        return np.asarray(along)\n",
        (
            "tests/preprocessing/test_table_encoder.py::test_mixed_rows_are_as_long_as_stated",
        ),
    ),
    Bug(
        "the logarithm of a number below the range is NaN",
        "clip",
        BLOCKS,
        "(log(np.clip(values, low, high)) - start)",
        "(log(values) - start)",
        ("tests/preprocessing/test_table_encoder.py::test_logarithms",),
    ),
    Bug(
        "the week begins on a Sunday",
        "encoder",
        BLOCKS,
        "(days.astype(np.int64) + 3) % 7",
        "(days.astype(np.int64) + 4) % 7",
        ("tests/preprocessing/test_table_encoder.py::test_parts_of_dates",),
    ),
    Bug(
        "a missing cell of a categorical is its last category",
        "encoder",
        "skdp/preprocessing/_cells.py",
        "values[codes], codes < 0, distinct)",
        "values[codes], np.zeros(len(codes), dtype=bool), distinct)",
        (
            "tests/preprocessing/test_table_encoder.py::test_the_same_table_in_another_form",
        ),
    ),
    Bug(
        "the border of the calendar is forgotten for far dates",
        "clip",
        "skdp/preprocessing/_cells.py",
        "    within = np.clip(dates.astype(np.int64), low, high)"
        '.astype(f"M8[{count}{unit}]")\n',
        "    within = dates\n",
        (
            "tests/preprocessing/test_far_dates.py::test_clipping_is_exact_within_and_total_beyond",
        ),
    ),
    Bug(
        "a scaler does not clip to its bounds",
        "clip",
        PRIVATE,
        "moved = np.clip(X, self.low_, self.high_) / 2 - self.mean_ / 2",
        "moved = X / 2 - self.mean_ / 2",
        (
            "tests/preprocessing/test_steps.py::test_scaled_rows_have_norm_about_one_and_none_more",
        ),
    ),
    Bug(
        "bounded rows are not divided by the root of the columns",
        "sensitivity",
        "skdp/preprocessing/_declared.py",
        "        scaled = to_unit(X, self.low_, self.high_) / math.sqrt(X.shape[1])\n",
        "        scaled = to_unit(X, self.low_, self.high_)\n",
        (
            "tests/preprocessing/test_preprocessing.py::test_scaled_rows_have_norm_at_most_one",
        ),
    ),
    Bug(
        "the rows of users are records of a step",
        "users",
        PRIVATE,
        "        return table.source(rows, None, users)\n",
        "        return table.source(rows, None, None)\n",
        (
            "tests/preprocessing/test_users_of_steps.py::test_without_noise_each_row_weighs_its_share",
        ),
    ),
    Bug(
        "quantiles are those of the raw table",
        "noise",
        PRIVATE,
        "            if answers.is_exact and not source.facts.is_of_users:\n",
        "            if not source.facts.is_of_users:\n",
        (
            "tests/preprocessing/test_steps.py::test_a_clipper_without_noise_and_one_of_few_records",
        ),
    ),
    Bug(
        "a quantile that was not found is the smallest value",
        "fact",
        PRIVATE,
        "        self.low_ = np.where(is_proper, found[0], low)\n",
        "        self.low_ = np.where(is_proper, found[0], X.min(axis=0))\n",
        (
            "tests/preprocessing/test_steps.py::test_a_clipper_without_noise_and_one_of_few_records",
        ),
    ),
    Bug(
        "the upper quantile is the inner end of its cell",
        "model",
        PRIVATE,
        "cells.max(axis=0) + 0.5**self.n_steps])",
        "cells.max(axis=0)])",
        (
            "tests/preprocessing/test_steps.py::test_much_budget_finds_the_quantiles_to_a_cell",
        ),
    ),
    Bug(
        "the variance of a scaler may be below its noise",
        "model",
        PRIVATE,
        "    least = np.clip(least, _LEAST_VARIANCE, 1.0)\n",
        "    least = np.full_like(least, _LEAST_VARIANCE)\n",
        (
            "tests/preprocessing/test_steps.py::test_variance_stays_above_what_noise_can_tell",
        ),
    ),
    Bug(
        "a mean with a declared constant costs nothing",
        "accounting",
        PRIVATE,
        '        return FREE if self.strategy == "constant" else super()',
        "        return FREE if self.fill_value is not None else super()",
        (
            "tests/preprocessing/test_steps.py::test_constants_cost_nothing_and_means_do",
        ),
    ),
    Bug(
        "centred rows of components are not clipped again",
        "clip",
        "skdp/preprocessing/_pca.py",
        "            rows = row_products(rows - self.mean_, self.components_)\n"
        "            if is_clipped:\n"
        "                rows = clip_rows(rows, self.data_norm_)\n",
        "            rows = row_products(rows - self.mean_, self.components_)\n",
        ("tests/preprocessing/test_steps.py::test_rows_come_out_within_the_norm",),
    ),
    Bug(
        "components are in units of the norm, and variances are not squared",
        "model",
        "skdp/preprocessing/_pca.py",
        "in_dtype(unit**2 * variances, X.dtype)",
        "in_dtype(unit * variances, X.dtype)",
        (
            "tests/preprocessing/test_steps.py::test_components_are_orthonormal_with_fixed_signs_in_any_unit",
        ),
    ),
    Bug(
        "other values of one column are the first of the next",
        "encoder",
        "skdp/preprocessing/_declared.py",
        '            offset += len(categories) + (self.handle_unknown == "other")\n',
        "            offset += len(categories)\n",
        (
            "tests/preprocessing/test_preprocessing.py::test_encoding_with_a_column_for_other_values",
        ),
    ),
    Bug(
        "an encoder of users may count their rows",
        "users",
        "skdp/preprocessing/_encoder.py",
        "        return FREE if isinstance(self.n_knots, Integral) else _BY_ROWS\n",
        "        return FREE\n",
        (
            "tests/model_selection/test_users.py::test_steps_that_take_from_the_number_of_rows_are_refused",
        ),
    ),
    Bug(
        "rows of several transformers are as long as the longest",
        "sensitivity",
        "skdp/pipeline/_walk.py",
        "    return math.hypot(*known) if len(known) == len(parts) else None\n",
        "    return max(known) if len(known) == len(parts) else None\n",
        ("tests/pipeline/test_norms.py::test_no_row_is_longer_than_stated",),
    ),
    Bug(
        "nobody looks at the remainder of a column transformer",
        "accounting",
        "skdp/pipeline/_walk.py",
        '        yield "remainder", container.remainder\n',
        "",
        ("tests/pipeline/test_report.py::test_deep_nesting_unfitted_and_fitted",),
    ),
    Bug(
        "a selection that was fitted before is fitted now",
        "accounting",
        "skdp/pipeline/_walk.py",
        "        lambda container: container.prefit,\n",
        "        lambda container: False,\n",
        ("tests/pipeline/test_budget.py::test_what_cannot_be_split_is_refused",),
    ),
    Bug(
        "a kernel's width that follows from the data is taken for declared",
        "fact",
        "skdp/pipeline/_data_independent.py",
        '    return "" if isinstance(step.gamma, Real) else "a number for gamma"\n',
        '    return "" if step.gamma else "a number for gamma"\n',
        (
            "tests/pipeline/test_data_independent.py::test_the_same_test_rejects_what_learns_from_data",
        ),
    ),
    Bug(
        "document frequencies are taken for declared",
        "fact",
        "skdp/pipeline/_data_independent.py",
        '    return "use_idf=False" if step.use_idf else ""\n',
        '    return ""\n',
        (
            "tests/pipeline/test_data_independent.py::test_the_same_test_rejects_what_learns_from_data",
        ),
    ),
    Bug(
        "steps are judged as of records if one step is",
        "users",
        "skdp/pipeline/_report.py",
        "    of_users = any(relation and is_of_users(",
        "    of_users = all(relation and is_of_users(",
        (
            "tests/pipeline/test_report.py::test_one_step_of_users_makes_all_steps_of_users",
        ),
    ),
    Bug(
        "epsilons of Gaussian steps add up in squares",
        "accounting",
        "skdp/pipeline/_report.py",
        "math.fsum(mu_of(step) ** 2 for step in gaussian)",
        "max(mu_of(step) ** 2 for step in gaussian)",
        (
            "tests/pipeline/test_report.py::test_planned_gaussian_steps_add_up_in_squares",
        ),
    ),
    Bug(
        "the deltas of other steps are lost",
        "accounting",
        "skdp/pipeline/_report.py",
        "    left = delta - _sum_of_deltas(others)\n",
        "    left = delta\n",
        (
            "tests/pipeline/test_report.py::test_other_steps_are_added_by_basic_composition",
        ),
    ),
    Bug(
        "the last step of a pipeline gets the share of every other",
        "fraction",
        "skdp/pipeline/_budget.py",
        '    return _PREDICTOR if is_last and hasattr(step, "predict") else 1.0\n',
        "    return 1.0\n",
        ("tests/pipeline/test_budget.py::test_gaussian_steps_share_the_squares",),
    ),
    Bug(
        "a step that is seeded may share a budget",
        "noise",
        "skdp/pipeline/_budget.py",
        '    if getattr(share.step, "random_state", None) is not None:\n',
        '    if getattr(share.step, "random_state", None):\n',
        ("tests/pipeline/test_budget.py::test_what_cannot_be_split_is_refused",),
    ),
    Bug(
        "sums of a description are charged as if a record vanished",
        "sensitivity",
        "skdp/statistics/_description.py",
        "/ statistic.part.moved(adjacency)\n",
        '/ statistic.part.moved("zero_out")\n',
        (
            "tests/statistics/test_describe.py::test_error_of_counts_is_that_of_the_noise",
        ),
    ),
    Bug(
        "a missing value adds the middle to the moments",
        "encoder",
        "skdp/statistics/_description.py",
        "    return np.where(cells.is_missing, np.nan, values)\n",
        "    return values\n",
        (
            "tests/statistics/test_describe.py::test_without_noise_it_is_what_pandas_says",
        ),
    ),
    Bug(
        "crossed intervals are merged from the wrong end",
        "model",
        "skdp/statistics/_description.py",
        "np.minimum(codes, n_values - 1) * int(most) // n_values",
        "np.minimum(codes + 1, n_values - 1) * int(most) // n_values",
        (
            "tests/statistics/test_describe.py::test_without_noise_counts_and_cross_tables_are_exact",
        ),
    ),
    Bug(
        "a description of users says nothing of them",
        "message",
        "skdp/_base.py",
        "of_users(PUBLIC_OF_DECLARED) if is_of_users(relation) else PUBLIC_OF_DECLARED",
        "PUBLIC_OF_DECLARED",
        ("tests/statistics/test_describe.py::test_users_are_in_a_ledger_of_users",),
    ),
]
