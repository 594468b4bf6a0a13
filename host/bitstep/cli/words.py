"""Messages of the library, which speak of parameters, in the words of the command line."""

import argparse
import re


def in_options(text: str, parser: argparse.ArgumentParser) -> str:
    """A message in which parameters that are options of a command are named as such.

    Parameters with an underscore are found anywhere but within paths and quotes, others where the
    message begins with what they must be.

    Parameters
    ----------
    text : str
    parser : ArgumentParser
        Of the command.
    """
    text = text.replace("label_column=", "label_column ")
    for action in parser._actions:
        option = next((name for name in action.option_strings if name.startswith("--")), "")
        if option.lstrip("-").replace("-", "_") != action.dest or not action.dest:
            continue
        name = re.escape(action.dest)
        pattern = rf"(?<![\w/.'\"=-]){name}(?![\w/.'\"=-])" if "_" in action.dest \
            else rf"^{name}(?= must )"
        text = re.sub(pattern, option, text)
    return text
