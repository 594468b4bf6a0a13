"""Docstrings as the site's renderer reads them: one parameter an entry, no roles of Sphinx."""

import re

import griffe

# An entry for several parameters, whose default would be shown as that of the first.
_SEVERAL = re.compile(r"^([a-z_]\w*(?:, [a-z_]\w*)+)( :.*)?\n((?:[ ]+.*\n?|\n(?=[ ]))*)",
                      re.MULTILINE)
_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr):`~?([\w.]+)`")
_SECTIONS = re.compile(r"(?<=\n)(?:Parameters|Other Parameters|Attributes)\n-+\n.*?"
                       r"(?=\n\n[A-Z][a-z]+\n-+\n|\Z)", re.DOTALL)


def _apart(found):
    """The same text for each of the names."""
    names, kind, text = found[1].split(", "), found[2] or "", found[3].rstrip("\n")
    return "".join(f"{name}{kind}\n{text}\n" for name in names)


def plain(text):
    """A docstring in the renderer's style."""
    text = _SECTIONS.sub(lambda section: _SEVERAL.sub(_apart, section[0]), text)
    return _ROLE.sub(r"`\1`", text)


class Docstrings(griffe.Extension):
    """Rewrites every docstring when it is loaded."""

    def on_instance(self, *, obj, **kwargs):
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = plain(obj.docstring.value)
