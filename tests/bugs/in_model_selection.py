"""Bugs in scores, searches, held-out records and folds."""

from __future__ import annotations

from tests.bugs.bug import Bug

METHODS = "skdp/model_selection/_methods.py"
SUMS = "skdp/model_selection/_scorer_sums.py"
CANDIDATES = "skdp/model_selection/_candidates.py"
CONFORMAL = "skdp/model_selection/_conformal.py"
T = "tests/model_selection"

BUGS: list[Bug] = [
    Bug(
        "a score above its range is not clipped",
        "clip",
        SUMS,
        "        found = np.clip(inside, worst, worst + 1.0)\n",
        "        found = np.maximum(inside, worst)\n",
        (
            "tests/model_selection/test_scoring.py::test_twin_that_does_not_clip_a_score_of_ones_own_is_caught",
        ),
    ),
    Bug(
        "targets of r2 are not clipped to their bounds",
        "clip",
        "skdp/model_selection/_scorers.py",
        "    v = np.clip(np.nan_to_num(v), -1.0, 1.0)\n",
        "    v = np.nan_to_num(v)\n",
        (
            "tests/model_selection/test_scoring.py::test_no_record_moves_the_statistic_further_and_some_come_near",
        ),
    ),
    Bug(
        "the bound of r2 forgets that v and its square move together",
        "sensitivity",
        "skdp/model_selection/_scorers.py",
        '("replace_one", 2): _rounded(5**0.5, 2)',
        '("replace_one", 2): _rounded(2.0, 2)',
        (
            "tests/model_selection/test_scoring.py::test_no_record_moves_the_statistic_further_and_some_come_near",
        ),
    ),
    Bug(
        "a record that is exchanged moves one count",
        "sensitivity",
        SUMS,
        '("replace_one", 2): math.sqrt(2) * (1 + 1e-12)',
        '("replace_one", 2): 1.0 + 1e-12',
        (
            "tests/model_selection/test_scoring.py::test_no_record_moves_the_statistic_further_and_some_come_near",
        ),
    ),
    Bug(
        "the error of a score at an end is that of an impossible statistic",
        "message",
        SUMS,
        "            center = self.possible(self.params, statistic, n_samples)\n",
        "            center = statistic\n",
        (
            "tests/model_selection/test_private_score.py::test_error_is_not_0_where_noise_moved_a_score_to_an_end",
        ),
    ),
    Bug(
        "a record for which a model raises has the score of another",
        "clip",
        SUMS,
        "    found[failing] = worst\n",
        "",
        (
            "tests/model_selection/test_private_score.py::test_rows_for_which_a_pipeline_raises_are_the_worst_and_nothing_is_said",
        ),
    ),
    Bug(
        "each row of a user adds a whole count",
        "users",
        SUMS,
        "counts = np.bincount(place[is_there], weights, minlength=self.size)",
        "counts = np.bincount(place[is_there], minlength=self.size)",
        (
            "tests/model_selection/test_users.py::test_a_user_counts_once_with_the_mean_over_the_own_rows",
        ),
    ),
    Bug(
        "a probability at a threshold is below it",
        "model",
        SUMS,
        'positive, side="right")',
        'positive, side="left")',
        (
            "tests/model_selection/test_histogram_scoring.py::test_a_record_at_a_threshold_is_above_it",
        ),
    ),
    Bug(
        "the final fit is charged beside the tuning, of the same records",
        "accounting",
        METHODS,
        "        return ComposedEvent((tuning, final))\n",
        "        return ParallelEvent((*tuning.parts, final))\n",
        ("tests/model_selection/test_accounting.py::test_composition",),
    ),
    Bug(
        "the final fit takes the whole budget of a search",
        "fraction",
        METHODS,
        "            Need(final, strength(final_fit, facts)),\n",
        "            Need(final, strength(noise_multiplier, facts)),\n",
        (
            "tests/model_selection/test_accounting.py::test_fits_commit_no_more_than_the_search_states",
        ),
    ),
    Bug(
        "candidates are fitted to the records on which they are scored",
        "accounting",
        METHODS,
        "Split(order[:trained], order[trained : trained + scored])",
        "Split(order[: trained + scored], order[trained : trained + scored])",
        (
            "tests/model_selection/test_composition.py::test_candidates_share_one_split_and_the_best_is_fitted_on_all",
        ),
    ),
    Bug(
        "the final fit has the records that were scored too",
        "accounting",
        METHODS,
        "is None else order[trained + scored :]",
        "is None else order[trained:]",
        (
            "tests/model_selection/test_composition.py::test_with_a_tuning_fraction_no_record_is_used_twice",
        ),
    ),
    Bug(
        "one record of a trial is fitted and scored",
        "accounting",
        METHODS,
        "Split(order[scored:], order[:scored])",
        "Split(order[scored - 1 :], order[:scored])",
        (
            "tests/model_selection/test_random_stopping.py::test_no_record_of_a_trial_is_fitted_and_scored",
        ),
    ),
    Bug(
        "the held-out records are in the fit",
        "accounting",
        METHODS,
        "Split(order[held_out:], order[:held_out])",
        "Split(order, order[:held_out])",
        (
            "tests/model_selection/test_evaluated.py::test_a_record_is_in_one_part_and_pays_all_that_is_charged",
        ),
    ),
    Bug(
        "the best candidate is chosen by exact scores",
        "noise",
        METHODS,
        "        best = best_of(released, scores, facts)\n        rows = None",
        "        exact = [job._exact[number] for number in job.known(trials)]\n"
        "        best = best_of(exact, [each[0] for each in exact], facts)\n"
        "        rows = None",
        (
            "tests/model_selection/test_composition.py::test_best_noisy_score_wins_and_all_are_released",
        ),
    ),
    Bug(
        "one trial more than was drawn",
        "noise",
        METHODS,
        "count = job.draws.weighted_index(self.trials.weights)",
        "count = 1 + job.draws.weighted_index(self.trials.weights)",
        (
            "tests/model_selection/test_random_stopping.py::test_trials_are_drawn_by_the_stated_law",
        ),
    ),
    Bug(
        "progress counts secret trials",
        "message",
        METHODS,
        "[split] * runs, say=False)[:count]",
        "[split] * runs, say=True)[:count]",
        (
            "tests/model_selection/test_random_stopping.py::test_nothing_tells_the_number_of_trials",
        ),
    ),
    Bug(
        "a fixed duration ends with the last drawn trial",
        "message",
        METHODS,
        "        runs = self.max_trials if self.fixed_duration else count\n",
        "        runs = count\n",
        (
            "tests/model_selection/test_random_stopping.py::test_number_of_fits_is_the_secret_one_unless_duration_is_fixed",
        ),
    ),
    Bug(
        "candidates are fitted with twice what is charged",
        "fraction",
        METHODS,
        "            Need(trained, strength(fit, facts)),\n",
        "            Need(trained, strength(fit / 2, facts)),\n",
        (
            "tests/model_selection/test_accounting.py::test_fits_commit_no_more_than_the_search_states",
        ),
    ),
    Bug(
        "trials share a cache on the disk",
        "message",
        CANDIDATES,
        '    fixed = {"verbose": False, "memory": None, "n_jobs": 1}\n',
        '    fixed = {"verbose": False, "n_jobs": 1}\n',
        (
            "tests/model_selection/test_isolation.py::test_trials_share_no_cache_and_leave_none",
        ),
    ),
    Bug(
        "a trial prints what its steps print",
        "message",
        CANDIDATES,
        "        with silence():\n            records.fitted(model)\n",
        "        records.fitted(model)\n",
        ("tests/model_selection/test_isolation.py::test_a_trial_prints_nothing",),
    ),
    Bug(
        "an error of another's step quotes an entry",
        "message",
        CANDIDATES,
        '    if str(module).startswith("skdp.") or speaks_of_parameters:\n',
        '    if str(module).split(".")[0] in ("skdp", "sklearn"):\n',
        (
            "tests/model_selection/test_isolation.py::test_messages_of_others_quote_no_entry",
        ),
    ),
    Bug(
        "the lead of the best candidate is compared with the noise of one score",
        "noise",
        "skdp/model_selection/_results.py",
        "    error = math.hypot(errors[best], errors[second])\n",
        "    error = float(errors[best])\n",
        (
            "tests/model_selection/test_composition.py::test_a_lead_below_the_noise_is_warned_of_and_stated",
        ),
    ),
    Bug(
        "the models of a search have no ledger",
        "ledger",
        "skdp/model_selection/_results.py",
        "        if not isinstance(step, PrivateEstimator):\n"
        "            continue\n"
        "        step.set_params(ledger=ledger, random_state=None)\n",
        "        if not isinstance(step, PrivateEstimator):\n"
        "            continue\n"
        "        step.set_params(ledger=None, random_state=None)\n",
        (
            "tests/model_selection/test_search.py::test_best_estimator_says_that_it_is_a_part_of_the_search",
        ),
    ),
    Bug(
        "the threshold itself is negative",
        "model",
        "skdp/model_selection/_held_out_models.py",
        "is_positive = self.decision_function(X) >= 0",
        "is_positive = self.decision_function(X) > 0",
        (
            "tests/model_selection/test_tuned_threshold.py::test_predictions_follow_from_the_threshold",
        ),
    ),
    Bug(
        "a user's fold follows from the number of users before",
        "users",
        "skdp/model_selection/_splits.py",
        'drawn = [number_of(f"{seed} {user}") % n_splits for user in users.texts()]',
        'drawn = [number_of(f"{seed} {i}") % n_splits '
        "for i in range(len(users.texts()))]",
        (
            "tests/model_selection/test_rating_splits.py::test_a_users_fold_depends_on_nobody_else",
        ),
    ),
    Bug(
        "folds of users split the rows of a user",
        "users",
        "skdp/model_selection/_splits.py",
        "        return np.array(drawn, dtype=np.int64)[codes]\n",
        "        return np.array(drawn)[np.arange(len(codes)) % len(drawn)]\n",
        ("tests/model_selection/test_rating_splits.py::test_user_folds_share_no_user",),
    ),
    Bug(
        "rows of users count as records in scores",
        "users",
        "skdp/_users.py",
        "        return equal_shares(self.codes, self.n_users)\n",
        "        return np.ones(len(self.codes))\n",
        (
            "tests/model_selection/test_users.py::"
            "test_no_user_moves_a_statistic_by_more_than_is_charged",
        ),
    ),
    Bug(
        "candidates are fitted to everybody",
        "accounting",
        CANDIDATES,
        "        records = self.records if rows is None else self.records.at(rows)\n"
        "        return _fitted(ready, records, self._seeds(1)[0], self.adjacency)\n",
        "        records = self.records\n"
        "        return _fitted(ready, records, self._seeds(1)[0], self.adjacency)\n",
        (
            "tests/model_selection/test_composition.py::"
            "test_with_a_tuning_fraction_no_record_is_used_twice",
        ),
    ),
    Bug(
        "a conformal threshold is the smallest that noise allows",
        "model",
        CONFORMAL,
        "    first = int(above[0]) if above.size else len(sums)\n",
        "    first = int(np.flatnonzero(sums <= most)[-1]) + 1\n",
        (
            f"{T}/test_conformal.py::test_mean_number_of_missed_records_is_within_the_excess",
        ),
    ),
    Bug(
        "a conformal threshold is never drawn",
        "model",
        CONFORMAL,
        "    return first if coin < share else first - 1\n",
        "    return first - 1\n",
        (
            f"{T}/test_conformal.py::test_mean_number_of_missed_records_is_within_the_excess",
        ),
    ),
    Bug(
        "a residual without a prediction is the smallest",
        "clip",
        CONFORMAL,
        '    below = np.searchsorted(params["thresholds"][:-1], found, side="left")\n',
        "    found = np.nan_to_num(found)\n"
        '    below = np.searchsorted(params["thresholds"][:-1], found, side="left")\n',
        (
            f"{T}/test_conformal.py::"
            "test_bad_records_count_as_the_largest_residual_and_nothing_is_raised",
        ),
    ),
    Bug(
        "a value that is not declared is of the first group",
        "model",
        CONFORMAL,
        "        found = np.where(is_one, found * len(values) + code, -1)\n",
        "        found = np.where(is_one, found * len(values) + code, 0)\n",
        (
            f"{T}/test_conformal.py::"
            "test_each_group_has_its_coverage_and_others_everything",
        ),
    ),
]
