"""The door as tests use it: any noise, any multiplier, solvers planned by hand."""

from __future__ import annotations

from skdp._configured import given_params
from skdp._fit import Progress
from skdp.exceptions import Refused
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._answers import Grant, LocalAnswers
from skdp.privacy.release._door import Door
from skdp.privacy.release._plan import DrawsOf


class OpenDoor(Door):
    """A door whose noise a test brings along."""

    def __init__(self, budget, *, adjacency, ledger=None, noise=None):
        super().__init__(budget, adjacency=adjacency, ledger=ledger, random_state=None)
        if noise is not None:
            self._noise, self.is_private = noise, noise.is_private
            self.draws = DrawsOf(noise)


def answers_for(plan, source, multiplier, relation, noise=None):
    """Answers with noise of a given multiplier, on nobody's books."""
    grant = Grant(plan.event(multiplier, relation), multiplier, relation)
    return LocalAnswers(plan, source, grant, noise or NoiseSource())


def run(solver, source, objective, multiplier, noise=None, progress=None):
    """One run of a planned solver with noise of a given multiplier."""
    plan = solver.plan(objective)
    answers = answers_for(plan, source, multiplier, objective.adjacency, noise)
    return solver.run(answers, objective, progress or Progress())


def planned(kind, objective, budget, **params):
    """A solver of a kind, what is not given decided by rule."""
    given = given_params(kind, kind.key, params)
    return kind.planned(given, objective, budget)


def refusal(kind, objective, budget, **params):
    """Why a kind of solver cannot do the job, or an empty string."""
    try:
        planned(kind, objective, budget, **params)
    except Refused as refused:
        return str(refused)
    return ""


def event_of(solver, multiplier, objective):
    """What a run releases, for accounting."""
    return solver.plan(objective).event(multiplier, objective.adjacency)
