"""Bugs in plan, door and answers, in what fits share, and in trees and networks."""

from __future__ import annotations

from tests.bugs.bug import Bug

ANSWERS = "skdp/privacy/release/_answers.py"
DOOR = "skdp/privacy/release/_door.py"
PLAN = "skdp/privacy/release/_plan.py"
SHARED = "skdp/privacy/release/_shared.py"
FIT = "skdp/_fit.py"
BASE = "skdp/_base.py"
BOOSTING = "skdp/ensemble/_boosting.py"
GAINS = "skdp/ensemble/_gains.py"
BOOSTED = "skdp/ensemble/_estimators.py"
TREES = "skdp/ensemble/_trees.py"
NETWORK = "skdp/neural_network/_network.py"
NETWORKS = "skdp/neural_network/_estimators.py"
DESCENTS = "skdp/neural_network/_solvers.py"
HOSTILE = "tests/privacy/test_hostile_questions.py"
TEST_SOLVERS = "tests/contract/test_solvers.py"
TEST_REPLAY = "tests/audit/test_replay.py"
HONEST = f"{TEST_REPLAY}::test_honest_is_within_the_claim_and_half_the_noise_is_caught"
PAID = f"{TEST_REPLAY}::test_every_answer_of_a_model_is_on_its_record"
TEST_ANSWERS = "tests/contract/test_answers.py"
TWO_PLANS = "tests/contract/test_two_plans.py"

BUGS: list[Bug] = [
    # ------------------------------------------------------------------ answers
    Bug(
        "answers are counted after the read",
        "order",
        ANSWERS,
        """\
        self._take(line)
        if isinstance(asked.sample, Correlated):
            if line not in self._part_sums:
                self._part_sums[line] = PartSums(asked.sample, self._source)
            sums = self._part_sums[line]
            return answered(lambda: self._of_part(query, asked, sums, law))
        return answered(lambda: self._answer(query, asked, law))
""",
        """\
        if isinstance(asked.sample, Correlated):
            self._take(line)
            if line not in self._part_sums:
                self._part_sums[line] = PartSums(asked.sample, self._source)
            sums = self._part_sums[line]
            return answered(lambda: self._of_part(query, asked, sums, law))
        released = answered(lambda: self._answer(query, asked, law))
        self._take(line)
        return released
""",
        (
            f"{TEST_ANSWERS}::test_a_read_that_fails_tells_nothing_and_uses_its_answer_up",
        ),
    ),
    Bug(
        "one answer more than declared is given",
        "accounting",
        ANSWERS,
        "        if self._left[line] < times:\n            raise PlanUsedUpError(\n"
        '                "All declared answers have been given.',
        "        if self._left[line] < times - 1:\n            raise PlanUsedUpError(\n"
        '                "All declared answers have been given.',
        (f"{HOSTILE}::test_choices_cannot_be_given_back",),
    ),
    Bug(
        "several choices use up one answer",
        "accounting",
        ANSWERS,
        "        self._take(line, k)\n\n        def chosen() -> IntArray:\n",
        "        self._take(line)\n\n        def chosen() -> IntArray:\n",
        (f"{HOSTILE}::test_choices_cannot_be_given_back",),
    ),
    Bug(
        "noise for bounds in L1 covers a bound in L2",
        "noise",
        ANSWERS,
        "isinstance(line.law, Choices) or bound.norm == line.law.norm",
        "isinstance(line.law, Choices) or bound.norm >= line.law.norm",
        (f"{HOSTILE}::test_what_no_line_pays_for_is_refused_unread",),
    ),
    Bug(
        "secret samples are rounded as one row",
        "rounding",
        ANSWERS,
        "        is_sampled = isinstance(line.sample, (Batch, Poisson))\n",
        "        is_sampled = isinstance(line.sample, Batch)\n",
        (
            f"{TEST_ANSWERS}::test_an_answer_is_charged_for_its_bound_and_for_all_rounding",
        ),
    ),
    Bug(
        "all rows of a user are rounded as one row",
        "rounding",
        ANSWERS,
        "        MOST_ROWS_OF_A_USER if is_of_users(relation) else 1,\n",
        "        1,\n",
        (
            f"{TEST_ANSWERS}::test_an_answer_is_charged_for_its_bound_and_for_all_rounding",
        ),
    ),
    Bug(
        "answers about all records are charged without rounding",
        "rounding",
        ANSWERS,
        "        bound += self._slack(query, self._layout(line))\n"
        "        if isinstance(line.sample, Poisson):\n",
        "        if isinstance(line.sample, Poisson):\n",
        (
            f"{TEST_ANSWERS}::test_an_answer_is_charged_for_its_bound_and_for_all_rounding",
        ),
    ),
    Bug(
        "more users than were declared are rounded as the declared ones",
        "rounding",
        ANSWERS,
        "        return self._grant.max_overcount * query.slack(layout)\n",
        "        return query.slack(layout)\n",
        (f"{TEST_ANSWERS}::test_more_users_than_were_declared_are_rounded_too",),
    ),
    Bug(
        "a part has the noise of the whole plan",
        "fraction",
        ANSWERS,
        "        multiplier = part.multiplier(self.noise_multiplier)\n        grant",
        "        multiplier = self.noise_multiplier\n        grant",
        (
            PAID + "[centred numbers gaussian zero_out]",
            f"{TEST_ANSWERS}::test_a_part_has_the_noise_that_it_pays_for",
        ),
    ),
    Bug(
        "the other plan of a part uses nothing up",
        "accounting",
        ANSWERS,
        "        self._take(line)\n        multiplier = part.multiplier(",
        "        if not instead:\n            self._take(line)\n"
        "        multiplier = part.multiplier(",
        (f"{TWO_PLANS}::test_only_one_of_two_plans_is_used",),
    ),
    Bug(
        "fine noise leaves",
        "noise",
        ANSWERS,
        "        if asked.is_hidden or asked.is_fine:\n",
        "        if asked.is_hidden:\n",
        (f"{HOSTILE}::test_what_no_line_pays_for_is_refused_unread",),
    ),
    Bug(
        "hidden answers are heard",
        "order",
        ANSWERS,
        "                if line.is_hidden:\n                    continue\n",
        "                if line.is_hidden and hear is None:\n"
        "                    continue\n",
        (f"{HOSTILE}::test_what_is_hidden_last_does_not_leave",),
    ),
    Bug(
        "users are read by algorithms that forget their shares",
        "users",
        ANSWERS,
        "        self._check_shares(algorithm)\n",
        "",
        (
            f"{TEST_ANSWERS}::test_an_algorithm_within_the_walls_is_of_records_or_takes_shares",
        ),
    ),
    Bug(
        "warnings of a read are shown",
        "message",
        ANSWERS,
        "    with no_warnings():\n        try:\n            return ask()\n",
        '    with np.errstate(all="ignore"):\n        try:\n            return ask()\n',
        (f"{TEST_ANSWERS}::test_nobody_is_warned_by_a_read",),
    ),
    Bug(
        "an error of a read carries the first error along",
        "message",
        ANSWERS,
        "        except BaseException:  # drivers raise more than exceptions\n"
        "            pass\n",
        "        except BaseException:  # drivers raise more than exceptions\n"
        "            raise SourceError(READ_FAILED)\n",
        (
            f"{TEST_ANSWERS}::test_a_read_that_fails_tells_nothing_and_uses_its_answer_up",
        ),
    ),
    Bug(
        "drivers' errors that are no exceptions are passed on",
        "message",
        ANSWERS,
        "        except BaseException:  # drivers raise more than exceptions\n",
        "        except Exception:  # drivers raise more than exceptions\n",
        (
            f"{TEST_ANSWERS}::test_a_read_that_fails_tells_nothing_and_uses_its_answer_up",
        ),
    ),
    Bug(
        "errors of a view are passed on",
        "message",
        ANSWERS,
        "    return source if view is None else answered(lambda: view(source))\n",
        "    return source if view is None else view(source)\n",
        (f"{TEST_ANSWERS}::test_a_view_that_fails_tells_nothing",),
    ),
    Bug(
        "a copy gives the answers a second time",
        "accounting",
        ANSWERS,
        "    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:\n",
        "    def reduced(self, protocol: SupportsIndex) -> NoReturn:\n",
        (f"{TEST_ANSWERS}::test_answers_cannot_be_copied",),
    ),
    # --------------------------------------------------------------------- plan
    Bug(
        "a user is charged for an exchange, but may have no rows",
        "users",
        PLAN,
        "            replace_user=max(self.replace_one, self.zero_out),\n",
        "            replace_user=self.replace_one,\n",
        (f"{TEST_ANSWERS}::test_a_user_without_rows_may_be_farther_away_than_another",),
    ),
    Bug(
        "samples are charged as if no record took another's place",
        "accounting",
        PLAN,
        "PoissonGaussianEvent(multiplier, self.rate, times, adjacency)",
        'PoissonGaussianEvent(multiplier, self.rate, times, "zero_out")',
        (HONEST + "[noisy_sgd gaussian replace_one]",),
    ),
    Bug(
        "a batch is bounded as if nobody took the place of who is missing",
        "sensitivity",
        PLAN,
        "    def covering(self, relation: Relation) -> Relation:\n"
        '        return "replace_one"\n',
        "    def covering(self, relation: Relation) -> Relation:\n"
        "        return relation\n",
        (HONEST + "[nesterov, batches pure zero_out]",),
    ),
    Bug(
        "lines that cost the same are paid once",
        "accounting",
        PLAN,
        """\
        parts = tuple(
            line.event(noise_multiplier, relation) for line in self.lines if line.times
        )
""",
        """\
        parts = tuple(
            dict.fromkeys(
                line.event(noise_multiplier, relation)
                for line in self.lines
                if line.times
            )
        )
""",
        (f"{TEST_ANSWERS}::test_lines_that_cost_the_same_are_all_paid",),
    ),
    Bug(
        "of two plans the cheaper one is charged",
        "accounting",
        PLAN,
        "        return max(events, key=lambda event: event.mu_squared)\n",
        "        return min(events, key=lambda event: event.mu_squared)\n",
        (f"{TWO_PLANS}::test_rounding_of_shares_is_charged_at_the_dearer_plan",),
    ),
    Bug(
        "two plans of different cost are declared",
        "accounting",
        PLAN,
        "not math.isclose(one, other, rel_tol=1e-9)",
        "not math.isclose(one, other, rel_tol=0.2)",
        (f"{TWO_PLANS}::test_two_plans_have_one_cost_and_one_kind_of_noise",),
    ),
    Bug(
        "two plans are compared without the costs that they declare",
        "accounting",
        PLAN,
        "        return None if self.declared is not None else found\n",
        "        return found\n",
        (f"{TWO_PLANS}::test_two_plans_have_one_cost_and_one_kind_of_noise",),
    ),
    Bug(
        "noise of correlated answers forgets the rounding of their sums",
        "rounding",
        PLAN,
        "        return self.matrix.norm + self.matrix.slack(self.size)\n",
        "        return self.matrix.norm\n",
        (
            f"{TEST_ANSWERS}::test_correlated_answers_are_charged_for_the_rounding_of_their_sums",
        ),
    ),
    # --------------------------------------------------------------------- door
    Bug(
        "a door stays open",
        "order",
        DOOR,
        "        self._is_open = False\n",
        "",
        (f"{HOSTILE}::test_a_door_is_passed_once",),
    ),
    Bug(
        "noise that a seed reproduces is charged as private",
        "ledger",
        DOOR,
        "return declare(multiplier) if self.is_private else NonPrivateEvent(), "
        "multiplier",
        "return declare(multiplier), multiplier",
        (f"{TEST_SOLVERS}::test_seeded_noise_is_charged_as_not_private",),
    ),
    Bug(
        "users are released as records",
        "users",
        DOOR,
        "    if is_of_users(relation) != source.facts.is_of_users:\n",
        "    if is_of_users(relation) > source.facts.is_of_users:\n",
        (
            f"{TEST_ANSWERS}::test_records_are_not_released_as_users_nor_users_as_records",
        ),
    ),
    Bug(
        "a thread with a copy of the context is audited",
        "order",
        DOOR,
        "    if audit is None or audit.is_over or audit.place != _here():\n",
        "    if audit is None or audit.is_over:\n",
        (
            "tests/privacy/test_audited.py"
            "::test_a_thread_with_a_copy_of_the_context_is_not_audited",
        ),
    ),
    Bug(
        "an audited fit may be charged",
        "ledger",
        DOOR,
        "if self._auditor is not None and (owners is not None or self._is_charged):",
        "if self._auditor is not None and owners is not None:",
        (
            "tests/audit/test_audit_estimator.py::test_a_door_with_a_ledger_is_closed_to_an_auditor",
        ),
    ),
    Bug(
        "all owners are trusted with their share of the noise",
        "noise",
        SHARED,
        "        t = self._owners.n_honest\n",
        "        t = self._owners.n_parties\n",
        (
            "tests/audit/test_federated.py"
            "::test_one_colluding_owner_of_three_sees_no_more_than_the_claim",
        ),
    ),
    Bug(
        "owners answer what must stay hidden in a part",
        "order",
        SHARED,
        "        if isinstance(line, Part) and not plan.is_seen:\n",
        "        if isinstance(line, Part) and plan.is_seen:\n",
        (
            "tests/federated/test_shares.py"
            "::test_a_part_that_pays_for_fewer_answers_is_refused_too",
        ),
    ),
    # --------------------------------------------------------------------- fits
    Bug(
        "an objective of another adjacency is released",
        "sensitivity",
        FIT,
        "    if problem.adjacency not in (None, door.relation):\n",
        "    if problem.adjacency is None and door.relation is None:\n",
        (f"{HOSTILE}::test_an_objective_of_another_adjacency_is_refused_unread",),
    ),
    Bug(
        "a fit warns when it is paid for",
        "order",
        FIT,
        """\
    if planned.signal is not None:
        warned += warn_of_noise(planned.signal, planned.remedies)
    released, answers = release(
        solver,
        source,
        planned.problem,
        door,
        label=planned.label or f"{name}(solver={solver.named!r})",
        progress=Progress(name, planned.progress),
    )
""",
        """\
    released, answers = release(
        solver,
        source,
        planned.problem,
        door,
        label=planned.label or f"{name}(solver={solver.named!r})",
        progress=Progress(name, planned.progress),
    )
    if planned.signal is not None:
        warned += warn_of_noise(planned.signal, planned.remedies)
""",
        (
            "tests/contract/test_noise_dominates.py"
            "::test_an_error_filter_stops_the_fit_before_it_is_paid_for",
        ),
    ),
    Bug(
        "a record states the epsilon that was asked for of noise with a seed",
        "accounting",
        FIT,
        "    epsilon = budget.epsilon if is_private else math.inf\n",
        "    epsilon = budget.epsilon\n",
        (
            "tests/privacy/test_record.py"
            "::test_statement_of_a_fit_that_is_not_private_says_so",
        ),
    ),
    Bug(
        "progress tells how long a step takes",
        "message",
        FIT,
        "{n_fmt} of {total_fmt}",
        "{n_fmt} of {total_fmt} in {elapsed}",
        ("tests/solvers/test_progress.py::test_a_bar_shows_counts_and_ends",),
    ),
    Bug(
        "a fit that fails leaves what it has set",
        "fact",
        BASE,
        "            self.__dict__.clear()\n",
        "",
        ("tests/linear_model/test_bad_input.py::test_bad_parameters",),
    ),
    Bug(
        "a ledger of users takes fits of records",
        "ledger",
        BASE,
        "            if self.ledger.unit != unit:\n",
        "            if self.ledger.unit == unit == None:\n",
        (
            "tests/privacy/test_ledger.py::test_fits_of_another_adjacency_or_unit_are_refused",
        ),
    ),
    Bug(
        "a step with a seed is planned as private",
        "accounting",
        BASE,
        "epsilon=budget.epsilon if self.random_state is None else math.inf,",
        "epsilon=budget.epsilon,",
        (
            "tests/pipeline/test_report.py"
            "::test_seeds_and_infinite_epsilon_are_not_private",
        ),
    ),
    Bug(
        "parameters keep the precision that they were given in",
        "rounding",
        "skdp/_configured.py",
        "object.__setattr__(self, name, check(name, getattr(self, name)))",
        "check(name, getattr(self, name))",
        ("tests/solvers/test_rules.py::test_numpy_scalars_become_plain_numbers",),
    ),
    Bug(
        "files of a newer schema are read",
        "model",
        "skdp/_configured.py",
        "    if type(schema) is int and schema == known:\n",
        "    if type(schema) is int and schema >= known:\n",
        ("tests/contract/test_stored.py::test_newer_state_is_refused",),
    ),
    Bug(
        "NaN is a number of any interval",
        "sensitivity",
        "skdp/_checks.py",
        "        above = number > low if low_open else number >= low\n"
        "        below = number < high if high_open else number <= high\n",
        "        above = number > low if low_open else not number < low\n"
        "        below = number < high if high_open else not number > high\n",
        ("tests/linear_model/test_bad_input.py::test_bad_parameters",),
    ),
    # -------------------------------------------------------------------- trees
    Bug(
        "trees are not those that were drawn after a linear model",
        "model",
        BOOSTING,
        "return replace(others, curves=self.curves)",
        "return others",
        ("tests/contract/test_continued.py::test_new_trees_follow_those_of_the_model",),
    ),
    Bug(
        "gains are not clipped by what trees add",
        "model",
        GAINS,
        "    clip = max(min(clip, _FARTHEST_GAIN * spread), 1e-6 * clip)\n",
        "",
        (
            "tests/ensemble/test_adaptive.py"
            "::test_gains_are_clipped_to_a_multiple_of_what_trees_add",
        ),
    ),
    Bug(
        "groups of columns are forgotten when columns have weights",
        "model",
        TREES,
        "            pool.append(others.pop(_chosen(weights[others], rng)))\n",
        "            others = [j for j in range(len(weights)) if j not in pool]\n"
        "            pool.append(others.pop(_chosen(weights[others], rng)))\n",
        (
            "tests/ensemble/test_adaptive.py"
            "::test_weighted_columns_of_a_tree_are_of_one_group",
        ),
    ),
    Bug(
        "the seed of trees follows from the table",
        "fact",
        BOOSTED,
        "seed = door.public_seed()",
        "seed = int(np.sum(in_memory(source).whole().y)) % 2**32",
        (HONEST + "[trees gaussian replace_one]",),
    ),
    Bug(
        "labels from y are said to be declared",
        "message",
        BOOSTED,
        '        labels = "taken from y" if self.classes is None else "declared"\n',
        '        labels = "declared"\n',
        ("tests/contract/test_tools.py::test_labels_of_every_kind_make_one_model",),
    ),
    Bug(
        "missing values are other categories",
        "encoder",
        TREES,
        "        return self.n_values + self.has_other if self.has_missing else None\n",
        "        return self.n_values if self.has_missing else None\n",
        (
            "tests/ensemble/test_bins.py"
            "::test_categories_others_and_missing_have_codes_apart",
        ),
    ),
    # ----------------------------------------------------------------- networks
    Bug(
        "rows of users are sampled",
        "users",
        DESCENTS,
        "    if size < n and is_of_users(objective.adjacency):\n",
        "    if size > n and is_of_users(objective.adjacency):\n",
        ("tests/contract/test_users_of_models.py::test_samples_of_rows_are_refused",),
    ),
    Bug(
        "gradients of networks are not clipped if asked so",
        "clip",
        DESCENTS,
        'given.get("gradient_clip", 1.0) > 1e6:',
        'given.get("gradient_clip", 1.0) > math.inf:',
        (f"{TEST_SOLVERS}::test_every_refusal_has_a_reason",),
    ),
    Bug(
        "networks predict of rows that are longer than those they were fitted to",
        "clip",
        NETWORK,
        "raw = clipped_products(X, self.coefs_[0], self._row_norm)",
        "raw = clipped_products(X, self.coefs_[0], math.inf)",
        (
            "tests/neural_network/test_networks.py"
            "::test_predictions_are_those_of_its_weights",
        ),
    ),
    Bug(
        "first weights of a network are not in units of the features",
        "model",
        NETWORK,
        "factors = [objective.input_factor] + [1.0]",
        "factors = [1.0] + [1.0]",
        (
            "tests/neural_network/test_networks.py"
            "::test_without_privacy_it_learns_what_no_line_can_tell",
        ),
    ),
    Bug(
        "the seed of first weights follows from the table",
        "fact",
        NETWORK,
        "        seed = door.public_seed() if given is None else given.init_seed_\n",
        "        seed = int(sum(float(block.y.sum()) for block in source.blocks()))\n",
        (
            HONEST + "[network gaussian replace_one]",
            HONEST + "[network gaussian replace_user]",
        ),
    ),
    Bug(
        "progress of users, of secret samples and of secret trials appears by itself",
        "message",
        FIT,
        "        return shown(None, self.problem.adjacency) if is_plain else False\n",
        "        return None\n",
        ("tests/test_progress.py::test_where_times_are_secret_nothing_is_printed",),
    ),
]
