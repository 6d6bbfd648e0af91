"""The bound that the sampled attacks here use, at their confidence."""

from __future__ import annotations

from functools import partial

from skdp.audit._bounds import epsilon_lower_bound as _bound

epsilon_lower_bound = partial(_bound, confidence=0.999)
