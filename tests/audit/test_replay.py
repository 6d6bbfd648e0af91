"""Exact audits of all that is released, and planted bugs: see `skdp.audit._exact`.

`linear` with `linear_pairs`, `tables`, `ratings` and `searches` have the mechanisms and
their worst neighbours, `exact_laws` what a transcript does not tell, `table` all rows,
`floors` what they attain. The other tests here are sampled attacks: one for each law in
`make test`, all in `make test-all`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import skdp
from skdp.audit._exact import Replay, told_apart
from skdp.decomposition._registry import PRIVATE_FORMS
from skdp.model_selection import SCORINGS, Composition, RandomStopping
from skdp.model_selection._candidates import SearchJob
from skdp.model_selection._methods import METHODS, strength
from skdp.papers import _frank_wolfe
from skdp.papers import _output_perturbation as moved
from skdp.preprocessing._private import PrivateTransformer
from skdp.privacy.release._plan import Batch, Bound, Poisson
from skdp.solvers import SOLVERS
from skdp.solvers import _objective_perturbation as tilted
from tests.audit import exact_laws, searches, table, tables
from tests.audit.floors import FLOORS, REASONS
from tests.wide import covering

ROWS = {row.key: row for row in table.rows()}
PAGE = Path(__file__).parents[2] / "docs" / "notebook" / "audits.md"
# Rounding of the comparison itself.
ROUNDING = 1e-9


def on_axes(cell):
    """Each mechanism under each adjacency, and each law."""
    ((name, law, adjacency),) = cell
    return (name, adjacency), (law, adjacency)


every_row = pytest.mark.parametrize(
    "key",
    covering([(key,) for key in ROWS], on_axes, lambda cell: " ".join(cell[0])),
)


@every_row
def test_honest_is_within_the_claim_and_less_noise_is_caught(key):
    row, stated = ROWS[key], FLOORS[key]
    found = table.audit(row)
    assert found.ceiling <= 1 + ROUNDING
    assert stated <= found.floor < stated + 0.01
    assert table.twin(row, shrink=0.5) > 1.4
    if found.floor >= 0.95:
        assert table.twin(row, shrink=0.9) > 1.04


def halved(function):
    """One record's part where two records' parts differ."""
    return lambda *facts, **more: function(*facts, **more) / 2


@pytest.fixture
def forgets_a_record(monkeypatch):
    """Every bound under replace_one is that of zero_out, or half of its own."""
    honest = Bound.under

    def under(self, relation):
        is_other = relation == "replace_one"
        return honest(self, "zero_out" if is_other else relation)

    monkeypatch.setattr(Bound, "under", under)
    monkeypatch.setattr(Batch, "covering", lambda self, relation: "zero_out")
    monkeypatch.setattr(tilted, "_sensitivity", halved(tilted._sensitivity))
    monkeypatch.setattr(moved, "_gradient_change", halved(moved._gradient_change))
    scores = halved(_frank_wolfe.score_sensitivity)
    monkeypatch.setattr(
        _frank_wolfe, "score_sensitivity", lambda *facts: int(scores(*facts))
    )


# One record's losses are in [0, 1], whether it is exchanged or null.
SAME = {
    "accuracy",
    "neg_log_loss",
    "neg_mean_absolute_error",
    "neg_mean_squared_error",
    "neg_mean_pinball_loss",
    "neg_mean_poisson_deviance",
    "neg_mean_gamma_deviance",
}
# What a record adds to a sample is charged for, whoever takes its place.
SAMPLED = {"noisy_sgd", *(f"{key}, samples" for key in table.SAMPLES)}
EXCHANGES = [
    key for key in ROWS if key[2] == "replace_one" and key[0] not in {*SAMPLED, *SAME}
]


@pytest.mark.parametrize("key", EXCHANGES, ids=" ".join)
def test_a_bound_that_forgets_the_second_record_is_caught(key, forgets_a_record):
    assert any(candidate((0,))[1] > 1.1 for candidate in ROWS[key].candidates)


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
    for key in ROWS
    if key[0] in SOLVERS and key[0] not in (*table.NOT_REPLAYED, "frank_wolfe")
]


@pytest.mark.parametrize("key", WITH_INTERCEPT, ids=" ".join)
def test_an_intercept_without_noise_is_caught(key):
    several = ROWS[key].candidates[:20]
    assert max(candidate((0,), is_bare=True)[1] for candidate in several) == math.inf


# Searches ----------------------------------------------------------------------------

every_law = pytest.mark.parametrize("law", table.LAWS)


def largest(name, adjacency, law):
    """Found over charged, of a search with a planted bug."""
    found = [c((0,)) for c in searches.candidates(name, adjacency, law)]
    return max(high for _, high in found)


def spends(monkeypatch, **shares):
    """Fits of a composition get other shares of the budget than are charged."""
    honest = Composition.needs

    def needs(self, multiplier, facts):
        parts = dict(
            zip(("fit", "scores", "final"), self._parts(multiplier, facts), strict=True)
        )
        spent = {"fit": parts["fit"], "final": parts["final"]}
        spent |= {k: share(parts, multiplier) for k, share in shares.items()}
        return tuple(
            replace(need, strength=strength(spent[kind], facts))
            for need, kind in zip(
                honest(self, multiplier, facts), ("fit", "final"), strict=True
            )
        )

    monkeypatch.setattr(Composition, "needs", needs)


@every_law
def test_candidates_that_get_the_whole_tuning_share_each_are_caught(law, monkeypatch):
    spends(monkeypatch, fit=lambda parts, multiplier: parts["scores"])
    assert largest("composition", "zero_out", law) > 1.1


@every_law
def test_a_final_fit_that_is_not_charged_is_caught(law, monkeypatch):
    spends(monkeypatch, final=lambda parts, multiplier: multiplier)
    assert largest("composition", "replace_one", law) > 1.1


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

    assert largest("random_stopping", "replace_one", law) <= 1 + ROUNDING
    monkeypatch.setattr(RandomStopping, "event", event)
    assert largest("random_stopping", "replace_one", law) > 1.05


# Samples: given who was drawn, an answer tells apart what its line says -------------


POISSON = ("noisy_sgd", *table.SAMPLES)


@pytest.mark.parametrize("adjacency", table.ADJACENCIES)
@pytest.mark.parametrize("key", [*POISSON, "heavy_ball", "multistage", "nesterov"])
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
        found, charged = told_apart(a, b), a.share.cost
        ratio = math.sqrt(found / charged) if law == "gaussian" else found / charged
        assert ratio == 0 or 0 in a.rows
        worst = max(worst, ratio)
    assert len(first.asked) == sum(line.times for line in case.plan.lines)
    attained = 0.5 if law == "pure" and adjacency == "zero_out" else 1.0
    assert 0.999 * attained * most < worst <= most * (1 + ROUNDING)


# The table --------------------------------------------------------------------------


def test_everything_that_is_released_is_in_the_table():
    assert set(FLOORS) == set(ROWS)
    names = {key[0].partition(",")[0] for key in ROWS}
    transformers = {
        name
        for name in skdp.__all__
        if isinstance(getattr(skdp, name), type)
        and issubclass(getattr(skdp, name), PrivateTransformer)
    }
    forms = {key for key, _ in PRIVATE_FORMS}
    assert names == {*SOLVERS, *SCORINGS, *METHODS, *transformers, *forms}
    for name in names - forms:
        seen = {key[2] for key in ROWS if key[0] == name}
        assert seen == {"replace_one", "zero_out"}, name


def test_what_is_far_from_attained_has_a_reason():
    assert set(REASONS) == {key for key, floor in FLOORS.items() if floor < 0.8}


def test_the_page_states_the_floors():
    page = PAGE.read_text()
    for (name, law, adjacency), floor in FLOORS.items():
        assert f"| {name} | {law} | {adjacency} | {floor:.3f} |" in page
    for reason in REASONS.values():
        assert reason in page


def test_two_gaussians_and_two_laplaces_have_the_epsilon_they_are_known_for():
    from skdp.privacy.accounting._gaussian import gaussian_epsilon

    x = np.linspace(-14.0, 15.0, 40_001)
    p, q = (np.exp(-((x - mean) ** 2) / 2) for mean in (0.0, 1.0))
    found = exact_laws.exact_epsilon(p / p.sum(), q / q.sum(), 1e-6)
    assert found == pytest.approx(gaussian_epsilon(1.0, 1e-6), rel=1e-4)
    p, q = (np.exp(-np.abs(x - mean)) for mean in (0.0, 0.5))
    found = exact_laws.exact_epsilon(p / p.sum(), q / q.sum(), 0.0)
    assert found == pytest.approx(0.5, rel=1e-3)
