"""What the site adds to the pages when it is built, and what must hold of it."""

import re
import sys
from pathlib import Path

from mkdocs.exceptions import PluginError

sys.path[:0] = [str(Path(__file__).parents[2] / folder) for folder in ("host", "hw", "sim")]

from bitstep.cli.reference import reference  # noqa: E402

# Tags that make a browser load something from elsewhere as soon as the page is open.
_LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^>]*>|"
                     r"<link\b(?![^>]*rel=[\"']?canonical)[^>]*\bhref=[\"']?(?:https?:)?//[^>]*>|"
                     r"@import|url\([\"']?(?:https?:)?//", re.IGNORECASE)


def on_page_markdown(markdown, page, config, files):
    """Put the options of the command line, and the sources of examples, in place of markers."""
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- commands -->", reference())
    return re.sub(r"<!-- source: ([\w.]+) -->", lambda found: _source(config, found[1]), markdown)


def _source(config, name):
    """A script of the gallery, folded."""
    text = (Path(config.docs_dir) / "examples" / name).read_text("utf-8")
    lines = "\n".join(f"    {line}".rstrip() for line in ("```python", *text.splitlines(), "```"))
    return f'??? example "{name}"\n{lines}\n'


def on_post_build(config):
    """Refuse a site whose pages load anything from the network."""
    for file in Path(config.site_dir).rglob("*"):
        if file.suffix in (".html", ".css"):
            found = _LOADED.search(file.read_text("utf-8"))
            if found:
                raise PluginError(f"{file}: a page must load nothing from the network, but holds "
                                  f"{found.group()[:200]}")
