"""Bit-plane rows on simulated boards: configurations, and runs that must be golden's."""

from hypothesis import strategies as st
from simulated import TestedDevice, compare, lookahead_registers, open_board

from bitstep.cycles import Memory, count_epochs
from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.results import RangeOverflowError, beats_read

LINEAR = PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=4096, lookahead=6)
LOGISTIC = PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=4096, lookahead=2,
                          update_interval=6, loss_family="logistic")
FAST = PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=272, lookahead=4,
                      update_interval=4, proximal=True)
WIDE = PipelineConfig(row_format=BIT_PLANES, bits=16, bus_width=256, row_ports=4,
                      max_features=256, lookahead=1, proximal=True)
# Around the edges of groups of 4, of slots of 16 values, of beats, and of chunks.
FEATURES = [1, 3, 4, 5, 15, 16, 17, 63, 64, 65, 256]
CLOCK_HZ = 100e6
MEMORIES = st.sampled_from([{}, {"memory_latency": 1}, {"memory_latency": 32},
                            {"memory_latency": 60, "memory_gbps": 0.5},
                            {"memory_latency": 5, "stall_probability": 0.4}])


def run(config, job, lookahead=None, **options):
    """Run a job: golden's models, the counters of the cycle model. Returns the result."""
    lookahead = config.ahead.of_rows(job.beats) if lookahead is None else lookahead
    expected = list(train(job))
    overflowed = bool(expected[-1].overflow)
    with open_board(config, clock_hz=CLOCK_HZ, **options) as board:
        device = TestedDevice(board, registers=lookahead_registers(job, lookahead))
        try:
            result = device.train(job)
            assert not overflowed
        except RangeOverflowError as error:
            assert overflowed
            result = error.result
        assert board.board.stray_accesses == 0
    compare(result, expected[:len(expected) - overflowed])
    if "stall_probability" not in options:
        gbps = options.get("memory_gbps")
        memory = Memory(options.get("memory_latency", 20), gbps and gbps * 1e9 / CLOCK_HZ)
        counted, _ = count_epochs(job, memory, lookahead=lookahead, epochs=result.epochs_done,
                                  overflowed=overflowed)
        measured = dict(result.counters)
        if overflowed:
            assert counted.pop("overflows") is None
            assert measured.pop("overflows")
        assert counted == measured
    if not overflowed:
        assert result.counters["beats"] == beats_read(job, len(job.epochs))
    return result
