"""`FederationPlan`: the file of a fit that all owners approve before it."""

from __future__ import annotations

import hashlib
import json
import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from skdp import columns as declarations
from skdp._checks import check_count
from skdp.exceptions import Refused
from skdp.federated._federation import Federation, LocalOwners, Traffic, checked_honest
from skdp.federated._secrets import KEY_BYTES
from skdp.io._reading import arrow
from skdp.losses._objective import LAYERS, Layer
from skdp.pipeline._walk import private_steps

# --------------------------------------- Estimators in plans: names and JSON parameters
# Each owner makes the estimator itself from a plan's name and parameters; no code
# travels. Estimators that are not listed, or bring entropy or a ledger, are refused.


# Modules of the estimators that a plan may fit, alone or as a step.
HOMES = {
    "BoundedScaler": "skdp.preprocessing",
    "DPCategoricalNB": "skdp.naive_bayes",
    "DPGammaRegressor": "skdp.linear_model",
    "DPGradientBoostingClassifier": "skdp.ensemble",
    "DPGradientBoostingRegressor": "skdp.ensemble",
    "DPGridSearchCV": "skdp.model_selection",
    "DPKMeans": "skdp.cluster",
    "DPLinearRegression": "skdp.linear_model",
    "DPLinearSVC": "skdp.linear_model",
    "DPLogisticRegression": "skdp.linear_model",
    "DPMLPClassifier": "skdp.neural_network",
    "DPMLPRegressor": "skdp.neural_network",
    "DPPCA": "skdp.preprocessing",
    "DPPoissonRegressor": "skdp.linear_model",
    "DPQuantileClipper": "skdp.preprocessing",
    "DPQuantileRegressor": "skdp.linear_model",
    "DPRobustClassifier": "skdp.linear_model",
    "DPSimpleImputer": "skdp.preprocessing",
    "DPSparseLinearRegression": "skdp.linear_model",
    "DPSparseLogisticRegression": "skdp.linear_model",
    "DPStandardScaler": "skdp.preprocessing",
    "Pipeline": "sklearn.pipeline",
    "RowNormClipper": "skdp.preprocessing",
    "TableEncoder": "skdp.preprocessing",
}
# Parameters that each party sets itself.
_OWN = ("ledger", "random_state")
# Parameter of a pipeline that would store rows after its steps.
_NO_MEMORY = "memory"


def params_of(model: Any) -> str:
    """Parameters as JSON, from which owners make the same estimator.

    Raises
    ------
    Refused, ValueError
        If a plan cannot hold it.
    """
    _check_kind(model)
    return json.dumps(_own_params(model), sort_keys=True, allow_nan=False)


def model_of(name: str, params: str, ledger: Any) -> Any:
    """The estimator, not fitted; all its private steps have the ledger.

    Raises
    ------
    Refused
        If it is not on the list, or brings a ledger or entropy.
    """
    model = _made(name, json.loads(params))
    for _, step in private_steps(model):
        step.set_params(ledger=ledger)
    return model


def _check_kind(model: Any) -> None:
    name = type(model).__name__
    if _kind_of(name) is not type(model):
        raise Refused(_not_listed(name))


def _kind_of(name: str) -> Any:
    if name not in HOMES:
        raise Refused(_not_listed(name))
    return getattr(import_module(HOMES[name]), name)


def _not_listed(name: str) -> str:
    return f"A plan must be of one of {sorted(HOMES)}. Got {name!r}."


def _own_params(model: Any) -> dict[str, Any]:
    given = model.get_params(deep=False)
    for name in (*_OWN, _NO_MEMORY):
        if given.pop(name, None) is not None:
            raise ValueError(
                f"The {name!r} parameter must be None in a plan: each party sets its "
                "own. Got a value."
            )
    return {name: _plain(name, value) for name, value in given.items()}


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON can hold it; types that JSON lacks are stored by name."""
    if isinstance(value, tuple):
        if name == "columns":
            return {"columns": declarations.to_json(value)}
        return {"tuple": [_plain("", one) for one in value]}
    if hasattr(value, "get_params") and not isinstance(value, type):
        _check_kind(value)
        return {"model": {type(value).__name__: _own_params(value)}}
    if isinstance(value, Layer):
        return {"layer": {type(value).__name__: vars(value)}}
    if name == "columns" and value is not None:
        return {"columns": declarations.to_json(value)}
    if isinstance(value, list):
        return [_plain("", one) for one in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"mapping": {key: _plain("", one) for key, one in value.items()}}
    if isinstance(value, dict):  # by labels that are no strings
        return {"pairs": [[_plain("", own) for own in pair] for pair in value.items()]}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise ValueError(
        "The parameters in a plan must be plain numbers, strings, lists, tuples, "
        "mappings, declared columns and estimators that a plan can have. Got an "
        f"instance of {type(value).__name__} for {name!r}."
    )


def _back(value: Any) -> Any:
    if isinstance(value, list):
        return [_back(one) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    return _BACK[kind](content)


def _made(name: str, params: dict[str, Any]) -> Any:
    if not {*_OWN, _NO_MEMORY}.isdisjoint(params):
        raise Refused(
            "A plan must leave ledgers, entropy and memory to each party. Got one with "
            "'ledger', 'random_state' or 'memory'. Ask for another plan."
        )
    return _kind_of(name)(**{key: _back(value) for key, value in params.items()})


def _model_back(content: dict[str, Any]) -> Any:
    ((name, params),) = content.items()
    return _made(name, params)


def _layer_back(content: dict[str, Any]) -> Layer:
    ((name, fields),) = content.items()
    return LAYERS[name](**fields)


_BACK: dict[str, Callable[[Any], Any]] = {
    "columns": declarations.from_json,
    "layer": _layer_back,
    "mapping": lambda content: {key: _back(one) for key, one in content.items()},
    "model": _model_back,
    "pairs": lambda content: dict(_back(content)),
    "tuple": lambda content: tuple(_back(one) for one in content),
}


# ----------------------------------------------------------------------- FederationPlan


SCHEMA = 1
_LONGEST_NAME = 64
_NO_PLAN = (
    "The file must be a plan that FederationPlan.save wrote. Got another. Ask the "
    "coordinator for it again."
)


@dataclass(frozen=True)
class PlanParty:
    """The public facts of one owner in a plan.

    Parameters
    ----------
    name : str
    n_samples : int
        Number of the owner's records.
        key : bytes
        The owner's public key, which ``python -m skdp.federated keygen`` prints in
        hexadecimal.
    """

    name: str
    n_samples: int
    key: bytes

    def __post_init__(self) -> None:
        check_count("n_samples", self.n_samples)
        is_told = isinstance(self.name, str) and self.name.isprintable()
        if not is_told or not 1 <= len(self.name) <= _LONGEST_NAME:
            raise ValueError(
                "The name of a party must be 1 to 64 printable characters, since "
                "owners read it before they approve. Got another. Shorten it."
            )
        if len(self.key) != KEY_BYTES:
            raise ValueError(
                f"A public key must have {KEY_BYTES} bytes. Got {len(self.key)}. Use "
                "what keygen prints."
            )


@dataclass(frozen=True)
class FederationPlan:
    """Plan of one fit to the tables of several owners, which each owner approves.

    Nothing in a plan depends on a record. It holds all that each owner needs to derive
    the same queries, so that no code and no weights are sent, only sums.

    Parameters
    ----------
    estimator : str
        Name of the estimator's class.
    params : str
        Parameters of the estimator as JSON.
    features : tuple of (str, str)
        Names of columns and their Arrow types, the target's included.
    target : str or None
    parties : tuple of PlanParty
    n_honest : int
        Owners trusted to draw their share of the noise.
    coordinator_key : bytes
        Public key of the coordinator.
        address : (str, int)
        Host and port of the coordinator.
    is_encrypted : bool
        Whether connections must go through TLS.
    seed : int in [0, 2^32)
        Seed of all public draws, such as the trees of boosting.
    sizes : tuple of int
        How many numbers an owner sends in each round.
        others : tuple of tuples of int
        The same for other possible runs, between which a search chooses.
        questions : bytes
        Digest of the queries in a rehearsal; every owner must find the same digest.
    """

    estimator: str
    params: str
    features: tuple[tuple[str, str], ...]
    target: str | None
    parties: tuple[PlanParty, ...]
    n_honest: int
    coordinator_key: bytes
    address: tuple[str, int]
    is_encrypted: bool = False
    seed: int = 0
    sizes: tuple[int, ...] = ()
    others: tuple[tuple[int, ...], ...] = ()
    questions: bytes = b""

    def __post_init__(self) -> None:
        checked_honest(self.n_honest, len(self.parties))
        keys = {party.key for party in self.parties} | {self.coordinator_key}
        names = {party.name for party in self.parties}
        if min(len(keys) - 1, len(names)) < len(self.parties):
            raise ValueError(
                "The parties of a plan must have different names and keys, and the "
                "coordinator another key. Got one twice. Make a key for each."
            )
        sizes = [size for path in self.paths for size in path]
        is_told = all(type(size) is int and size > 0 for size in sizes)
        is_told = is_told and type(self.is_encrypted) is bool
        if not is_told or type(self.seed) is not int or not 0 <= self.seed < 2**32:
            raise ValueError(_NO_PLAN)

    @classmethod
    def of(
        cls,
        model: Any,
        *,
        features: Mapping[str, str],
        target: str | None,
        parties: Sequence[PlanParty],
        coordinator_key: bytes,
        address: tuple[str, int],
        n_honest: int | None = None,
        is_encrypted: bool = False,
        seed: int = 0,
    ) -> Self:
        """The plan of a fit, which a rehearsal has shown to be possible.

        Parameters
        ----------
        model : estimator or Pipeline
            Not fitted, without ledger and random_state.
        features : mapping of str to str
            Arrow type of each column, the target's included, such as "double".
        target : str or None
        parties : sequence of PlanParty
        coordinator_key : bytes
        address : (host, port)
        n_honest : int in [1, n_parties - 1] or None, default=None
            As in `Federation.simulated`.
        is_encrypted : bool, default=False
            Whether connections must go through TLS, which hides sums on the way.
        seed : int in [0, 2^32), default=0
            Seed of all public draws, such as the trees of boosting. Any seed will do:
            no privacy rests on it.

        Returns
        -------
        FederationPlan

        Raises
        ------
        Refused
            If owners cannot answer a query of the fit.
        ValueError
            If an argument is not as described.
        """
        n_honest = checked_honest(n_honest, len(parties))
        plan = cls(
            type(model).__name__,
            params_of(model),
            tuple(features.items()),
            target,
            tuple(parties),
            n_honest,
            coordinator_key,
            (address[0], int(address[1])),
            is_encrypted,
            seed,
        )
        return plan._rehearsed()

    @property
    def content(self) -> str:
        """The file's text."""
        return json.dumps(
            {
                "skdp_federation_plan": SCHEMA,
                "estimator": self.estimator,
                "params": json.loads(self.params),
                "features": [list(pair) for pair in self.features],
                "target": self.target,
                "parties": [
                    {
                        "name": party.name,
                        "n_samples": party.n_samples,
                        "key": party.key.hex(),
                    }
                    for party in self.parties
                ],
                "n_honest": self.n_honest,
                "coordinator_key": self.coordinator_key.hex(),
                "address": list(self.address),
                "is_encrypted": self.is_encrypted,
                "seed": self.seed,
                "sizes": list(self.sizes),
                "others": [list(path) for path in self.others],
                "questions": self.questions.hex(),
            },
            indent=2,
            sort_keys=True,
            allow_nan=False,
        )

    @property
    def digest(self) -> bytes:
        """Digest of what owners approve; another plan has another digest."""
        return hashlib.blake2b(self.content.encode(), digest_size=32).digest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file."""
        Path(path).write_text(self.content + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a plan that `save` wrote.

        Raises
        ------
        ValueError
            If the file is not a plan.
        """
        text = Path(path).read_text(encoding="utf-8")
        found, is_same = None, False
        try:
            found = cls._read(json.loads(text))
            is_same = found is not None and found.content + "\n" == text
        except (AttributeError, KeyError, TypeError, ValueError):
            pass  # told below, without the file's own words
        if found is None or not is_same:
            raise ValueError(_NO_PLAN)
        return found

    def number(self, key: bytes) -> int:
        """Number of the party that has a public key.

        Raises
        ------
        ValueError
            If no party has it.
        """
        for number, party in enumerate(self.parties):
            if party.key == key:
                return number
        raise ValueError(
            "The key must be that of a party of the plan. Got another. Use the key "
            "whose public half was given to the coordinator."
        )

    def check_tls(self, tls: ssl.SSLContext | None, *, verifies: bool) -> None:
        """Refuse a TLS context that the plan has no use for, or that verifies nothing.

        Raises
        ------
        ValueError
        """
        if (tls is not None) != self.is_encrypted:
            raise ValueError(
                "The 'tls' parameter must be a context if the plan is encrypted, and "
                "None if not. Got the opposite. Make it with the ssl module, or ask "
                "for another plan. Nothing was charged."
            )
        if tls is not None and verifies and tls.verify_mode != ssl.CERT_REQUIRED:
            raise ValueError(
                "The 'tls' context must verify certificates. Got one that does not. "
                "Use ssl.create_default_context(cafile=...). Nothing was charged."
            )

    def model(self, ledger: Any = None) -> Any:
        """The estimator, not fitted; its private steps have the ledger."""
        return model_of(self.estimator, self.params, ledger)

    def federation(self, owners: LocalOwners) -> Federation:
        """The records of all parties, of which `owners` has some or none."""
        pa = arrow()
        fields = [(name, pa.type_for_alias(kind)) for name, kind in self.features]
        return Federation(owners, pa.schema(fields), target=self.target, columns=None)

    @property
    def traffic(self) -> Traffic:
        """The traffic that a rehearsal of the plan must find."""
        return Traffic(self.sizes, self.questions, self.others)

    @property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """Numbers in each round, for every choice that is possible."""
        return (self.sizes, *self.others)

    @property
    def longest(self) -> int:
        """Largest number of words in a round."""
        return max(size for path in self.paths for size in path)

    @property
    def sample_counts(self) -> list[int]:
        """Declared numbers of records of all parties."""
        return [party.n_samples for party in self.parties]

    def __str__(self) -> str:
        n = sum(self.sample_counts)
        owners = ", ".join(f"{one.name} ({one.n_samples:,})" for one in self.parties)
        values = max(map(sum, self.paths))
        n_rounds = " or ".join(str(n) for n in sorted(set(map(len, self.paths))))
        through = "through TLS" if self.is_encrypted else "not encrypted"
        return (
            f"Plan {self.digest.hex()[:16]}: {self.estimator} on {n:,} records of "
            f"{len(self.parties)} parties, {self.n_honest} of them trusted.\n"
            f"Parties: {owners}.\n"
            f"Parameters: {self.params}\n"
            f"Columns: {dict(self.features)}, target {self.target!r}.\n"
            f"{n_rounds} rounds, in which each party sends up to {values:,} "
            f"numbers, to {self.address[0]!r}, port {self.address[1]}, {through}."
        )

    @classmethod
    def _read(cls, found: Any) -> Self | None:
        if found.pop("skdp_federation_plan") != SCHEMA:
            return None
        # A text that is shown for approval must not be another text than it looks.
        if found["estimator"] not in HOMES:
            return None
        parties = tuple(
            PlanParty(one["name"], one["n_samples"], bytes.fromhex(one["key"]))
            for one in found["parties"]
        )
        host, port = found["address"]
        return cls(
            estimator=str(found["estimator"]),
            params=json.dumps(found["params"], sort_keys=True),
            features=tuple((str(name), str(kind)) for name, kind in found["features"]),
            target=found["target"],
            parties=parties,
            n_honest=found["n_honest"],
            coordinator_key=bytes.fromhex(found["coordinator_key"]),
            address=(str(host), int(port)),
            is_encrypted=found["is_encrypted"],
            seed=found["seed"],
            sizes=tuple(found["sizes"]),
            others=tuple(tuple(path) for path in found["others"]),
            questions=bytes.fromhex(found["questions"]),
        )

    def charges(self) -> str:
        """What each party charges to its ledger, from a rehearsal without records."""
        fitted = self.federation(self._nobody()).rehearse(self.model())
        charges = [_charge(step.privacy_) for _, step in private_steps(fitted)]
        return "\n".join(charges)

    def _nobody(self) -> LocalOwners:
        """All parties without their records, for a rehearsal."""
        owners = LocalOwners([], self.sample_counts, self.n_honest)
        owners.seed = self.seed
        return owners

    def _rehearsed(self) -> Self:
        """The plan with the rounds and questions of its fit.

        Raises
        ------
        Refused
            If they differ between owners.
        """
        found = []
        for _ in range(2):
            owners = self._nobody()
            self.federation(owners).rehearse(self.model())
            found.append(owners.traffic)
        if found[0] != found[1]:
            raise Refused(
                "A plan must have the same queries for all parties. Got a fit that "
                "draws some queries at random. Use another estimator or solver."
            )
        return type(self)(**{**vars(self), **vars(found[0])})


def _charge(record: Any) -> str:
    return (
        f"Each party charges epsilon {record.epsilon:g} and delta {record.delta:g} "
        f"to its ledger under {record.adjacency}: {record.event}."
    )
