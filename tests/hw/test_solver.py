# amaranth: UnusedElaboratable=no

import random

import pytest
from support import signed_number, signed_numbers, trace

from bitstep.config import MAX_SHIFT, PipelineConfig, solver_stages
from bitstep.golden.rounding import fits, round_shift
from bitstep.registers import Loss
from bitstep_hw.solver import Solver


def solve(rows, *, mantissa, shift, label_shift, loss=Loss.LEAST_SQUARES, unit=0):
    """c of every row, one after the other: the recursion as it is written in docs/pipeline.md,
    the losses as in docs/number-formats.md.
    """
    history = []
    for row in rows:
        z = row["dot"] - sum(history[-d] * product
                             for d, product in enumerate(row["products"], start=1)
                             if d <= len(history))
        target = row["label"] << label_shift
        c = round_shift(mantissa * (z - target), 8 * shift)
        active = z < target if target > 0 else z > target
        if loss == Loss.HINGE:
            c = -unit if target > 0 else unit
        counts = loss == Loss.LEAST_SQUARES or active
        history.append(c if counts and not row["idle_row"] else 0)
    return history


def record(config, rows, distances, outputs, **constant):
    """Outputs in the cycle in which each row's c leaves, which must be the right one.

    Parameters
    ----------
    rows : list of dict
        Inputs of each row; ``reach``, ``undecided``, ``probe`` and ``squash`` only with refetch.
    distances : list of int
        Cycles from the row before.
    """
    starts, now = [], 0
    for distance in distances:
        now += distance
        starts.append(now)
    rng = random.Random(0)
    dotted = config.solver_lead
    decided = dotted + solver_stages(config.recursion) - 1
    late = {"saturated": 1} if config.fast_clock else {}      # cycles after ``o``
    length = now + decided + 1
    cycles = [{"valid": 0, "idle_row": rng.getrandbits(1), "label": rng.getrandbits(31),
               "dot": rng.getrandbits(30),
               "products": signed_numbers(rng, config.gram_width, config.lookahead)}
              for _ in range(length)]
    for start, row in zip(starts, rows, strict=True):
        cycles[start] |= {"valid": 1, "idle_row": row["idle_row"], "label": row["label"],
                          "products": row["products"]}
        cycles[start + dotted]["dot"] = row["dot"]
        for name, cycle in (("reach", dotted), ("undecided", dotted + 1), ("probe", decided),
                            ("squash", decided)):
            if name in row:
                cycles[start + cycle][name] = row[name]
    recorded = trace(Solver(config=config), cycles, ["o_valid", *outputs], **constant)
    ends = [cycle for cycle, found in enumerate(recorded) if found["o_valid"]]
    assert ends == [start + decided + 1 for start in starts]
    for name in set(outputs) & {"saturated", "o_decided", "o_undecided", "o_retry"}:
        at = {end + late.get(name, 0) for end in ends}
        assert not any(found[name] for cycle, found in enumerate(recorded) if cycle not in at), name
    return [tuple(recorded[end + late.get(name, 0)][name] for name in outputs) for end in ends]


def run(config, rows, distances, *, mantissa, shift, label_shift=0, **constant):
    """What leaves the solver, as (c, saturated)."""
    return record(config, rows, distances, ["o", "saturated"], mantissa=mantissa, shift=shift,
                  label_shift=label_shift, **constant)


def random_rows(config, rng, count, *, idle=0.0):
    limit = 1 << config.gram_width - 1
    return [{"idle_row": rng.random() < idle, "label": rng.randrange(-30000, 30000),
             "dot": signed_number(rng, config.dot_width),
             "products": [rng.randrange(-limit, limit) for _ in range(config.lookahead)]}
            for _ in range(count)]


@pytest.mark.parametrize("recursion", [2, 3, 4])
@pytest.mark.parametrize("lookahead", [0, 1, 2, 3, 5, 8])
@pytest.mark.parametrize("spread", [0, 1, 5, 20])
def test_recursion(recursion, lookahead, spread):
    """Rows at any distance, of at least ``recursion`` cycles, see every c before them."""
    config = PipelineConfig(bits=4, max_features=48, lookahead=lookahead, recursion=recursion)
    rng = random.Random(f"{recursion}-{lookahead}-{spread}")
    rows = random_rows(config, rng, 40, idle=0.15 if spread else 0.0)
    distances = [recursion + rng.randint(0, rng.choice([0, 1, spread])) for _ in rows]
    steps = {"mantissa": 150, "shift": 3, "label_shift": 12}
    expected = solve(rows, **steps)
    assert any(abs(c) > 1 << 20 for c in expected)
    assert run(config, rows, distances, **steps) == [(c, 0) for c in expected]


@pytest.mark.parametrize("recursion", [2, 3, 4])
@pytest.mark.parametrize(("mantissa", "shift"), [(1, 1), ((1 << 18) - 1, 2), ((1 << 18) - 1, 7),
                                                 (0, 1), (3, 5)])
def test_steps(recursion, mantissa, shift):
    config = PipelineConfig(bits=2, max_features=32, lookahead=3, recursion=recursion)
    rng = random.Random(f"{mantissa}-{shift}")
    rows = random_rows(config, rng, 20)
    for row in rows:
        row["dot"] >>= 12
        if mantissa >> 8 * (shift - 1) > 3:     # else the recursion itself would leave the range
            row["products"] = [0] * 3
    steps = {"mantissa": mantissa, "shift": shift, "label_shift": 3}
    expected = solve(rows, **steps)
    assert all(fits(c, 32) for c in expected)
    assert run(config, rows, [recursion] * 20, **steps) == [(c, 0) for c in expected]


@pytest.mark.parametrize("recursion", [2, 3, 4])
@pytest.mark.parametrize("shift", range(1, MAX_SHIFT + 1))
def test_ties_of_every_shift(recursion, shift):
    """Halves go up, whatever is shifted away."""
    config = PipelineConfig(bits=8, max_features=4096, lookahead=1, recursion=recursion)
    mantissa = 1 << min(17, 8 * shift - 1)
    half = (1 << 8 * shift - 1) // mantissa
    rows = [{"idle_row": 0, "label": 0, "dot": dot, "products": [0]}
            for dot in (3 * half, 3 * half - 1, -3 * half, -3 * half - 1)]
    assert run(config, rows, [recursion] * 4, mantissa=mantissa, shift=shift) == [
        (2, 0), (1, 0), (-1, 0), (-2, 0)]


@pytest.mark.parametrize("recursion", [2, 3, 4])
@pytest.mark.parametrize("label_shift", [0, 8, 40])
def test_labels(recursion, label_shift):
    config = PipelineConfig(bits=8, max_features=4096, lookahead=1, recursion=recursion)
    labels = [1, -1, (1 << 10) - 1, -1 << 10]
    rows = [{"idle_row": 0, "label": label, "dot": 5, "products": [0]} for label in labels]
    steps = {"mantissa": 7, "shift": 4, "label_shift": label_shift}
    assert run(config, rows, [recursion] * 4, **steps) == [(c, 0) for c in solve(rows, **steps)]


@pytest.mark.parametrize("recursion", [2, 3, 4])
@pytest.mark.parametrize("lookahead", [0, 2])
@pytest.mark.parametrize(("mantissa", "dot", "c", "saturated"), [
    (256, 2**31 - 1, 2**31 - 1, 0), (256, 2**31, None, 1),
    (256, -2**31, -2**31, 0), (256, -2**31 - 1, None, 1),
    (128, 2**32 - 2, 2**31 - 1, 0), (128, 2**32 - 1, None, 1),         # a tie goes up
    (128, -2**32 - 1, -2**31, 0), (128, -2**32 - 2, None, 1),
    (128, 5, 3, 0), (128, -5, -2, 0), (1, 127, 0, 0), (1, 128, 1, 0), (1, -128, 0, 0),
    (1, -129, -1, 0),
])
def test_range_and_rounding(recursion, lookahead, mantissa, dot, c, saturated):
    config = PipelineConfig(bits=4, max_features=80, lookahead=lookahead, recursion=recursion)
    row = {"idle_row": 0, "label": 0, "dot": dot, "products": [0] * lookahead}
    (o, flag), = run(config, [row], [1], mantissa=mantissa, shift=1)
    assert flag == saturated
    assert c is None or (o == c == round_shift(mantissa * dot, 8))


def test_idle_row_is_never_out_of_range():
    config = PipelineConfig(bits=4, max_features=80, lookahead=2)
    row = {"idle_row": 1, "label": 0, "dot": 2**40, "products": [0] * 2}
    assert run(config, [row], [1], mantissa=256, shift=1) == [(0, 0)]


@pytest.mark.parametrize("recursion", [2, 3, 4])
@pytest.mark.parametrize("lookahead", [1, 2, 5])
def test_clear_forgets_the_rows_before(recursion, lookahead):
    config = PipelineConfig(bits=4, max_features=48, lookahead=lookahead, recursion=recursion)
    rng = random.Random(recursion)
    before, after = (random_rows(config, rng, 8) for _ in range(2))
    cycles, dots = [], {}
    for number, rows in enumerate((before, after)):
        for row in rows:
            start = {"valid": 1, **{name: row[name] for name in ("idle_row", "label", "products")}}
            cycles += [start, {"valid": 0}, *[{} for _ in range(recursion - 2)]]
            dots[len(cycles) - recursion + config.solver_lead] = row["dot"]
        if not number:
            cycles += [*[{} for _ in range(12)], {"clear": 1}, {"clear": 0}]
    cycles += [{} for _ in range(config.solver_lead)]
    for cycle, dot in dots.items():
        cycles[cycle]["dot"] = dot
    steps = {"mantissa": 150, "shift": 3, "label_shift": 12}
    recorded = trace(Solver(config=config), cycles, ["o_valid", "o"], **steps)
    assert [outputs["o"] for outputs in recorded if outputs["o_valid"]] \
        == solve(before, **steps) + solve(after, **steps)


HINGES = (Loss.SQUARED_HINGE, Loss.HINGE)


def sign_rows(config, rng, count, *, label_shift, idle=0.0):
    """Rows with labels +1 and -1, many of them just on one side of the hinge."""
    limit = 1 << 5      # the recursion itself must not leave the range
    rows = []
    for _ in range(count):
        label = rng.choice([-1, 1])
        near = label * (1 << label_shift) + rng.choice([-1, 0, 1])
        rows.append({"idle_row": rng.random() < idle, "label": label,
                     "dot": rng.choice([near, signed_number(rng, label_shift + 3)]),
                     "products": [rng.randrange(-limit, limit) for _ in range(config.lookahead)]})
    return rows


@pytest.mark.parametrize("recursion", [2, 3, 4])
@pytest.mark.parametrize("lookahead", [0, 1, 2, 5])
@pytest.mark.parametrize("loss", HINGES)
def test_hinge(recursion, lookahead, loss):
    config = PipelineConfig(bits=4, max_features=48, lookahead=lookahead, recursion=recursion)
    rng = random.Random(f"{recursion}-{lookahead}")
    rows = sign_rows(config, rng, 60, label_shift=18, idle=0.1)
    steps = {"mantissa": 200, "shift": 2, "label_shift": 18, "loss": loss, "unit": 75}
    expected = solve(rows, **steps)
    assert 0 < sum(c == 0 for c in expected) < 50
    distances = [recursion + rng.choice([0, 0, 1, 7]) for _ in rows]
    assert run(config, rows, distances, unit_too_large=0, **steps) == [(c, 0) for c in expected]


@pytest.mark.parametrize("recursion", [2, 3, 4])
@pytest.mark.parametrize("loss", HINGES)
@pytest.mark.parametrize("mantissa, shift", [(1, 7), ((1 << 18) - 1, 1)])
def test_exactly_at_the_hinge(recursion, loss, mantissa, shift):
    """y z = 2^label_shift is inactive; one less is active, however small the step."""
    config = PipelineConfig(bits=4, max_features=48, lookahead=0, recursion=recursion)
    rows = [{"idle_row": 0, "label": label, "dot": label * ((1 << 12) + beyond), "products": []}
            for label in (1, -1) for beyond in (-1, 0, 1)]
    steps = {"mantissa": mantissa, "shift": shift, "label_shift": 12, "loss": loss, "unit": 9}
    expected = solve(rows, **steps)
    if loss == Loss.HINGE:
        assert expected == [-9, 0, 0, 9, 0, 0]
    assert expected[1:3] == expected[4:] == [0, 0]
    assert run(config, rows, [recursion] * 6, **steps) == [(c, 0) for c in expected]


def test_look_ahead_moves_a_row_across_the_hinge():
    """z = 4096 - 9 G: G = -1 makes an active row inactive, G = 1 the other way round."""
    config = PipelineConfig(bits=4, max_features=48, lookahead=1)
    first = {"idle_row": 0, "label": -1, "dot": 0, "products": [0]}     # active, c = 9
    steps = {"mantissa": 1, "shift": 7, "label_shift": 12, "loss": Loss.HINGE, "unit": 9}
    for dot, product, c in ((4095, -1, 0), (4095, 0, -9), (4096, 0, 0), (4096, 1, -9),
                            (4104, 1, -9), (4105, 1, 0)):
        rows = [first, {"idle_row": 0, "label": 1, "dot": dot, "products": [product]}]
        assert run(config, rows, [2, 2], **steps) == [(9, 0), (c, 0)]


@pytest.mark.parametrize("loss, dot, expected", [
    (Loss.HINGE, 0, 1), (Loss.HINGE, 1 << 20, 1),       # K is too large for any row
    (Loss.SQUARED_HINGE, 0, 0), (Loss.LEAST_SQUARES, 0, 0),
    (Loss.SQUARED_HINGE, -1 << 40, 1), (Loss.SQUARED_HINGE, 1 << 40, 0),    # inactive: c = 0
    (Loss.LEAST_SQUARES, 1 << 40, 1)])
@pytest.mark.parametrize("idle", [0, 1])
def test_range_with_losses(loss, dot, expected, idle):
    config = PipelineConfig(bits=4, max_features=80, lookahead=0)
    row = {"idle_row": idle, "label": 1, "dot": dot, "products": []}
    (_, saturated), = run(config, [row], [1], mantissa=256, shift=1, label_shift=5, loss=loss,
                          unit=5, unit_too_large=1)
    assert saturated == (expected and not idle)


# Refetching

FLAGS = ["o", "o_decided", "o_retry", "o_undecided", "o_positive", "saturated"]


def refetching(lookahead, recursion=2):
    return PipelineConfig(bits=4, max_features=48, lookahead=lookahead, recursion=recursion,
                          refetch=True)


@pytest.mark.parametrize("recursion", [2, 3, 4])
@pytest.mark.parametrize("lookahead", [0, 3])
@pytest.mark.parametrize("mantissa", [1, (1 << 18) - 1])
def test_rows_that_look_ahead_leaves_open(recursion, lookahead, mantissa):
    """Open is 2 |z - target| <= reach + slack, exactly."""
    config, rng = refetching(lookahead, recursion), random.Random(recursion)
    slack, rows, expected = (1 << 36) + 1, [], []
    for number in range(80):
        label = rng.choice([-1, 1])
        reach = rng.choice([0, 1, (1 << config.reach_width) - 1, rng.getrandbits(20)])
        beyond = rng.choice([0, 0, 1, rng.getrandbits(30)]) * (number % 2)
        away = (reach + slack) // 2 + beyond
        dot = label * (1 << 12) + rng.choice([-1, 1]) * away
        rows.append({"idle_row": number % 10 == 9, "label": label, "dot": dot, "reach": reach,
                     "products": [0] * lookahead, "undecided": rng.getrandbits(1), "probe": 0,
                     "squash": 0})
        retry = 2 * away <= reach + slack
        active = label * dot < 1 << 12
        c = -7 * label if active and not retry else 0
        counts = not rows[-1]["idle_row"]
        expected.append((c * counts, counts and not retry, counts and retry, 0, label > 0, 0))
    assert {flags[2] for flags in expected} == {0, 1}
    found = record(config, rows, [recursion] * 80, FLAGS, mantissa=mantissa, shift=7,
                   label_shift=12, loss=Loss.HINGE, unit=7, refetching=1, slack=slack)
    assert found == expected


@pytest.mark.parametrize("refetches", [0, 1])
@pytest.mark.parametrize("recursion", [2, 4])
def test_what_becomes_of_a_row(refetches, recursion):
    """Every combination of flags; K that is too large is reported of every row."""
    config, rows, expected = refetching(1, recursion), [], []
    for number in range(1 << 5):
        probe, squash, undecided, is_open, active = (number >> bit & 1 for bit in range(5))
        dot = (1 << 12) + (-1 if active else 1) * (3 if is_open else 100)
        rows.append({"idle_row": 0, "label": 1, "dot": dot, "reach": 20, "products": [0],
                     "undecided": undecided, "probe": probe, "squash": squash})
        retry = refetches and is_open and not probe and not squash
        refetch = probe and undecided and not squash
        decided = not (squash or retry or refetch)
        expected.append((-7 if active and decided else 0, decided, retry, refetch, 1, 1))
    found = record(config, rows, [recursion] * len(rows), FLAGS, mantissa=5, shift=7,
                   label_shift=12, loss=Loss.HINGE, unit=7, unit_too_large=1,
                   refetching=refetches, slack=30)
    assert found == expected


@pytest.mark.parametrize("fate", ["retry", "refetch", "squash"])
def test_later_rows_see_no_update_of_a_row_without_one(fate):
    config = refetching(1)
    first = {"idle_row": 0, "label": 1, "dot": (1 << 12) - 100, "products": [0], "reach": 0,
             "probe": fate == "refetch", "undecided": fate == "refetch",
             "squash": fate == "squash"}
    first["reach"] = 400 if fate == "retry" else 0
    second = first | {"dot": (1 << 12) - 10, "products": [-1 << 8], "reach": 0, "probe": 0,
                      "undecided": 0, "squash": 0}      # z = dot + c 2^8 of the first
    decided = first | {"reach": 0, "probe": 0, "undecided": 0, "squash": 0}
    options = {"mantissa": 5, "shift": 7, "label_shift": 12, "loss": Loss.HINGE, "unit": 7,
               "refetching": 1}
    assert record(config, [first, second], [2, 2], ["o"], **options) == [(0,), (-7,)]
    far = second | {"dot": (1 << 12) + 7 * 256 - 1}
    assert record(config, [decided, far], [2, 2], ["o"], **options) == [(-7,), (-7,)]
    far = second | {"dot": (1 << 12) + 7 * 256}
    assert record(config, [decided, far], [2, 2], ["o"], **options) == [(-7,), (0,)]
    assert record(config, [first, far], [2, 2], ["o"], **options) == [(0,), (0,)]


@pytest.mark.parametrize("name", ["squash", "retry"])
def test_a_row_that_does_not_count_is_never_out_of_range(name):
    config = refetching(0)
    for loss in (Loss.LEAST_SQUARES, Loss.SQUARED_HINGE):
        row = {"idle_row": 0, "label": 1, "dot": -1 << 38, "products": [], "probe": 0,
               "undecided": 0, "squash": name == "squash",
               "reach": (1 << 40) * (name == "retry")}
        (c, flag), = record(config, [row], [1], ["o", "saturated"], mantissa=256, shift=1,
                            label_shift=5, loss=loss, refetching=1)
        assert (c, flag) == (0, 0)
