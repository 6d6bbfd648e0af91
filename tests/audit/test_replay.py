"""Exact audits of all that is released, and planted bugs: see `skdp.audit._exact`.

`linear` with `linear_pairs`, `models`, `tables`, `ratings` and `searches` have the
mechanisms and their worst neighbours, `exact_laws` what a
transcript does not tell, `table` all rows, ``floors.csv`` what they attain.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import skdp
from skdp.audit._exact import Replay, replayed, told_apart
from skdp.decomposition._registry import PRIVATE_FORMS
from skdp.model_selection import SCORINGS, Composition, RandomStopping
from skdp.model_selection._candidates import SearchJob
from skdp.model_selection._methods import METHODS, strength
from skdp.papers import _frank_wolfe
from skdp.papers import _output_perturbation as moved
from skdp.preprocessing._private import PrivateTransformer
from skdp.privacy.release._plan import Batch, Bound, Line, Plan, Poisson
from skdp.solvers import SOLVERS
from skdp.solvers import _objective_perturbation as tilted
from skdp.sums._gradient_sum import ExactGradientSum
from tests.audit import exact_laws, models, searches, table, tables, users
from tests.wide import covering

FLOORS = table.floors()
# Rounding of the comparison itself.
ROUNDING = 1e-9


def every(keys):
    return pytest.mark.parametrize("key", list(keys), ids=" ".join)


def best(key):
    """The pair that tells the most."""
    return table.Row(*key).candidates[FLOORS[key].best]


@pytest.mark.parametrize(
    "key",
    covering(
        [(key,) for key in FLOORS],
        lambda cell: cell[0],
        lambda cell: " ".join(cell[0]),
    ),
)
def test_honest_is_within_the_claim_and_half_the_noise_is_caught(key):
    several, stated = table.Row(*key).candidates, FLOORS[key]
    low, high = several[stated.best]((0,))
    assert stated.floor - 1e-3 <= low <= high <= 1 + ROUNDING
    assert several[stated.best]((0,), shrink=0.5)[1] > 1.4
    # One of the others; all of them in `test_every_pair_is_within_the_claim`.
    other = several[(len(key[0]) + len(key[2])) % len(several)]
    if key[0] not in models.MODELS or key[2] == "replace_one":
        assert other((0,))[1] <= 1 + ROUNDING


@pytest.mark.slow
@every(FLOORS)
def test_every_pair_is_within_the_claim(key):
    found, ceiling = table.audit(table.Row(*key))
    assert ceiling <= 1 + ROUNDING
    assert abs(found.floor - FLOORS[key].floor) < 0.01


@pytest.mark.slow
def test_every_row_is_stored():
    assert {row.key for row in table.rows()} == set(FLOORS)


# Planted bugs ------------------------------------------------------------------------


@every(key for key in FLOORS if key[0] in models.MODELS)
def test_every_answer_of_a_model_is_on_its_record(key, monkeypatch):
    name, law, relation = key
    assert 1 - 1e-6 < models.Fit(name, relation, law).spent() <= 1 + ROUNDING
    honest = Plan.event

    def last_line_is_free(self, noise_multiplier, relation):
        if self.declared is None:
            *lines, last = self.lines
            if isinstance(last, Line) and last.times > 1:
                lines.append(replace(last, times=last.times - 1))
            self = replace(self, lines=tuple(lines or self.lines))
        return honest(self, noise_multiplier, relation)

    monkeypatch.setattr(Plan, "event", last_line_is_free)
    found = models.Fit(name, relation, law).spent()
    # Of plans with one answer nothing is free.
    assert found > 1 + 1e-4 or name in ONE_ANSWER


# Plans of one answer, for this table.
ONE_ANSWER = ("constant", "robust", "weighted labels", "DPStandardScaler")
ONE_ANSWER += ("DPSimpleImputer", "DPPCA", "naive Bayes")


def halved(function):
    """One record's part where two records' parts differ."""
    return lambda *facts, **more: function(*facts, **more) / 2


@pytest.fixture(autouse=True)
def no_plan_outlives_a_bug(request):
    """Rows keep their plans, and some plans follow from what a bug is planted in."""
    has_bug = "monkeypatch" in request.fixturenames
    if has_bug:
        table.forget_plans()
    yield
    if has_bug:
        table.forget_plans()


@pytest.fixture
def forgets_a_record(monkeypatch):
    """Every bound of an exchange is that of a record that is gone, or half its own."""
    honest, gone = (
        Bound.under,
        {"replace_one": "zero_out", "replace_user": "zero_out_user"},
    )

    def under(self, relation):
        return honest(self, gone.get(relation, relation))

    monkeypatch.setattr(Bound, "under", under)
    monkeypatch.setattr(Batch, "covering", lambda self, relation: "zero_out")
    monkeypatch.setattr(tilted, "_sensitivity", halved(tilted._sensitivity))
    monkeypatch.setattr(moved, "_gradient_change", halved(moved._gradient_change))
    scores = halved(_frank_wolfe.score_sensitivity)
    monkeypatch.setattr(
        _frank_wolfe, "score_sensitivity", lambda *facts: int(scores(*facts))
    )


# What a record adds to a sample is charged for, whoever takes its place; a record's
# losses are in [0, 1], whether it is exchanged or null.
SAMPLED = {"noisy_sgd", *(f"{key}, samples" for key in table.SAMPLES)}
SAME = {name for name in SCORINGS if name.startswith("neg_")} | {"accuracy"}
EXCHANGES = [
    key
    for key in FLOORS
    if key[2] in ("replace_one", "replace_user") and key[0] not in {*SAMPLED, *SAME}
]


@every(EXCHANGES)
def test_a_bound_that_forgets_the_second_record_is_caught(key, forgets_a_record):
    is_search = key[0] in searches.METHODS
    several = table.Row(*key).candidates if is_search else [best(key)]
    assert any(each((0,))[1] > 1.1 for each in several)


def test_where_no_second_record_is_to_be_forgotten():
    for name in SAME:
        scorer = tables.scorer_of(name)
        for norm in (1, 2):
            one, two = (scorer.sensitivity(a, norm) for a in table.ADJACENCIES)
            assert one == two


def test_samples_that_are_charged_as_if_none_was_exchanged_are_caught(monkeypatch):
    honest = Poisson.event
    monkeypatch.setattr(
        Poisson, "event", lambda self, *facts: honest(self, *facts[:-1], "zero_out")
    )
    cases = exact_laws.poisson_samples("replace_one")
    assert max(exact_laws.sampled(case) for case in cases) > 1.5


WITH_INTERCEPT = [
    key
    for key in FLOORS
    if key[0] in SOLVERS and key[0] not in (*table.NOT_REPLAYED, "frank_wolfe")
]


@every(WITH_INTERCEPT)
def test_an_intercept_without_noise_is_caught(key):
    several = [best(key), *table.Row(*key).candidates[:9]]
    assert any(each((0,), is_bare=True)[1] == math.inf for each in several)


OF_USERS = [key for key in FLOORS if key[2] in users.OF_RECORDS]


# Where the sums of users are clipped, no matter how many rows they have.
OF_CLIPPED = [key for key in OF_USERS if key[0] in models.OF_USERS_ALONE]


@every(OF_CLIPPED)
def test_sums_of_users_that_are_clipped_less_are_caught(key, monkeypatch):
    honest = ExactGradientSum._most
    monkeypatch.setattr(ExactGradientSum, "_most", lambda self, w: 9 * honest(self, w))
    assert any(each((0,))[1] > 2 for each in table.Row(*key).candidates)


@every(key for key in OF_USERS if key not in OF_CLIPPED)
def test_rows_of_users_that_count_as_records_are_caught(key, monkeypatch):
    users.plant(monkeypatch, users.as_records)
    several = [best(key), *table.Row(*key).candidates[:5]]
    assert any(each((0,))[1] > 1.2 for each in several)


@pytest.mark.parametrize("shares", users.SHARES)
def test_shares_of_rows_that_are_too_large_are_caught(shares, monkeypatch):
    several = [
        *table.Row("named solver", "gaussian", "zero_out_user").candidates,
        *table.Row("noisy_gd", "gaussian", "zero_out_user").candidates[:20],
    ]
    users.plant(monkeypatch, shares)
    assert any(each((0,))[1] > 1.2 for each in several)


# Searches ----------------------------------------------------------------------------

every_law = pytest.mark.parametrize("law", table.LAWS)


def largest(name, adjacency, law):
    """Found over charged, of a search with a planted bug."""
    found = [c((0,)) for c in searches.candidates(name, adjacency, law)]
    return max(high for _, high in found)


@every_law
@pytest.mark.parametrize("kind", ["fit", "final"])
def test_fits_of_a_search_that_get_more_than_is_charged_are_caught(
    kind, law, monkeypatch
):
    """Candidates get the whole tuning share each, or the final fit the budget."""
    honest = Composition.needs

    def needs(self, multiplier, facts):
        names = ("fit", "scores", "final")
        parts = dict(zip(names, self._parts(multiplier, facts), strict=True))
        spent = {"fit": parts["fit"], "final": parts["final"]}
        spent[kind] = {"fit": parts["scores"], "final": multiplier}[kind]
        return tuple(
            replace(need, strength=strength(spent[name], facts))
            for need, name in zip(
                honest(self, multiplier, facts), ("fit", "final"), strict=True
            )
        )

    monkeypatch.setattr(Composition, "needs", needs)
    adjacency = {"fit": "zero_out", "final": "replace_one"}[kind]
    assert largest("composition", adjacency, law) > 1.1


@every_law
@pytest.mark.parametrize("name", ["disjoint_splits", "composition, two parts"])
def test_parts_that_overlap_are_caught(name, law, monkeypatch):
    honest_split, honest_fit = SearchJob.fit_and_score, SearchJob.fit

    def overlapping(self, prepared, splits, **facts):
        rows = np.arange(self.n_samples)
        both = [replace(split, train=rows) for split in splits]
        return honest_split(self, prepared, both, **facts)

    monkeypatch.setattr(SearchJob, "fit_and_score", overlapping)
    monkeypatch.setattr(
        SearchJob, "fit", lambda self, ready, rows=None: honest_fit(self, ready)
    )
    assert largest(name, "replace_one", law) > 1.3


@every_law
def test_a_choice_among_trials_that_is_not_charged_is_caught(law, monkeypatch):
    def event(self, multiplier, facts):
        return strength(multiplier, facts)

    monkeypatch.setattr(RandomStopping, "event", event)
    assert largest("random_stopping", "replace_one", law) > 1.05


# Samples: given who was drawn, an answer tells apart what its line says -------------


POISSON = ("noisy_sgd", *table.SAMPLES)


@pytest.mark.parametrize("adjacency", table.ADJACENCIES)
@pytest.mark.parametrize("key", [*POISSON, *table.BATCHES])
def test_an_answer_tells_of_a_record_only_if_it_was_drawn(key, adjacency):
    law = "gaussian" if key in POISSON else "pure"
    params = (("n_steps", 40), ("step_size", 1e-3), ("batch_size", 2))
    if key not in POISSON:
        params += (("strong_convexity", 0.1),)
    case = exact_laws.OneFeature(key, adjacency, law, params, (-1.0, 1.0))
    first = Replay(0)
    second = Replay(0, heard=first)
    for source, noise in zip(case.sources, (first, second), strict=True):
        case.run(source, noise)
    # The line of Poisson samples counts in contributions of one record.
    most = 2.0 if key in POISSON and adjacency == "replace_one" else 1.0
    worst = 0.0
    for a, b in zip(first.asked, second.asked, strict=True):
        assert a.facts == b.facts
        ratio = a.share.ratio(told_apart(a, b), a.share.cost)
        assert ratio == 0 or 0 in a.rows
        worst = max(worst, ratio)
    assert len(first.asked) == sum(line.times for line in case.plan.lines)
    attained = 0.5 if law == "pure" and adjacency == "zero_out" else 1.0
    assert 0.999 * attained * most < worst <= most * (1 + ROUNDING)


@pytest.mark.parametrize("relation", table.ADJACENCIES)
def test_a_sampled_network_tells_of_a_record_only_if_it_was_drawn(relation):
    fit, worst = models.Fit("sampled network", relation), 0.0
    most = 2.0 if relation == "replace_one" else 1.0
    for pair in fit.pairs:
        first, second, (one, other) = replayed(fit.told, pair.sides, 0)
        assert one == other
        for a, b in zip(first, second, strict=True):
            ratio = a.share.ratio(told_apart(a, b), a.share.cost)
            assert ratio == 0 or 0 in a.rows
            worst = max(worst, ratio)
    assert 0.99 * most < worst <= most * (1 + ROUNDING)


# The table --------------------------------------------------------------------------


def test_everything_that_is_released_is_in_the_table():
    names = {key[0].partition(",")[0] for key in FLOORS}
    of_models = {type(model).__name__ for model in models.MODELS.values()}
    of_models.add(models.Survival.__mro__[1].__name__)  # the audit calls a child of it
    transformers = {
        name
        for name in skdp.__all__
        if isinstance(getattr(skdp, name), type)
        and issubclass(getattr(skdp, name), PrivateTransformer)
    }
    assert transformers == set(models.TRANSFORMERS)
    others = {*table.TABLES, *tables.CONFORMAL} | {key for key, _ in PRIVATE_FORMS}
    of_table = {name.partition(",")[0] for name in models.MODELS}
    expected = {*SOLVERS, *SCORINGS, *METHODS, *of_table, *others}
    assert names == expected
    # What is made of models and rows elsewhere has audits of its own.
    assert {
        name for name in skdp.__all__ if name.startswith("DP") and name not in of_models
    } == {
        "DPCalibratedClassifier",
        "DPConformalClassifier",
        "DPConformalRegressor",
        "DPGridSearchCV",
        "DPMatrixFactorization",
        "DPRandomizedSearchCV",
        "DPTunedThresholdClassifier",
    }
    for name in names - {key for key, _ in PRIVATE_FORMS}:
        relations = {key[2] for key in FLOORS if key[0].partition(",")[0] == name}
        asked = set(models.RELATIONS if name in models.MODELS else table.ADJACENCIES)
        if name in models.OF_USERS_ALONE:
            asked = set(users.OF_RECORDS)
        assert relations >= asked, name
    takes = {key[0] for key in OF_USERS if key[0] in SOLVERS}
    assert takes == set(users.TAKES_USERS) - {"ftrl"}  # of streams alone


def test_two_gaussians_and_two_laplaces_have_the_epsilon_they_are_known_for():
    from skdp.privacy.accounting._gaussian import gaussian_epsilon

    x = np.linspace(-14.0, 15.0, 40_001)
    p, q = (np.exp(-((x - mean) ** 2) / 2) for mean in (0.0, 1.0))
    found = exact_laws.exact_epsilon(p / p.sum(), q / q.sum(), 1e-6)
    assert found == pytest.approx(gaussian_epsilon(1.0, 1e-6), rel=1e-4)
    p, q = (np.exp(-np.abs(x - mean)) for mean in (0.0, 0.5))
    found = exact_laws.exact_epsilon(p / p.sum(), q / q.sum(), 0.0)
    assert found == pytest.approx(0.5, rel=1e-3)
