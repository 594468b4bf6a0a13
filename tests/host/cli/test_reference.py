"""The command line as Markdown, for the site of the documentation."""

import argparse
import re

from bitstep.cli import build_parser, reference


def _commands(**options):
    """A parser with one subcommand, whose description is full of Markdown's signs."""
    parser = argparse.ArgumentParser(prog="bitstep")
    command = parser.add_subparsers().add_parser(
        "try", description="From a_b to [c] <d>, see `e_f`.", epilog="Example: x*y.")
    command.usage = "bitstep try FILE [options]"
    command.add_argument("file", metavar="FILE", help="a file, a|b")
    group = command.add_argument_group("training (of a model)")
    group.add_argument("--kind", choices=("one", "two"), default="one", help="(%(default)s)")
    group.add_argument("--shuffle", action=argparse.BooleanOptionalAction, help="in any order")
    group.add_argument("--some", nargs="+", metavar="N", help="numbers")
    group.add_argument("--secret", help=argparse.SUPPRESS)
    return parser


def test_one_command(monkeypatch):
    monkeypatch.setattr(reference, "build_parser", _commands)
    assert reference.reference() == """\
## bitstep try

From a\\_b to \\[c] &lt;d>, see `e_f`.

    bitstep try FILE [options]

**Arguments**

| arguments | meaning |
| --- | --- |
| `FILE` | a file, a\\|b |

**Training (of a model)**

| training | meaning |
| --- | --- |
| `--kind {one,two}` | (one) |
| `--shuffle`, `--no-shuffle` | in any order |
| `--some N` | numbers |

Example: x\\*y.
"""


def commands_of(parser):
    """Parsers of a parser's subcommands, by name."""
    return next((action.choices for action in parser._actions
                 if isinstance(action, argparse._SubParsersAction)), {})


def test_every_option_of_every_command():
    text = reference.reference()
    commands = next(action for action in build_parser()._actions
                    if isinstance(action, argparse._SubParsersAction)).choices
    sections = dict(zip(re.findall("^## bitstep (.*)$", text, re.MULTILINE),
                        re.split("^## .*$", text, flags=re.MULTILINE)[1:], strict=True))
    assert list(sections) == list(commands)
    for name, parser in commands.items():
        options = [option for action in parser._actions for option in action.option_strings
                   if option not in ("-h", "--help")]
        missing = [option for option in options if f"`{option}" not in sections[name]]
        assert not missing, name
        # As many cells in every line of a table, so that none is cut.
        lines = [line for line in sections[name].splitlines() if line.startswith("| ")]
        assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} <= {3}


def test_every_option_of_an_action():
    """An action of a subcommand has a section of its own, below that of the subcommand."""
    text = reference.reference()
    actions = {f"{name} {action}": parser for name, command in commands_of(build_parser()).items()
               for action, parser in commands_of(command).items()}
    assert "gradients race" in actions
    for name, parser in actions.items():
        section = text.split(f"\n### bitstep {name}\n")[1].split("\n## ")[0].split("\n### ")[0]
        options = [option for action in parser._actions for option in action.option_strings
                   if option not in ("-h", "--help")]
        assert [option for option in options if f"`{option}" not in section] == [], name
        assert f"    bitstep {name} " in section
        assert parser.description in section


def test_help_names_options_of_its_own_command():
    """What is another command's stands between backquotes, with the command's name."""
    for name, parser in commands_of(build_parser()).items():
        own = {option for action in parser._actions for option in action.option_strings}
        for action in parser._actions:
            said = re.sub("`[^`]*`", "", action.help or "")
            named = set(re.findall("--[a-z][a-z0-9-]*", said))
            assert named <= own, f"{name} {action.option_strings}"
