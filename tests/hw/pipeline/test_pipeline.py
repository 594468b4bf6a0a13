# amaranth: UnusedElaboratable=no

import dataclasses

import pytest
from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.hdl import MemoryInstance
from amaranth.lib import memory
from support import run_pipeline

from bitstep.golden.dither import epoch_key
from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.registers import LabelFormat, Loss, Overflow
from bitstep_hw.pipeline.pipeline import Pipeline
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import Elaborated, once
from bitstep_sim.testing.random_jobs import random_job

SMALL = {"bus_width": 64, "max_features": 20}
FORMATS = [("one_level", bits) for bits in range(1, 9)] \
    + [("two_levels", bits) for bits in range(2, 9)]
BY_DAY = [("one_level", 3), ("one_level", 8), ("two_levels", 2), ("two_levels", 5)]


def check(config, *, lookahead=None, stall=0.0, dut=None, **options):
    """Every epoch as golden; returns the cycles of each."""
    job = random_job(config, **options)
    dut = dut or once(Pipeline, config=config)
    results = run_pipeline(dut, job, lookahead=lookahead, stall=stall)
    expected = list(train(job))
    assert len(results) == len(expected)
    for (model, intercept, overflowed, _), golden in zip(results, expected, strict=True):
        assert golden.overflow == Overflow(0)
        assert overflowed == 0
        assert (model, intercept) == (golden.model.tolist(), golden.intercept)
    return [cycles for *_, cycles in results]


@pytest.mark.by_day(1)
@pytest.mark.parametrize("row_format, bits", [
    pytest.param(*each, marks=[] if each in BY_DAY else pytest.mark.slow) for each in FORMATS])
def test_every_format(row_format, bits):
    config = PipelineConfig(bits=bits, row_format=row_format, lookahead=2, **SMALL)
    check(config, n_features=min(config.rows.lanes + 1, config.rows.capacity), n_rows=9, epochs=2,
          seed=bits)


@pytest.mark.by_day(1)
@pytest.mark.covering(1)
@pytest.mark.parametrize("update_interval", [2, 4])
@pytest.mark.parametrize("row_format, bits", [("one_level", 1), ("two_levels", 2)])
def test_lanes_without_a_feature(row_format, bits, update_interval):
    """Where no code says 0, a mask does, in a row's last beat and in no other."""
    config = PipelineConfig(bits=bits, row_format=row_format, lookahead=2,
                            update_interval=update_interval, max_features=128)
    for n_features in (config.rows.lanes + 1, 2 * config.rows.lanes - 1):
        check(config, n_features=n_features, n_rows=9, seed=bits)


@pytest.mark.by_day(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("update_interval", [2, 4])
@pytest.mark.parametrize("lookahead", [0, 1, 7])
@pytest.mark.parametrize("n_features", [3, 20])
def test_update_interval_and_look_aheads(update_interval, lookahead, n_features):
    config = PipelineConfig(bits=8, row_format="two_levels", lookahead=lookahead,
                            update_interval=update_interval, **SMALL)
    check(config, n_features=n_features, n_rows=14, epochs=1, seed=update_interval)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("lookahead", range(5))
def test_look_ahead_of_a_run(lookahead):
    config = PipelineConfig(bits=8, lookahead=4, **SMALL)
    check(config, n_features=9, n_rows=14, lookahead=lookahead)


@pytest.mark.by_day(3)
@pytest.mark.covering(1)
@pytest.mark.parametrize("batch", [2, 3, 4, 5, 9, 40])
@pytest.mark.parametrize("period", [0, 1, 3])
@pytest.mark.parametrize("n_features", [5, 20])
def test_batches_and_corrections(batch, period, n_features):
    config = PipelineConfig(bits=8, lookahead=3, **SMALL)
    check(config, n_features=n_features, n_rows=22, batch=batch, correction_period=period * batch,
          seed=batch)


def garble(memory, platform):
    """A memory that answers the wrong bits for those that are written in the same cycle, if its
    attributes let it.
    """
    m = Module()
    m.submodules.instance = instance = MemoryInstance(data=memory._data, attrs=memory.attrs)
    writes = {port: instance.write_port(domain=port.domain, addr=port.addr, data=port.data,
                                        en=port.en) for port in memory._write_ports}
    for read in memory._read_ports:
        data = Value.cast(read.data)
        answer, wrong = Signal(len(data)), Signal(len(data))
        instance.read_port(domain=read.domain, data=answer, addr=read.addr, en=read.en,
                           transparent_for=tuple(writes[port] for port in read.transparent_for))
        m.d.comb += data.eq(answer ^ wrong)
        if "no_rw_check" in memory.attrs:
            (write,) = writes
            bits = Cat(enable.replicate(len(data) // len(write.en)) for enable in write.en)
            with m.If(read.en):
                m.d.sync += wrong.eq(Mux(write.addr == read.addr, bits, 0))
    return m


@pytest.mark.parametrize("n_features", [
    5, *(pytest.param(count, marks=pytest.mark.slow) for count in (12, 20, 30))])
def test_no_word_is_used_that_is_being_written(n_features, monkeypatch):
    """Rows of 1 to 4 beats for a fast clock, with everything that keeps words in memories."""
    monkeypatch.setattr(memory.Memory, "elaborate", garble)
    config = PipelineConfig(bits=8, lookahead=3, update_interval=4, max_features=32)
    dut = Elaborated(Pipeline(config=config))
    check(config, n_features=n_features, n_rows=24, epochs=2, batch=3, correction_period=9,
          warm=True, dut=dut)
    check(config, n_features=n_features, n_rows=24, correction_period=4, stall=0.3, warm=True,
          dut=dut)
    config = dataclasses.replace(config, refetch=True, proximal=True)
    check(config, n_features=n_features, n_rows=24, loss=Loss.HINGE, cell_half_levels=2,
          proximal_period=9, warm=True, dut=Elaborated(Pipeline(config=config)))


@each("stall", [0.3, 0.8])
def test_stalls_change_nothing(stall):
    config = PipelineConfig(bits=5, lookahead=3, **SMALL)
    check(config, n_features=15, n_rows=15, batch=2, correction_period=6, stall=stall, warm=True,
          label_format=LabelFormat.SIGN)


# Rows without weights are read again in the two tests beside this one, too.
@pytest.mark.parametrize("weighted", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("bits, cell, lookahead, update_interval", [
    (5, 2, 4, 2), *(pytest.param(*others, marks=pytest.mark.slow)
                    for others in ((3, 1, 0, 2), (3, 1, 4, 4), (8, 2, 4, 2)))])
def test_refetching(bits, cell, lookahead, update_interval, weighted):
    config = PipelineConfig(bits=bits, lookahead=lookahead, update_interval=update_interval,
                            refetch=True, proximal=True, row_weights=weighted, **SMALL)
    check(config, n_features=min(config.rows.lanes + 1, 15), n_rows=60, epochs=2, loss=Loss.HINGE,
          cell_half_levels=cell, correction_period=7, warm=True, stall=0.2, weighted=weighted)
    check(config, n_features=15, n_rows=40, epochs=2, loss=Loss.HINGE, cell_half_levels=cell,
          proximal_period=9, warm=True)


@pytest.mark.parametrize("lookahead, update_interval, epochs", [
    (0, 2, 1), (4, 4, 2), *(pytest.param(*others, 3, marks=pytest.mark.slow)
                            for others in ((0, 2), (4, 2), (4, 4)))])
def test_refetching_with_small_updates(lookahead, update_interval, epochs):
    """K is 0.6 and words are a few units, so how it is rounded decides about other rows. Row 3 is
    decided wrongly by a bound for updates of 0, which K rounds down to.
    """
    config = PipelineConfig(bits=4, lookahead=lookahead, update_interval=update_interval,
                            refetch=True, **SMALL)
    job = random_job(config, n_features=8, n_rows=40, epochs=1, loss=Loss.HINGE, cell_half_levels=1,
                     warm=True, seed=3)
    job = dataclasses.replace(job, label_shift=6, model=job.model % 9 - 4, intercept=1,
                              epochs=tuple(EpochSteps(614, 2, key=epoch_key(1, number))
                                           for number in range(epochs)))
    expected = list(train(job))
    assert all(epoch.refetched_rows >= 3 for epoch in expected)
    results = run_pipeline(once(Pipeline, config=config), job)
    assert [(model, intercept) for model, intercept, *_ in results] \
        == [(epoch.model.tolist(), epoch.intercept) for epoch in expected]


@pytest.mark.by_day(1)
@each("loss", [Loss.HINGE, Loss.SQUARED_HINGE])
@pytest.mark.parametrize("row_format, bits", [
    ("one_level", 5), ("float32", 32), *(pytest.param(*others, marks=pytest.mark.slow)
                                        for others in (("one_level", 1), ("two_levels", 4)))])
def test_hinges(loss, row_format, bits):
    config = PipelineConfig(bits=bits, row_format=row_format, lookahead=3, proximal=True, **SMALL)
    check(config, n_features=5, n_rows=40, batch=2, loss=loss, proximal_period=8)


@pytest.mark.parametrize("row_format, bits", [("one_level", 3), ("float32", 32)])
def test_logistic(row_format, bits):
    config = PipelineConfig(bits=bits, row_format=row_format, lookahead=2, loss_family="logistic",
                            update_interval=6, **SMALL)
    check(config, n_features=5, n_rows=30, loss=Loss.LOGISTIC, correction_period=10)


@pytest.mark.parametrize("parts", [{"minibatch": False}, {"corrections": False},
                                   {"minibatch": False, "corrections": False}])
def test_without_parts(parts):
    config = PipelineConfig(bits=8, lookahead=2, **SMALL, **parts)
    check(config, n_features=20, n_rows=8, batch=3 if config.minibatch else 1,
          correction_period=2 if config.corrections else 0, intercept=False)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("update_interval, n_features", [
    (4, 8), (2, 20), *(pytest.param(*others, marks=pytest.mark.slow)
                       for others in ((2, 8), (4, 40)))])
def test_cycles(update_interval, n_features):
    """Rows follow each other in max(beats, update_interval) cycles; then the last updates."""
    config = PipelineConfig(bits=8, bus_width=64, max_features=40,
                            update_interval=update_interval)
    config = config.with_lookahead(n_features)
    rows, beats = 40, config.rows.beats(n_features)
    pitch = max(beats, update_interval)
    (cycles,) = check(config, n_features=n_features, n_rows=rows, epochs=1)
    assert cycles <= (rows + config.lookahead + 1) * pitch + config.latency + 2 \
        + config.stages.start_delay


def test_overflow_is_reported():
    config = PipelineConfig(bits=8, lookahead=2, **SMALL)
    job = random_job(config, n_features=4, n_rows=30, epochs=1, speed=400)
    (golden,) = train(job)
    assert golden.overflow
    (*_, overflowed, _), = run_pipeline(once(Pipeline, config=config), job)
    assert overflowed & golden.overflow == golden.overflow
    calm = dataclasses.replace(job, epochs=random_job(config, n_features=4, n_rows=1).epochs)
    assert all(result[2] == 0 for result in run_pipeline(once(Pipeline, config=config), calm))
