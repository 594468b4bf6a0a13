# amaranth: UnusedElaboratable=no

"""Tops of pipelines whose options are drawn: whatever a configuration may be can be built."""

import itertools
import os
import random
import sys

import pytest
from amaranth import tracer
from amaranth.hdl import Fragment

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.top import Top

_OPTIONS = {
    "row_format": ["one_level", "two_levels", "float32", "bit_planes"],
    "bits": [1, 2, 3, 4, 5, 6, 7, 8, 16, 32], "bus_width": [64, 128, 256],
    "max_features": [1, 3, 8, 40, 100, 700], "lookahead": [0, 1, 4, 16, 24],
    "update_interval": [1, 2, 4, 6], "loss_family": ["linear", "logistic"],
    "batch_lookahead": [0, 1, 3, 7], "model_bits": [0, 2, 7, 16], "models": [1, 2, 3, 8],
    "row_ports": [1, 2],
    **{name: [False, True] for name in (
        "minibatch", "corrections", "proximal", "refetch", "codebooks", "rounded_updates", "packed",
        "row_weights")},
}
_MOST_LANES = 64        # wider ones take longer, and have nothing else
# Options that one other rules out are drawn less often than not.
_RARE = {"refetch": 0.15, "packed": 0.15, "codebooks": 0.25, "rounded_updates": 0.25}


def _draw(rng):
    """A configuration and its options; None if its options do not go together."""
    options = {name: rng.choice(values) for name, values in _OPTIONS.items()}
    options |= {name: rng.random() < share for name, share in _RARE.items()}
    for name in ("model_bits", "batch_lookahead"):
        options[name] *= rng.random() < 0.5
    options["bits"] = {"float32": 32, "bit_planes": 16}.get(options["row_format"], options["bits"])
    try:
        config = PipelineConfig(**options)
    except ValueError:
        return None
    return (config, options) if config.rows.lanes <= _MOST_LANES else None


def _drawn(seed):
    """Pairs of configurations and options."""
    rng = random.Random(seed)
    return (drawn for drawn in iter(lambda: _draw(rng), 0) if drawn is not None)


def _failures(configs):
    """What cannot be built, by name, with its error."""
    found = {}
    for config in configs:
        try:
            Fragment.get(Top(config), None)
        except Exception as error:      # of any kind
            found[config.name] = f"{type(error).__name__}: {error}"
    return found


@pytest.fixture(autouse=True)
def each_signal_has_a_name(monkeypatch):
    """Names are what waveforms show and what the placer sorts by. Amaranth reads a name from the
    bytecode around the call, and from ``a, b = Signal(), Signal()`` it reads one, or with Python
    3.13 and later none. Its own memories are its own affair.
    """
    name_of, unnamed = tracer.get_var_name, set()

    def recorded(depth=2, default=None):
        if default is None:
            return name_of(depth + 1)
        name = name_of(depth + 1, default)
        caller = sys._getframe(depth)
        if name == default and not caller.f_globals["__name__"].startswith("amaranth."):
            unnamed.add(f"{caller.f_code.co_filename}:{caller.f_lineno}")
        return name

    monkeypatch.setattr(tracer, "get_var_name", recorded)
    yield
    assert unnamed == set()


# Rows with weights that look ahead enter the solver before their largest derivative, if few lanes
# make the dot product early.
AHEAD = [PipelineConfig(bits=bits, max_features=40, lookahead=16, update_interval=1,
                        batch_lookahead=1, row_weights=True, **options)
         for bits, options in (
             (8, {"corrections": False}), (4, {"models": 2, "proximal": True}),
             (5, {"codebooks": True}), (2, {}), (1, {}))]


@pytest.mark.by_day(2)
@pytest.mark.parametrize("config", AHEAD, ids=lambda config: config.name)
def test_rows_with_weights_that_look_ahead(config):
    assert _failures([config]) == {}


def test_others_today():
    """A few narrow ones, others in every run."""
    narrow = (config for config, _ in _drawn(os.environ["BITSTEP_TEST_SEED"])
              if config.rows.lanes <= 16 and config.models <= 3)
    assert _failures(itertools.islice(narrow, 3)) == {}


@pytest.mark.slow
def test_every_two_options():
    """Of many configurations those that make values of two options meet for the first time."""
    met, configs = set(), []
    for config, options in itertools.islice(_drawn(0), 3000):
        pairs = set(itertools.combinations(sorted(options.items()), 2))
        if not pairs <= met:
            met |= pairs
            configs.append(config)
    assert len(configs) > 100
    assert _failures(configs) == {}
