"""Bugs among several owners: masks, shares of the noise, approval, messages."""

from __future__ import annotations

from tests.bugs.bug import Bug

FEDERATED = "skdp/federated"
SHARED = "skdp/privacy/release/_shared.py"
TEST = "tests/federated/test_"

BUGS: list[Bug] = [
    Bug(
        "masks of all rounds with one statement are alike",
        "noise",
        f"{FEDERATED}/_secrets.py",
        '    which = round_number.to_bytes(8, "big") + statement\n',
        "    which = statement\n",
        (f"{TEST}masks.py::test_a_stream_follows_from_all_that_it_is_of",),
    ),
    Bug(
        "masks of a pair do not cancel",
        "noise",
        f"{FEDERATED}/_secrets.py",
        "            if other > self._number:\n",
        "            if other >= 0:\n",
        (f"{TEST}masks.py::test_masks_cancel_in_the_sum_of_all",),
    ),
    Bug(
        "a retry has other noise under the same masks",
        "noise",
        f"{FEDERATED}/_secrets.py",
        "            return last.words\n",
        "            last = Sent(round_number - 1, b'', b'')\n",
        (f"{TEST}masks.py::test_a_retry_is_the_same_bytes_even_with_other_noise",),
    ),
    Bug(
        "a key for wires is that of masks",
        "noise",
        f"{FEDERATED}/_secrets.py",
        'salt=context, info=b"skdp " + use)',
        'salt=context, info=b"skdp")',
        (f"{TEST}masks.py::test_no_secret_is_that_of_another_fit_pair_or_use",),
    ),
    Bug(
        "private keys can be read by others",
        "ledger",
        f"{FEDERATED}/_secrets.py",
        "os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)",
        "os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)",
        (f"{TEST}masks.py::test_keys_are_stored_for_their_owner_alone",),
    ),
    Bug(
        "a share has the noise of its number and not of its root",
        "noise",
        "skdp/privacy/noise/_noise.py",
        "scale.sigma / scale.grid / math.sqrt(n_shares) * (1 + 2.0**-48)",
        "scale.sigma / scale.grid / n_shares * (1 + 2.0**-48)",
        (f"{TEST}shares.py::test_shares_have_the_whole_variance_and_no_less",),
    ),
    Bug(
        "owners share the noise as if all of them could be trusted",
        "noise",
        SHARED,
        "        t = self._owners.n_honest\n",
        "        t = self._owners.n_parties\n",
        (f"{TEST}shares.py::test_each_owner_draws_its_part_of_what_the_trusted_need",),
    ),
    Bug(
        "noise of few steps is not refused",
        "noise",
        SHARED,
        "        if not share_ratio(scale, self._owners.n_honest) >= _FEWEST_STEPS:\n",
        "        if not share_ratio(scale, self._owners.n_honest) > 0:\n",
        (f"{TEST}shares.py::test_noise_of_few_steps_is_refused",),
    ),
    Bug(
        "a part may hide what owners see",
        "order",
        SHARED,
        "        if isinstance(line, Part) and not plan.is_seen:\n",
        "        if isinstance(line, Part) and plan.is_seen:\n",
        (f"{TEST}shares.py::test_a_part_that_pays_for_fewer_answers_is_refused_too",),
    ),
    Bug(
        "a statement is of the type of an array",
        "order",
        SHARED,
        '        _say(found, f"{value.dtype.str}{value.shape}", value.tobytes())\n',
        '        _say(found, f"{value.dtype.str}{value.shape}", b"")\n',
        (f"{TEST}shares.py::test_statements_tell_weights_scales_and_kinds_apart",),
    ),
    Bug(
        "every owner may be trusted",
        "fact",
        f"{FEDERATED}/_federation.py",
        "    if n_honest >= n_parties:\n",
        "    if n_honest > n_parties:\n",
        (f"{TEST}federation.py::test_readers_of_the_model_are_outside_of_the_honest",),
    ),
    Bug(
        "a fit of other rounds than were approved begins",
        "order",
        f"{FEDERATED}/_remote.py",
        "        if self.traffic != self._plan.traffic:\n",
        "        if self.traffic.n_rounds != self._plan.traffic.n_rounds:\n",
        (
            f"{TEST}approval.py::"
            "test_other_questions_than_were_planned_are_refused_before_the_charge",
        ),
    ),
    Bug(
        "a step that is charged elsewhere takes part",
        "ledger",
        f"{FEDERATED}/_remote.py",
        "        if ledger != self._ledger:\n",
        "        if ledger is not None and ledger != self._ledger:\n",
        (
            f"{TEST}planned_models.py::test_a_step_that_would_be_charged_nowhere_is_refused",
        ),
    ),
    Bug(
        "questions do not depend on what was told before",
        "order",
        f"{FEDERATED}/_remote.py",
        "        asked = digest_of(self._heard + statement)\n",
        "        asked = digest_of(statement)\n",
        (
            f"{TEST}planned_models.py::"
            "test_owners_that_were_told_different_totals_are_asked_different_questions",
        ),
    ),
    Bug(
        "a plan brings its own entropy in a step",
        "noise",
        f"{FEDERATED}/_plan.py",
        "    if not {*_OWN, _NO_MEMORY}.isdisjoint(params):\n",
        '    if not {"ledger", _NO_MEMORY}.isdisjoint(params):\n',
        (
            f"{TEST}planned_models.py::test_a_step_that_brings_its_own_ledger_is_refused",
        ),
    ),
    Bug(
        "names of parties may hide what is approved",
        "message",
        f"{FEDERATED}/_plan.py",
        "        is_told = isinstance(self.name, str) and self.name.isprintable()\n",
        "        is_told = isinstance(self.name, str)\n",
        (f"{TEST}approval.py::test_names_that_could_show_other_text_are_refused",),
    ),
    Bug(
        "a certificate of anybody will do",
        "order",
        f"{FEDERATED}/_plan.py",
        "tls.verify_mode != ssl.CERT_REQUIRED:\n",
        "tls.verify_mode > ssl.CERT_REQUIRED:\n",
        (f"{TEST}tls.py::test_connections_are_as_planned_or_there_is_no_fit",),
    ),
    Bug(
        "messages prove nothing once there is a roster",
        "order",
        f"{FEDERATED}/_remote.py",
        "        if not is_theirs or not tagged.is_of(self._keys[frame.party]):\n",
        "        if not is_theirs and not tagged.is_of(self._keys[frame.party]):\n",
        (
            f"{TEST}parties.py::"
            "test_garbage_and_strangers_are_dropped_and_the_fit_goes_on",
        ),
    ),
    Bug(
        "an owner may answer a round twice",
        "noise",
        f"{FEDERATED}/_remote.py",
        "        if known != content:\n            raise SourceError(",
        "        if not known:\n            raise SourceError(",
        (f"{TEST}parties.py::test_a_party_that_answers_a_round_twice_ends_the_fit",),
    ),
    Bug(
        "the coordinator adds up answers to other questions",
        "order",
        f"{FEDERATED}/_remote.py",
        "        if any(one[:STATEMENT_BYTES] != statement for one in said):\n",
        "        if all(one[:STATEMENT_BYTES] != statement for one in said):\n",
        (f"{TEST}parties.py::test_a_party_that_answers_another_question_ends_the_fit",),
    ),
    Bug(
        "records that changed during a fit are added up",
        "order",
        f"{FEDERATED}/_federation.py",
        "            if self._states.setdefault(part.number, facts) != facts:\n",
        "            if self._states.setdefault(part.number, facts) is None:\n",
        (f"{TEST}federation.py::test_records_that_change_during_a_fit_end_it",),
    ),
]
