"""Solvers by their names."""

import pytest

from bitstep.training.objective import Training
from bitstep.training.solvers import solver_of


@pytest.mark.parametrize("name", ["adam", "auto", None, ["sgd"]])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match=r"^solver must be one of 'sgd', 'bit-centred', not "):
        solver_of(name)
    with pytest.raises(ValueError, match=r"^solver must be one of 'sgd', 'bit-centred', not "):
        Training(steps=[1.0], solver=name)
