"""A serial line to a simulated board, with faults, and the manifest of its system."""

import json

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.boards.serial.system import SystemConfig
from bitstep_sim.board.verilog import identity

PIPELINE = PipelineConfig(bits=4, max_features=64, lookahead=1)
# A slow clock makes a second few cycles; 8 cycles a bit are the fewest that the receiver takes.
SYSTEM = SystemConfig(pipeline=PIPELINE, memory_bytes=16 * 1024, clock_hz=800_000, baud=100_000,
                      gap_s=0.01)


def write_manifest(folder, system):
    path = folder / "manifest.json"
    path.write_text(json.dumps({"config": system.pipeline.to_dict(),
                                "identity": f"{identity(system.pipeline):032x}",
                                "system": {"baud": system.baud}}))
    return path


class Faulty:
    """A line that does to some packets what noise and bad cables do.

    ``plan`` maps the number of a write or of a read to a function of its bytes.
    """

    def __init__(self, line, *, writes=None, reads=None):
        self.line, self.plans = line, {"write": writes or {}, "read": reads or {}}
        self.counts = {"write": 0, "read": 0}
        self.name = line.name

    def _change(self, kind, data):
        self.counts[kind] += 1
        return self.plans[kind].get(self.counts[kind], bytes)(data)

    def write(self, data):
        self.line.write(self._change("write", data))

    def read(self, n_bytes, timeout_s):
        return self._change("read", self.line.read(n_bytes, timeout_s))[:n_bytes]

    def discard(self):
        self.line.discard()

    def sleep(self, seconds):
        self.line.sleep(seconds)

    def close(self):
        self.line.close()


def flipped(data):
    """One bit in the middle is wrong."""
    return data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 0x10]) + data[len(data) // 2 + 1:]
