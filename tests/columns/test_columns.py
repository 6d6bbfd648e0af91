"""Declarations of columns: equal after JSON, repr, pickle and copies; refusals."""

from __future__ import annotations

import copy
import datetime
import math
import pickle

import numpy as np
import pandas as pd
import pytest

from skdp import columns
from skdp.columns import Boolean, Categories, Dates, Range, as_declared
from skdp.tables._columns import toml_template

ONES = [
    Range(17, 90),
    Range(-0.1, 1e308),
    Range(0, 99_999, log=True, missing=True),
    Range(5e-324, 1.7e308, log=True),
    Range(0, 99_999, heaps=[0, 7688, 99_999]),
    Range(-1, 1, missing=True, heaps=[0.1]),
    Categories(["Female", "Male"]),
    Categories(["it's", '"', "\\", "ä\n", ""], missing=True),
    Categories([3, 1, -(2**70)]),
    Boolean(),
    Boolean(missing=True),
    Dates("2020-01-01", "2024-12-31"),
    Dates("0001-01-01", "9999-12-31T23:59:59.999999", ["hour", "month"], missing=True),
]


@pytest.mark.parametrize("declared", ONES, ids=repr)
def test_declarations_survive_whatever_stores_them(declared):
    assert type(declared).from_json(declared.to_json()) == declared
    assert columns.Declaration.from_json(declared.to_json()) == declared
    assert eval(repr(declared), vars(columns).copy()) == declared
    assert pickle.loads(pickle.dumps(declared)) == declared
    assert copy.deepcopy(declared) == declared
    assert hash(copy.copy(declared)) == hash(declared)
    assert repr(type(declared).from_json(declared.to_json())) == repr(declared)


def test_equal_whatever_the_numbers_came_in():
    assert Range(np.int64(17), np.float32(90)) == Range(17.0, 90)
    assert Categories(np.array(["a", "b"])) == Categories(("a", "b"))
    day = datetime.date(2020, 1, 1)
    assert Dates(day, pd.Timestamp("2021-01-01 12:00")) == Dates(
        "2020-01-01", "2021-01-01T12:00:00"
    )


TABLES = [
    {"b": Range(0, 1), "a": Categories(["x"])},
    (Boolean(), Range(0, 1, missing=True)),
    Range(-1, 1),
]


@pytest.mark.parametrize("declared", TABLES, ids=repr)
def test_tables_survive_json_in_their_order(declared):
    again = columns.from_json(columns.to_json(declared))
    assert again == declared
    assert repr(again) == repr(declared)


def test_shorthand():
    given = {"age": (17, 90.5), "sex": ["F", "M"], "is_in": Boolean()}
    assert as_declared(given) == {
        "age": Range(17, 90.5),
        "sex": Categories(["F", "M"]),
        "is_in": Boolean(),
    }
    assert as_declared((0, 1)) == Range(0, 1)
    assert as_declared([(0, 1), ["a"]]) == (Range(0, 1), Categories(["a"]))
    assert as_declared(((0, 1), (2, 3))) == (Range(0, 1), Range(2, 3))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, "template"),
        ({}, "names of columns"),
        ({0: (0, 1)}, "sequence by position"),
        ({"a": [1, 2]}, "Range\\(low, high\\) or Categories"),
        ({"a": [1, 2, 3]}, "Categories"),
        ({"a": ["x", 1]}, "column 'a'"),
        ({"a": (2, 1)}, "column 'a' is not valid: .*low < high.* Got low=2 and high=1"),
        ({"a": ...}, "column 'a'"),
        (Boolean(), "must be a Range"),
        ("age", "columns"),
    ],
)
def test_what_is_ambiguous_is_refused(given, text):
    with pytest.raises(ValueError, match=text):
        as_declared(given)


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ({"a": ("F", "M")}, "list of strings in brackets"),
        ({"a": {"F", "M"}}, "list of strings in brackets"),
        ({"a": ("2020-01-01", "2021-01-01")}, r"Dates\(first, last\)"),
        ({"a": [True, False]}, r"Write Boolean\(\)"),
        ({"a": Boolean}, r"Write Boolean\(\.\.\.\), with parentheses"),
        ({"a": ["F", None]}, "missing=True"),
        ({"a": ["F", float("nan")]}, "missing=True"),
        ({"a": Range(0, 1).to_dict()}, "from_json"),
        ({"a": (1, 2, 3)}, "without looking at the data"),
        (["age", "sex"], "Declare the values of the column too: .*template"),
    ],
)
def test_what_was_meant_is_said(given, remedy):
    with pytest.raises(ValueError, match=remedy):
        as_declared(given)


AMOUNTS = [123.25 + i for i in range(30)]
WHOLE = pd.DataFrame({"amount": AMOUNTS, "sex": ["Female"] * 30})
DATA = [
    WHOLE,
    WHOLE["amount"],
    WHOLE.to_numpy(),
    {"amount": AMOUNTS},
    {"amount": tuple(AMOUNTS)},
    {"amount": set(AMOUNTS)},
    {"amount": WHOLE["amount"]},
    {"amount": [WHOLE]},
    {"amount": [None, "Female" * 20]},
    {"amount": {"is": AMOUNTS}},
    [AMOUNTS, AMOUNTS],
]


def test_heaps_are_sorted_and_ranges_without_them_are_stored_as_before():
    assert Range(0, 9, heaps=np.array([9, 0])) == Range(0, 9, heaps=(0, 9))
    assert "heaps" not in Range(0, 9).to_json()


def quotes_no_data(make):
    with pytest.raises(ValueError, match="must") as caught:
        make()
    assert not any(value in str(caught.value) for value in ("123", "Female"))


@pytest.mark.parametrize("given", DATA, ids=lambda given: type(given).__name__)
def test_data_given_by_mistake_are_not_quoted(given):
    quotes_no_data(lambda: as_declared(given))
    quotes_no_data(lambda: Range(0, 9, heaps=given))


def test_broken_twin_that_quotes_data_is_found(monkeypatch):
    monkeypatch.setattr("skdp.tables._columns.briefly", repr)
    with pytest.raises(AssertionError):
        quotes_no_data(lambda: as_declared(WHOLE))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Range(1, 1),
        lambda: Range(0, float("inf")),
        lambda: Range(..., ...),
        lambda: Range(0, 5e-324),
        lambda: Range(0, 1, log=1),
        lambda: Range(-1, 1, log=True),
        lambda: Range(1e300, np.nextafter(1e300, 2e300), log=True),
        lambda: Range(0, 9, heaps=9),
        lambda: Range(0, 9, heaps="9"),
        lambda: Range(0, 9, heaps=["9"]),
        lambda: Range(0, 9, heaps=[True]),
        lambda: Range(0, 9, heaps=[10]),
        lambda: Range(0, 9, heaps=[math.nan]),
        lambda: Range(0, 9, heaps=[math.inf]),
        lambda: Range(0, 9, heaps=[3, 3.0]),
        lambda: Range(0, 9, heaps={3: 4}),
        lambda: Range(0, 9, heaps=np.arange(101) / 20),
        lambda: Range(0, 9, whole=True, heaps=[0.5]),
        lambda: Categories([]),
        lambda: Categories([...]),
        lambda: Categories(["a", "a"]),
        lambda: Categories([1, "1"]),
        lambda: Categories([0.5, 1.5]),
        lambda: Boolean(missing=1),
        lambda: Dates("2020-01-01", "2020-01-01"),
        lambda: Dates("2020-01-01", "tomorrow"),
        lambda: Dates("2020-01-01", "2021-01-01T00:00+01:00"),
        lambda: Dates("2020-01-01", "2021-01-01", parts=["year"]),
        lambda: Dates("2020-01-01", "2021-01-01", parts=["hour", "hour"]),
        lambda: Dates(..., ...),
    ],
)
def test_what_declares_nothing_is_refused(make):
    with pytest.raises((ValueError, TypeError), match="must"):
        make()


@pytest.mark.parametrize(
    "text",
    [
        '{"is": "Exec", "low": 0}',
        '{"is": "Range", "low": 0, "high": 1, "wide": true}',
        '{"is": "Boolean", "missing": false}',
        "[]",
    ],
)
def test_other_text_is_no_range(text):
    with pytest.raises(ValueError, match="must"):
        Range.from_json(text)
    newer = columns.to_json((0, 1)).replace('"skdp_columns": 1', '"skdp_columns": 2')
    for other in (text, newer):
        with pytest.raises(ValueError, match="schema"):
            columns.from_json(other)


def test_template_reads_names_and_dtypes_only():
    frame = pd.DataFrame(
        {
            "age": [39.0],
            "n": pd.array([1], dtype="Int64"),
            "sex": ["secret"],
            "kind": pd.Categorical(["secret"]),
            "is_in": [True],
            "maybe": pd.array([None], dtype="boolean"),
            "day": pd.to_datetime(["2020-01-01"]),
            "span": pd.to_timedelta([1], unit="D"),
        }
    )
    blank = columns.template(frame)
    assert repr(blank) == (
        "{\n    'age': Range(..., ...),\n    'n': Range(..., ...),\n"
        "    'sex': Categories([...]),\n    'kind': Categories([...]),\n"
        "    'is_in': Boolean(),\n    'maybe': Boolean(),\n"
        "    'day': Dates(..., ...),\n    'span': ...,\n}"
    )
    assert repr(columns.template(frame.iloc[:0])) == repr(blank)
    with pytest.raises(ValueError, match="column 'age'"):
        as_declared(blank)
    blank |= {"age": (17, 90), "n": (0, 9), "sex": ["F"], "kind": ["x"]}
    blank |= {"day": Dates("2020-01-01", "2021-01-01"), "span": (0, 1)}
    assert as_declared(blank)["age"] == Range(17, 90)
    with pytest.raises(TypeError, match="by position"):
        columns.template(np.zeros((2, 2)))


def test_template_of_polars():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {
            "age": [1.0],
            "kind": pl.Series(["secret"], dtype=pl.Enum(["secret", "other"])),
            "name": ["secret"],
            "day": pl.Series([datetime.date(2020, 1, 1)]),
            "at": pl.Series([datetime.datetime(2020, 1, 1)]),
            "is_in": [True],
        }
    )
    assert [repr(each) for each in columns.template(frame).values()] == [
        "Range(..., ...)",
        "Categories([...])",
        "Categories([...])",
        "Dates(..., ...)",
        "Dates(..., ...)",
        "Boolean()",
    ]


IN_TOML = {
    "{low = 17, high = 90.5}": Range(17, 90.5),
    "{low = 0, high = 9, log = true, missing = true}": Range(0, 9, True, True),
    "{low = 0, high = 9, heaps = [9, 0]}": Range(0, 9, heaps=[0, 9]),
    '["b", "a"]': Categories(["b", "a"]),
    "{values = [1, 2], missing = true}": Categories([1, 2], missing=True),
    "[false, true]": Boolean(),
    "{values = [true, false], missing = true}": Boolean(missing=True),
    '{first = 2020-01-01, last = "2020-02-01", parts = ["month"]}': Dates(
        "2020-01-01", "2020-02-01", parts=["month"]
    ),
}


def test_declarations_that_a_person_writes():
    names = [f'"{i}. column"' for i in range(len(IN_TOML))]
    text = "\n".join(
        f"{name} = {given}" for name, given in zip(names, IN_TOML, strict=True)
    )
    declared = columns.from_toml(text)
    assert list(declared.values()) == list(IN_TOML.values())
    assert list(declared) == [name.strip('"') for name in names]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = {low = ..., high = ...}", "at line 1, column 12"),
        ("# nothing", "it is empty"),
        ("a = [0, 9]", r"'a' must be a list of texts .* Got \[0, 9\]"),
        ("a = 7", "'a' is not valid: The 'values' of Categories"),
        ("a = [true]", r"Got \[True\]"),
        ("a.b = ['x']", "'a' must be .* dots or spaces into quotation marks"),
        ("a = {low = 0, last = 2020-01-01}", "'a' must be"),
        ("a = {low = 9, high = 0}", "'a' is not valid: A Range must have low < high"),
        ("a = {low = 0, high = 9, missing = 1}", "'a' is not valid: The 'missing'"),
        ("a = {low = 0, high = 9, heaps = [10]}", "'a' is not valid: The 'heaps'"),
    ],
)
def test_what_a_person_got_wrong_is_refused_by_name(text, words):
    with pytest.raises(ValueError, match=words):
        columns.from_toml(text)


def test_a_template_in_toml_can_be_read_once_it_is_filled_in():
    kinds = {'a.b "c"': "number", "day": "date", "job": "string", "é": "boolean"}
    blank = toml_template(kinds | {"raw": "other"})
    for before, after in {
        "low = ..., high = ...": "low = 0, high = 1",
        "first = ..., last = ...": "first = 2020-01-01, last = 2020-01-02",
        "[...]": '["x"]',
        "raw = ...": "",
    }.items():
        assert before in blank
        blank = blank.replace(before, after)
    assert list(columns.from_toml(blank)) == ['a.b "c"', "day", "job", "é"]
