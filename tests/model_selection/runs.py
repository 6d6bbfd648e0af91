"""A search taken apart: its plan, its records, and single runs of its method."""

from __future__ import annotations

from skdp.model_selection._candidates import SearchJob, SearchRecords
from skdp.privacy import Budget
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._answers import Grant, LocalAnswers
from skdp.privacy.release._plan import DrawsOf
from tests.door import OpenDoor


def plan_of(search, X, y, seed=None):
    """What a search settles before it is paid for."""
    noise = NoiseSource(seed)
    budget = Budget(search.epsilon, search.delta)
    door = OpenDoor(budget, adjacency=search.adjacency, noise=noise)
    return search._plan(SearchRecords(X, y), door)


def job_of(plan, X, y, noise=None, *, seed=None, n_jobs=None):
    """The records of a search, and orders and counts from a noise source."""
    draws, facts = DrawsOf(noise or NoiseSource()), plan.facts
    records = SearchRecords(X, y)
    return SearchJob(records, facts.adjacency, facts.scorer, draws, seed, n_jobs, False)


def runner(plan, job, noise):
    """A function that runs the method once, with answers of its own each time."""
    method, facts, z = plan.chosen.method, plan.facts, plan.noise_multiplier
    asked = method.plan(facts)
    grant = Grant(asked.event(z, facts.adjacency), z, facts.adjacency)

    def run():
        answers = LocalAnswers(asked, job, grant, noise)
        return method.run(job, answers, plan.candidates, facts)

    return run
