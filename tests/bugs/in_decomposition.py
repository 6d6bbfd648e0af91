"""Bugs in factorisations of ratings."""

from __future__ import annotations

from tests.bugs.bug import Bug

ROOM, TESTS = "skdp/decomposition", "tests/decomposition"
SUMS, USERS = f"{ROOM}/_user_sums.py", f"{ROOM}/_user_als.py"
KERNEL, VALUES = f"{ROOM}/_user_sums_kernel.py", f"{ROOM}/_value_als.py"
ESTIMATOR, RATINGS = f"{ROOM}/_estimator.py", f"{ROOM}/_ratings.py"
NEIGHBOURS = (
    f"{TESTS}/test_user_als.py::test_no_user_moves_a_query_by_more_than_its_"
    "sensitivity",
)
TEST_VALUES = (
    f"{TESTS}/test_value_als.py::test_no_query_changes_by_more_than_its_sensitivity",
)
TEST_MODEL = f"{TESTS}/test_matrix_factorization.py"
TEST_IDS = f"{TESTS}/test_ids_of_several_kinds.py"

BUGS: list[Bug] = [
    Bug(
        "who rated what is public by default",
        "users",
        ESTIMATOR,
        '        privacy_unit: Unit = "user",',
        '        privacy_unit: Unit = "rating_value",',
        (f"{TEST_MODEL}::test_users_are_protected_unless_the_other_unit_is_named",),
    ),
    Bug(
        "a search of values takes a model that protects users",
        "users",
        ESTIMATOR,
        '        if {relation, self.privacy_unit} != {"rating_value"}:',
        '        if relation != "rating_value":',
        (f"{TEST_MODEL}::test_a_search_cannot_change_what_the_guarantee_is_about",),
    ),
    Bug(
        "a user who is replaced moves counts as one who leaves",
        "sensitivity",
        SUMS,
        "        return math.sqrt(2 + (2 * _MEAN_WEIGHT) ** 2)",
        "        return math.sqrt(1 + (2 * _MEAN_WEIGHT) ** 2)",
        NEIGHBOURS,
    ),
    Bug(
        "sums of two users differ by one clip",
        "sensitivity",
        SUMS,
        "        return math.sqrt((2 * self.clip) ** 2 + 2 * moments**2)",
        "        return math.sqrt(self.clip**2 + 2 * moments**2)",
        NEIGHBOURS,
    ),
    Bug(
        "products of pairs are charged as of one user",
        "sensitivity",
        SUMS,
        '|x| = 1``."""\n        return math.sqrt(2)',
        '|x| = 1``."""\n        return 1.0',
        NEIGHBOURS,
    ),
    Bug(
        "the norm of a user's sums forgets the row they are multiplied by",
        "clip",
        KERNEL,
        "        norm = math.sqrt(total * square)",
        "        norm = math.sqrt(total)",
        NEIGHBOURS,
    ),
    Bug(
        "long rows of users are not shortened",
        "clip",
        KERNEL,
        "        if square > row_norm * row_norm:",
        "        if square > n_columns * row_norm * row_norm:",
        (f"{TESTS}/test_user_als.py::test_long_rows_are_shortened",),
    ),
    Bug(
        "users with many ratings count as often as they rated",
        "users",
        KERNEL,
        "        count = whole(1.0 / math.sqrt(n_own), per_unit)",
        "        count = whole(1.0 / math.sqrt(min(n_own, 2)), per_unit)",
        NEIGHBOURS,
    ),
    Bug(
        "which ratings of a user are used depends on the user's code",
        "users",
        RATINGS,
        "    keys = _mixed(marks ^ _mixed(sums)[users])",
        "    keys = _mixed(marks ^ _mixed(users.astype(np.uint64)))",
        (f"{TESTS}/test_user_als.py::test_who_leaves_decides_no_other_user_s_ratings",),
    ),
    Bug(
        "a user may have one rating more than are used",
        "users",
        RATINGS,
        "    return rank < n_kept",
        "    return rank <= n_kept",
        (f"{TESTS}/test_user_als.py::test_at_most_max_ratings_of_each_user_are_kept",),
    ),
    Bug(
        "rounding of many numbers of a user is charged as of one",
        "rounding",
        SUMS,
        "    return 4 * (size + 64) * UNIT_ROUNDOFF * norm + math.sqrt(size) * unit",
        "    return 4 * (size + 64) * UNIT_ROUNDOFF * norm + unit",
        (f"{TESTS}/test_user_als.py::test_rounding_to_units_is_charged",),
    ),
    Bug(
        "later half steps forget what the first one got",
        "fraction",
        USERS,
        "            queries.append((query, left * (1 - first) / n_later))",
        "            queries.append((query, left / n_later))",
        (f"{TESTS}/test_user_als.py::test_what_is_released_is_what_was_declared",),
    ),
    Bug(
        "half steps of items are given the users' share as well",
        "fraction",
        VALUES,
        "        return (first, *(rest - users, users) * self.n_rounds)",
        "        return (first, *(rest, users) * self.n_rounds)",
        (f"{TESTS}/test_value_als.py::test_what_is_drawn_is_what_was_declared",),
    ),
    Bug(
        "a rating that changes moves a residual by one clip",
        "sensitivity",
        VALUES,
        "        return Bound(rating_value=2 * self.clip)",
        "        return Bound(rating_value=self.clip)",
        TEST_VALUES,
    ),
    Bug(
        "rows with a constant in front are longer than one",
        "sensitivity",
        VALUES,
        "    rest = math.sqrt(1 - constant**2)",
        "    rest = 1 - constant**2 / 2",
        TEST_VALUES,
    ),
    Bug(
        "rows that are longer than usual keep their length",
        "sensitivity",
        VALUES,
        "    norms = np.maximum(np.sqrt(squares), max(usual, 1e-100))",
        "    norms = np.full(len(squares), max(usual, 1e-100))",
        TEST_VALUES,
    ),
    Bug(
        "the error of rounded sums of residuals is not charged",
        "rounding",
        VALUES,
        "    return 2 * clip * (1 + 4 * len(pattern) * terms * UNIT_ROUNDOFF)",
        "    return 2 * clip * (1 + 0 * len(pattern) * terms * UNIT_ROUNDOFF)",
        (f"{TESTS}/test_value_als.py::test_rounding_of_sums_is_charged",),
    ),
    Bug(
        "residuals are of ratings that nobody clipped to the bounds",
        "clip",
        VALUES,
        "    return np.clip(residuals, -clip, clip)",
        "    return np.clip(residuals, -1.0, 1.0)",
        TEST_VALUES,
    ),
    Bug(
        "who rated what is taken for public under users",
        "fact",
        ESTIMATOR,
        "        pattern=None if terms.protects_users else pattern,",
        "        pattern=pattern,",
        (f"{TEST_MODEL}::test_of_users_nothing_stays_in_the_model",),
    ),
    Bug(
        "a model of items remembers who rated what",
        "model",
        ESTIMATOR,
        "            users, given.items, factors, bounds, task.pattern\n",
        "            users, given.items, factors, bounds, given.ratings.pattern\n",
        (f"{TEST_MODEL}::test_of_users_nothing_stays_in_the_model",),
    ),
    Bug(
        "a private fit tells how many ratings it clipped",
        "message",
        ESTIMATOR,
        "tell=not terms.budget.is_finite",
        "tell=terms.budget.is_finite",
        (f"{TEST_MODEL}::test_clipping_is_told_only_without_privacy",),
    ),
    Bug(
        "users who were folded in can be pickled",
        "model",
        ESTIMATOR,
        "        return LocalUsers(local, math.isfinite(self.privacy_.epsilon))",
        "        return LocalUsers(local, math.isinf(self.privacy_.epsilon))",
        (f"{TEST_MODEL}::test_folding_in_stays_at_home",),
    ),
    Bug(
        "pairs that are not side by side may be there twice",
        "sensitivity",
        ESTIMATOR,
        "    places.sort()\n",
        "",
        (f"{TESTS}/test_bad_ratings.py::test_bad_input_costs_nothing",),
    ),
    Bug(
        "the largest exact double is taken for an id",
        "encoder",
        RATINGS,
        "        return bool((np.abs(values) >= limit).any())",
        "        return bool((np.abs(values) > limit).any())",
        (f"{TEST_IDS}::test_floats_that_may_be_rounded_integers_are_refused",),
    ),
    Bug(
        "ids of texts and numbers are told apart by what pandas infers",
        "encoder",
        RATINGS,
        '    if column.dtype.kind != "O":\n        codes, values = pd.factorize',
        "    if len(column) > 2:\n        codes, values = pd.factorize",
        (f"{TEST_IDS}::test_which_ids_are_the_same_depends_on_nobody_else",),
    ),
    Bug(
        "a record of ratings states the least noise",
        "message",
        f"{ROOM}/_factorize.py",
        "max(x.multiplier(multiplier) for x in lines)",
        "min(x.multiplier(multiplier) for x in lines)",
        (f"{TEST_MODEL}::test_the_record_states_the_largest_noise",),
    ),
]
