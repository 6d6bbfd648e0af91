"""Ids of users, handed to every step within an estimator that protects them."""

from __future__ import annotations

from typing import Any

from sklearn import config_context

from skdp.pipeline._walk import walk
from skdp.privacy._adjacency import is_of_users


def steps_of_users(estimator: Any) -> list[Any]:
    """The steps of skdp that will protect all rows of a user when they are fitted."""
    told = [
        (leaf.step, leaf.privacy)
        for leaf in walk(estimator, planned=True)
        if not leaf.is_frozen
    ]
    return [
        step
        for step, privacy in told
        if privacy is not None
        and privacy.adjacency is not None
        and is_of_users(privacy.adjacency)
    ]


def fitted_to_users(model: Any, X: Any, y: Any, ids: Any) -> Any:
    """An unfitted model, fitted; whoever takes ids gets them, wherever in it they are.

    Its steps request ids from then on.
    """
    with config_context(enable_metadata_routing=True):
        for step in steps_of_users(model):
            step.set_fit_request(groups=True)
        table = (X,) if y is None else (X, y)
        return model.fit(*table, groups=ids)
