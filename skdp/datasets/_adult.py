"""Adult: census records, and whether a person earns over 50,000 dollars a year.

The schema below is what a data owner would declare: it comes from ``adult.names``,
the documentation that the set is published with, and from the questionnaire behind
it. Nothing in it was read from the records.
"""

from __future__ import annotations

import io
import os
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import fetch_openml, load_digits

from skdp._quiet import warn
from skdp.datasets._published import DATA_HOME, data_folder, published
from skdp.exceptions import StandInDataWarning

# adult.names: extracted under AAGE > 16 and HRSWK > 0, from the Current Population
# Survey of 1994. That survey tops age at 90 and hours at 99 and has five digits for
# a capital gain; education-num counts the 16 levels that adult.names lists. The
# bound on a loss is a round number above the 3,000 dollars a year that tax law lets
# a person deduct. Left out, as usual: fnlwgt, a weight of the survey and no
# attribute of the person, and education, which is education-num in words.
ADULT_BOUNDS: dict[str, tuple[float, float]] = {
    "age": (17, 90),
    "education-num": (1, 16),
    "capital-gain": (0, 99999),
    "capital-loss": (0, 5000),
    "hours-per-week": (1, 99),
}

# The values that adult.names lists, in its order and spelling. "?" stands for a
# missing value and is not declared, so it is encoded as zeros.
ADULT_CATEGORIES: dict[str, list[str]] = {
    name: values.split()
    for name, values in {
        "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov "
        "State-gov Without-pay Never-worked",
        "marital-status": "Married-civ-spouse Divorced Never-married Separated "
        "Widowed Married-spouse-absent Married-AF-spouse",
        "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial "
        "Prof-specialty Handlers-cleaners Machine-op-inspct Adm-clerical "
        "Farming-fishing Transport-moving Priv-house-serv Protective-serv "
        "Armed-Forces",
        "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
        "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
        "sex": "Female Male",
        "native-country": "United-States Cambodia England Puerto-Rico Canada Germany "
        "Outlying-US(Guam-USVI-etc) India Japan Greece South China Cuba Iran "
        "Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland "
        "France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary "
        "Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador "
        "Trinadad&Tobago Peru Hong Holand-Netherlands",
    }.items()
}

# The columns of adult.data in its order; the label comes last.
_FILE_COLUMNS = (
    "age workclass fnlwgt education education-num marital-status occupation "
    "relationship race sex capital-gain capital-loss hours-per-week native-country "
    "class"
).split()

# Checksums of the text inside the .gz files, which may be compressed anew
# (docs/notebook/data.md).
_SHA256 = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}

_FETCH_SECONDS = 20.0
# Published counts: rows of the test file, and records above 50K in train and test.
_N_TEST, _POSITIVES = 16281, (7841, 3846)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A binary task with a fixed split.

    Parameters
    ----------
    name : {"adult", "digits"}
    X_train, X_test : DataFrame
        Numeric columns are float64; the others hold strings.
    y_train, y_test : ndarray of 0 and 1
    source : str
        Where the data came from, in one line, to be printed beside results.
    """

    name: str
    X_train: pd.DataFrame
    y_train: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray
    source: str


def load_adult() -> Dataset:
    """Load the Adult census data, or scikit-learn's digits if it is not found.

    The places are the folder named by the environment variable ``SKDP_DATA_HOME``
    (layout and checksums in ``docs/notebook/data.md``), then OpenML through
    scikit-learn, which gets 20 seconds and one try. Without both the data are the
    digits that come with scikit-learn; the task is then whether a digit is odd.

    Returns
    -------
    Dataset
        Its `name` and `source` say which data it holds.

    Warns
    -----
    StandInDataWarning
        If the data are the digits.

    Raises
    ------
    ValueError
        If a file in the folder is not the published one.
    """
    folder = data_folder("adult")
    if folder is not None:
        return _from_folder(folder)
    is_set = bool(os.environ.get(DATA_HOME))
    missing = f"{DATA_HOME} " + ("has no folder adult" if is_set else "is not set")
    try:
        return _from_openml()
    except Exception as error:  # without the network there are many ways to fail
        data = _digits(f"{missing}; OpenML: {type(error).__name__} {error}")
    warn(
        f"load_adult gives {data.source}. Set {DATA_HOME} to a folder with the data "
        "(docs/notebook/data.md), or connect to the network.",
        StandInDataWarning,
    )
    return data


def _from_folder(folder: Path) -> Dataset:
    train, test = (
        pd.read_csv(
            io.BytesIO(published(folder / f"{name}.gz", _SHA256[name])),
            names=_FILE_COLUMNS,
            skipinitialspace=True,
            na_filter=False,
            comment="|",  # the first line of adult.test
        )
        for name in ("adult.data", "adult.test")
    )
    return _adult(train, test, f"Adult, from the folder in {DATA_HOME}")


def _from_openml() -> Dataset:
    """Adult from OpenML, or an exception after at most `_FETCH_SECONDS`."""
    outcome: list[pd.DataFrame | Exception] = []

    def fetch() -> None:
        try:
            # One retry, at once, is the least that fetch_openml accepts.
            options = {"as_frame": True, "parser": "auto", "n_retries": 1}
            bunch = fetch_openml("adult", version=2, delay=0.01, **options)
            outcome.append(bunch.frame)
        except Exception as error:
            outcome.append(error)

    # A daemon: a connection that hangs is left behind and does not delay the exit.
    thread = threading.Thread(target=fetch, daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the retry; the source line tells all
        thread.start()
        thread.join(_FETCH_SECONDS)
    if not outcome:
        raise TimeoutError(f"no answer in {_FETCH_SECONDS:g} seconds")
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    # Version 2 is the test file followed by the training file.
    train, test = outcome[0].iloc[_N_TEST:], outcome[0].iloc[:_N_TEST]
    return _adult(train, test, "Adult, from OpenML (version 2)")


def _adult(train: pd.DataFrame, test: pd.DataFrame, source: str) -> Dataset:
    (X_train, y_train), (X_test, y_test) = _clean(train), _clean(test)
    positives = int(y_train.sum()), int(y_test.sum())
    if positives != _POSITIVES:
        raise ValueError(
            "Adult must have the published class counts in train and test, "
            f"{_POSITIVES}. Got {positives}: another split. {source}."
        )
    return Dataset("adult", X_train, y_train, X_test, y_test, source)


def _clean(frame: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """The declared columns and the label, the same from both sources."""
    columns = {name: frame[name].astype(np.float64) for name in ADULT_BOUNDS}
    columns |= {name: _strings(frame[name]) for name in ADULT_CATEGORIES}
    X = pd.DataFrame(columns).reset_index(drop=True)
    # Labels end with a full stop in adult.test only.
    label = _strings(frame["class"]).str.rstrip(".")
    return X, (label == ">50K").to_numpy().astype(np.int64)


def _strings(column: pd.Series) -> pd.Series:
    """Stripped strings, with "?" for a missing value as in the published files."""
    return column.astype(object).fillna("?").astype(str).str.strip()


def _digits(reason: str) -> Dataset:
    X, digit = load_digits(return_X_y=True, as_frame=True)
    y = (digit % 2).to_numpy().astype(np.int64)
    is_test = np.arange(len(y)) % 5 == 4
    source = f"NOT Adult but scikit-learn's digits, odd or even: {reason}"
    X_train, X_test = (X[rows].reset_index(drop=True) for rows in (~is_test, is_test))
    return Dataset("digits", X_train, y[~is_test], X_test, y[is_test], source)
