"""Controllers of bits: budgets, agreement of ranks, messages, state, the two older baselines."""

from pathlib import Path

import numpy as np
import pytest

from bitstep_gradients import (
    AdaQs,
    BFloat16,
    DqSgd,
    ErrorFeedback,
    Key,
    MessageError,
    OlandRaj,
    make_codec,
)
from bitstep_gradients.control import schedule
from bitstep_gradients.wire.header import unpack_message

ROOT = Path(__file__).resolve().parents[3]
STEPS, ALPHA = 1000, 0.994
NORMS = np.exp(-2 * np.linspace(0, 1, STEPS))
KEY = Key(1)


def dq_sgd(name="qsgd-linf", **options):
    return DqSgd(make_codec(name), **{"steps": STEPS, "alpha": ALPHA, **options})


def run(controller, norms, losses=None, ranks=2):
    """Bits of every step of a training whose gradients have these norms."""
    found = []
    for step, norm in enumerate(norms):
        if controller.due(step):
            loss = None if losses is None else losses[step]
            controller.update([controller.statistics(np.array([norm, 0, -norm / 2]), loss=loss)
                               for _ in range(ranks)], step=step)
        found.append(controller.bits(step))
    return np.array(found)


def test_bits_are_those_of_eq_17():
    controller = dq_sgd(error=0.4, interval=1, plan=False)
    norms = NORMS.astype(np.float32).astype(np.float64)
    expected = schedule.rounded_bits(schedule.real_bits(norms, ALPHA, 0.4))
    assert run(controller, norms).tolist() == expected.tolist()


@pytest.mark.parametrize("interval", [1, 25])
@pytest.mark.parametrize("budget", [{"error": 0.1}, {"error": 0.01}, {"like_bits": 4},
                                    {"like_bits": 6.5}])
def test_budget_of_error(budget, interval):
    """A plan keeps the budget, and needs fewer bits than the paper's form."""
    norms, alpha = NORMS[::4], ALPHA**4
    planned, paper = (dq_sgd(**budget, steps=len(norms), alpha=alpha, interval=interval, plan=plan)
                      for plan in (True, False))
    bits, more_bits = run(planned, norms), run(paper, norms)
    assert schedule.schedule_error(bits, norms, alpha) <= planned.budget
    assert schedule.schedule_error(more_bits, norms, alpha) <= paper.budget
    assert bits.mean() < more_bits.mean() - 0.2
    if interval == 1:
        assert schedule.schedule_error(bits, norms, alpha) > 0.9 * planned.budget


@pytest.mark.parametrize("name, fixed", [
    ("constant", 3), pytest.param("constant", 5, marks=pytest.mark.slow),
    pytest.param("falling", 4, marks=pytest.mark.slow)])
def test_table_of_the_documentation(name, fixed):
    """Mean bits of equal error, and error of equal bits: docs/results/gradients.md."""
    norms = np.ones(STEPS) if name == "constant" else NORMS
    error = schedule.schedule_error(np.full(STEPS, fixed), norms, ALPHA)
    means = [schedule.real_bits(norms, ALPHA, error).mean()]
    for plan in (False, True):
        bits = run(dq_sgd(error=error, interval=1, plan=plan), norms)
        assert schedule.schedule_error(bits, norms, ALPHA) <= error
        means.append(bits.mean())
    bits = run(dq_sgd(mean_bits=fixed), norms)
    assert bits.mean() == fixed
    share = schedule.schedule_error(bits, norms, ALPHA) / error
    row = f"| {name} | {fixed} | {' | '.join(f'{found:.3f}' for found in (*means, share))} |"
    assert row in (ROOT / "docs/results/gradients.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("interval", [1, 30, 100, 5000])
@pytest.mark.parametrize("mean_bits", [2, 2.5, 3.2, 6, 7.9])
def test_budget_of_bits(mean_bits, interval):
    """Never exceeded, and spent but for what less than one bit is; also with rising norms."""
    for norms in (NORMS[:200], NORMS[200::-1]):
        controller = dq_sgd(mean_bits=mean_bits, interval=interval, steps=len(norms))
        total = run(controller, norms).sum()
        assert total <= mean_bits * len(norms)
        assert total > mean_bits * len(norms) - 2


@pytest.mark.by_day(1)
@pytest.mark.parametrize("norms", ["constant", "falling"])
def test_noisy_norms(norms):
    """Norms of batches, 30 % of noise: with an update at every step a budget of error is exact."""
    noise = np.exp(0.3 * np.random.default_rng(0).normal(size=STEPS))
    norms = (np.ones(STEPS) if norms == "constant" else NORMS) * noise
    fixed = schedule.schedule_error(np.full(STEPS, 4), norms, ALPHA)
    controller = dq_sgd(error=fixed, interval=1)
    bits = run(controller, norms)
    assert 0.98 < schedule.schedule_error(bits, norms, ALPHA) / fixed <= 1.0001
    assert bits.mean() < 3.95
    bits = run(dq_sgd(mean_bits=4), norms)
    assert schedule.schedule_error(bits, norms, ALPHA) < 1.4 * fixed


@pytest.mark.by_day(1)
@pytest.mark.parametrize("noise, most", [(0.1, 1.125), (0.3, 1.995)])
def test_rare_updates_with_noisy_norms(noise, most):
    """Largest error by its budget: docs/gradients.md."""
    found = []
    for base in (np.ones(STEPS), NORMS):
        for seed in range(5):
            norms = base * np.exp(noise * np.random.default_rng(seed).normal(size=STEPS))
            fixed = schedule.schedule_error(np.full(STEPS, 4), norms, ALPHA)
            bits = run(dq_sgd(error=fixed), norms)
            found.append(schedule.schedule_error(bits, norms, ALPHA) / fixed)
    assert most - 0.01 < max(found) < most


def test_norms_that_rise_cost_bits():
    norms = np.where(np.arange(STEPS) < 500, 1, 30.0)
    controller = dq_sgd(error=500, interval=10)
    bits = run(controller, norms)
    assert bits[499] < 3 < bits[510]
    assert schedule.schedule_error(bits, norms, ALPHA) <= 500


@pytest.mark.parametrize("interval", [1, 10, 100])
@pytest.mark.parametrize("factor", [12, 40])
def test_like_bits_of_a_first_gradient_far_below_the_others(factor, interval):
    """No more than the fixed bits; the first norm alone asks for 6.5 to 7.7."""
    times = np.arange(300) / 38
    norms = np.where(times < 1, factor**(times - 1), np.exp(-(times - 1) / 8))
    fixed = schedule.schedule_error(np.full(300, 4), norms, 0.99)
    controller = dq_sgd(like_bits=4, steps=300, alpha=0.99, interval=interval)
    bits = run(controller, norms)
    assert bits[:38].mean() < bits.mean() < 4
    assert fixed < schedule.schedule_error(bits, norms, 0.99) < 1.8 * fixed
    first_alone = dq_sgd(like_bits=4, steps=300, alpha=0.99, interval=interval, norm_steps=1)
    assert run(first_alone, norms).mean() > 6.5


def test_norm_of_the_first_steps():
    """The largest running mean, without steps of norm 0; what lies between updates counts."""
    for norms, squares in (([0, 1, 3, 0, 5, 7, 100], [0, 1, 5, 5, 35 / 3, 21, 21]),
                           ([3, 1, 0, 5, 1, 9, 9], [9, 9, 9, 35 / 3, 35 / 3, 35 / 3, 35 / 3])):
        controller, found = dq_sgd(like_bits=4, interval=1, norm_steps=4), []
        for step, norm in enumerate(norms):
            controller.update([controller.statistics(np.array([float(norm)]))], step=step)
            found.append(controller.state["usual_square"])
        assert found == pytest.approx(squares)
        assert controller.budget == pytest.approx(
            schedule.fixed_error(4, squares[-1]**0.5, STEPS, ALPHA))
    sparse = dq_sgd(like_bits=4, norm_steps=6)
    for step, norm in ((0, 1.0), (4, 3.0), (8, 9.0)):
        sparse.update([sparse.statistics(np.array([norm]))], step=step)
    assert sparse.state["usual_square"] == pytest.approx((1 + 3 + 5 + 7 + 9 + 27) / 6)


def test_alpha_from_the_losses():
    losses = 3 * 0.99**np.arange(STEPS)
    controller = dq_sgd(like_bits=5, alpha="loss", interval=50)
    bits = run(controller, np.ones(STEPS), losses)
    assert controller.state["alpha"] == pytest.approx(0.99, abs=1e-6)
    assert bits[-1] > bits[60] >= 2
    with pytest.raises(ValueError, match="needs the loss of every rank"):
        dq_sgd(like_bits=5, alpha="loss").update([controller.statistics(np.ones(3))])


@pytest.mark.parametrize("ratio, bits", [(0.9, 4), (0.7, 5), (0.6, 6)])
def test_adaqs_by_hand(ratio, bits):
    """One bit more for each whole factor 0.8 that the ratio is below the first one, 1."""
    controller = AdaQs(make_codec("dqsg"), first_bits=4, memory=0.0)
    for step, mean in enumerate((1.0, ratio)):
        controller.update([np.array([9, 1, np.sqrt(1 + mean**2), mean, -1])], step=step)
    assert controller.bits(2) == bits


def test_loss_that_one_rank_does_not_tell():
    """The other ranks' mean is no loss of all."""
    controller = DqSgd(make_codec("dqsg"), steps=10, alpha="loss", like_bits=4)
    rows = [controller.statistics(np.ones(4), loss=loss) for loss in (3.0, None)]
    with pytest.raises(ValueError, match="needs the loss of every rank"):
        controller.update(rows, step=0)


def test_an_update_without_a_loss_spends_nothing():
    """So a step that is repeated with it goes on as if the first try had never been."""
    controller = DqSgd(make_codec("dqsg"), steps=20, alpha="loss", mean_bits=4)
    for step in (0, 5):
        controller.update([controller.statistics(np.ones(4), loss=9.0 - step)], step=step)
    before = controller.state_dict()
    with pytest.raises(ValueError, match="needs the loss of every rank, which is at least 0"):
        controller.update([controller.statistics(np.ones(4))], step=9)
    assert controller.state_dict() == before


@pytest.mark.parametrize("loss", [np.nan, np.inf, 1e39])
def test_loss_that_is_not_finite(loss):
    controller = DqSgd(make_codec("dqsg"), steps=10, alpha="loss", like_bits=4)
    with pytest.raises(ValueError, match="loss must be finite in float32, not"):
        controller.statistics(np.ones(4), loss=loss)


def test_norms_that_vanish_are_expected_to_halve_at_most():
    controller = DqSgd(make_codec("dqsg"), steps=4, alpha=1.0, mean_bits=3, interval=1)
    for step, norm in enumerate((1.0, 2.0**-10, 2.0**-20)):
        controller.update([controller.statistics(np.full(4, norm))], step=step)
    assert controller.state["rate"] == pytest.approx(0.5)


def test_rate_of_the_norms_by_hand():
    """Squares 1, 1/4 and 1/16 at steps 0, 1 and 2 of 16: logarithms 0, -2 and -4 have the slope
    -4 / (2 + 16^2 / 64). Norms that rise are expected to stay.
    """
    for factor, rate in ((0.5, 2**(-2 / 3)), (2, 1)):
        controller = DqSgd(make_codec("qsgd-linf"), steps=16, alpha=1.0, mean_bits=3, interval=1)
        for step in range(3):
            controller.update([controller.statistics(np.full(4, float(factor)**step))], step=step)
        assert controller.state["rate"] == pytest.approx(rate)


def test_after_the_last_step_and_before_the_first():
    controller = dq_sgd(error=0.4, first_bits=6)
    assert controller.bits(0) == controller.bits(10**6) == 6
    run(controller, NORMS)
    assert 2 <= controller.bits(10**6) <= 8
    controller.update([controller.statistics(np.ones(3))], step=3 * STEPS)
    assert 2 <= controller.bits(3 * STEPS + 1) <= 8


@pytest.mark.parametrize("budget", [{"error": 0.4}, {"like_bits": 4}, {"mean_bits": 4}])
def test_nothing_is_planned_after_the_last_step(budget):
    controller = DqSgd(make_codec("qsgd-linf"), steps=10, alpha=0.9, interval=1, **budget)
    run(controller, np.linspace(1, 0.5, 10))
    gain = controller.state["gain"]
    for step in (10, 11, 40):
        controller.update([controller.statistics(np.full(3, 0.5))], step=step)
        assert controller.state["gain"] == gain > 0


def test_bits_that_are_spent_before_the_first_update():
    """100 steps of 8 bits are more than 150 of 2.5: the others have as few as there are."""
    controller = DqSgd(make_codec("qsgd-linf"), steps=150, alpha=0.9, mean_bits=2.5)
    assert controller.bits(99) == 8
    controller.update([controller.statistics(np.ones(3))], step=100)
    assert controller.state["spent_bits"] == 800
    assert [controller.bits(step) for step in range(100, 150)] == [2] * 50


@pytest.mark.parametrize("values", [[0.0, 0], [2.0, -2], [3e38, 0], [1e-44, 0]])
@pytest.mark.parametrize("kind", [OlandRaj, AdaQs])
def test_corner_gradients_of_the_baselines(kind, values):
    """Zeros and one magnitude have no ratio: bits stay as they are, and later ones count."""
    controller = kind(make_codec("dqsg"), interval=1, first_bits=5)
    for step in range(3):
        controller.update([controller.statistics(np.array(values))], step=step)
        assert controller.bits(step) == 5
    assert np.isfinite([*controller.state_dict().values()]).all()
    controller.update([controller.statistics(np.array([1.0, 0.5]))], step=3)
    assert 2 <= controller.bits(4) <= 8


def test_alpha_from_losses_that_begin_late():
    """From 4 to 1 within 2 steps."""
    controller = DqSgd(make_codec("dqsg"), steps=10, alpha="loss", like_bits=4)
    for step, loss in ((3, 4.0), (5, 1.0)):
        controller.update([controller.statistics(np.ones(3), loss=loss)], step=step)
    assert controller.state["alpha"] == pytest.approx(0.5)


@pytest.mark.parametrize("budget", [{"error": 0.4}, {"like_bits": 4}, {"mean_bits": 4},
                                    {"error": 0.4, "plan": False},
                                    {"like_bits": 4, "plan": False}])
@pytest.mark.parametrize("norms", [np.zeros(300), np.full(300, 3e38), np.full(300, 1e-44),
                                   np.repeat([0, 1.0, 0], 100)])
def test_corner_norms(budget, norms):
    bits = run(dq_sgd(**budget, interval=10, steps=300), norms)
    assert ((bits >= 2) & (bits <= 8)).all()


def test_statistics_by_hand():
    controller = DqSgd(make_codec("qsgd", bucket_size=2), steps=9, alpha=1, error=1)
    found = controller.statistics([np.array([3.0, 4]), np.array([[0, -2.0], [1, 0]])], loss=0.5)
    assert found.dtype == np.float32
    assert found == pytest.approx([6, np.sqrt((2 * 25 + 2 * 4 + 2 * 1) / 6), np.sqrt(30 / 6),
                                   10 / 6, 0.5])
    assert controller.statistics(np.zeros(0)).tolist() == [0, 0, 0, 0, -1]
    assert controller.statistics(BFloat16.rounded(np.ones(4)))[0] == 4


def test_norm_is_the_root_mean_square_of_the_ranks():
    """Eq. 11; the order of the ranks is kept, so every rank has the same sum."""
    controller = dq_sgd(error=1)
    controller.update([controller.statistics(np.array([norm])) for norm in (1.0, 7.0)])
    assert controller.state["square"] == pytest.approx(25)
    rng = np.random.default_rng(3)
    gathered = [controller.statistics(rng.normal(size=1000)) for _ in range(8)]
    ranks = [dq_sgd(error=1) for _ in range(3)]
    for rank in ranks:
        rank.update(gathered)
    assert len({str(rank.state_dict()) for rank in ranks}) == 1


def controllers(name):
    codec = make_codec(name, bucket_size=100)
    return [DqSgd(codec, steps=60, alpha=0.95, like_bits=4, interval=10, norm_steps=40),
            DqSgd(codec, steps=60, alpha=0.95, mean_bits=3.5, interval=10),
            OlandRaj(codec, interval=10), AdaQs(codec, interval=10)]


@pytest.mark.parametrize("name", ["qsgd", "qsgd-linf", "dqsg"])
@pytest.mark.parametrize("which", range(4))
def test_messages_are_those_of_the_codec_with_the_bits_of_the_step(name, which):
    controller, rng = controllers(name)[which], np.random.default_rng(0)
    seen = set()
    for step in range(60):
        vector, key = rng.normal(size=256) * np.exp(-step / 15), Key(3, step, 1)
        message = controller.encode(vector, key)
        seen.add(controller.bits(step))
        plain = make_codec(name, bucket_size=100, bits=controller.bits(step))
        assert message == plain.encode(vector, key)
        if controller.due(step):
            controller.update([controller.statistics(vector)], step=step)
        assert (controller.decode(message, key) == plain.decode(message, key)).all()
    assert len(seen) > 1
    assert controller.expected_bits(vector) == controller.current.expected_bits(vector)
    assert controller.variance_bound(vector) == controller.current.variance_bound(vector)


@pytest.mark.parametrize("which", range(4))
def test_state_restores_every_bit(which):
    whole, rng = controllers("dqsg")[which], np.random.default_rng(5)
    restored = whole
    for step in range(60):
        if step == 35:
            restored = controllers("dqsg")[which]
            restored.load_state_dict(whole.state_dict())
        if whole.due(step):
            gathered = [whole.statistics(rng.normal(size=64) * np.exp(-step / 10))
                        for _ in range(3)]
            for one in {id(whole): whole, id(restored): restored}.values():
                one.update(gathered, step=step)
        assert restored.bits(step) == whole.bits(step)
    assert restored.state_dict() == whole.state_dict()


def test_error_feedback_around_a_controller():
    feedback = ErrorFeedback(dq_sgd("dqsg", error=1))
    vector = np.random.default_rng(1).normal(size=100)
    feedback.update([feedback.statistics(vector)], step=0)
    message = feedback.encode(vector, KEY)
    assert feedback.residual(0) == pytest.approx(vector - feedback.decode(message, KEY), abs=1e-6)
    state = feedback.state_dict()
    other = ErrorFeedback(dq_sgd("dqsg", error=1))
    other.load_state_dict(state)
    assert other.encode(vector, Key(1, 1)) == feedback.encode(vector, Key(1, 1))


def test_oland_and_raj():
    """Levels in proportion to the RMS: 127 at first, then 127 / 2, 127 / 4, 127 / 200."""
    controller = OlandRaj(make_codec("dqsg"), interval=1)
    bits = run(controller, [1, 0.5, 0.25, 0.005, 0, 1, 4])
    assert bits.tolist() == [8, 8, 7, 2, 2, 8, 8]
    assert OlandRaj(make_codec("dqsg"), first_bits=5).bits(3) == 5


def test_adaqs():
    """The ratio falls as the gradient gets heavy tails; bits rise and never fall."""
    rng = np.random.default_rng(2)
    controller = AdaQs(make_codec("qsgd-linf"), interval=1, first_bits=3, memory=0.0)
    found = []
    for share in (1, 1, 0.3, 0.03, 0.001, 1, 0):
        vector = np.where(rng.uniform(size=4000) < share, rng.normal(size=4000), 0)
        controller.update([controller.statistics(vector)])
        found.append(controller.bits(0))
    assert found[0] == found[1] == 3
    assert found == sorted(found)
    assert found[2] > 3
    assert found[-1] == 8
    averaging = AdaQs(make_codec("qsgd-linf"), interval=1, memory=0.9)
    averaging.update([averaging.statistics(rng.normal(size=4000))])
    assert averaging.state["first_ratio"] == pytest.approx(0.7979 / 0.6028, rel=0.05)


@pytest.mark.parametrize("options, text", [
    ({}, "give one budget of error, like_bits and mean_bits, not none"),
    ({"error": 1, "mean_bits": 3}, "not error and mean_bits"),
    ({"error": 0}, "error must be positive and finite, not 0"),
    ({"error": np.nan}, "error must be positive and finite"),
    ({"mean_bits": 1.5}, "mean_bits must be from 2 to 8, not 1.5"),
    ({"like_bits": 9}, "like_bits must be from 2 to 8"),
    ({"mean_bits": 3, "plan": False}, "mean_bits needs a plan"),
    ({"error": 1, "alpha": 1.5}, "alpha must be greater than 0"),
    ({"error": 1, "alpha": "losses"}, "alpha must be greater than 0"),
    ({"error": 1, "steps": 0}, "steps must be an integer of at least 1"),
    ({"error": 1, "interval": 0}, "interval must be"),
    ({"like_bits": 4, "norm_steps": 0}, "norm_steps must be an integer of at least 1"),
    ({"error": 1, "first_bits": 1}, "first_bits must be an integer from 2 to 8")])
def test_bad_parameters(options, text):
    with pytest.raises(ValueError, match=text):
        dq_sgd(**options)


def test_bad_parameters_of_the_baselines():
    with pytest.raises(ValueError, match="fall must be"):
        AdaQs(make_codec("dqsg"), fall=1)
    with pytest.raises(ValueError, match="memory must be"):
        AdaQs(make_codec("dqsg"), memory=1)
    for name in ("terngrad", "bf16"):
        with pytest.raises(TypeError, match=f"qsgd-linf or dqsg, not {name}"):
            OlandRaj(make_codec(name))


@pytest.mark.parametrize("wrong", [[], [[1, 2]], [[1, 2, 3, 4, np.nan]], [[1, -2, 3, 4, 5]], [3]])
def test_bad_statistics(wrong):
    with pytest.raises(ValueError, match="statistics must be the arrays"):
        dq_sgd(error=1).update(wrong)


def test_bad_states_and_steps():
    controller = dq_sgd(error=1)
    with pytest.raises(ValueError, match="the state of DqSgd has updates, step"):
        controller.load_state_dict({"updates": 1})
    with pytest.raises(ValueError, match="must be finite"):
        controller.load_state_dict({**controller.state_dict(), "gain": np.inf})
    controller.update([controller.statistics(np.ones(2))], step=30)
    with pytest.raises(ValueError, match="step must be an integer of at least 30, not 20"):
        controller.update([controller.statistics(np.ones(2))], step=20)
    controller.update([controller.statistics(np.ones(2))])
    assert controller.state["step"] == 32
    steps = [step for step in range(250) if dq_sgd(error=1).due(step)]
    assert steps == [0, 1, 2, 4, 8, 16, 32, 64, 100, 200]
    for step in steps[steps.index(64):]:
        controller.update([controller.statistics(np.ones(2))])
        assert controller.state["step"] == step


def test_messages_that_are_refused():
    controller, vector = dq_sgd("dqsg", error=1), np.linspace(-1, 1, 30)
    for other, text in [(make_codec("dqsg", levels=2), "parameter 2, and a controller has 1, 3"),
                        (make_codec("qsgd", levels=3), "codec 3"),
                        (make_codec("none"), "parameter 0"),
                        (make_codec("dqsg", levels=3, bucket_size=5), "bucket_size")]:
        with pytest.raises(MessageError, match=text):
            controller.decode(other.encode(vector, KEY), KEY)
    message = controller.encode(vector, KEY)
    assert unpack_message(message)[0].parameter == 127
    for wrong in (message[:-1], message + b"\0", b"", message[:9] + b"\0" + message[10:]):
        with pytest.raises(MessageError):
            controller.decode(wrong, KEY)
