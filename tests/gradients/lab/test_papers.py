"""The papers' figures: what came out is what the documentation prints."""

from pathlib import Path

import numpy as np
import pytest

from bitstep_gradients import Key, make_codec
from bitstep_gradients.lab.papers import dq_sgd, dqsg, networks
from bitstep_gradients.lab.papers.__main__ import PAPERS, main, section
from bitstep_gradients.lab.papers.claims import Claim, bound, number, table
from bitstep_gradients.lab.papers.training import RUNS

PAGE = Path(__file__).resolve().parents[3] / "docs/results/gradients.md"


@pytest.mark.parametrize("name", PAPERS)
def test_every_figure_is_in_the_documentation(name):
    page = PAGE.read_text(encoding="utf-8")
    page = page[page.index(f"### {name}\n"):]
    for line in table(PAPERS[name].claims()).splitlines():
        assert line in page.splitlines()


def test_section_is_the_documentation(capsys):
    main([])
    printed = capsys.readouterr().out.strip()
    assert printed == section()
    assert printed in PAGE.read_text(encoding="utf-8")
    assert set(RUNS) == set(PAPERS)


@pytest.mark.parametrize("name", dqsg.NETWORKS)
@pytest.mark.parametrize("codec, options, title", [
    ("dqsg", {"payload": "radix"}, "`dqsg`, 3 levels | radix"),
    ("dqsg", {"payload": "range"}, "`dqsg`, 3 levels | range"), ("one-bit", {}, "`one-bit` | -")])
def test_whole_messages_of_the_networks(name, codec, options, title):
    """Codes that are all alike often."""
    try:
        codec = make_codec(codec, **options)
    except ImportError as error:
        pytest.skip(str(error))
    shapes, printed = dqsg.NETWORKS[name]
    rng = np.random.default_rng(1)
    vectors = [rng.integers(-1, 2, shape, np.int8).astype(np.float32) for shape in shapes]
    bits = 8 * sum(len(codec.encode(vector, Key(1))) for vector in vectors)
    place = 2 if codec.name == "one-bit" else 1
    row = (name, f"{networks.count(shapes):,}", title, f"{bits / 1000:,.1f}", printed[place])
    assert f"| {' | '.join(row)} |" in PAGE.read_text(encoding="utf-8").splitlines()


def test_parameters():
    assert networks.count(networks.FC_300_100) == 266_610
    assert networks.count(networks.LENET) == 1_663_370
    assert networks.count(networks.CIFARNET) == 1_068_298
    assert networks.resnet((2, 2, 2, 2), 10) == 11_173_962
    assert networks.resnet((3, 4, 6, 3), 10) == 21_282_122
    assert networks.resnet((3, 4, 6, 3), 100) == 21_328_292
    assert networks.one_bit_centres(networks.FC_300_100) == 2 * (784 + 300 + 100 + 3)


@pytest.mark.parametrize("found, agrees", [
    (422.759, "yes"), (422.75, "yes"), (422.70, "nearly"), (422.9, "nearly"), (423.0, "no")])
def test_agreement_is_in_units_of_the_last_digit(found, agrees):
    assert number("a", "422.8", found).agrees == agrees


def test_claims_by_hand():
    assert number("a", "8,531.5", 8531.52, unit=" Kbit", note="b") == \
        Claim("a", "8,531.5 Kbit", "8,531.52 Kbit", "yes: b")
    assert bound("a", "< 5", 5.1, 5).agrees == "no"
    assert bound("a", ">= 5", 5.1, 5, at_least=True).agrees == "yes"
    assert table([Claim("|g|", "1", "2", "no")]).splitlines()[-1] == r"| \|g\| | 1 | 2 | no |"


def test_claims_that_do_not_agree():
    """Rows that do not add up stay named."""
    wrong = [one.claim for name in ("DQSG", "DQ-SGD") for one in PAPERS[name].claims()
             if one.agrees.startswith("no")]
    assert [claim.split(",")[0] for claim in wrong] == [
        "Table 1", "Table 1", "DQSG with M = 2 and NDQSG with (1/3", "Table II",
        "Eq. 23: noise of d = 1024"]
    assert "CifarNet" in wrong[0]
    assert "CifarNet" in wrong[1]
    assert "CIFAR-100" in wrong[3]


def test_nested_quantization_by_hand():
    """A side that is too far away is decoded wrongly, by a whole coarse step."""
    index, received = dqsg.nested(-4.2, 0.3, -3.4, 1, 3)
    assert (index, received) == (-1, pytest.approx(-4.3))
    assert dqsg.nested(-4.2, 0.3, -1.0, 1, 3)[1] == pytest.approx(-1.3)
    assert dqsg.raw_kilobits(networks.FC_300_100, 2) == pytest.approx(
        (266_610 * np.log2(5) + 192) / 1000)
    assert dq_sgd.cost(11_173_962, 6000) == pytest.approx(1998.06, abs=0.005)
