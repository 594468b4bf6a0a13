"""The options of every subcommand as Markdown: ``python -m bitstep.cli.reference``.

The site of the documentation shows this text, which is generated when the site is built.
"""

import argparse

from bitstep.cli import build_parser


def reference() -> str:
    """Markdown of all subcommands that are installed, in the order of the help."""
    return "\n".join(_sections(build_parser(), 2))


def _sections(parser, level):
    """Sections of a parser's subcommands, each with those of its own after it."""
    for commands in parser._actions:
        if not isinstance(commands, argparse._SubParsersAction):
            continue
        brief = {action.dest: action.help or "" for action in commands._choices_actions}
        for name, command in commands.choices.items():
            yield _section(command, brief.get(name, ""), level)
            yield from _sections(command, level + 1)


def _section(parser, brief, level):
    """A subcommand: heading, description, usage, and a table for each group of options."""
    usage = parser.format_usage().removeprefix("usage: ")
    lines = [f"{'#' * level} {parser.prog}", "", _text(parser.description or brief), "",
             f"    {' '.join(usage.split())}", ""]
    for group in parser._action_groups:
        actions = [action for action in group._group_actions
                   if action.help != argparse.SUPPRESS and "--help" not in action.option_strings
                   and not isinstance(action, argparse._SubParsersAction)]
        if not actions:
            continue
        title = "arguments" if group.title == "positional arguments" else group.title
        lines += [f"**{title[:1].upper()}{title[1:]}**", "",
                  f"| {title.split(' (')[0]} | meaning |", "| --- | --- |"]
        lines += [f"| {_name(action)} | {_cell(_meaning(parser, action))} |" for action in actions]
        lines.append("")
    if parser.epilog:
        lines += [_text(parser.epilog), ""]
    return "\n".join(lines)


def _name(action):
    """Spellings of an option with its value, or the name of an argument."""
    value = action.metavar
    if value is None:
        choices = f"{{{','.join(map(str, action.choices))}}}" if action.choices else None
        value = "" if action.nargs == 0 else choices or action.dest.upper()
    value = " ".join(value) if isinstance(value, tuple) else value
    if not action.option_strings:
        return f"`{_cell(value)}`"
    return ", ".join(f"`{option}{f' {_cell(value)}' if value else ''}`"
                     for option in action.option_strings)


def _meaning(parser, action):
    """Help of an option with its figures filled in, as ``--help`` shows it."""
    return _text(parser._get_formatter()._expand_help(action)) if action.help else ""


def _text(text):
    """Plain text in which nothing is Markdown or HTML but names in backquotes."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        pieces = [text.replace("`", "'")]
    for number in range(0, len(pieces), 2):
        for sign in "\\*_[":
            pieces[number] = pieces[number].replace(sign, f"\\{sign}")
        pieces[number] = pieces[number].replace("<", "&lt;")
    return "`".join(pieces)


def _cell(text):
    """Text within a table."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(reference(), end="")
