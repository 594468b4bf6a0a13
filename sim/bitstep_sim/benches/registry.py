"""The benches that ``python -m bitstep_sim.benches`` runs.

To add one: write ``bench_<name>.py`` beside this file, with ``cocotb.test`` functions that make a
:class:`~bitstep_sim.benches.support.Shell` of ``dut`` and read their configuration from the
environment, and append a :class:`Bench` for each configuration to ``BENCHES``.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANE_BITS, BIT_PLANES
from bitstep_sim.benches.fixture import fixture_verilog
from bitstep_sim.board import verilog as rtl


@dataclass(frozen=True)
class Bench:
    """A bench on a top: name, configuration in words, module, Verilog, variables for the module."""

    name: str
    configuration: str
    module: str
    verilog: Callable[[], str]
    environment: Mapping[str, str] = field(default_factory=dict)


def _shell(bus_width: int) -> Bench:
    return Bench("shell", f"{bus_width} bits", "bitstep_sim.benches.bench_shell",
                 verilog=lambda: fixture_verilog(bus_width),
                 environment={"BUS_WIDTH": str(bus_width)})


def _top(config: PipelineConfig) -> Bench:
    return Bench("top", config.name, "bitstep_sim.benches.bench_top",
                 verilog=lambda: rtl.generate(config),
                 environment={"CONFIG": json.dumps(config.to_dict())})


BENCHES = [
    _shell(64), _shell(256),
    _top(PipelineConfig(bits=4, max_features=48, lookahead=6)),
    _top(PipelineConfig(bits=3, row_format="two_levels", bus_width=128, row_ports=2,
                        max_features=100, lookahead=2, update_interval=4)),
    _top(PipelineConfig(bits=3, max_features=48, lookahead=4, proximal=True, refetch=True)),
    _top(PipelineConfig(bits=32, row_format="float32", max_features=6, lookahead=3, proximal=True)),
    _top(PipelineConfig(bits=4, max_features=40, lookahead=2, loss_family="logistic",
                        update_interval=6, models=2)),
    _top(PipelineConfig(bits=4, max_features=40, lookahead=3, update_interval=4, models=3)),
    _top(PipelineConfig(bits=BIT_PLANE_BITS, row_format=BIT_PLANES, max_features=40, lookahead=2,
                        update_interval=4, proximal=True)),
]
