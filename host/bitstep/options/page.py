"""Options and the rules between them as Markdown: ``python -m bitstep.options.page``.

The site of the documentation shows this text, which is generated when the site is built.
"""

from typing import Any

from bitstep.options.rules import FACTS, RULES, Rule, Test, Trait
from bitstep.options.table import OPTIONS, SCHEDULES, Option
from bitstep.options.types import Choice, Integer, Switch, Text
from bitstep.options.words import COMMAND_LINE
from bitstep.pipeline.parts.formats import MAX_BIT_PLANE_FEATURES, MAX_PACKED_FEATURES

_MANY = 64      # integers that are tried one by one
_DATA = {"stored": "a quantized file", "stored_encoding": "a file of other rows",
         "stored_task": "a file of other labels", "no_fine_rows": "a file without fine rows",
         "n_features": f"more than {MAX_PACKED_FEATURES} features",
         "wide_rows": f"more than {MAX_BIT_PLANE_FEATURES:,} features",
         "row_bits": "rows of more bits than --bus-width",
         "partial_fit": "partial_fit of an estimator", "warm_start": "warm_start of an estimator"}


def page() -> str:
    """Markdown of the two tables."""
    lines = ["| option | parameter in Python | values | default | becomes |",
             "| --- | --- | --- | --- | --- |"]
    lines += [f"| `{option.flag}` | {f'`{option.python}`' if option.python else ''} | "
              f"{_values(option)} | {_text(option.default_text)} | {_text(option.sets)} |"
              for option in OPTIONS.values()]
    for what, names in (("`--sweep` compares", [one.flag for one in OPTIONS.values() if one.sweep]),
                        ("A search of an estimator compares", [
                            one.python for one in OPTIONS.values() if one.search])):
        lines += ["", f"{what} values of {', '.join(f'`{name}`' for name in names)}."]
    lines += ["", "## Options that exclude each other", "",
              "| option | with | because | what to do |", "| --- | --- | --- | --- |"]
    lines += [_row(rule) for rule in RULES]
    return "\n".join(lines) + "\n"


def _row(rule: Rule) -> str:
    fill = COMMAND_LINE.fill
    other = _text(f"(it needs {fill(rule.needs)})") if rule.needs else _trait(rule.other)
    cells = [_trait(rule.one), other, _text(fill(rule.reason)), _text(fill(rule.remedy))]
    return f"| {' | '.join(cells)} |"


def _values(option: Option) -> str:
    """Values of an option."""
    if isinstance(option.kind, Choice):
        return ", ".join(f"`{name}`" for name in option.kind.names)
    if isinstance(option.kind, Text):
        return f"`{option.metavar}`".replace("|", "\\|")
    return "yes or no" if isinstance(option.kind, Switch) else _text(option.kind.text)


def _trait(trait: Trait) -> str:
    """Options of a trait, with the values that have it."""
    return _text("; ".join(filter(None, (
        _having(name, test) for name, test in trait.tests.items()))))


def _having(name: str, test: Test) -> str:
    """An option with its values of a trait; "" if there are none."""
    if name in FACTS:
        return _DATA[name]
    option = OPTIONS[name]
    if isinstance(option.kind, Switch):
        return option.flag if test(True) else COMMAND_LINE.say(name, False)
    tried = _tried(option)
    having = [value for value in tried if test(value)]
    if len(having) in (0, len(tried)):
        return option.flag if having else ""
    if isinstance(option.kind, Integer) and len(having) > 3:
        first, last = having[0], having[-1]
        if having == tried[1:]:
            return f"{option.flag} above {tried[0]}" if tried[0] else option.flag
        having = [f"{first} to {last}"] if having == [*range(first, last + 1)] else having
    return f"{option.flag} {', '.join(map(str, having))}"


def _tried(option: Option) -> list[Any]:
    """Values of an option that are tried: all, or some of many."""
    kind = option.kind
    if isinstance(kind, Choice):
        return list(kind.names)
    if isinstance(kind, Integer):
        whole = [*range(kind.low, min(kind.high or _MANY, _MANY) + 1)]
        return sorted({*whole, *(value for value in kind.others if isinstance(value, int))})
    return {"schedule": [*SCHEDULES, "FILE"], "planes": ["auto", 4],
            "class_weight": ["balanced", "C=W"]}.get(option.name, [1.0])


def _text(text: str) -> str:
    """Text within a table, with options as code."""
    pieces = text.replace("%%", "%").split("`")
    for number in range(0, len(pieces), 2):
        pieces[number] = " ".join(map(_word, pieces[number].split(" ")))
    return "`".join(pieces)


def _word(word: str) -> str:
    """A word within a table."""
    name = word.strip("();,:")
    if name.startswith("--"):
        return word.replace(name, f"`{name}`")
    return word.replace("*", "\\*").replace("<", "&lt;")


if __name__ == "__main__":
    print(page(), end="")
