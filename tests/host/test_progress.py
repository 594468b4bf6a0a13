"""Progress: lines elsewhere than on a terminal, a bar on one; the state of a training."""

import io
import sys
import time
import types
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor, progress
from bitstep.devices import open_device
from bitstep.progress import Progress, StatusLine
from bitstep.training.scores import watch
from bitstep.training.scores.watch import TrainingWatch

FIRST_S = progress.FIRST_S      # which tests/conftest.py makes endless


class Stream(io.StringIO):
    """Standard error that counts flushes, and may be a terminal."""

    def __init__(self, terminal=False):
        super().__init__()
        self.terminal, self.flushed = terminal, 0

    def isatty(self):
        return self.terminal

    def flush(self):
        self.flushed = self.tell()


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests move; lines of progress appear as they do for users."""
    monkeypatch.setattr(progress, "FIRST_S", FIRST_S)
    state = types.SimpleNamespace(now=100.0)
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: state.now))
    return state


def caught(monkeypatch, **options):
    """Standard error from now on; a fixture is too early, since pytest sets its own after them."""
    stream = Stream(**options)
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_lines_are_flushed_and_few(clock, monkeypatch):
    lines = caught(monkeypatch)
    with Progress(10 ** 6, "reading", " rows") as shown:
        for done in range(36_000):          # an hour, in tenths of a second
            clock.now = 100 + done / 10
            shown.to(done)
            assert lines.flushed == lines.tell()
            if done == 14:
                assert not lines.getvalue()         # short work says nothing
    found = lines.getvalue().splitlines()
    assert found[0] == "reading: 15 of 1,000,000 rows, 1.5 s"
    assert found[1].endswith(" 3.5 s")
    assert 30 < len(found) < 100
    assert found[-1] == "reading: 35,999 of 1,000,000 rows, 3599.9 s"


def test_work_that_stands_still_says_so_less_often(clock, monkeypatch):
    lines = caught(monkeypatch)
    with Progress(5, "training", " rows") as shown:
        for tenth in range(1000):
            clock.now = 100 + tenth / 10
            shown.to(0, "no epoch yet")
    assert 4 <= len(lines.getvalue().splitlines()) <= 9


def test_short_work_is_silent(clock, monkeypatch):
    lines = caught(monkeypatch)
    with Progress(5, "training", " rows") as shown:
        shown.to(5)
    assert not lines.getvalue()
    with Progress(5, "training", " rows", keep=True) as shown:
        shown.to(5)
    assert lines.getvalue() == "training: 5 of 5 rows, 0.0 s\n"
    with Progress(5, "training", " rows", keep=True, quiet=True) as shown:
        clock.now += 1000
        shown.to(5)
    assert lines.getvalue().count("\n") == 1


def test_a_stream_that_nobody_reads(clock, monkeypatch):
    class Closed(Stream):
        def write(self, text):
            raise BrokenPipeError
    monkeypatch.setattr(sys, "stderr", Closed())
    with Progress(5, "training", " rows", keep=True) as shown:
        clock.now += 10
        shown.to(3)
        shown.to(4)


def test_a_bar_on_a_terminal(monkeypatch):
    pytest.importorskip("tqdm")
    stream = caught(monkeypatch, terminal=True)
    with Progress(10, "training", " rows", keep=True) as shown:
        assert shown.shows_rate
        shown.to(5, "epoch 1 of 2, loss 0.5")
    text = stream.getvalue()
    assert "training:  50%" in text
    assert "epoch 1 of 2, loss 0.5" in text
    assert text.count("\n") == 1            # one line, written over


def test_lines_on_a_terminal_without_tqdm(clock, monkeypatch):
    stream = caught(monkeypatch, terminal=True)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with Progress(10, "training", " rows") as shown:
        assert not shown.shows_rate
        clock.now += 2
        shown.to(5)
    assert stream.getvalue().startswith("training: 5 of 10 rows, 2.0 s\n")


def test_notebooks_have_tqdm_auto(monkeypatch):
    auto = pytest.importorskip("tqdm.auto")
    kernel = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: kernel))
    monkeypatch.setattr(auto, "tqdm", made := type("Bar", (), {}))
    assert progress._bar_class() is made


def test_status_is_quiet_if_asked(monkeypatch):
    lines = caught(monkeypatch)
    StatusLine("sim", quiet=True)("compiling: 3 s")
    assert not lines.getvalue()
    StatusLine("sim")("compiling: 3 s")
    assert lines.getvalue() == "sim: compiling ...\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_status_that_nobody_reads_ends_no_work(monkeypatch, terminal):
    stream = caught(monkeypatch, terminal=terminal)
    stream.close()
    stream.isatty = lambda: terminal        # as a closed pipe has it, not a closed StringIO
    line = StatusLine("sim")
    line("compiling: 3 s")
    line("running: 4 s")
    line.clear()


# Trainings

class Recorder:
    """In place of a Progress."""

    shows_rate = False

    def __init__(self):
        self.seen = []

    def to(self, done, note):
        self.seen.append((done, note))

    def close(self):
        """Nothing to close."""


def test_what_a_watch_says(monkeypatch):
    state = types.SimpleNamespace(now=100.0)
    monkeypatch.setattr(watch, "time", types.SimpleNamespace(monotonic=lambda: state.now))
    recorder: Any = Recorder()
    shown = TrainingWatch(recorder, 20, 3, 1000, device="cpu")
    shown.look()
    shown(3)
    state.now += 1.0
    shown(33)
    shown.look()
    assert recorder.seen[0] == (0, ("no epoch of 20 finished yet; device cpu compiles its loops "
                                "first, once on a machine"))
    done, note = recorder.seen[1]
    assert done == 11_000
    assert note == "epoch 11 of 20, 10 k rows/s"


def test_it_says_something_before_the_first_epoch(monkeypatch):
    lines = caught(monkeypatch)
    monkeypatch.setattr(watch, "LOOK_S", 0.02)
    monkeypatch.setattr(progress, "FIRST_S", 0.05)
    with TrainingWatch(Progress(10, "training", " rows"), 2, 1, 5, device="cpu"):
        deadline = time.monotonic() + 20
        while not lines.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "training: no epoch of 2 finished yet; device cpu compiles" in lines.getvalue()


@pytest.mark.parametrize("device", ["cpu", "golden"])
def test_loss_and_accuracy_are_those_of_the_model(device, monkeypatch):
    lines = caught(monkeypatch)
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    model = LowPrecisionClassifier(random_state=0, epochs=3, verbose=1, device=device).fit(X, y)
    last, found = lines.getvalue().splitlines()[-1], model.history_[-1]
    assert last.startswith(f"training: epoch 3 of 3, loss {found['train_loss']:.4g}, "
                           f"accuracy {100 * found['train_accuracy']:.2f} %")


@pytest.mark.parametrize("options", [
    {}, {"planes": "auto"}, {"batch": 1000, "l2": 0.1}, {"early_stopping": True}, {"bits": 32},
    {"solver": "bit-centred", "tol": 0}])
def test_watching_changes_nothing(options, monkeypatch, capsys):
    lines = caught(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    Y = X @ rng.standard_normal((5, 2)) + rng.standard_normal((200, 2))
    made = [LowPrecisionRegressor(random_state=0, epochs=4, verbose=verbose, **options).fit(X, Y)
            for verbose in (0, 1, 2)]
    for other in made[1:]:
        np.testing.assert_array_equal(made[0].coef_, other.coef_)
        assert other.history_ == made[0].history_
        assert other.counters_ == made[0].counters_
    text = lines.getvalue()
    assert text.count("training: epoch") == 2
    assert ("loss" in text) == (options.get("solver") != "bit-centred")
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 2 + made[0].n_iter_
    assert table[0].startswith("epoch")


def test_devices_show_their_models():
    """A model a finished epoch, of each output."""
    from bitstep.quantization import QuantizedDataset, quantize_rows, sign_labels
    from bitstep.training.choices import resolve_training
    from bitstep.training.objective import Objective
    from bitstep.training.pipelines import pipeline_of
    from bitstep.training.planning import plan
    rng = np.random.default_rng(0)
    rows = quantize_rows(rng.standard_normal((50, 5)), bits=4, encoding="stochastic")
    objective = Objective()
    config = pipeline_of(rows, objective)
    training = resolve_training(rows, objective, epochs=3)
    jobs = [plan(QuantizedDataset(rows, sign_labels(np.sign(rng.standard_normal(50)))), config,
                 objective, training).job for _ in range(2)]
    for name in ("golden", "cpu"):
        results: list[Any] = []
        own: list[Any] = []
        with open_device(name, config) as device:
            for part in device.parts(jobs):
                seen: list[Any] = [[] for _ in part]
                with device.begin(part) as run:
                    for _ in run.epochs():
                        for number, words, intercept in run.words():
                            seen[number].append((words.tolist(), intercept))
                    results += run.outcomes()
                own += seen
        assert own == [list(zip(result.models.tolist(), result.intercepts.tolist(), strict=True))
                       for result in results]
        assert list(map(len, own)) == [3, 3]


@pytest.mark.parametrize("verbose", [-1, 1.5, "yes", None])
def test_bad_verbose(verbose):
    with pytest.raises(ValueError, match="verbose must be 0, 1 or 2, not"):
        LowPrecisionRegressor(verbose=verbose).fit(np.eye(4), np.arange(4.0))
