"""The books: what is spent is written down, and a cap is never passed."""

from __future__ import annotations

import copy
import math
import pickle
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV

from skdp.__main__ import main
from skdp.exceptions import BudgetExceeded, LedgerError, NewLedgerWarning
from skdp.privacy import (
    BudgetLedger,
    ComposedEvent,
    EpsilonDeltaEvent,
    GaussianEvent,
    NonPrivateEvent,
    ObjectiveEvent,
    ParallelEvent,
    PoissonGaussianEvent,
    PureEvent,
    SelectionEvent,
    epsilon_of,
)
from skdp.privacy.accounting._gaussian import gaussian_epsilon, gaussian_mu
from skdp.privacy.ledger import _ledger
from skdp.privacy.ledger._filter import FilterState
from skdp.privacy.noise._noise import NoiseSource
from tests.privacy.books import ASKED, EVENT, VALUES, X, Y, model, refusal, spend
from tests.problems import make_ledger

# Opening -------------------------------------------------------------------------


def test_same_values_reopen_under_any_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a b.db", "100%25?x#y.db", "日本.db", "it's.db"):
        made = BudgetLedger(name, dataset=f"日本 'x' {name}", unit="Fall", **VALUES)
        spend(made, label="größer")
        facts = {"dataset": made.dataset, "unit": "Fall", "epsilon": np.float64(10)}
        again = BudgetLedger(Path(name), **VALUES | facts)
        assert made == again == BudgetLedger.open(tmp_path / name)
        assert again.spends()[0].label == "größer"
        assert made.path == str(tmp_path / name)
    assert len(list(tmp_path.iterdir())) == 4


CHANGES = [
    {"epsilon": 11.0},
    {"delta": 0.0},
    {"adjacency": "zero_out"},
    {"unit": "patient"},
    {"dataset": "other"},
    {"allow_nonprivate": True},
    {"reserve_epsilon": 2.0},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: next(iter(c)))
def test_other_values_are_refused(used, change):
    before = Path(used.path).read_bytes()
    with pytest.raises(LedgerError) as caught:
        BudgetLedger(used.path, **VALUES | change)
    (name,) = change
    for words in (used.path, f"was made with {name}=", f"Got {name}="):
        assert words in str(caught.value)
    others = {next(iter(each)) for each in CHANGES} - {name}
    if name not in ("epsilon", "delta"):  # which reserve_epsilon and _delta follow
        assert not any(f" {other}=" in str(caught.value) for other in others)
    assert Path(used.path).read_bytes() == before


WRONG = [
    ({"epsilon": 0.0}, "epsilon"),
    ({"epsilon": math.nan}, "epsilon"),
    ({"epsilon": "1"}, "epsilon"),
    ({"delta": 1.0}, "delta"),
    ({"delta": -1e-9}, "delta"),
    ({"adjacency": "add_remove"}, "adjacency"),
    ({"unit": None}, "unit"),
    ({"dataset": b"x"}, "dataset"),
    ({"allow_nonprivate": 1}, "allow_nonprivate"),
    ({"reserve_epsilon": 10.1}, "reserve_epsilon"),
    ({"reserve_epsilon": -0.1}, "reserve_epsilon"),
    ({"reserve_delta": "half"}, "reserve_delta"),
    ({"delta": 0.0, "reserve_delta": 1e-9}, "reserve_delta"),
    ({"path": ":memory:"}, "name of a file"),
    ({"path": "file::memory:?cache=shared"}, "name of a file"),
    ({"path": None}, "name of a file"),
]


@pytest.mark.parametrize(("change", "name"), WRONG)
def test_wrong_values_are_refused_and_no_file_is_made(
    tmp_path, change, name, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError), match=f"{name}|must be {name}"):
        BudgetLedger(**{"path": "ledger.db"} | VALUES | change)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [".", "missing/ledger.db"])
def test_folders_must_exist_and_are_no_ledgers(tmp_path, path):
    with pytest.raises(LedgerError, match=r"must exist|cannot be read"):
        BudgetLedger(tmp_path / path, **VALUES)
    with pytest.raises(LedgerError, match=r"no such file.*epsilon="):
        BudgetLedger.open(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


def test_a_second_ledger_for_the_same_data_warns_before_it_is_made(tmp_path):
    def create(name, dataset):
        return BudgetLedger(tmp_path / name, dataset=dataset, **VALUES)

    (tmp_path / "notes.db").write_text("no ledger")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ": new, nothing is spent" in repr(create("study.db", "ward 7"))
        create("study.db", "ward 7")  # is opened
        create("other.db", "ward 8")
        create("unlabelled.db", "")
        for name, dataset in (("studdy.db", "ward 7"), ("unlabeled.db", "")):
            with pytest.raises(NewLedgerWarning, match=r"open\(path\)") as caught:
                create(name, dataset)
            assert not (tmp_path / name).exists()
            named = "study.db" if dataset else "unlabelled.db"
            assert f"already has ['{named}']" in str(caught.value)
        warnings.simplefilter("ignore", NewLedgerWarning)
        for turn in range(10):
            create(f"a{turn}.db", "ward 7")
    with pytest.warns(NewLedgerWarning) as told:
        create("studdy.db", "ward 7")
    assert told[0].filename == __file__
    said = str(told[0].message)
    assert "already has ['study.db', " in said
    assert "] and 8 more, also for a data set" in said
    assert (tmp_path / "notes.db").read_text() == "no ledger"


# Handles -------------------------------------------------------------------------

COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda ledger: pickle.loads(pickle.dumps(ledger)),
    "clone of a clone": lambda ledger: clone(clone(model(ledger=ledger))).ledger,
}


@pytest.mark.parametrize("make_copy", COPIES.values(), ids=COPIES)
def test_copies_are_equal_handles_on_the_same_ledger(used, make_copy):
    other = make_copy(used)
    assert (other, hash(other), vars(other)) == (used, hash(used), vars(used))
    assert all(isinstance(value, (str, float, bool)) for value in vars(used).values())
    spend(other, label="by the copy")
    assert [s.label for s in used.spends()] == [s.label for s in other.spends()]
    assert len(used.spends()) == 4


# Spending ------------------------------------------------------------------------


def test_spends_are_written_down_exactly(ledger):
    spend(ledger, label="one")
    model(epsilon=0.5, delta=1e-7, ledger=ledger).fit(X, Y)
    model(ledger=ledger, solver_params={"n_steps": np.int32(3)}).fit(X, Y)
    first, second, third = ledger.spends()
    assert (first.id, first.label, first.event) == (1, "one", EVENT)
    assert (second.epsilon, second.delta) == (0.5, 1e-7)
    assert second.label == "DPLogisticRegression(solver='noisy_gd')"
    assert second.event.count == third.event.count == 3
    assert second.committed_at.endswith("+00:00")


@pytest.mark.parametrize("delta", [1e-6, 1e-9])
def test_spent_is_the_composed_epsilon(tmp_path, delta):
    ledger = make_ledger(tmp_path, delta=delta)
    assert ledger.spent().epsilon == 0.0
    for _ in range(10):
        spend(ledger, GaussianEvent(8.0))
    together = epsilon_of(GaussianEvent(8.0, 10), delta)
    assert math.isclose(ledger.spent().epsilon, together)
    assert ledger.spent().delta == delta


def test_remaining_is_accepted_and_a_bit_more_is_not(ledger):
    for _ in range(2):
        model(epsilon=2.0, ledger=ledger).fit(X, Y)
    left = ledger.remaining().epsilon
    assert ledger.remaining().delta == ledger.delta
    with pytest.raises(BudgetExceeded):
        model(epsilon=1.01 * left, ledger=ledger).fit(X, Y)
    model(epsilon=left, ledger=ledger).fit(X, Y)
    assert ledger.remaining().epsilon < 0.1
    assert ledger.spent().epsilon <= ledger.epsilon


def test_one_fit_may_use_the_whole_cap(tmp_path):
    ledger = make_ledger(tmp_path, epsilon=1.0)
    model(ledger=ledger).fit(X, Y)
    with pytest.raises(BudgetExceeded):
        model(epsilon=0.01, ledger=ledger).fit(X, Y)
    pure = BudgetLedger(tmp_path / "pure.db", epsilon=0.3, delta=0.0, dataset="other")
    for _ in range(3):  # tenths that add up to more than 0.3 in floating point
        spend(pure, PureEvent(0.1))
    with pytest.raises(BudgetExceeded):
        spend(pure, PureEvent(1e-6))


def test_what_remains_by_kind_is_admitted_and_hardly_more(tmp_path):
    ledger = make_ledger(tmp_path, reserve_epsilon=2.0, reserve_delta=4e-7)
    assert "reserve_epsilon=2, reserve_delta=4e-07)" in repr(ledger)
    assert BudgetLedger.open(ledger.path) == ledger
    spend(ledger)
    for kind, event in (
        ("gaussian", lambda e, d: GaussianEvent(1 / gaussian_mu(e, d))),
        ("pure", lambda e, d: PureEvent(e)),
        ("any", EpsilonDeltaEvent),
    ):
        left = ledger.remaining(kind)
        assert left.noise == kind
        assert ledger.admits([(event(left.epsilon, left.delta), 0.0)])
        if kind != "any":  # a black box could still be charged a mu
            more = event(1.01 * left.epsilon, left.delta)
            assert not ledger.admits([(more, 0.0)])
    assert (ledger.remaining("any").epsilon, ledger.remaining("any").delta) == (2, 4e-7)
    assert ledger.remaining() == ledger.remaining("gaussian")
    with pytest.raises(ValueError, match="'kind' parameter must be"):
        ledger.remaining("sampled")
    assert len(ledger.spends()) == 1


def test_parts_of_another_adjacency_are_refused_however_deep(ledger, monkeypatch):
    part = PoissonGaussianEvent(1.0, 0.01, 1000, adjacency="zero_out")
    search = ParallelEvent((GaussianEvent(3.0), ParallelEvent((part,))))
    for event in (part, ComposedEvent((part,)), search, ComposedEvent((search,))):
        with pytest.raises(ValueError, match="must be declared for adjacency"):
            spend(ledger, event)
    assert ledger.spends() == []
    # The twin looks at leaves only.
    monkeypatch.setattr(_ledger, "_leaves_within", lambda event: event.leaves)
    spend(ledger, search)
    own = replace(part, adjacency="replace_one")
    assert epsilon_of(own, 1e-6) > 1.8 * ledger.spent().epsilon


def test_sampled_fits_come_before_and_after_gaussian_ones(tmp_path):
    ledger = make_ledger(tmp_path, epsilon=3.0, adjacency="zero_out")
    sampled = PoissonGaussianEvent(3.0, 0.01, 100)
    for event in (sampled, GaussianEvent(20.0), sampled, ObjectiveEvent(30.0, 0.001)):
        spend(ledger, event)
    frame = ledger.to_frame()
    first, third = frame.loc[[0, 2]].to_numpy()[:, -3:]
    assert (first == third).all()  # whatever came between
    assert 0 < frame["charged_delta"].sum() < 5e-7


# Refusals ------------------------------------------------------------------------


def test_refusal_says_what_a_pure_release_counts_as(tmp_path):
    ledger = make_ledger(tmp_path, epsilon=3.0)
    spend(ledger, GaussianEvent(1 / gaussian_mu(1.0, 1e-6)))
    text = refusal(ledger, PureEvent(0.5))
    found = re.search(
        r"fit may cost at most epsilon=(\S+), delta=1e-06 with Gaussian noise, or "
        r"epsilon=(\S+) if it is pure\. Nothing was read or spent: ask for less, ",
        text,
    )
    gaussian, pure = map(float, found.groups())
    assert gaussian > 0.5 > pure  # the figure that once stood alone, and the true one
    left = gaussian_mu(gaussian, 1e-6)
    state = ledger._state(ledger._store.read())
    for event, is_admitted in (
        (GaussianEvent(1 / (0.999 * left)), True),
        (GaussianEvent(1 / (1.001 * left)), False),
        (PureEvent(0.999 * pure), True),
        (PureEvent(1.001 * pure), False),
    ):
        assert (state.charged(event).exhausted() is None) == is_admitted
    assert "other noise" not in refusal(ledger, GaussianEvent(1.0), delta=1e-6)
    objective = ObjectiveEvent(4.0, 0.5)
    text = refusal(ledger, objective, delta=1e-6)
    found = re.search(r"other noise and counts as mu=(\S+), where mu=(\S+), del", text)
    counts, room = map(float, found.groups())
    assert counts == float(f"{math.sqrt(objective.gdp_mu_squared):.4g}")
    assert room == pytest.approx(left, rel=1e-3)


def test_a_refusal_has_three_short_sentences(ledger):
    text = refusal(ledger, GaussianEvent(0.1))
    first, second, third, link = re.split(r"\. (?=[A-Z])", text)
    assert re.search(r"refuses .* at epsilon=\S+, delta=\S+: epsilon ran out", first)
    assert second.startswith("One more fit may cost at most epsilon=")
    assert third.startswith("Nothing was read or spent: ask for less")
    assert link.startswith("See https://")
    assert all(len(each.split()) <= 24 for each in (first, second, third))


HINT = r"with reserve_epsilon=(\S+) and reserve_delta=(\S+) would have had room"
SEARCH = SelectionEvent(GaussianEvent(20.0), "negative_binomial", 3.0, 30, 0.0)


@pytest.mark.parametrize("event", [PureEvent(0.6), SEARCH, ObjectiveEvent(4.0, 0.3)])
def test_refusal_names_the_set_aside_that_would_have_sufficed(tmp_path, event):
    fit = GaussianEvent(1 / gaussian_mu(1.0, 1e-6))

    def after_the_fit(name, **reserve):
        values = {"epsilon": 3.0, "delta": 1e-6, "dataset": name}
        ledger = BudgetLedger(tmp_path / f"{name}.db", **values | reserve)
        spend(ledger, fit)
        return ledger

    text = refusal(after_the_fit("first"), event, 2e-7)
    epsilon, delta = map(float, re.search(HINT, text).groups())
    told = {"reserve_epsilon": epsilon, "reserve_delta": delta}
    assert 0 < epsilon < 3
    assert after_the_fit("told", **told).admits([(event, 2e-7)])
    half = told | {"reserve_epsilon": epsilon / 2}  # the twin
    assert not after_the_fit("half", **half).admits([(event, 2e-7)])
    full = make_ledger(tmp_path, epsilon=3.0)
    spend(full, GaussianEvent(1 / gaussian_mu(2.5, 1e-6)))
    assert re.search(HINT, refusal(full, PureEvent(1.0))) is None


@pytest.mark.parametrize(
    ("change", "name"), [({"epsilon": 0.01}, "epsilon"), ({"delta": 0.0}, "delta")]
)
def test_refused_fits_change_nothing_and_say_what_ran_out(tmp_path, change, name):
    ledger = make_ledger(tmp_path, **change)
    before = Path(ledger.path).read_bytes()
    with pytest.raises(BudgetExceeded, match=f"{name} ran out") as caught:
        model(ledger=ledger).fit(X, Y)
    assert Path(ledger.path).read_bytes() == before
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        error = pickle.loads(pickle.dumps(caught.value, protocol))
        assert str(error) == str(caught.value)
        assert (error.ledger, error.exhausted) == (ledger.path, name)


def test_input_that_is_refused_costs_nothing(ledger):
    wrong = [(np.full_like(X, np.nan), Y), (X[:1], Y), (X, Y + 1), (X[:, :0], Y)]
    for rows, labels in wrong:
        with pytest.raises(ValueError, match=r"NaN|inconsistent|labels|0 feature"):
            model(ledger=ledger).fit(rows, labels)
    assert ledger.spends() == []


@pytest.mark.parametrize("error", [RuntimeError("noise"), KeyboardInterrupt()])
def test_spend_is_never_refunded(ledger, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(NoiseSource, "gaussian", fail)
    with pytest.raises(type(error)):
        model(ledger=ledger).fit(X, Y)
    assert len(ledger.spends()) == 1
    assert not hasattr(ledger, "refund")


def test_fits_of_another_adjacency_or_unit_are_refused(tmp_path, ledger):
    with pytest.raises(ValueError, match=r"adjacency='replace_one'.*'zero_out'"):
        model(adjacency="zero_out", ledger=ledger).fit(X, Y)
    with pytest.raises(ValueError, match="one ledger for each adjacency"):
        ledger.commit(EVENT, adjacency="zero_out", budget=ASKED, label="x")
    patients = BudgetLedger(tmp_path / "b.db", unit="patient", dataset="b", **VALUES)
    with pytest.raises(ValueError, match=r"unit must be 'record'.*'patient'"):
        model(ledger=patients).fit(X, Y)
    with pytest.raises(TypeError, match="None or a BudgetLedger"):
        model(ledger=ledger.path).fit(X, Y)
    assert ledger.spends() == patients.spends() == []


NOT_PRIVATE = [
    {"random_state": 0},
    {"epsilon": math.inf, "solver": "auto", "solver_params": None},
]


@pytest.mark.parametrize("change", NOT_PRIVATE, ids=["seed", "infinite"])
def test_fits_that_are_not_private_are_refused_or_make_the_total_infinite(
    tmp_path, change
):
    for allowed in (False, True):
        path = tmp_path / f"{allowed}.db"
        ledger = BudgetLedger(
            path, dataset=path.stem, allow_nonprivate=allowed, **VALUES
        )
        if not allowed:
            with pytest.raises(ValueError, match="allow_nonprivate=True"):
                model(ledger=ledger, **change).fit(X, Y)
            assert ledger.spends() == []
    model(ledger=ledger).fit(X, Y)
    model(ledger=ledger, **change).fit(X, Y)
    assert ledger.spends()[1].event == NonPrivateEvent()
    assert ledger.spent().epsilon == math.inf
    assert ledger.remaining().epsilon == 0.0
    assert ledger.to_frame()["epsilon_total"].tolist()[1:] == [math.inf]


def test_nonprivate_part_of_an_event_is_not_overlooked(ledger):
    for event in (NonPrivateEvent(), ComposedEvent((EVENT, NonPrivateEvent()))):
        with pytest.raises(ValueError, match="accepts only private fits"):
            spend(ledger, event)


# Searches of scikit-learn --------------------------------------------------------


def search(ledger, **options):
    settings = {"fit_intercept": [True, False]}
    return GridSearchCV(model(ledger=ledger), settings, cv=2, **options)


def capped(folder, n_fits):
    """A ledger that admits so many fits at epsilon 1, and not one more."""
    mu = math.sqrt(n_fits + 0.5) * gaussian_mu(1.0, 1e-6)
    return make_ledger(folder, epsilon=gaussian_epsilon(mu, 1e-6))


def test_refused_folds_are_named_in_the_warning_and_a_refit_is_not_lost(tmp_path):
    ledger = capped(tmp_path, 3)
    with (
        pytest.warns(FitFailedWarning, match=f"BudgetExceeded(.|\n)*{ledger.path}"),
        pytest.warns(UserWarning, match="non-finite"),
        pytest.raises(BudgetExceeded, match="epsilon ran out"),
    ):
        search(ledger).fit(X, Y)
    assert len(ledger.spends()) == 3


# Reading the books ---------------------------------------------------------------

COLUMNS = ["id", "committed_at", "label", "epsilon", "delta", "event"]
COLUMNS += ["epsilon_alone", "epsilon_total"]
COLUMNS += ["charged_epsilon", "charged_delta", "charged_mu"]


def test_frame_has_a_row_per_fit_and_running_totals(used):
    frame = used.to_frame()
    assert frame.columns.tolist() == COLUMNS
    assert frame["id"].tolist() == [1, 2, 3]
    assert frame["label"].tolist() == ["first", "second", "third"]
    assert frame["event"][1] == '{"count": 1, "epsilon": 0.25, "event": "pure"}'
    alone = [epsilon_of(spend.event, 1e-6) for spend in used.spends()]
    assert frame["epsilon_alone"].tolist() == alone
    assert frame["epsilon_total"].is_monotonic_increasing
    assert frame["epsilon_total"].iloc[-1] == used.spent().epsilon
    assert used.to_event() == ComposedEvent(tuple(s.event for s in used.spends()))


def test_an_empty_ledger_is_shown(ledger, capsys):
    assert ledger.to_frame().columns.tolist() == COLUMNS
    assert len(ledger.to_frame()) == 0
    assert main(["ledger", ledger.path]) == 0
    assert "new, nothing is spent" in capsys.readouterr().out


def test_a_ledger_says_what_is_spent_and_left_for_which_noise(tmp_path, capsys):
    facts = {"unit": "visit", "dataset": "<ward>"}
    ledger = BudgetLedger(tmp_path / "a<b.db", **VALUES, **facts)
    spend(ledger, PureEvent(4.0))
    assert "up to epsilon 6, delta 1e-06 with any noise" in repr(ledger)
    assert "delta=1e-06 with any noise. Nothing" in refusal(ledger, PureEvent(11.0))
    html = ledger._repr_html_()
    for words in (
        "a&lt;b.db",
        "&lt;ward&gt;",
        "width:40%",
        "up to epsilon 6, delta 1e-06 with any noise",
    ):
        assert words in html
    spend(ledger, label="second")
    left, spent = ledger.remaining(), ledger.spent().epsilon
    assert left.pure_epsilon < left.epsilon
    for words in (
        ledger.path,
        f"2 releases together cost epsilon {spent:.4g} at",
        f"up to epsilon {left.epsilon:.4g}, delta 1e-06 with Gaussian noise",
        f"(epsilon {left.pure_epsilon:.4g} if it is pure); all releases together then",
        "only releases made with it, no raw scores",
    ):
        assert words in repr(ledger)
    assert main(["ledger", ledger.path]) == 0
    told = capsys.readouterr().out
    for words in (
        "epsilon 10, delta 1e-06",
        f"2 releases together cost epsilon {spent:.4g} at",
        "with Gaussian noise (",
        "unit visit",
        "Raw scores, and choices made from them, are not private",
        "second",
    ):
        assert words in told
    box = BudgetLedger(tmp_path / "box.db", **VALUES)
    spend(box, EpsilonDeltaEvent(1.0, 1e-6))
    assert "up to epsilon 9, delta 0 with any noise" in repr(box)
    Path(ledger.path).unlink()
    assert "unreadable" in ledger._repr_html_()


# Audits of charges ---------------------------------------------------------------


def test_audit_finds_what_was_charged_less(tmp_path, monkeypatch):
    ledger = make_ledger(tmp_path, reserve_epsilon=1.0)
    sampled = PoissonGaussianEvent(4.0, 0.01, 100, "replace_one")
    for event in (PureEvent(0.1), sampled, EVENT, ObjectiveEvent(9.0, 0.05), sampled):
        spend(ledger, event)
    assert len(ledger.spends(verify=True)) == 5
    honest = FilterState.charge_of

    def half(state, event, delta=0.0):
        return honest(state, event, delta).times(0.5)

    monkeypatch.setattr(FilterState, "charge_of", half)
    spend(ledger, sampled, label="cheap")
    monkeypatch.setattr(FilterState, "charge_of", honest)
    assert len(ledger.spends()) == 6
    with pytest.raises(LedgerError, match="Got entry 6, cheap, charged less"):
        ledger.spends(verify=True)


def test_audit_finds_what_passed_the_cap(tmp_path, monkeypatch, capsys):
    ledger = make_ledger(tmp_path, epsilon=1.0)
    assert main(["ledger", ledger.path, "--verify"]) == 0
    assert "Verified: every release" in capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setattr(FilterState, "exhausted", lambda state: None)
        spend(ledger, PureEvent(2.0))
    with pytest.raises(LedgerError, match="Got entry 1"):
        ledger.spends(verify=True)
    assert main(["ledger", ledger.path, "--verify"]) == 1
