from typing import Any

import pytest

from bitstep.pipeline.config import PipelineConfig

C: Any = PipelineConfig      # whose stages may be None


@pytest.mark.parametrize("lanes, stages", [(8, 2), (9, 2), (16, 2), (21, 3), (64, 3), (128, 4),
                                           (170, 4), (512, 5)])
def test_tree_has_a_register_for_two_levels(lanes, stages):
    bus_width, bits = {8: (64, 8), 9: (64, 7), 16: (64, 4), 21: (64, 3), 64: (64, 1),
                       128: (512, 4), 170: (512, 3), 512: (512, 1)}[lanes]
    config = C(bus_width=bus_width, bits=bits)
    assert config.rows.lanes == lanes
    assert config.stages.dot.tree == stages
    assert 4 ** (stages - 1) < lanes <= 4 ** stages


def test_latencies_of_the_documentation():
    assert C(bits=4).latency == 13
    assert C(bits=1).latency == 14
    assert C(bus_width=512, bits=1).latency == 16
    assert C(bits=4, update_interval=4).latency == 16
    assert C(bits=4, loss_family="logistic", update_interval=6).latency == 16
    assert C(bits=32, row_format="float32").latency == 14
    assert C(bits=32, row_format="float32", bus_width=512).latency == 15
    assert [config.stages.solver.cycles for config in (
        C(), C(update_interval=4), C(loss_family="logistic", update_interval=6))] == [4, 5, 7]


@pytest.mark.parametrize("config, stages, cycles, delay", [
    (C(bits=4), 9, 5, 0), (C(bus_width=512, bits=1), 12, 5, 0),
    (C(bits=4, update_interval=4), 11, 15, 5), (C(bits=1, update_interval=4), 12, 15, 4),
    (C(bus_width=512, bits=1, update_interval=4), 14, 15, 2),
    (C(bits=4, loss_family="logistic", update_interval=6), 9, 15, 7),
    (C(bits=32, row_format="float32", update_interval=4), 10, 15, 6)], ids=str)
def test_times_of_the_dither(config, stages, cycles, delay):
    """A block of four rows takes no longer than four rows; the first one is there with the first
    dot product, which the delay puts off as far as it must and no further.
    """
    made = config.stages
    assert (made.dot.cycles, made.dither.cycles, made.start_delay) == (stages, cycles, delay)
    assert config.stages.dither.cycles < 4 * config.update_interval
    assert made.start_delay == 0 or made.dot.cycles + made.start_delay == cycles + 1
    assert config.latency == stages + made.solver.cycles


@pytest.mark.parametrize("config, stages, delay", [
    (C(bits=32, row_format="float32", update_interval=1), 10, 11),
    (C(bits=4, update_interval=1), 11, 10), (C(bus_width=512, bits=1, update_interval=1), 14, 7)],
    ids=str)
def test_times_of_the_dither_with_rows_in_every_cycle(config, stages, delay):
    assert (config.stages.dot.cycles, config.stages.start_delay) == (stages, delay)


@pytest.mark.parametrize("config, lanes", [(C(bits=8), 2), (C(bits=2), 2), (C(bits=1), 4),
                                           (C(bits=7, bus_width=512), 6),
                                           (C(bits=1, bus_width=512), 32)])
def test_correction_lanes(config, lanes):
    assert config.stages.corrections.lanes == lanes


def test_a_pipeline_lacks_the_stages_that_it_was_not_asked_for():
    bare = C(minibatch=False, corrections=False).stages
    assert [bare.corrections, bare.rounding, bare.proximal, bare.refetching] == [None] * 4
    assert not bare.full_passes
    bit_planes = C(bits=16, row_format="bit_planes")
    assert bit_planes.stages.has_constants
    assert bit_planes.stages.full_passes
    assert not C().stages.has_constants
    assert not C(bits=16, row_format="bit_planes", minibatch=False).stages.full_passes


def test_a_fast_clock_has_registers_everywhere():
    slow, fast = C().clock, C(update_interval=4).clock
    assert [slow.memory_wait, slow.strobe_delay, slow.memory_answer] == [0, 0, 1]
    assert [fast.memory_wait, fast.strobe_delay, fast.memory_answer] == [1, 1, 2]
    # Slots with the same index are 2 cycles apart by themselves; 4 need room after short rows.
    assert [slow.slot_distance(beats) for beats in (1, 2, 3, 4)] == [1, 1, 1, 1]
    assert [fast.slot_distance(beats) for beats in (1, 2, 3, 4)] == [1, 3, 2, 1]


@pytest.mark.parametrize("config, beats, delay", [
    (C(), 1, 10 + 1 + 1 + 8), (C(), 3, 10 + 1 + 1 + 3 * 8),     # 16 words a beat, 2 in a cycle
    (C(update_interval=4), 1, 10 + 2 + 2 + 8), (C(update_interval=1), 1, 10 + 2 + 2 + 8 + 2),
    (C(bits=16, row_format="bit_planes"), 1, 10 + 1 + 1 + 8 + 1),    # the intercept comes last
    (C(max_features=3, packed=True, lookahead=0, models=3), 3, 10 + 3 * 2)], ids=str)
def test_corrections_are_ready_after_the_walk(config, beats, delay):
    assert config.stages.corrections.delay(beats) == delay


def test_walks_of_the_model():
    slow, fast = (C(proximal=True, update_interval=cycles).stages for cycles in (2, 4))
    assert [slow.proximal.cycles(8, 1), fast.proximal.cycles(8, 1)] == [17, 18]
    # 16 lanes, 4 a cycle: 4 groups a beat; twice through 2 beats, and what lies between.
    assert C(model_bits=8).stages.rounding.cycles(2) == (8 + 1 + 2 + 7) + (8 + 1 + 4)


def test_updates_of_few_bits_and_of_full_passes_come_later():
    assert C(rounded_updates=True).latency == C().latency + 4
    logistic = {"bits": 16, "row_format": "bit_planes", "loss_family": "logistic",
                "update_interval": 6}
    assert [C(**logistic).stages.solver.fine, C(**logistic, minibatch=False).stages.solver.fine,
            C(bits=16, row_format="bit_planes").stages.solver.fine] == [4, 0, 0]


def test_packed_rows_have_stages_of_their_own():
    stages = C(max_features=3, packed=True, lookahead=0, models=3).stages
    # Two cycles to the words, three products with intercept and label in 2 levels of adders.
    assert (stages.store.words, stages.dot.tree, stages.dot.cycles) == (2, 2, 5)
    assert (stages.store.sum, stages.latency, stages.start_delay) == (1, 10, 6)
    assert stages.required_lookahead(1) == 0


@pytest.mark.parametrize("features, corrections, cycles", [
    (1, True, 4), (2, True, 4), (3, True, 5), (1, False, 4), (2, False, 4), (3, False, 4),
    (14, False, 4), (15, False, 5)])
def test_dot_products_of_packed_rows_take_as_long_as_the_largest_derivative(features, corrections,
                                                                           cycles):
    """A cycle to the step of the slot's model, and 3 to the derivative."""
    stages = C(max_features=features, packed=True, lookahead=0, corrections=corrections).stages
    assert stages.dot.cycles == cycles
