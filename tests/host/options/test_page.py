"""The page of options: every option, every rule, and whole tables."""

import re

from bitstep.options.page import page
from bitstep.options.rules import RULES
from bitstep.options.table import OPTIONS
from bitstep.options.words import COMMAND_LINE

TEXT = page()
TABLE, PAIRS = TEXT.split("## Options that exclude each other")


def rows(text):
    return [line for line in text.splitlines() if line.startswith("| ")][2:]


def test_every_option_has_a_line():
    lines = rows(TABLE)
    assert len(lines) == len(OPTIONS)
    for line, option in zip(lines, OPTIONS.values(), strict=True):
        assert line.startswith(f"| `{option.flag}` | ")
        assert option.sets in line
        assert not option.python or f"| `{option.python}` |" in line


def test_every_rule_has_a_line():
    lines = rows(PAIRS)
    assert len(lines) == len(RULES)
    for line, rule in zip(lines, RULES, strict=True):
        plain = line.replace("`", "").replace("\\", "")
        assert COMMAND_LINE.fill(rule.reason).replace("`", "") in plain
        assert COMMAND_LINE.fill(rule.remedy).replace("`", "") in plain


def test_tables_are_whole():
    for text, cells in ((TABLE, 6), (PAIRS, 5)):
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows(text)} == {cells}
    assert not re.search(r"\| *\|", PAIRS), "an empty cell"


def test_values_of_a_rule():
    """As many as there are, in few words."""
    assert "| `--levels` optimal | `--bits` 6, 7, 8, 32 | a table takes" in PAIRS
    assert "| `--bits` 1 to 8 | `--encoding` float | 32 bits" in PAIRS
    assert "| `--refetch` | `--batch` above 1 | every row" in PAIRS
    assert "| `--no-intercept` | (it needs `--scaler` maxabs) | the other" in PAIRS
    assert ("| `--solver` bit-centred | `--schedule` inverse, inverse-sqrt, linear, FILE | "
            "it has one" in PAIRS)
    assert "| `--packed` | more than 64 features | it is for up to 64 features |" in PAIRS


def test_what_is_compared():
    assert "`--sweep` compares values of `--step`, `--l2`, `--l1`, `--box`, `--model-" in TEXT
    assert "of `step`, `schedule`, `l2`, `l1`, `box`, `epsilon`, `model_range`, `mod" in TEXT
