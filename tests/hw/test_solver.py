# amaranth: UnusedElaboratable=no

import random

import pytest
from support import signed_number, signed_numbers, trace

from bitstep.config import PipelineConfig, solver_stages
from bitstep.golden.rounding import fits, round_shift
from bitstep_hw.solver import Solver


def solve(rows, *, mantissa, shift, label_shift):
    """c of every row, one after the other: the recursion as it is written in docs/pipeline.md."""
    history = []
    for row in rows:
        z = row["dot"] - sum(history[-d] * product
                             for d, product in enumerate(row["products"], start=1)
                             if d <= len(history))
        exact = mantissa * (z - (row["label"] << label_shift))
        history.append(0 if row["idle_row"] else round_shift(exact, 8 * shift))
    return history


def run(config, rows, distances, *, mantissa, shift, label_shift=0):
    """What leaves the solver, as (cycles since the row's dot product, c, saturated)."""
    starts, now = [], 0
    for distance in distances:
        now += distance
        starts.append(now)
    rng = random.Random(0)
    length = now + 2
    cycles = [{"valid": 0, "idle_row": rng.getrandbits(1), "label": rng.getrandbits(31),
               "dot": rng.getrandbits(30),
               "products": signed_numbers(rng, config.gram_width, config.lookahead)}
              for _ in range(length)]
    for start, row in zip(starts, rows, strict=True):
        cycles[start] |= {"valid": 1, "idle_row": row["idle_row"], "label": row["label"],
                          "products": row["products"]}
        cycles[start + 1]["dot"] = row["dot"]
    recorded = trace(Solver(config=config), cycles, ["o_valid", "o", "saturated"],
                     mantissa=mantissa, shift=shift, label_shift=label_shift)
    ends = [cycle for cycle, outputs in enumerate(recorded) if outputs["o_valid"]]
    assert ends == [start + 1 + solver_stages(config.recursion) for start in starts]
    assert not any(outputs["saturated"] for outputs in recorded if not outputs["o_valid"])
    return [(recorded[end]["o"], recorded[end]["saturated"]) for end in ends]


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
    cycles = []
    for number, rows in enumerate((before, after)):
        for row in rows:
            start = {"valid": 1, **{name: row[name] for name in ("idle_row", "label", "products")}}
            cycles += [start, {"valid": 0, "dot": row["dot"]}, *[{}] * (recursion - 2)]
        if not number:
            cycles += [*[{}] * 8, {"clear": 1}, {"clear": 0}]
    steps = {"mantissa": 150, "shift": 3, "label_shift": 12}
    recorded = trace(Solver(config=config), cycles, ["o_valid", "o"], **steps)
    assert [outputs["o"] for outputs in recorded if outputs["o_valid"]] \
        == solve(before, **steps) + solve(after, **steps)
