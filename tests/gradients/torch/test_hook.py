"""The hook in two processes: averages, types, refusals, skipped steps, choices."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch; `make test-torch` runs it")

from tests.gradients.ranks import run_ranks
from tests.gradients.torch.cases import CASES, run_cases
from tests.gradients.torch.processes import run_processes

from bitstep_gradients.exchange import Aggregator


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    found = run_processes(2, tmp_path_factory.mktemp("ranks"), run_cases)
    for one in found:
        assert isinstance(one, dict), one
    return found


def equal(first, second):
    """True if two nested lists of arrays have the same bits."""
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and first.tobytes() == second.tobytes()
    return len(first) == len(second) and all(map(equal, first, second))


def close(first, second, tolerance):
    return all(np.linalg.norm(one - other) <= tolerance * np.linalg.norm(other)
               for one, other in zip(first, second, strict=True))


def test_uncompressed_gradients_are_those_of_all_reduce(ranks):
    for expected, found in (one["uncompressed"] for one in ranks):
        for steps in found:
            assert all(close(one, other, 1e-6) for one, other in zip(steps, expected, strict=True))
    assert equal(ranks[0]["uncompressed"][1], ranks[1]["uncompressed"][1])


def test_parameter_without_dimensions(ranks):
    for rank in ranks:
        expected, found = rank["parameter_without_dimensions"]
        assert all(len(one) == 5 and close(one, expected, 1e-6) for one in found)


@pytest.mark.parametrize("dtype, tolerance", [("float64", 0.01), ("float32", 0.01),
                                              ("float16", 0.01), ("bfloat16", 0.03)])
def test_types(ranks, dtype, tolerance):
    """8 bits of 64 values a scale, and the rounding of the type."""
    expected, found = ranks[0]["types"]
    assert close(found[f"torch.{dtype}"], expected, tolerance)
    assert equal(found[f"torch.{dtype}"], ranks[1]["types"][1][f"torch.{dtype}"])


def test_averages_beyond_their_type_are_its_largest_number(ranks):
    for found, most in ranks[0]["near_the_largest_number"].values():
        assert (np.abs(found) <= most).all()
        assert 5 < (found == most).sum() < 35


def test_gradients_that_are_views_of_buckets(ranks):
    copies, views = ranks[0]["views"]
    assert equal(copies, views)
    assert equal(views, ranks[1]["views"][1])


def test_unused_parameters(ranks):
    found, steps = ranks[0]["unused_parameters"]
    assert steps == 4
    assert equal(found, ranks[1]["unused_parameters"][0])
    assert all(len(gradients) == 6 and np.abs(np.concatenate(gradients, axis=None)).max() > 0
               for gradients in found)


def test_accumulated_gradients_are_exchanged_once(ranks):
    expected, found, steps = ranks[0]["accumulation"]
    assert steps == 1
    assert close(found, expected, 1e-6)


def test_the_same_bits_as_the_exchange_in_numpy(ranks):
    """Each process's own gradients, averaged once more by threads without torch."""
    def work(transport):
        aggregator = Aggregator("dqsg", bits=3, exchange="two-phase", min_size=0, seed=8,
                                error_feedback=0.5)
        own, _ = ranks[transport.rank]["same_as_numpy"]
        averages = [aggregator.average(transport, {str(number): one for number, one
                                                   in enumerate(gradients)}) for gradients in own]
        return [list((one or {}).values()) for one in averages]

    expected = run_ranks(2, work)[0]
    for rank in ranks:
        assert equal(rank["same_as_numpy"][1], expected)


def test_saved_before_the_first_step(ranks):
    for rank in ranks:
        expected, found = rank["saved_before_the_first_step"]
        assert equal(found, expected)


@pytest.mark.parametrize("case, kind, text", [
    ("not_finite", "ValueError", "on rank 1 they have NaN or infinity"),
    ("joined", "ValueError", "on rank 1 they have NaN or infinity"),
    ("pattern_without_names", "ValueError", "call register(ddp_model)"),
    ("parameter_of_another_model", "ValueError", "a parameter of shape (2,)"),
    ("no_ddp", "TypeError", "DistributedDataParallel, not Linear"),
    ("bad_key", "TypeError", "patterns of names, or parameters"),
    ("overrides_without_values", "TypeError", "overrides must be a dictionary"),
    ("registered_twice", "ValueError", "has a model already"),
    ("two_models", "ValueError", "take one state for each model")])
def test_errors(ranks, case, kind, text):
    """On both ranks alike."""
    for rank in ranks:
        assert rank[case][0] == kind
        assert text in rank[case][1]


@pytest.mark.parametrize("case, text", [("sparse", "make its layer with sparse=False"),
                                        ("complex_numbers", "not torch.complex64")])
def test_gradients_that_are_refused(ranks, case, text):
    """Each pass ends with the same error, on both ranks, and leaves no gradients."""
    for rank in ranks:
        for (errors, is_finite), step in rank[case]:
            assert [kind for kind, _ in errors] == ["TypeError"] * 2
            assert all(text in found for _, found in errors)
            assert (is_finite, step) == (False, 0)


@pytest.mark.parametrize("case, kind, text", [
    ("sparse_on_one_rank", "TypeError", "make its layer with sparse=False"),
    ("one_rank_not_registered", "ValueError", "the registered model does not have")])
def test_failure_of_one_rank_ends_the_other_at_once(ranks, case, kind, text):
    for rank, (expected, part) in enumerate((("ExchangeError", "rank 1 failed"), (kind, text))):
        errors, is_finite = ranks[rank][case]
        assert len(errors) == (1 if case == "sparse_on_one_rank" else 2)
        assert all(found == expected and part in message for found, message in errors)
        assert not is_finite


def test_a_new_model_after_an_error(ranks):
    assert equal(ranks[0]["after_an_error"], ranks[1]["after_an_error"])


def test_the_same_model_goes_on_after_an_error(ranks):
    """The hook's errors end the backward pass and leave DistributedDataParallel as it was."""
    for rank in ranks:
        errors, found, clean = rank["going_on_after_an_error"]
        assert len(errors) == 2
        for text, *state in errors:
            assert "on rank 1 they have NaN or infinity" in text
            assert state == [1, True, True]
        assert all(equal(one, other) for one, other in zip(found, clean, strict=True))


def test_errors_of_a_model_that_is_not_registered(ranks):
    """They come from the hook's own code, and end the second pass as they ended the first."""
    for rank in ranks:
        errors, is_nan = rank["model_not_registered"]
        assert len(errors) == 2
        assert all("the registered model does not have" in text for text in errors)
        assert is_nan


def test_step_that_is_skipped(ranks):
    """The scaler of both ranks halves its scale, and no weight changes."""
    for rank in ranks:
        first, second, third = rank["skipped"]
        assert [one[0] for one in rank["skipped"]] == [False, True, False]
        assert [one[1] for one in rank["skipped"]] == [4, 2, 2]
        assert (first[2] == second[2]).all()
        assert (third[2] != second[2]).mean() > 0.9
        assert (third[2] == ranks[0]["skipped"][2][2]).all()


def test_residuals_have_the_scale_of_a_scaler(ranks):
    """Rescaled with it, nothing of the gradients is lost."""
    total, rest, own = (np.mean(parts, axis=0) for parts in zip(
        *(rank["scale_that_changes"] for rank in ranks), strict=True))
    assert np.linalg.norm(rest) > 0.1 * np.linalg.norm(own)
    assert np.linalg.norm(total + rest - own) < 1e-6 * np.linalg.norm(own)


def test_overrides(ranks):
    assert ranks[0]["overrides"] == {"0.weight": "dqsg", "0.bias": "fp16", "2.weight": "qsgd",
                                     "2.bias": "none"}


def test_group_of_one(ranks):
    for rank in ranks:
        expected, found = rank["subgroup"]
        assert len(found) == 3
        for averages, sent in found:
            assert close(averages, expected, 1e-6)
            assert sent == 0
    assert not equal(ranks[0]["subgroup"][0], ranks[1]["subgroup"][0])


def test_hook_is_not_told_the_group(ranks):
    """As docs/gradients.md says: the group must be given to the state then."""
    for rank in ranks:
        expected, found = rank["subgroup_that_no_one_tells"]
        assert close(found, expected, 1e-6)


def test_transport(ranks):
    assert len(ranks[0]["transport"]) == len(ranks[1]["transport"]) == 6


def test_bytes_are_counted_as_they_are_sent(ranks):
    for rank in ranks:
        found, gathered = rank["counted"]
        assert len(found) == 12
        assert len(gathered) == 5
        for counted, real in found + gathered:
            assert counted == real


def test_every_case_is_looked_at(ranks):
    with open(__file__, encoding="utf-8") as file:
        text = file.read()
    assert [name for name in CASES if f'"{name}"' not in text] == []
