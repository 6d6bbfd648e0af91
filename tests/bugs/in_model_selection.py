"""Bugs in scores, searches, held-out records and folds."""

from __future__ import annotations

from tests.bugs.bug import Bug

METHODS = "skdp/model_selection/_methods.py"
SUMS = "skdp/model_selection/_scorer_sums.py"
CANDIDATES = "skdp/model_selection/_candidates.py"
T = "tests/model_selection"

BUGS: list[Bug] = [
    Bug(
        "a score above its range is not clipped",
        "clip",
        SUMS,
        "        found = np.clip(inside, worst, worst + 1.0)\n",
        "        found = np.maximum(inside, worst)\n",
        (T,),
    ),
    Bug(
        "targets of r2 are not clipped to their bounds",
        "clip",
        "skdp/model_selection/_scorers.py",
        "    v = np.clip(np.nan_to_num(v), -1.0, 1.0)\n",
        "    v = np.nan_to_num(v)\n",
        (T,),
    ),
    Bug(
        "the bound of r2 forgets that v and its square move together",
        "sensitivity",
        "skdp/model_selection/_scorers.py",
        '("replace_one", 2): _rounded(5**0.5, 2)',
        '("replace_one", 2): _rounded(2.0, 2)',
        (T,),
    ),
    Bug(
        "a record that is exchanged moves one count",
        "sensitivity",
        SUMS,
        '("replace_one", 2): math.sqrt(2) * (1 + 1e-12)',
        '("replace_one", 2): 1.0 + 1e-12',
        (T,),
    ),
    Bug(
        "a record for which a model raises has the score of another",
        "clip",
        SUMS,
        "    found[failing] = worst\n",
        "",
        (T,),
    ),
    Bug(
        "each row of a user adds a whole count",
        "users",
        SUMS,
        "counts = np.bincount(place[is_there], weights, minlength=self.size)",
        "counts = np.bincount(place[is_there], minlength=self.size)",
        (T,),
    ),
    Bug(
        "a probability at a threshold is below it",
        "model",
        SUMS,
        'positive, side="right")',
        'positive, side="left")',
        (T,),
    ),
    Bug(
        "the final fit is booked beside the tuning, of the same records",
        "accounting",
        METHODS,
        "        return ComposedEvent((tuning, final))\n",
        "        return ParallelEvent((*tuning.parts, final))\n",
        (T,),
    ),
    Bug(
        "all fits of candidates are booked as one",
        "accounting",
        METHODS,
        "fits = replace(strength(fit, facts), count=facts.n_candidates)",
        "fits = replace(strength(fit, facts), count=1)",
        (T,),
    ),
    Bug(
        "candidates are fitted to the records on which they are scored",
        "accounting",
        METHODS,
        "Split(order[:trained], order[trained : trained + scored])",
        "Split(order[: trained + scored], order[trained : trained + scored])",
        (T,),
    ),
    Bug(
        "the final fit has the records that were scored too",
        "accounting",
        METHODS,
        "is None else order[trained + scored :]",
        "is None else order[trained:]",
        (T,),
    ),
    Bug(
        "one record of a trial is fitted and scored",
        "accounting",
        METHODS,
        "Split(order[scored:], order[:scored])",
        "Split(order[scored - 1 :], order[:scored])",
        (T,),
    ),
    Bug(
        "the held-out records are in the fit",
        "accounting",
        METHODS,
        "Split(order[held_out:], order[:held_out])",
        "Split(order, order[:held_out])",
        (T,),
    ),
    Bug(
        "the best candidate is chosen by exact scores",
        "noise",
        METHODS,
        "        best = best_of(released, scores, facts)\n"
        "        rows = None",
        "        best = best_of([job._exact[t.number] for t in trials], scores, facts)\n"
        "        scores = np.array([job.scorer.score(job._exact[t.number], scored)"
        " for t in trials])\n"
        "        best = int(np.argmax(scores))\n"
        "        rows = None",
        (T,),
    ),
    Bug(
        "one trial more than was drawn",
        "noise",
        METHODS,
        "count = job.draws.weighted_index(self.trials.weights)",
        "count = 1 + job.draws.weighted_index(self.trials.weights)",
        (T,),
    ),
    Bug(
        "progress counts secret trials",
        "message",
        METHODS,
        "[split] * runs, say=False)[:count]",
        "[split] * runs, say=True)[:count]",
        (T,),
    ),
    Bug(
        "a fixed duration ends with the last drawn trial",
        "message",
        METHODS,
        "        runs = self.max_trials if self.fixed_duration else count\n",
        "        runs = count\n",
        (T,),
    ),
    Bug(
        "candidates are fitted with twice what is booked",
        "fraction",
        METHODS,
        "            Need(trained, strength(fit, facts)),\n",
        "            Need(trained, strength(fit / 2, facts)),\n",
        (T,),
    ),
    Bug(
        "trials share a cache on the disk",
        "message",
        CANDIDATES,
        '    fixed = {"verbose": False, "memory": None, "n_jobs": 1}\n',
        '    fixed = {"verbose": False, "n_jobs": 1}\n',
        (T,),
    ),
    Bug(
        "a trial prints what its steps print",
        "message",
        CANDIDATES,
        "        with silence():\n            records.fitted(model)\n",
        "        records.fitted(model)\n",
        (T,),
    ),
    Bug(
        "an error of another's step quotes an entry",
        "message",
        CANDIDATES,
        '    if str(module).startswith("skdp.") or speaks_of_parameters:\n',
        '    if str(module).split(".")[0] in ("skdp", "sklearn"):\n',
        (T,),
    ),
    Bug(
        "the models of a search have no ledger",
        "ledger",
        "skdp/model_selection/_results.py",
        "        if not isinstance(step, PrivateEstimator):\n"
        "            continue\n"
        "        step.set_params(ledger=ledger, random_state=None)\n",
        "        if not isinstance(step, PrivateEstimator):\n"
        "            continue\n"
        "        step.set_params(ledger=None, random_state=None)\n",
        (T,),
    ),
    Bug(
        "the threshold itself is negative",
        "model",
        "skdp/model_selection/_held_out_models.py",
        "is_positive = self.decision_function(X) >= 0",
        "is_positive = self.decision_function(X) > 0",
        (T,),
    ),
    Bug(
        "a user's fold follows from the number of users before",
        "users",
        "skdp/model_selection/_splits.py",
        'drawn = [number_of(f"{seed} {user}") % n_splits for user in users.texts()]',
        'drawn = [number_of(f"{seed} {i}") % n_splits for i in range(len(users.texts()))]',
        (T,),
    ),
    Bug(
        "folds of users split the rows of a user",
        "users",
        "skdp/model_selection/_splits.py",
        "        return np.array(drawn, dtype=np.int64)[codes]\n",
        "        return (np.array(drawn)[codes] + np.arange(len(codes)) // 1000) "
        "% n_splits\n",
        (T,),
    ),
]
