"""Bugs in tables, their views and their public facts."""

from __future__ import annotations

from tests.bugs.bug import Bug

TABLES = "skdp/tables"
TEST = "tests/tables/test_"

BUGS: list[Bug] = [
    Bug(
        "a cell between two states has the whole weight",
        "encoder",
        f"{TABLES}/_coded_kernel.py",
        "own = (np.int64(second) << 1) | np.int64(lacking)",
        "own = np.int64(second) << 1",
        ("tests/tables/test_cells.py::test_rows_come_back_exactly",),
    ),
    Bug(
        "a user of too many rows counts more than once",
        "users",
        f"{TABLES}/_memory.py",
        "np.where(places_of_own(codes) < MOST_ROWS_OF_A_USER, shares, 0.0)\n",
        "shares\n",
        (f"{TEST}memory.py::test_shares_of_a_user_add_up_to_one_however_many_rows",),
    ),
    Bug(
        "null records are copied as if they were there",
        "users",
        f"{TABLES}/_memory.py",
        "        is_present[start:end] = block.weight[rows]\n",
        "        is_present[start:end] = True\n",
        (f"{TEST}memory.py::test_held_is_all_records_wherever_they_are",),
    ),
    Bug(
        "some of a block's rows lose their weights",
        "users",
        f"{TABLES}/_source.py",
        "        return Block(self.X[rows], self.y[rows], present, users)\n",
        "        return Block(self.X[rows], self.y[rows], None, users)\n",
        ("tests/sums/test_adder.py::test_null_rows_add_exactly_nothing",),
    ),
    Bug(
        "how long sparse rows are decides how they are read",
        "fact",
        f"{TABLES}/_memory.py",
        "        rows = _SPARSE_ROWS\n        if not self.is_sparse:\n",
        "        rows = max(64, _SPARSE_ROWS // max(1, getattr(X, 'nnz', 1)))\n"
        "        if not self.is_sparse:\n",
        (f"{TEST}memory.py::test_layout_depends_on_public_facts_only",),
    ),
    Bug(
        "the number of users' rows is a public fact",
        "fact",
        f"{TABLES}/_memory.py",
        "            largest_block=self.most_rows,\n",
        "            largest_block=min(self.most_rows, len(y)),\n",
        (f"{TEST}facts.py::test_facts_of_rows_in_memory",),
    ),
    Bug(
        "centred rows are taken to be row-major whatever their source",
        "fact",
        f"{TABLES}/_views.py",
        "        self._data_norm, self._centre, self._norm = data_norm, centre, norm\n",
        "        self._data_norm, self._centre, self._norm = data_norm, centre, norm\n"
        "        self.facts = replace(self.facts, is_row_major=True)\n",
        (f"{TEST}views.py::test_what_a_view_says_of_its_blocks_is_true",),
    ),
    Bug(
        "centred rows are scaled and not clipped",
        "clip",
        f"{TABLES}/_centred.py",
        "        factor = 1 / np.maximum(norms, self.norm)\n",
        "        factor = np.full(len(norms), 1 / self.norm)\n",
        (f"{TEST}centred.py::test_no_row_is_longer_than_one_in_exact_arithmetic",),
    ),
    Bug(
        "what cancelling terms lose is no part of a row's length",
        "rounding",
        f"{TABLES}/_centred.py",
        "        norms = np.sqrt(np.maximum(squares, 0.0) + lost)\n",
        "        norms = np.sqrt(np.maximum(squares, 0.0)) + 0 * lost\n",
        (f"{TEST}centred.py::test_no_row_is_longer_than_one_in_exact_arithmetic",),
    ),
    Bug(
        "terms that cancel are charged as plain rows",
        "rounding",
        f"{TABLES}/_centred.py",
        "            amplification=max([centring.amplification, *amplified]),\n",
        "            amplification=1.0,\n",
        (f"{TEST}facts.py::test_a_view_hands_on_every_fact_that_it_does_not_change",),
    ),
    Bug(
        "rows of codes have no weights of records",
        "clip",
        f"{TABLES}/_coded.py",
        "1 / np.maximum(lengths * _ROUNDED, 1.0)",
        "1 / np.maximum(lengths * 0, 1.0)",
        (
            f"{TEST}code_rows.py::"
            "test_no_weighted_row_is_longer_than_one_in_exact_arithmetic",
        ),
    ),
    Bug(
        "centred dense rows are not clipped again",
        "clip",
        f"{TABLES}/_views.py",
        "        rows /= np.maximum(row_norms(rows), self._norm)[:, None]\n",
        "        rows /= self._norm\n",
        (f"{TEST}views.py::test_views_change_rows_as_they_say",),
    ),
    Bug(
        "a view of another table shows what it kept of the first",
        "order",
        f"{TABLES}/_views.py",
        "        super()._look_at(source)\n        self._kept = None\n",
        "        super()._look_at(source)\n",
        (
            "tests/sums/test_exact_gradient.py::"
            "test_a_view_puts_rows_on_the_grid_once_and_another_one_anew",
        ),
    ),
    Bug(
        "data that are given for declarations are quoted",
        "message",
        f"{TABLES}/_columns.py",
        "        if len(given) <= _FEW and all(_is_one(value) for value in each):\n",
        "        if len(given) <= _FEW:\n",
        ("tests/columns/test_columns.py::test_data_given_by_mistake_are_not_quoted",),
    ),
    Bug(
        "a template copies the categories of a frame",
        "fact",
        f"{TABLES}/_columns.py",
        '    return Boolean() if kind == "boolean" else Blank(_BLANKS[kind])\n',
        '    if hasattr(dtype, "categories"):\n'
        "        return Categories(list(dtype.categories))\n"
        '    return Boolean() if kind == "boolean" else Blank(_BLANKS[kind])\n',
        ("tests/columns/test_columns.py::test_template_reads_names_and_dtypes_only",),
    ),
]
