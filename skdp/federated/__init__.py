"""Several owners: one private model over tables that nobody may pool."""

from skdp.federated._federation import Federation
from skdp.federated._plan import FederationPlan, PlanParty
from skdp.federated._remote import coordinate, serve
from skdp.federated._secrets import Key

__all__ = [
    "Federation",
    "FederationPlan",
    "Key",
    "PlanParty",
    "coordinate",
    "serve",
]
