"""The pipelines whose area is counted."""

from dataclasses import asdict

import pytest

from bitstep_sim.reports.area import options


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_an_option_changes_one_choice(bits):
    table = {label: asdict(config) for label, config in options(64, bits).items()}
    base = table.pop("all defaults")
    for label, config in table.items():
        changed = {name for name in base if config[name] != base[name]}
        if "look-ahead" in label:
            assert changed == {"lookahead"}
        elif "cycles" in label:
            assert changed - {"lookahead"} == {"cycles_per_update"}
        else:
            n_changed = 2 if label == "model of 4 bits, updates of few bits" else 1
            assert len(changed - {"lookahead", "cycles_per_update"}) == n_changed, label
    assert ("two samples a value" in table) == (bits >= 2)
    assert ("tables of levels" in table) == (bits <= 5)
