"""Bugs in sources: null records, order, users' rows, passes, messages, engines."""

from __future__ import annotations

from tests.bugs.bug import Bug

IO = "tests/io"
ENGINES = "tests/io/engines"

BUGS: list[Bug] = [
    Bug(
        "a label that is not declared counts as its neighbour",
        "encoder",
        "skdp/io/_reading.py",
        "        is_known = classes[codes] == values\n",
        "        is_known = np.isfinite(values)\n",
        ("tests/io/test_rows.py::test_targets_that_cannot_be_read_make_null_records",),
    ),
    Bug(
        "an infinite target counts as the bound",
        "clip",
        "skdp/io/_reading.py",
        "        is_finite = np.isfinite(values)\n        values =",
        "        is_finite = ~np.isnan(values)\n        values =",
        ("tests/io/test_rows.py::test_targets_that_cannot_be_read_make_null_records",),
    ),
    Bug(
        "a row with one finite number is a record",
        "clip",
        "skdp/io/_reading.py",
        "            is_present = is_finite.all(axis=1)\n",
        "            is_present = is_finite.any(axis=1)\n",
        ("tests/io/test_rows.py::test_rows_without_numbers_are_null_records",),
    ),
    Bug(
        "one column in single precision decides for all",
        "rounding",
        "skdp/io/_reading.py",
        "all(map(is_single, types))",
        "any(map(is_single, types))",
        ("tests/io/test_rows.py::test_single_precision_stays_where_all_is_single",),
    ),
    Bug(
        "texts of other rows decide the code of a row",
        "fact",
        "skdp/io/_passes.py",
        "            return rows.astype(dict.fromkeys(texts, object))\n",
        "            return rows\n",
        (
            "tests/io/test_scores_of_users.py::test_texts_of_one_give_no_codes_to_those_of_others",
        ),
    ),
    Bug(
        "a refused row counts as the first row that passes",
        "users",
        "skdp/io/_external.py",
        "rows_in_places(rows, places)), is_present & is_fine",
        "rows_in_places(rows, places)), is_present",
        ("tests/io/test_rows.py::test_a_row_that_a_step_refuses_is_a_null_record",),
    ),
    Bug(
        "every key gives the same order of a table",
        "noise",
        "skdp/io/_sql.py",
        "md5('{key}' || CAST({own} AS VARCHAR))",
        "md5(CAST({own} AS VARCHAR))",
        ("tests/io/test_permuted.py::test_weights_are_those_of_memory",),
    ),
    Bug(
        "one row more than the most counts in files",
        "users",
        "skdp/io/_external_users.py",
        "        return np.asarray(places < MOST_ROWS_OF_A_USER)\n",
        "        return np.asarray(places <= MOST_ROWS_OF_A_USER)\n",
        ("tests/io/test_users.py::test_of_many_rows_the_first_count_in_files",),
    ),
    Bug(
        "all rows that are equal to the last one count",
        "users",
        "skdp/io/_external_users.py",
        "        return self.seen[code] <= times\n",
        "        return True\n",
        (
            "tests/io/test_users.py::test_of_many_rows_the_same_count_in_any_order_of_a_database",
        ),
    ),
    Bug(
        "rows that fail a condition have the digest of rows that meet it",
        "users",
        "skdp/io/_external_users.py",
        "np.column_stack([self.is_present, *columns])",
        "np.column_stack(columns)",
        (
            "tests/io/test_users.py::test_of_many_rows_the_same_count_in_any_order_of_a_database",
        ),
    ),
    Bug(
        "rows without an id are one user",
        "users",
        "skdp/io/_external_users.py",
        "        self.counts = np.append(counts, 0).astype(np.int64)\n",
        "        self.counts = np.append(counts, 1).astype(np.int64)\n",
        (
            "tests/io/test_users.py::test_rows_without_an_id_are_nobodys_and_leave_no_trace",
        ),
    ),
    Bug(
        "ids pass through doubles",
        "users",
        "skdp/io/_external_users.py",
        "        return ids.to_numpy(zero_copy_only=False)\n    return np.array([*ids",
        "        return ids.to_numpy(zero_copy_only=False).astype(float)\n"
        "    return np.array([*ids",
        ("tests/io/test_users.py::test_ids_are_told_apart_to_the_last_bit",),
    ),
    Bug(
        "the bucket of a user follows from its rank",
        "users",
        "skdp/io/_external_users.py",
        "np.asarray(self._numbers % np.uint64(n_slots), dtype=np.int64)\n",
        "np.arange(self.n_users, dtype=np.int64) % n_slots\n",
        (
            "tests/io/test_searches_of_users.py::test_no_user_moves_another_to_another_part",
        ),
    ),
    Bug(
        "rows without an id are in every part",
        "users",
        "skdp/io/_session.py",
        "users.slots(self._n_slots)], False)",
        "users.slots(self._n_slots)], True)",
        ("tests/io/test_searches_of_users.py::test_rows_of_nobody_are_in_no_part",),
    ),
    Bug(
        "a part of buckets has at most as many users as buckets",
        "sensitivity",
        "skdp/io/_external.py",
        "        return self._n_declared / self.n_samples if self._slots is not None "
        "else 1.0\n",
        "        return 1.0\n",
        (
            "tests/io/test_searches_of_users.py::test_each_user_is_in_one_part_with_all_rows",
        ),
    ),
    Bug(
        "a pass may have fewer rows than were counted",
        "order",
        "skdp/io/_session.py",
        "            if done < self.n_rows:\n",
        "            if done < 0:\n",
        ("tests/io/test_failures.py::test_one_message_whatever_happened",),
    ),
    Bug(
        "what changed during the last pass is not seen",
        "order",
        "skdp/io/_external.py",
        "                session.snapshot.check()\n                return result\n",
        "                return result\n",
        ("tests/io/test_failures.py::test_one_message_whatever_happened",),
    ),
    Bug(
        "a row is read to see its form before the commit",
        "order",
        "skdp/io/_table.py",
        "        source = rows.with_targets(y)\n",
        "        source = rows.with_targets(y)\n        next(source.blocks(), None)\n",
        ("tests/io/test_searches.py::test_nothing_is_read_before_it_is_in_the_ledger",),
    ),
    Bug(
        "an error of the first pass quotes its cause",
        "message",
        "skdp/io/_session.py",
        "        if not self.has_read:\n            return problem\n",
        "        if self._n_passes < 2:\n            return problem\n",
        ("tests/io/test_failures.py::test_readings_outside_of_a_fit_tell_no_cause",),
    ),
    Bug(
        "progress shows the number of rows of users",
        "message",
        "skdp/io/_session.py",
        '            label = self._label if is_shown and self.users is None else ""\n',
        '            label = self._label if is_shown else ""\n',
        ("tests/io/test_users.py::test_what_is_printed_is_the_same_for_neighbours",),
    ),
    Bug(
        "a condition without a value makes a row a record",
        "clip",
        "skdp/io/_sql.py",
        'f"COALESCE({self._condition}, FALSE)"',
        'f"COALESCE({self._condition}, TRUE)"',
        ("tests/io/test_sql.py::test_a_condition_without_a_value_is_not_met",),
    ),
    Bug(
        "a record may make an expression fail",
        "message",
        "skdp/io/_duckdb.py",
        '        return f"TRY({text})"\n',
        '        return f"({text})"\n',
        ("tests/io/test_failures.py::test_rows_that_fail_to_convert_are_null_records",),
    ),
    Bug(
        "absent rows are scored as the row in their place",
        "clip",
        "skdp/io/_scores.py",
        "some, read.y[places], 1.0 * is_there)",
        "some, read.y[places])",
        ("tests/io/test_searches.py::test_a_null_record_has_the_worst_score",),
    ),
    Bug(
        "predictions of unreadable rows are written",
        "model",
        "skdp/io/_passes.py",
        "pa.array(found, mask=~is_present)",
        "pa.array(found)",
        ("tests/io/test_combinations.py::test_predict_to_writes_keys_and_predictions",),
    ),
    Bug(
        "a number that is no category is cut to one",
        "encoder",
        "skdp/io/_csv.py",
        "        return int(number) if number.is_integer() else None\n",
        "        return int(number)\n",
        ("tests/io/test_csv.py::test_any_cell_may_be_missing",),
    ),
    Bug(
        "a part of a cluster may be added twice",
        "sensitivity",
        "skdp/io/engines/_dask.py",
        "if not isinstance(answer, Answer) or answer.number in found:",
        "if not isinstance(answer, Answer):",
        ("tests/io/engines/test_dask.py::test_no_part_counts_twice_or_not_at_all",),
    ),
    Bug(
        "the last reader stops at the estimated end of a table",
        "order",
        "skdp/io/engines/_postgres.py",
        "zip(starts, [*ends, None], strict=True)",
        "zip(starts, [*ends, int(n_pages)], strict=True)",
        ("tests/io/engines/test_postgres_readers.py::test_every_row_is_read_once",),
    ),
    Bug(
        "NOT BETWEEN is BETWEEN",
        "clip",
        "skdp/io/engines/_conditions.py",
        "            return f\"({negated}({' AND '.join(inside)}))\"\n",
        "            return f\"(({' AND '.join(inside)}))\"\n",
        (
            "tests/io/engines/test_postgres.py::test_rows_that_fail_a_condition_are_null_records",
        ),
    ),
    Bug(
        "rows of a user count as records",
        "users",
        "skdp/io/_external_users.py",
        "        shares = 1 / np.clip(counts, 1, MOST_ROWS_OF_A_USER)\n",
        "        shares = np.ones(len(counts))\n",
        ("tests/io/test_users.py::test_no_neighbour_tells_more_than_is_charged",),
    ),
    Bug(
        "rows are divided by two fewer than count",
        "users",
        "skdp/io/_external_users.py",
        "1 / np.clip(counts, 1, MOST_ROWS_OF_A_USER)",
        "1 / np.clip(counts - 2, 1, MOST_ROWS_OF_A_USER)",
        ("tests/io/test_users.py::test_no_neighbour_tells_more_than_is_charged",),
    ),
    Bug(
        "a database has a fixed order of the rows of users",
        "users",
        "skdp/io/_sql.py",
        "    has_fixed_order = False\n",
        "    has_fixed_order = True\n",
        (
            "tests/io/test_users.py::"
            "test_of_many_rows_the_same_count_in_any_order_of_a_database",
        ),
    ),
    Bug(
        "the place of a user's rows in scores is a rank",
        "users",
        "skdp/io/_external_users.py",
        "np.append(places_of_users(self._index.tolist()), 0)",
        "np.append(np.argsort(np.argsort(self._index.to_numpy())), 0)",
        (
            "tests/io/test_scores_of_users.py::"
            "test_no_neighbour_tells_more_than_is_charged",
        ),
    ),
    Bug(
        "rows of users are scored as they stand",
        "users",
        "skdp/io/_scores.py",
        "statistic_of_users(scorer, model, some, read.y, own, places)",
        "scorer.statistic(model, some, read.y, own)",
        (
            "tests/io/test_scores_of_users.py::"
            "test_no_neighbour_tells_more_than_is_charged",
        ),
    ),
    Bug(
        "buckets are those of rows",
        "users",
        "skdp/io/_session.py",
        "            codes = users.codes(batch.columns.column(self.ids))\n"
        "            places = np.flatnonzero(is_in[codes])\n",
        "            codes = np.arange(len(batch)) % self._n_slots\n"
        "            places = np.flatnonzero(is_in[codes])\n",
        (
            "tests/io/test_searches_of_users.py::"
            "test_each_user_is_in_one_part_with_all_rows",
        ),
    ),
    Bug(
        "a table that has no room is taken for one without rows",
        "order",
        "skdp/tables/_source.py",
        "        if self._room != NO_ROOM:\n",
        "        if True:\n",
        (
            "tests/io/test_kept_rows.py::"
            "test_kept_or_not_bits_of_users_are_those_of_memory",
        ),
    ),
    Bug(
        "what cells take decides whether a search keeps them",
        "fact",
        "skdp/io/_session.py",
        "        return self.room.for_all(self._bytes_of(names))\n",
        "        return Room(self.room.memory // 2)\n",
        (
            "tests/io/test_shared_passes.py::"
            "test_no_cell_decides_whether_cells_are_kept",
        ),
    ),
    Bug(
        "rows go into a file that outlives the process",
        "fact",
        "skdp/tables/_block_file.py",
        "tempfile.TemporaryFile(buffering=0)\n",
        "tempfile.NamedTemporaryFile(buffering=0, delete=False)\n",
        ("tests/io/test_rows_on_disk.py::test_no_file_is_left_however_a_process_ends",),
    ),
    Bug(
        "a full disk ends a fit after its commit",
        "fact",
        "skdp/tables/_block_file.py",
        "        except OSError:\n            return False\n        self._pieces",
        "        except ValueError:\n            return False\n        self._pieces",
        (
            "tests/io/test_rows_on_disk.py::"
            "test_a_disk_that_fills_up_during_a_fit_changes_no_bit",
        ),
    ),
    Bug(
        "a search keeps rows of candidates that were drawn in secret",
        "fact",
        "skdp/model_selection/_candidates.py",
        "        if say:\n            self.records.table.keep_rows()\n",
        "        self.records.table.keep_rows()\n",
        (
            "tests/io/test_shared_passes.py::"
            "test_codes_of_trees_are_kept_where_cells_are_too_large",
        ),
    ),
    Bug(
        "rows of one encoding are taken for those of another",
        "encoder",
        "skdp/io/_session.py",
        "        if self._rows is None or self._rows[0] != key:\n",
        "        if self._rows is None or self._rows[0][0] is not key[0]:\n",
        (
            "tests/io/test_shared_passes.py::"
            "test_candidates_of_other_encodings_have_rows_of_their_own",
        ),
    ),
    Bug(
        "cells in one order are taken for cells in another",
        "order",
        "skdp/io/_session.py",
        "kept = self._kept if self._order == order else None\n",
        "kept = self._kept\n",
        (
            "tests/io/test_shared_passes.py::"
            "test_columns_are_read_together_with_those_that_are_kept",
        ),
    ),
    Bug(
        "what changed after cells were kept is not seen",
        "order",
        "skdp/io/_external.py",
        "                session.check_unbroken()\n                session.snapshot",
        "                session.check_unbroken()\n"
        "                if session._cells is None:\n"
        "                    session.snapshot",
        (
            "tests/io/test_shared_passes.py::test_files_that_change_during_a_search_end_it",
        ),
    ),
    Bug(
        "an error holds the cells of a search",
        "message",
        "skdp/io/_external.py",
        "            session.forget()\n",
        "",
        (
            "tests/io/test_shared_passes.py::"
            "test_no_cell_outlives_a_search_or_goes_with_its_model",
        ),
    ),
    Bug(
        "what catches a failure may read on",
        "order",
        "skdp/io/_session.py",
        "            self._is_broken = True\n",
        "            self._is_broken = False\n",
        ("tests/io/test_failures.py::test_who_catches_a_failure_reads_nothing_more",),
    ),
    Bug(
        "the pages of two readers overlap",
        "sensitivity",
        "skdp/io/engines/_postgres.py",
        "        starts = [0, *ends]\n",
        "        starts = [0, *[max(end - 1, 0) for end in ends]]\n",
        ("tests/io/engines/test_postgres_readers.py::test_every_row_is_read_once",),
    ),
    Bug(
        "a large decimal ends a fit",
        "message",
        "skdp/io/engines/_postgres.py",
        "CASE WHEN abs({text}) < 1.7e308 THEN",
        "CASE WHEN TRUE THEN",
        ("tests/io/engines/test_postgres.py::test_no_value_fails",),
    ),
    Bug(
        "ids of a table with heirs are unique",
        "order",
        "skdp/io/engines/_postgres.py",
        "AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits AS h ",
        "OR EXISTS (SELECT FROM pg_catalog.pg_inherits AS h ",
        (
            "tests/io/engines/test_postgres.py::test_ids_of_tables_that_others_inherit_from_are_refused",
        ),
    ),
    Bug(
        "rows that come from no table are stored ones",
        "fact",
        "skdp/io/engines/_postgres.py",
        'return node.get("One-Time Filter") == "false"',
        'return node.get("One-Time Filter") != "nothing"',
        (
            "tests/io/engines/test_postgres.py::test_rows_that_come_from_no_table_are_refused",
        ),
    ),
]
