"""Races whose workers are gloo processes: the bits of races within one process, and failures."""

import json
import multiprocessing
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch; `make test-torch` runs it")

from bitstep import cli
from bitstep_gradients.lab import command
from bitstep_gradients.lab.contestants import parse_contestant
from bitstep_gradients.lab.networks import Network
from bitstep_gradients.lab.perceptrons import Perceptron
from bitstep_gradients.lab.ranks.processes import RankProcesses
from bitstep_gradients.lab.ranks.threads import train_threads
from bitstep_gradients.lab.tasks import make_task
from bitstep_gradients.lab.training import Setting, train
from bitstep_lab.samples import Samples

CODECS = ("none", "dqsg:bits=3,bucket_size=64", "ndqsg",
          "alq:bits=3,bucket_size=64,payload=huffman",
          "top-k:share=0.1,feedback=1", "dq-sgd:interval=2,feedback=0.5", "qcs")
EXCHANGES = ("all_gather", "two-phase")
NO_RESULT = {"encode_s", "decode_s", "sent_a_step", "received_a_step"}
END_S = 120


def images(n_rows=96, side=8, n_classes=4):
    """Images with a bright stripe for each class."""
    rng = np.random.default_rng(5)
    labels = rng.integers(n_classes, size=n_rows)
    pixels = rng.random((n_rows, side, side), np.float32)
    pixels[np.arange(n_rows), 2 * labels] += 1
    pixels = pixels.reshape(n_rows, -1)
    return Samples("stripes", pixels[16:], labels[16:], pixels[:16], labels[:16], n_classes, side)


TASKS = {"linear": lambda: make_task("linreg", "synthetic-64", rows=120),
         "perceptron": lambda: (Perceptron("fc", (64, 40, 4), classifies=True), images()),
         "resnet": lambda: (Network("resnet", 8, 4), images())}


def setting(n_workers, exchange, **changes):
    """A short training, which goes on until its bytes are used up."""
    return Setting(**{"n_workers": n_workers, "batch": 8, "step": 0.0625, "n_steps": 6,
                      "budget": 20_000.0, "max_steps": 8, "every": 3, "update_every": 4,
                      "min_size": 5, "exchange": exchange, **changes})


def same(first, second):
    """True if two trainings have the same result, bit for bit."""
    return {**first, **dict.fromkeys(NO_RESULT)} == {**second, **dict.fromkeys(NO_RESULT)}


def in_process(model, samples, contestant, chosen, seed):
    """The training within this process."""
    trainer = train if chosen.exchange == "all_gather" else train_threads
    return trainer(model, samples, contestant, chosen, seed=seed)


def ranks():
    """Processes of ranks that run, by number."""
    return {one.pid: one.name for one in multiprocessing.active_children()
            if one.name.startswith("bitstep-rank")}


@pytest.fixture(autouse=True)
def _no_orphans(request):
    """A test leaves none; those of the module run on."""
    if "task" in request.fixturenames:
        yield
        return
    before = ranks()
    yield
    assert ranks() == before


@pytest.fixture(scope="module", params=TASKS)
def task(request):
    import torch  # type: ignore
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)        # as in the processes
    model, samples = TASKS[request.param]()
    with RankProcesses(model, samples, 2) as processes:
        yield model, samples, processes
    assert processes.pids == []
    torch.set_num_threads(n_threads)


@pytest.mark.by_day(8)
@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("text", CODECS)
def test_two_processes_have_the_bits_of_one(text, exchange, task):
    model, samples, processes = task
    chosen, steps = setting(2, exchange), []
    found = processes.train(model, samples, parse_contestant(text), chosen, seed=3,
                            progress=steps.append)
    assert same(found, in_process(model, samples, parse_contestant(text), chosen, 3))
    assert found["status"] == "ok"
    assert steps == list(range(1, found["points"][-1]["step"] + 1))
    messages = found["bytes_a_step"]            # of a rank; one of two phases stays on it
    least = messages if exchange == "all_gather" else 0.5 * messages
    assert least < found["sent_a_step"] < messages + 60 * len(model.first_parameters(0)) + 200
    assert found["sent_a_step"] == pytest.approx(found["received_a_step"])


@pytest.mark.by_day(1)
@pytest.mark.covering(1)
@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("n_workers", [1, 8])
def test_one_and_eight_processes(n_workers, exchange, tmp_path):
    model, samples = TASKS["linear"]()
    chosen = setting(n_workers, exchange, n_steps=2, max_steps=2)
    with RankProcesses(model, samples, n_workers) as processes:
        found = processes.train(model, samples, parse_contestant("dqsg"), chosen, seed=0)
    assert same(found, in_process(model, samples, parse_contestant("dqsg"), chosen, 0))
    assert (found["sent_a_step"] == 0) == (n_workers == 1)
    assert processes.pids == []


def test_divergence():
    model, samples = TASKS["linear"]()
    chosen = setting(2, "two-phase", step=1e30)
    with RankProcesses(model, samples, 2) as processes:
        found = processes.train(model, samples, parse_contestant("none"), chosen, seed=0)
    assert found["status"].startswith("diverged at step")
    assert same(found, in_process(model, samples, parse_contestant("none"), chosen, 0))


def test_error_of_a_codec():
    """As within one process, and the next training begins anew."""
    model, samples = TASKS["linear"]()
    samples = replace(samples, labels=np.ones_like(samples.labels),
                      features=np.where(samples.features < 0, -1e38, 1e38).astype(np.float32))
    chosen = setting(2, "all_gather", n_steps=1, max_steps=1, batch=1)
    with RankProcesses(model, samples, 2) as processes:
        with pytest.raises(ValueError, match="L2 norm") as expected:
            in_process(model, samples, parse_contestant("qsgd"), chosen, 0)
        with pytest.raises(RuntimeError) as caught:
            processes.train(model, samples, parse_contestant("qsgd"), chosen, seed=0)
        assert str(caught.value).partition(" failed: ")[2] == str(expected.value)
        assert processes.pids == []
        found = processes.train(model, samples, parse_contestant("dqsg"), chosen, seed=0)
        assert same(found, in_process(model, samples, parse_contestant("dqsg"), chosen, 0))


@pytest.mark.parametrize("number, limit_s, text", [
    (signal.SIGKILL, 600, "worker 1 was ended by SIGKILL"),
    (signal.SIGSTOP, 20, "another worker has ended, or did not answer within 20 s")])
def test_worker_that_dies_or_stands_still(number, limit_s, text):
    model, samples = TASKS["linear"]()
    with RankProcesses(model, samples, 3, limit_s=limit_s) as processes:
        def signal_one(step):
            if step == 2:
                os.kill(processes.pids[1], number)

        with pytest.raises(RuntimeError, match=text):
            processes.train(model, samples, parse_contestant("none"),
                            setting(3, "two-phase", n_steps=10**6, max_steps=10**6), seed=0,
                            progress=signal_one)
        assert processes.pids == []


def _race_and_die(path):
    """Processes that train, and their parent killed."""
    model, samples = TASKS["linear"]()
    processes = RankProcesses(model, samples, 2)

    def die(step):
        Path(path).write_text(" ".join(map(str, processes.pids)))
        os.kill(os.getpid(), signal.SIGKILL)

    processes.train(model, samples, parse_contestant("none"),
                    setting(2, "all_gather", n_steps=10**6, max_steps=10**6), seed=0, progress=die)


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")
def test_killed_parent_leaves_no_process(tmp_path):
    parent = multiprocessing.get_context("spawn").Process(
        target=_race_and_die, args=(str(tmp_path / "pids"),))
    parent.start()
    parent.join(5 * END_S)
    assert parent.exitcode == -signal.SIGKILL
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2
    end = time.monotonic() + END_S
    while any(map(_runs, pids)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(map(_runs, pids))


# The command

@pytest.fixture
def run(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(cli, "subcommands", lambda name: [command])

    def race(*arguments):
        return cli.main(["gradients", "race", "linreg", "--rows", "100", "--workers", "2",
                         "--step", "0.0625", "--seeds", "1", *map(str, arguments)])
    return race


def test_command(run, tmp_path, capsys):
    """Both transports give the same tables; gloo's have the counters, too."""
    found = {}
    for transport in ("memory", "gloo"):
        out = tmp_path / transport
        assert run("--transport", transport, "--exchange", "two-phase", "--steps", "4",
                   "--codecs", "none", "dqsg", "--out", out) == 0
        printed = capsys.readouterr()
        assert "linreg, 2 workers, dqsg, seed 0" in printed.err
        assert "sent a step" in printed.out
        race, = json.loads((out / "races.json").read_text("utf-8"))
        assert race["setting"]["transport"] == transport
        found[transport] = race["results"]
    assert "linear regression, 2 workers, processes over gloo, two-phase" in printed.out
    page = (out / "index.html").read_text("utf-8")
    assert "processes over gloo, two-phase" in page
    assert "Counted by the exchange" in page
    assert all(map(same, found["memory"], found["gloo"]))
    assert "sent_a_step" in (out / "summary.csv").read_text("utf-8").splitlines()[0]


def test_killed_worker_ends_the_command(run, tmp_path, capsys):
    before = ranks()

    def kill():
        end = time.monotonic() + 5 * END_S
        while time.monotonic() < end:
            for pid, name in ranks().items():
                if pid not in before and name == "bitstep-rank-1":
                    time.sleep(1)
                    os.kill(pid or 0, signal.SIGKILL)
                    return
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    code = run("--transport", "gloo", "--steps", "1000000", "--codecs", "none", "--out", tmp_path)
    killer.join()
    assert code == 1
    error = capsys.readouterr().err
    assert "worker 1 was ended by SIGKILL, so all workers were ended" in error
    assert "the same command goes on from there" in error
