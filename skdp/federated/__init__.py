"""Several owners: one private model over tables that nobody may pool."""

from skdp.federated._federation import Federation

__all__ = ["Federation"]
