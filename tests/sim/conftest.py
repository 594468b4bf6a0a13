"""Makes the helpers beside the tests importable: pytest's importlib mode does not."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[1] / "host"))      # fakes of host libraries


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave to ``-m slow`` the tests of boards that no other test by day compiles: each takes 20 to
    50 core seconds.
    """
    from drawn_jobs import BY_NIGHT
    for item in items:
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if any(value is config for value in values for config in BY_NIGHT):
            item.add_marker("slow")
