"""The benches that ``python -m bitstep_sim.bench`` runs.

To add one: write ``bench_<name>.py`` beside this file, with ``cocotb.test`` functions that make a
:class:`~bitstep_sim.bench.support.Shell` of ``dut`` and read their configuration from the
environment, and append a :class:`Bench` for each configuration to ``BENCHES``. For the real top::

    Bench("training", config.name, "bitstep_sim.bench.bench_training",
          verilog=lambda: rtl.generate(config),
          environment={"CONFIG": json.dumps(config.to_dict())})
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bitstep_sim.bench.fixture import fixture_verilog


@dataclass(frozen=True)
class Bench:
    """A bench on a top: name, configuration in words, module, Verilog, variables for the module."""

    name: str
    configuration: str
    module: str
    verilog: Callable[[], str]
    environment: Mapping[str, str] = field(default_factory=dict)


def _shell(bus_width: int) -> Bench:
    return Bench("shell", f"{bus_width} bits", "bitstep_sim.bench.bench_shell",
                 verilog=lambda: fixture_verilog(bus_width),
                 environment={"BUS_WIDTH": str(bus_width)})


BENCHES = [_shell(64), _shell(256)]
