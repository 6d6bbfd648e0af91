"""Bugs in accounting, noise and ledgers."""

from __future__ import annotations

from tests.bugs.bug import Bug

ACCOUNTING = "skdp/privacy/accounting"
NOISE = "skdp/privacy/noise"
LEDGER = "skdp/privacy/ledger"
TEST = "tests/privacy/test_"

OF_EVENTS = [
    Bug(
        "several Gaussian releases cost the root of their number",
        "accounting",
        f"{ACCOUNTING}/_events.py",
        "        return self.count * (1 / self.noise_multiplier) ** 2\n",
        "        return math.sqrt(self.count) * (1 / self.noise_multiplier) ** 2\n",
        (f"{TEST}accounting.py::test_calibration_is_one_sided",),
    ),
    Bug(
        "many pure releases need no delta for less than their sum",
        "accounting",
        f"{ACCOUNTING}/_events.py",
        "return is_pure and event.pure_epsilon <= epsilon",
        "return is_pure",
        (f"{TEST}accounting.py::test_which_events_keep_an_epsilon_of_1_without_delta",),
    ),
    Bug(
        "Laplace noise is taken for a choice of bounded range",
        "accounting",
        f"{ACCOUNTING}/_events.py",
        "        return self.count * pure_mu(1 / self.noise_multiplier) ** 2\n",
        "        return self.count * pure_mu(0.5 / self.noise_multiplier) ** 2\n",
        (
            f"{TEST}interop.py::test_rho_covers_renyi_divergences_and_a_quarter_of_mu_squared_does_not",
        ),
    ),
    Bug(
        "black boxes of several releases lose one delta",
        "accounting",
        f"{ACCOUNTING}/_events.py",
        "        return self.count * self.delta\n",
        "        return self.delta\n",
        (f"{TEST}charge.py::test_events_of_closed_form_are_charged_what_they_say",),
    ),
    Bug(
        "deltas of several black boxes do not add up",
        "accounting",
        f"{ACCOUNTING}/_events.py",
        "        return math.fsum(part.box_delta for part in self.parts)\n",
        "        return max((part.box_delta for part in self.parts), default=0.0)\n",
        (f"{TEST}accounting.py::test_costs_of_parts_add_up",),
    ),
    Bug(
        "disjoint black boxes are taken for pure ones",
        "accounting",
        f"{ACCOUNTING}/_events.py",
        "all(part.mu_squared == 0 == part.box_delta for part in self.parts)\n",
        "all(part.mu_squared == 0 for part in self.parts)\n",
        (f"{TEST}random_stopping.py::test_disjoint_sets_cost_what_the_dearest_costs",),
    ),
    Bug(
        "disjoint sets cost what the cheapest costs",
        "accounting",
        f"{ACCOUNTING}/_events.py",
        "        return max(part.gdp_mu_squared for part in self.parts)\n",
        "        return min(part.gdp_mu_squared for part in self.parts)\n",
        (f"{TEST}random_stopping.py::test_disjoint_sets_cost_what_the_dearest_costs",),
    ),
    Bug(
        "the best of many pure trials costs one trial",
        "accounting",
        f"{ACCOUNTING}/_events.py",
        "        return pure_selection_epsilon(self.trials, self.trial.pure_epsilon)\n",
        "        return self.trial.pure_epsilon\n",
        (
            f"{TEST}random_stopping.py::"
            "test_selection_adds_to_other_events_by_shares_of_delta",
        ),
    ),
    Bug(
        "each of several searches may use the whole delta",
        "fraction",
        f"{ACCOUNTING}/_calibrate.py",
        "    share = delta / (len(chosen) + bool(others))\n",
        "    share = delta / len(chosen)\n",
        (
            f"{TEST}random_stopping.py::"
            "test_selection_adds_to_other_events_by_shares_of_delta",
        ),
    ),
    Bug(
        "black boxes leave the whole delta to Gaussian noise",
        "accounting",
        f"{ACCOUNTING}/_calibrate.py",
        "    left = delta - event.box_delta\n",
        "    left = delta\n",
        (f"{TEST}pld.py::test_black_boxes_lose_their_deltas",),
    ),
    Bug(
        "one part of a parallel event fits the budget",
        "accounting",
        f"{ACCOUNTING}/_calibrate.py",
        "    return all(fits(part, budget) for part in _parallel_parts(event))\n",
        "    return any(fits(part, budget) for part in _parallel_parts(event))\n",
        (f"{TEST}random_stopping.py::test_disjoint_sets_cost_what_the_dearest_costs",),
    ),
    Bug(
        "calibration gives pure parts no room",
        "accounting",
        f"{ACCOUNTING}/_calibrate.py",
        "mu_squared <= gaussian_mu(left, budget.delta) ** 2:\n",
        "mu_squared <= gaussian_mu(budget.epsilon, budget.delta) ** 2:\n",
        (f"{TEST}accounting.py::test_calibration_leaves_room_for_pure_parts",),
    ),
    Bug(
        "calibration takes the end of its bracket that does not fit",
        "rounding",
        f"{ACCOUNTING}/_calibrate.py",
        "    return narrowed(admits, low, high, _CALIBRATION_WIDTH)[1]\n",
        "    return narrowed(admits, low, high, _CALIBRATION_WIDTH)[0]\n",
        (f"{TEST}accounting.py::test_calibration_is_one_sided",),
    ),
    Bug(
        "secants stop near the budget, on either side",
        "rounding",
        f"{ACCOUNTING}/_calibrate.py",
        "        if -_SECANT_WIDTH <= excess <= 0:\n",
        "        if abs(excess) <= 0.01:\n",
        (f"{TEST}pld.py::test_calibration_of_mixtures_is_one_sided",),
    ),
    Bug(
        "objective perturbation hides the pure parts beside it",
        "accounting",
        f"{ACCOUNTING}/_calibrate.py",
        "    return pure + smallest(is_enough, 1e-6)\n",
        "    return smallest(is_enough, 1e-6)\n",
        (f"{TEST}objective.py::test_pure_parts_are_added",),
    ),
]

OF_FORMULAS = [
    Bug(
        "mu of a budget is rounded up",
        "rounding",
        f"{ACCOUNTING}/_gaussian.py",
        "(is_too_large, low, high, _MARGIN / 4)[0] * (1 - _MARGIN)\n",
        "(is_too_large, low, high, _MARGIN / 4)[0] * (1 + _MARGIN)\n",
        (f"{TEST}accounting.py::test_mu_of_a_budget_is_one_sided_and_tight",),
    ),
    Bug(
        "small deltas are not rounded down for the ledger",
        "rounding",
        f"{ACCOUNTING}/_gaussian.py",
        "np.where(is_early, 10 * _ABSOLUTE_ERROR, 0.0)\n",
        "np.where(is_early, 0.0, 0.0)\n",
        (f"{TEST}charge.py::test_delta_rounded_down_is_below_and_near",),
    ),
    Bug(
        "a secret batch costs its share of epsilon",
        "accounting",
        f"{ACCOUNTING}/_gaussian.py",
        "        amplified = math.log1p(rate * math.expm1(epsilon))\n",
        "        amplified = rate * epsilon\n",
        (f"{TEST}laws.py::test_a_secret_batch_costs_what_the_worst_release_shows",),
    ),
    Bug(
        "the way back from the null record costs no factor",
        "accounting",
        f"{ACCOUNTING}/_pld.py",
        "            found = away(kept) + lost + np.exp(kept) * rest\n",
        "            found = away(kept) + lost + rest\n",
        (f"{TEST}pld.py::test_one_exchange_costs_what_opposite_records_do",),
    ),
    Bug(
        "a sampled part becomes a black box without a delta",
        "accounting",
        f"{ACCOUNTING}/_pld.py",
        "_epsilon((*others, EpsilonDeltaEvent(epsilon, delta / 2)), delta)\n",
        "_epsilon((*others, PureEvent(epsilon)), delta)\n",
        (f"{TEST}pld.py::test_sampled_part_under_replace_one_becomes_a_black_box",),
    ),
    Bug(
        "losses of objective perturbation are rounded down to the grid",
        "rounding",
        f"{ACCOUNTING}/_pld.py",
        "    masses = -np.diff(survival, prepend=1.0)\n",
        "    masses = -np.diff(survival, append=survival[-1])\n",
        (f"{TEST}pld.py::test_broken_twin_that_rounds_losses_down_is_below",),
    ),
    Bug(
        "the profile of bounded range is squared twice",
        "accounting",
        f"{ACCOUNTING}/_pld.py",
        "    kept = np.expm1((above - epsilon) / 2) ** 2 / -math.expm1(-epsilon)\n",
        "    kept = np.expm1((above - epsilon) / 2) ** 4 / -math.expm1(-epsilon)\n",
        (f"{TEST}pld.py::test_one_selection_costs_what_its_profile_says",),
    ),
    Bug(
        "Renyi divergences are of one step",
        "accounting",
        f"{ACCOUNTING}/_pld.py",
        "        accountant.compose(single, event.count)\n",
        "        accountant.compose(single)\n",
        (f"{TEST}pld.py::test_small_deltas_fall_back_to_a_looser_bound",),
    ),
    Bug(
        "mass that was cut off is forgotten",
        "accounting",
        f"{ACCOUNTING}/_pld.py",
        "        return np.asarray(self._endless + np.maximum(found, 0.0))\n",
        "        return np.asarray(np.maximum(found, 0.0))\n",
        (f"{TEST}pld.py::test_hockey_sticks_of_a_grid_are_those_of_the_library",),
    ),
    Bug(
        "a maximum with 0 is taken for one without",
        "accounting",
        f"{ACCOUNTING}/_objective_perturbation.py",
        "        return math.fsum([*parts, gaussian_delta(mu, left)])\n",
        "        return math.fsum(parts)\n",
        (f"{TEST}objective.py::test_delta_is_one_sided_and_tight",),
    ),
    Bug(
        "the determinant costs nothing",
        "accounting",
        f"{ACCOUNTING}/_objective_perturbation.py",
        "        start = max(epsilon, certain) - self.shift\n        late = math.fsum",
        "        start = max(epsilon, certain)\n        late = math.fsum",
        (f"{TEST}objective.py::test_delta_is_one_sided_and_tight",),
    ),
    Bug(
        "curvature is over at the top of its parabola",
        "accounting",
        f"{ACCOUNTING}/_objective_perturbation.py",
        "        return self.curvature or 0.0\n",
        "        return (self.curvature or 0.0) / 4\n",
        (f"{TEST}objective.py::test_delta_is_one_sided_and_tight",),
    ),
    Bug(
        "choices of corners lose the two records of a half corner",
        "accounting",
        f"{ACCOUNTING}/_objective_perturbation.py",
        "            quarters[4 * i + j] += ways * 2 ** (i + 2 * j)\n",
        "            quarters[4 * i + j] += ways * 2 ** (i + j)\n",
        (f"{TEST}objective.py::test_survival_is_that_of_the_formulas",),
    ),
    Bug(
        "a cell of the best outcome is bounded at its wrong end",
        "rounding",
        f"{ACCOUNTING}/_random_stopping.py",
        "    least = _lowest(trials, ndtr(-(cells.upper + mu)))\n",
        "    least = _lowest(trials, ndtr(-(cells.lower + mu)))\n",
        (f"{TEST}random_stopping.py::test_lines_stay_above_the_curve_and_near_it",),
    ),
    Bug(
        "the best of many trials costs no trial",
        "accounting",
        f"{ACCOUNTING}/_random_stopping.py",
        "            return epsilon + attained + excess\n",
        "            return attained + excess\n",
        (f"{TEST}random_stopping.py::test_pure_bound_holds_and_is_nearly_attained",),
    ),
    Bug(
        "repetitions of repetitions are counted once",
        "accounting",
        f"{ACCOUNTING}/_interop.py",
        "return _ours(event.event, adjacency, count * _checked_count(event.count))\n",
        "return _ours(event.event, adjacency, _checked_count(event.count))\n",
        (f"{TEST}interop.py::test_repetitions_of_repetitions_are_counted",),
    ),
    Bug(
        "noise multipliers of another library are taken for ours",
        "accounting",
        f"{ACCOUNTING}/_interop.py",
        "        multiplier = event.noise_multiplier / _SENSITIVITIES[adjacency]\n",
        "        multiplier = event.noise_multiplier\n",
        (f"{TEST}interop.py::test_what_comes_in_costs_what_it_costs_there",),
    ),
    Bug(
        "rho is that of a quarter of mu squared",
        "accounting",
        f"{ACCOUNTING}/_interop.py",
        "    rho = event.gdp_mu_squared / 2 * _ROUNDED_UP\n",
        "    rho = event.gdp_mu_squared / 4 * _ROUNDED_UP\n",
        (
            f"{TEST}interop.py::test_rho_covers_renyi_divergences_and_a_quarter_of_mu_squared_does_not",
        ),
    ),
    Bug(
        "the risk of several records grows with their root",
        "accounting",
        f"{ACCOUNTING}/_risk.py",
        "            whole = ndtr(ndtri(rates.ravel()) + self.n_records * self.mu)\n",
        "            whole = ndtr(\n"
        "                ndtri(rates.ravel()) + math.sqrt(self.n_records) * self.mu\n"
        "            )\n",
        (
            "tests/membership/test_membership_risk.py::test_persons_with_several_records",
        ),
    ),
    Bug(
        "the risk of a pair forgets its delta",
        "message",
        f"{ACCOUNTING}/_risk.py",
        "    return min(1.0, half + delta * (1 - half))\n",
        "    return min(1.0, half)\n",
        (f"{TEST}record.py::test_the_risk_of_a_pair_is_at_least_its_delta",),
    ),
    Bug(
        "the chance to win a bet is rounded down",
        "message",
        f"{ACCOUNTING}/_risk.py",
        "    chance = min(math.ceil(500 * (1 + advantage)) / 10, 100.0)\n",
        "    chance = min(math.floor(500 * (1 + advantage)) / 10, 100.0)\n",
        (
            "tests/membership/test_membership_risk.py"
            "::test_the_bet_is_won_as_often_as_the_sentence_says_rounded_up",
        ),
    ),
]

OF_NOISE = [
    Bug(
        "the grid of Laplace noise is charged in another norm",
        "sensitivity",
        f"{NOISE}/_noise.py",
        "    charged = (sensitivity + size * grid) * (1 + 2.0**-48)\n",
        "    charged = (sensitivity + math.sqrt(size) * grid) * (1 + 2.0**-48)\n",
        (f"{TEST}noise.py::test_grid_is_charged_to_the_sensitivity",),
    ),
    Bug(
        "the rounded variance of spherical noise costs nothing",
        "rounding",
        f"{NOISE}/_noise.py",
        "    return NoiseScale(grid, charged / (epsilon - aside))\n",
        "    return NoiseScale(grid, charged / epsilon)\n",
        (f"{TEST}noise.py::test_spherical_scale_is_one_sided_and_tight",),
    ),
    Bug(
        "selections have half the noise",
        "noise",
        f"{NOISE}/_noise.py",
        "Fraction(scale.grid) / (2 * Fraction(scale.sigma))\n",
        "Fraction(scale.grid) / Fraction(scale.sigma)\n",
        (
            f"{TEST}selection_noise.py::"
            "test_epsilon_is_nearly_attained_and_the_missing_half_is_caught",
        ),
    ),
    Bug(
        "choices of a sign have half the noise",
        "noise",
        f"{NOISE}/_noise.py",
        "(1 - Fraction(1, 2**48)) / (2 * sensitivity)\n",
        "(1 - Fraction(1, 2**48)) / sensitivity\n",
        (
            f"{TEST}signed_choice.py::"
            "test_the_ratio_under_neighbours_stays_within_its_range_and_nearly_attains_it",
        ),
    ),
    Bug(
        "one draw hides all numbers of a query",
        "noise",
        f"{NOISE}/_noise.py",
        "            part[:] = rounded_draws(law, ratio, part.size, self._entropy)\n",
        "            part[:] = rounded_draws(law, ratio, 1, self._entropy)\n",
        (f"{TEST}noise.py::test_coordinates_and_calls_are_uncorrelated",),
    ),
    Bug(
        "a far draw is clamped where the release is",
        "noise",
        f"{NOISE}/_noise.py",
        "        np.clip(draws, -_DRAW_LIMIT, _DRAW_LIMIT, out=draws)\n",
        "        np.clip(draws, -limit, limit, out=draws)\n",
        (f"{TEST}noise.py::test_a_draw_beyond_the_clamp_shows_no_query",),
    ),
    Bug(
        "the norm of spherical noise has another law",
        "noise",
        f"{NOISE}/_noise.py",
        "gamma(size + 1, self._entropy)",
        "gamma(size, self._entropy)",
        (f"{TEST}noise.py::test_spherical_noise_has_its_law_in_norm_and_direction",),
    ),
    Bug(
        "forks share a generator in memory",
        "noise",
        f"{NOISE}/_rounding.py",
        "    is_private: ClassVar[bool] = True\n\n"
        "    def words(self, size: int) -> NDArray[np.uint64]:\n"
        "        return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)\n",
        "    is_private: ClassVar[bool] = True\n"
        "    drawn: ClassVar = np.random.default_rng()\n\n"
        "    def words(self, size: int) -> NDArray[np.uint64]:\n"
        "        return np.frombuffer(self.drawn.bytes(8 * size), dtype=np.uint64)\n",
        (f"{TEST}noise.py::test_forks_never_share_noise",),
    ),
    Bug(
        "words of the operating system are used twice",
        "noise",
        f"{NOISE}/_rounding.py",
        "        return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)\n",
        "        words = os.urandom(8 * (-(-size // 2)))\n"
        "        return np.resize(np.frombuffer(words, dtype=np.uint64), size)\n",
        (f"{TEST}noise.py::test_words_of_the_operating_system_repeat_nothing",),
    ),
    Bug(
        "draws of the far tail are those of 63 digits",
        "rounding",
        f"{NOISE}/_rounding.py",
        " | (lead < _TAIL_DIGITS)\n",
        "\n",
        (f"{TEST}noise.py::test_fast_path_agrees_with_the_exact_path",),
    ),
    Bug(
        "no margin for the error of quantiles",
        "rounding",
        f"{NOISE}/_rounding.py",
        "_MARGIN = 2.0**-40\n",
        "_MARGIN = 2.0**-60\n",
        (f"{TEST}noise.py::test_margin_covers_a_quantile_of_the_assumed_error",),
    ),
    Bug(
        "words above the last multiple are not drawn again",
        "noise",
        f"{NOISE}/_selection.py",
        "    largest = np.uint64(2**64 - 2**64 % n - 1)\n",
        "    largest = np.uint64(2**64 - 1)\n",
        (
            f"{TEST}selection_noise.py::"
            "test_words_above_the_last_multiple_are_drawn_again",
        ),
    ),
    Bug(
        "sampling rates are rounded up",
        "rounding",
        f"{NOISE}/_selection.py",
        "entropy.words(n) < np.uint64(math.floor(rate * 2.0**64))",
        "entropy.words(n) <= np.uint64(math.floor(rate * 2.0**64))",
        (f"{TEST}selection_noise.py::test_poisson_rates_are_rounded_down",),
    ),
    Bug(
        "levels are those of the first choice",
        "noise",
        f"{NOISE}/_selection.py",
        "        best = self._gaps[self._place(0)]\n",
        "        best = self._gaps[0]\n",
        (f"{TEST}selection_noise.py::test_every_candidate_is_in_its_level",),
    ),
    Bug(
        "the excess of a level over a signed score is forgotten",
        "noise",
        f"{NOISE}/_selection.py",
        "        below = ((level << ranking.shift) - 1) - sign * int(",
        "        below = ((level << ranking.shift) - 1) - abs(",
        (
            f"{TEST}signed_choice.py::"
            "test_every_proposal_enumerated_gives_the_exact_law",
        ),
    ),
    Bug(
        "Laplace noise takes an L2 bound",
        "sensitivity",
        f"{NOISE}/_laws.py",
        '    name = "Laplace"\n    norm = 1\n',
        '    name = "Laplace"\n    norm = 2\n',
        (f"{TEST}hostile_questions.py::test_what_no_line_pays_for_is_refused_unread",),
    ),
    Bug(
        "of several choices one is charged",
        "accounting",
        f"{NOISE}/_laws.py",
        "        return BoundedRangeEvent(self.epsilon(multiplier), times)\n",
        "        return BoundedRangeEvent(self.epsilon(multiplier), 1)\n",
        (f"{TEST}laws.py::test_events_of_laws_count_their_releases",),
    ),
    Bug(
        "spherical noise is charged once for all releases",
        "accounting",
        f"{NOISE}/_laws.py",
        "        return PureEvent(1 / multiplier, times)\n",
        "        return PureEvent(1 / multiplier)\n",
        (f"{TEST}laws.py::test_events_of_laws_count_their_releases",),
    ),
    Bug(
        "a part is asked several times and charged once",
        "sensitivity",
        f"{NOISE}/_correlated.py",
        "np.convolve(whole, np.ones(asks))[:times]",
        "whole",
        (
            "tests/papers/test_ftrl.py::test_the_joint_norm_is_the_largest_of_all_parts_and_directions",
        ),
    ),
]

OF_LEDGER = [
    Bug(
        "what came before the first square is not set aside",
        "ledger",
        f"{LEDGER}/_filter.py",
        "        reserve = self._reserve_at(spent) if is_first else self.reserve\n",
        "        reserve = self.reserve\n",
        (
            f"{TEST}filter.py::"
            "test_what_came_before_the_first_square_is_taken_from_what_is_set_aside",
        ),
    ),
    Bug(
        "squares may use the epsilon that is set aside",
        "ledger",
        f"{LEDGER}/_filter.py",
        "        left = self.cap.epsilon - reserve.epsilon\n",
        "        left = self.cap.epsilon\n",
        (f"{TEST}filter.py::test_squares_add_up_beside_what_is_set_aside",),
    ),
    Bug(
        "deltas are compared with no limit once squares are charged",
        "ledger",
        f"{LEDGER}/_filter.py",
        "        if not self.spent.delta * (1 - _ROUNDING) <= limit.delta:\n",
        "        if not self.spent.delta * (1 - _ROUNDING) <= self.cap.delta:\n",
        (
            f"{TEST}filter.py::"
            "test_a_search_is_charged_its_epsilon_at_the_delta_of_its_fit",
        ),
    ),
    Bug(
        "a black box in squares leaves its delta out",
        "ledger",
        f"{LEDGER}/_filter.py",
        "        return Charge(0.0, leaf.box_delta, squares)\n",
        "        return Charge(0.0, 0.0, squares)\n",
        (
            f"{TEST}filter.py::"
            "test_after_the_first_square_a_pure_release_is_set_aside_or_squared",
        ),
    ),
    Bug(
        "each of several searches is charged at the whole delta",
        "fraction",
        f"{LEDGER}/_filter.py",
        "yield Charge(leaf.epsilon(delta / searches), delta / searches)\n",
        "yield Charge(leaf.epsilon(delta), delta / searches)\n",
        (f"{TEST}filter.py::test_parts_of_an_event_add_up",),
    ),
    Bug(
        "bounds are read at the wrong end of a cell",
        "rounding",
        f"{LEDGER}/_filter.py",
        "    right = grid[1:]\n",
        "    right = grid[:-1]\n",
        (f"{TEST}charge.py::test_twin_that_reads_the_grid_the_other_way_undercharges",),
    ),
    Bug(
        "a release of black boxes is charged no delta",
        "ledger",
        f"{LEDGER}/_filter.py",
        "        return Charge(event.pure_epsilon, event.box_delta)\n",
        "        return Charge(event.pure_epsilon)\n",
        (
            f"{TEST}filter.py::"
            "test_epsilons_add_up_over_the_whole_cap_before_any_squares",
        ),
    ),
    Bug(
        "the cap is compared with what was spent before",
        "ledger",
        f"{LEDGER}/_ledger.py",
        "            refused = state.after(charge).exhausted() if ",
        "            refused = state.exhausted() if ",
        (f"{TEST}ledger.py::test_remaining_is_accepted_and_a_bit_more_is_not",),
    ),
    Bug(
        "parts within a parallel event may be of another relation",
        "ledger",
        f"{LEDGER}/_ledger.py",
        "            yield from _leaves_within(part)\n",
        "            yield from ()\n",
        (f"{TEST}ledger.py::test_parts_of_another_adjacency_are_refused_however_deep",),
    ),
    Bug(
        "an event with a part that is not private is taken for private",
        "ledger",
        f"{LEDGER}/_ledger.py",
        "    return math.isfinite(event.pure_epsilon)\n",
        "    return len(event.leaves) > 1 or math.isfinite(event.pure_epsilon)\n",
        (f"{TEST}ledger.py::test_nonprivate_part_of_an_event_is_not_overlooked",),
    ),
    Bug(
        "writers do not lock the file before they read",
        "ledger",
        f"{LEDGER}/_store.py",
        '            connection.execute("BEGIN IMMEDIATE")\n',
        '            connection.execute("BEGIN")\n',
        (f"{TEST}ledger_processes.py::test_a_commit_keeps_other_processes_out",),
    ),
    Bug(
        "digests are not compared",
        "ledger",
        f"{LEDGER}/_store.py",
        "        if count != len(rows) or head != link:\n",
        "        if count != len(rows):\n",
        (f"{TEST}ledger_files.py::test_damaged_file_is_refused_and_left_untouched",),
    ),
    Bug(
        "a digest is of the last entry alone",
        "ledger",
        f"{LEDGER}/_store.py",
        "    return hashlib.sha256((link + repr(tuple(row))).encode()).hexdigest()\n",
        "    return hashlib.sha256(repr(tuple(row)).encode()).hexdigest()\n",
        (f"{TEST}ledger_files.py::test_damaged_file_is_refused_and_left_untouched",),
    ),
    Bug(
        "set-asides are in no digest",
        "ledger",
        f"{LEDGER}/_store.py",
        "    terms = (*books[:6], *books[8:])\n",
        "    terms = books[:6]\n",
        (f"{TEST}ledger_files.py::test_damaged_file_is_refused_and_left_untouched",),
    ),
    Bug(
        "triggers may stand beside the tables",
        "ledger",
        f"{LEDGER}/_store.py",
        "    return not _TABLES >= held - {_CARRIED}\n",
        '    return not held >= _TABLES - {("table", "versions")}\n',
        (f"{TEST}ledger_files.py::test_damaged_file_is_refused_and_left_untouched",),
    ),
    Bug(
        "a ledger that another process made is overwritten",
        "ledger",
        f"{LEDGER}/_store.py",
        "os.O_CREAT | os.O_EXCL | os.O_WRONLY",
        "os.O_CREAT | os.O_TRUNC | os.O_WRONLY",
        (f"{TEST}ledger_files.py::test_without_hard_links_the_first_ledger_stands",),
    ),
    Bug(
        "charges may be negative",
        "ledger",
        f"{LEDGER}/_store.py",
        "type(value) in (int, float) and value >= 0 for",
        "type(value) in (int, float) and value == value for",
        (
            f"{TEST}ledger_files.py::"
            "test_charge_without_its_form_is_refused_under_any_digest",
        ),
    ),
    Bug(
        "the last spend is lost",
        "ledger",
        f"{LEDGER}/_store.py",
        "    return reduce(FilterState.after, entries.charges, start_of(terms))\n",
        "    return reduce(FilterState.after, entries.charges[:-1], start_of(terms))\n",
        (f"{TEST}ledger.py::test_one_fit_may_use_the_whole_cap",),
    ),
    Bug(
        "a ledger that is gone is started anew under a used handle",
        "ledger",
        f"{LEDGER}/_ledger.py",
        "        return SpendStore(self.path, terms)\n",
        "        found = SpendStore(self.path, terms)\n"
        "        if not os.path.exists(self.path):\n"
        "            found.create()\n"
        "        return found\n",
        (
            f"{TEST}ledger_files.py::"
            "test_missing_file_is_never_started_anew_under_a_used_handle",
        ),
    ),
    Bug(
        "a refused spend is rolled back after it was reported as charged",
        "ledger",
        f"{LEDGER}/_store.py",
        '            connection.execute("COMMIT")\n',
        '            connection.execute("ROLLBACK")\n',
        (f"{TEST}ledger.py::test_spends_are_written_down_exactly",),
    ),
    Bug(
        "an audit of charges is content with one part of three",
        "ledger",
        f"{LEDGER}/_store.py",
        "        and charged.delta * more >= found.delta\n"
        "        and charged.mu_squared * more >= found.mu_squared\n",
        "        or charged.delta * more >= found.delta\n"
        "        or charged.mu_squared * more >= found.mu_squared\n",
        (f"{TEST}ledger.py::test_audit_finds_what_was_charged_less",),
    ),
    Bug(
        "a trial may cost what its last step may",
        "ledger",
        f"{LEDGER}/_allowance.py",
        "            whole = ComposedEvent((*self.noted, event))\n",
        "            whole = ComposedEvent((event,))\n",
        (
            f"{TEST}hostile_questions.py::test_steps_of_a_trial_cost_together_what_it_may",
        ),
    ),
    Bug(
        "a report is signed by its head alone",
        "ledger",
        f"{LEDGER}/_report.py",
        "    text = json.dumps(told, sort_keys=True).encode()\n",
        '    text = json.dumps(told["head"]).encode()\n',
        (f"{TEST}books_report.py::test_what_was_changed_is_found",),
    ),
    Bug(
        "a letter promises a cap that a release broke",
        "message",
        f"{LEDGER}/_letter.py",
        """        if one["total"] == "inf":\n""",
        """        if one["total"] == float("inf"):\n""",
        (f"{TEST}books_report.py::test_no_letter_promises_what_a_release_broke",),
    ),
]

BUGS: list[Bug] = [*OF_EVENTS, *OF_FORMULAS, *OF_NOISE, *OF_LEDGER]
