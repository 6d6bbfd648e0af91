"""Events say what they cost."""

from __future__ import annotations

import pytest

from skdp.privacy.accounting._events import Single


def test_an_event_that_forgets_its_cost_cannot_be_defined():
    with pytest.raises(TypeError, match="must define a cost"):

        class Forgetful(Single):
            pass


def test_an_event_that_states_one_cost_has_none_of_the_others():
    class Stated(Single):
        @property
        def pure_epsilon(self):
            return 2.0

    event = Stated()
    assert (event.mu_squared, event.pure_epsilon, event.box_delta) == (0.0, 2.0, 0.0)
    assert event.leaves == (event,)
