"""Text data in small files, and the facts of the synthetic designs."""

from __future__ import annotations

import bz2
import hashlib

import numpy as np
import pytest
from scipy.sparse import csr_matrix, issparse

from benchmarks import _sparse_data as texts
from benchmarks._data import MissingData
from benchmarks._sparse_design import Design, relative_error, support_f1
from skdp.datasets import _reviews, load_reviews

TRAIN = b"-3.5 1:0.6 4:0.8\n-2 2:1\n1.5 1:1\n"
TEST = b"0.5 3:1\n-1 2:0.6 4:0.8\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKDP_DATA_HOME", str(tmp_path))
    return tmp_path


def write(folder, **files):
    folder.mkdir()
    for name, content in files.items():
        packed = bz2.compress(content)
        (folder / name.replace("_dot_", ".")).write_bytes(packed)


def test_svmlight_files_have_the_declared_width_and_stay_sparse(home):
    write(home / "e2006_tfidf", E2006_dot_train_dot_bz2=TRAIN)
    with pytest.raises(MissingData, match=r"E2006\.test\.bz2.*data\.md"):
        texts.e2006(10)
    (home / "e2006_tfidf" / "E2006.test.bz2").write_bytes(bz2.compress(TEST))
    data = texts.e2006(10)
    assert data.X_train.shape == (3, 10)
    assert data.X_test.shape == (2, 10)
    assert data.X_train.dtype == np.float32
    assert issparse(data.X_test)
    assert data.X_train.indices.dtype == np.int32
    assert data.y_train.tolist() == [-3.5, -2, 1.5]
    expected = np.zeros((2, 10))
    expected[0, 2], expected[1, 1], expected[1, 3] = 1, 0.6, 0.8
    assert data.X_test.toarray() == pytest.approx(expected)


def test_a_feature_beyond_the_declared_width_is_refused(home):
    (home / "x").mkdir()
    (home / "x" / "a").write_bytes(TRAIN)
    (home / "x" / "b").write_bytes(TEST)
    texts.svmlight("x", ("a", "b"), n_features=4, labels=False)
    with pytest.raises(ValueError, match="n_features"):
        texts.svmlight("x", ("a", "b"), n_features=3, labels=False)


def test_labels_become_zero_and_one(home):
    write(
        home / "rcv1",
        rcv1_train_dot_binary_dot_bz2=b"-1 1:1\n+1 2:1\n1 3:1\n",
        rcv1_test_dot_binary_dot_bz2=b"-1 1:1\n",
    )
    data = texts.rcv1(5)
    assert data.y_train.tolist() == [0, 1, 1]
    assert data.y_test.tolist() == [0]


@pytest.mark.parametrize("load", [lambda: texts.imdb("stars", "counts"), texts.reuters])
def test_missing_folders_are_refused_with_what_to_do(home, load):
    with pytest.raises(MissingData, match=r"docs/data\.md"):
        load()


def reviews(folder):
    """Two training and two test reviews of four words."""
    folder.mkdir()
    part = {"indptr": [0, 2, 3], "counts": [1, 3, 2], "y": [0, 1], "rating": [2, 9]}
    arrays = {"n_unsup": 8, "df_unsup": [7, 1, 3, 0]}
    for name, indices in (("train", [2, 0, 1]), ("test", [0, 3, 2])):
        for key, value in (part | {"indices": indices}).items():
            kind = np.int32 if key == "indptr" else np.uint8
            arrays[f"{name}_{key}"] = np.array(value, kind)
    np.savez(folder / "imdb_bow.npz", **arrays)
    (folder / "vocab.txt").write_text("the\nbad\ngood\nodd\n")


def accept_forged(folder, monkeypatch):
    for name in _reviews._SHA256:
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        monkeypatch.setitem(_reviews._SHA256, name, digest)


def test_only_published_reviews_are_read(home, monkeypatch):
    folder = home / "imdb_reviews"
    reviews(folder)
    with pytest.raises(ValueError, match=r"imdb_bow\.npz as published"):
        load_reviews()
    accept_forged(folder, monkeypatch)
    # Broken twin: with the digests of other files they are taken.
    assert load_reviews().name == "IMDB reviews"
    (folder / "vocab.txt").write_text("the\nbad\ngood\neven\n")
    with pytest.raises(ValueError, match=r"vocab\.txt as published"):
        load_reviews()
    monkeypatch.chdir(home)
    monkeypatch.delenv("SKDP_DATA_HOME")
    assert "Synthetic" in load_reviews().source


def test_reviews_as_counts_and_as_weighted_words(home, monkeypatch):
    reviews(home / "imdb_reviews")
    accept_forged(home / "imdb_reviews", monkeypatch)
    counts = texts.imdb("stars", "counts")
    assert counts.X_train.toarray().tolist() == [[3, 0, 1, 0], [0, 2, 0, 0]]
    assert counts.y_test.tolist() == [2, 9]
    weighted = texts.imdb("sentiment", "tfidf")
    assert weighted.y_train.tolist() == [0, 1]
    idf = np.log(9 / np.array([8, 2, 4, 1])) + 1
    row = np.log(1 + np.array([3, 0, 1, 0])) * idf
    expected = row / np.linalg.norm(row)
    assert weighted.X_train[0].toarray()[0] == pytest.approx(expected)
    # The other rows of the part have no influence on a row.
    assert weighted.X_train[1].toarray()[0] == pytest.approx([0, 1, 0, 0])
    loaded = load_reviews()
    assert loaded.words == ["the", "bad", "good", "odd"]
    assert (loaded.X_train != weighted.X_train).nnz == 0
    assert loaded.y_test.tolist() == [0, 1]


def test_synthetic_documents_stand_in_for_the_reviews(home):
    loaded = load_reviews()
    assert "Synthetic" in loaded.source
    assert loaded.X_train.shape == (20_000, len(loaded.words))
    norms = np.sqrt(loaded.X_test.multiply(loaded.X_test).sum(axis=1).A1)
    assert norms == pytest.approx(1, abs=1e-6)
    good = [loaded.words.index(f"good{number}") for number in range(6)]
    with_good = (loaded.X_train[:, good].sum(axis=1).A1 > 0).astype(float)
    assert np.corrcoef(with_good, loaded.y_train)[0, 1] > 0.2


def test_samples_are_the_same_for_the_same_numbers():
    rng = np.random.default_rng(0)
    X = csr_matrix(rng.uniform(size=(20, 30)))
    data = texts.Parts(X, np.arange(20.0), X[:10], np.arange(10.0))
    one = texts.sampled(data, n_features=7, n_train=5, n_test=4)
    two = texts.sampled(data, n_features=7, n_train=5, n_test=4)
    assert one.X_train.shape == (5, 7)
    assert one.X_test.shape == (4, 7)
    assert (one.X_train != two.X_train).nnz == 0
    assert one.y_train.tolist() == two.y_train.tolist()
    rows = one.y_train.astype(int)
    columns = texts.sampled(data, n_features=7).X_train
    assert (one.X_train != columns[rows]).nnz == 0
    assert texts.sampled(data, n_train=50).X_train.shape == (20, 30)


DESIGNS = [
    Design(n=300, d=400, s=6, kind=kind, labels=labels)
    for kind in ("rows", "entries", "signs")
    for labels in (False, True)
]


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_designs_keep_what_they_declare(design):
    for run in range(3):
        sample = design.sample(run)
        assert sample.X.shape == (300, 400)
        assert sample.X.dtype == np.float32
        assert np.count_nonzero(sample.weights) == 6
        assert np.abs(sample.weights).max() <= 1
        rows = sample.X.astype(float)
        norms = np.linalg.norm(rows, axis=1)
        assert norms.max() <= design.data_norm * (1 + 1e-6)
        assert np.abs(rows).max() <= design.feature_bound * (1 + 1e-6)
        assert (rows**2).mean() == pytest.approx(design.entry_variance, rel=0.05)
        assert set(sample.y) == {0, 1} or not design.labels


def test_rows_are_shortened_to_twice_the_number_of_features():
    sample = Design(n=50, d=400, s=6, kind="rows").sample(0)
    assert np.linalg.norm(sample.X, axis=1) == pytest.approx(12.0)


@pytest.mark.parametrize("kind", ["rows", "entries", "signs"])
def test_targets_have_the_declared_deviation_and_labels_the_sign_of_the_model(kind):
    design = Design(n=400, d=50, s=20, kind=kind)
    squares = [np.mean(design.sample(run).y ** 2) for run in range(20)]
    # The weights of a run move its mean square by about a fifth.
    assert np.mean(squares) == pytest.approx(design.deviation**2, rel=0.35)
    for run in range(3):
        sample = Design(n=4000, d=50, s=40, kind=kind, labels=True).sample(run)
        assert np.corrcoef(sample.X @ sample.weights, sample.y)[0, 1] > 0.2


def test_runs_differ_and_repeat():
    design = DESIGNS[0]
    assert (design.sample(1).X == design.sample(1).X).all()
    assert (design.sample(1).weights != design.sample(2).weights).any()


def test_scores_of_weights():
    true = np.array([1.0, 0, -1, 0])
    assert relative_error(true, true) == 0
    assert relative_error(0 * true, true) == 1
    assert support_f1(true, true) == 1
    assert support_f1(np.array([2.0, 3, 0, 0]), true) == 0.5
    assert support_f1(0 * true, true) == 0
