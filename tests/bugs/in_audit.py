"""Bugs in audits: audits that cannot fail, and bounds that are too sure."""

from __future__ import annotations

from tests.bugs.bug import Bug

ESTIMATOR = "skdp/audit/_estimator.py"
EXACT = "skdp/audit/_exact.py"
MODELS = "skdp/audit/_models.py"
ONE_RUN = "skdp/audit/_one_run.py"
RESULT = "skdp/audit/_result.py"
RUNS = "skdp/audit/_runs.py"
TEST_BOUNDS = "tests/audit/test_bounds.py"
TEST_ESTIMATOR = "tests/audit/test_audit_estimator.py"
TEST_ONE_RUN = "tests/audit/test_one_run.py"
TEST_REPLAY = "tests/audit/test_replay.py"

BUGS: list[Bug] = [
    Bug(
        "a transcript is replayed on its own table",
        "accounting",
        EXACT,
        "_heard(estimator, pair.sides[1], Replay(seed, heard=first))",
        "_heard(estimator, pair.sides[0], Replay(seed, heard=first))",
        (f"{TEST_ESTIMATOR}::test_a_bound_that_forgets_the_second_record_is_refuted",),
    ),
    Bug(
        "noise that follows from the data is no leak",
        "noise",
        EXACT,
        "return self.share, self.law, self.sensitivity, self.multiplier",
        "return self.share, self.law, self.sensitivity > 0, self.multiplier",
        (f"{TEST_ESTIMATOR}::test_noise_that_follows_from_the_data_is_refuted",),
    ),
    Bug(
        "Laplace noise is audited in L2",
        "noise",
        EXACT,
        '1 if a.law == "laplace" else 2',
        '1 if a.law == "spherical" else 2',
        (
            f"{TEST_REPLAY}::test_honest_is_within_the_claim_and_half_the_noise_is_caught"
            "[DPQuantileClipper pure replace_one]",
        ),
    ),
    Bug(
        "choices are audited with half of their weight",
        "noise",
        EXACT,
        "    moved = (a.query - b.query) / (2 * a.sigma)\n",
        "    moved = (a.query - b.query) / (4 * a.sigma)\n",
        (
            f"{TEST_REPLAY}::test_honest_is_within_the_claim_and_half_the_noise_is_caught"
            "[peeling gaussian zero_out]",
        ),
    ),
    Bug(
        "an epsilon above the claim refutes only beyond all answers",
        "accounting",
        ESTIMATOR,
        "    elif bound.epsilon > claim.epsilon * (1 + WRONG):\n",
        "    elif bound.epsilon > claim.epsilon * (1 + told.over):\n",
        (f"{TEST_ESTIMATOR}::test_a_bound_that_forgets_the_second_record_is_refuted",),
    ),
    Bug(
        "scores are tested on the runs that they were learned from",
        "accounting",
        ESTIMATOR,
        "self.scores = self._score.of(tests[0]), self._score.of(tests[1])",
        "self.scores = self._score.of(learned[0]), self._score.of(learned[1])",
        (
            f"{TEST_ESTIMATOR}::test_scores_are_tested_on_other_runs_than_they_are_learned_from",
        ),
    ),
    Bug(
        "a model under zero_out is audited without the null record",
        "accounting",
        RUNS,
        "return fitted(model, X, y, NullRecord(absent), ids)",
        "return fitted(model, X, y, NullRecord(), ids)",
        (f"{TEST_ESTIMATOR}::test_a_record_is_null_in_audits_of_models",),
    ),
    Bug(
        "a ledger within a pipeline is audited with",
        "ledger",
        MODELS,
        "    values = estimator.get_params(deep=True).values()\n",
        "    values = estimator.get_params(deep=False).values()\n",
        (f"{TEST_ESTIMATOR}::test_ledgers_and_seeds_are_refused",),
    ),
    Bug(
        "a cache hides from an audit that a record is null",
        "accounting",
        MODELS,
        "return copy.set_params(**dict.fromkeys(caches)) if caches else copy",
        "return copy",
        ("tests/privacy/test_audited.py::test_a_cache_hides_no_null_record",),
    ),
    Bug(
        "the upper bound on a probability is the lower one",
        "accounting",
        RESULT,
        "return float(betaincinv(found + 1, n - found, 1 - error))",
        "return float(betaincinv(found + 1, n - found, error))",
        (f"{TEST_BOUNDS}::test_rates_are_those_of_clopper_and_pearson",),
    ),
    Bug(
        "the variance of pairs is taken as it is estimated",
        "accounting",
        RESULT,
        "    return gap / math.sqrt(variance / least)\n",
        "    return gap / math.sqrt(variance)\n",
        (f"{TEST_BOUNDS}::test_a_bound_is_beyond_the_truth_no_more_often_than_stated",),
    ),
    Bug(
        "thresholds do not share the error",
        "accounting",
        RESULT,
        "    share = error / len(chosen)\n",
        "    share = error\n",
        (f"{TEST_BOUNDS}::test_several_thresholds_share_the_error",),
    ),
    Bug(
        "the event beyond the middle forgets delta",
        "accounting",
        RESULT,
        "    return epsilon_of_rates(*rates, delta) * (1 - _ROUNDED_UP)\n",
        "    return epsilon_of_rates(*rates, 0.0) * (1 - _ROUNDED_UP)\n",
        (
            f"{TEST_BOUNDS}::test_halves_of_a_release_that_tells_all_it_may_refute_nothing",
        ),
    ),
    Bug(
        "the two versions of a canary are one record",
        "model",
        ONE_RUN,
        "        high, low = np.full(n, facts.high), np.full(n, facts.low)\n",
        "        high, low = np.full(n, facts.high), np.full(n, facts.high)\n",
        (f"{TEST_ONE_RUN}::test_half_noise_is_found_in_one_run",),
    ),
    Bug(
        "delta is counted for one canary",
        "accounting",
        ONE_RUN,
        "return min(1.0, lucky + self.n_canaries * delta * float(expit(-epsilon)))",
        "return min(1.0, lucky + delta * float(expit(-epsilon)))",
        (f"{TEST_ONE_RUN}::test_bound_of_pairs_holds_for_what_tells_the_most",),
    ),
    Bug(
        "as many right guesses are as rare as one more",
        "accounting",
        ONE_RUN,
        "float(bdtrc(self.n_right - 1, self.n_guesses, told))",
        "float(bdtrc(self.n_right, self.n_guesses, told))",
        (f"{TEST_ONE_RUN}::test_bound_of_pairs_holds_for_what_tells_the_most",),
    ),
    Bug(
        "coins are of the stream of the estimator's seed",
        "noise",
        ONE_RUN,
        "    return (random_state + 1) * 2654435761 % 2**32\n",
        "    return random_state % 2**32\n",
        (f"{TEST_ONE_RUN}::test_coins_are_not_drawn_from_the_estimators_seed",),
    ),
    Bug(
        "a member that leaves is one step away from another that comes",
        "accounting",
        "skdp/audit/_inference.py",
        '_STEPS = {"replace_one": 1, "zero_out": 2}',
        '_STEPS = {"replace_one": 1, "zero_out": 1}',
        (
            "tests/membership/test_inference.py::test_private_models_stay_below_their_guarantee",
        ),
    ),
    Bug(
        "the cap of a ledger is for one record of a person",
        "accounting",
        "skdp/audit/_risk.py",
        "power_of_pair(ledger.cap.epsilon, ledger.cap.delta, times)",
        "power_of_pair(ledger.cap.epsilon, ledger.cap.delta, 1)",
        ("tests/membership/test_membership_risk.py::test_a_ledger_promises_its_cap",),
    ),
]
