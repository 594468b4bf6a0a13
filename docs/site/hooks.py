"""What the site adds to the pages when it is built, and what must hold of it."""

import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mkdocs.exceptions import PluginError

sys.path[:0] = [str(Path(__file__).parents[2] / folder) for folder in ("host", "hw", "sim")]

from bitstep.cli.reference import reference  # noqa: E402
from bitstep.options.page import page as options_page  # noqa: E402

# Tags that make a browser load something from elsewhere as soon as the page is open.
_LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^>]*>|"
                     r"<link\b(?![^>]*rel=[\"']?canonical)[^>]*\bhref=[\"']?(?:https?:)?//[^>]*>|"
                     r"@import|url\([\"']?(?:https?:)?//", re.IGNORECASE)

_LINK = re.compile(r"<[^>]*\s(?:href|src)=[\"']([^\"'<>]*)[\"']")


def on_page_markdown(markdown, page, config, files):
    """Put the options of the command line, and the sources of examples, in place of markers."""
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- commands -->", reference())
    if "<!-- options -->" in markdown:
        markdown = markdown.replace("<!-- options -->", options_page())
    return re.sub(r"<!-- source: ([\w.]+) -->", lambda found: _source(config, found[1]), markdown)


def _source(config, name):
    """A script of the gallery, folded."""
    text = (Path(config.docs_dir) / "examples" / name).read_text("utf-8")
    lines = "\n".join(f"    {line}".rstrip() for line in ("```python", *text.splitlines(), "```"))
    return f'??? example "{name}"\n{lines}\n'


def on_post_build(config):
    """Refuse a site whose pages load anything from the network, or link to a file that it has
    not: pages that are left out of the site may be linked without a warning.
    """
    site = Path(config.site_dir).resolve()
    for file in site.rglob("*"):
        if file.suffix not in (".html", ".css"):
            continue
        text = file.read_text("utf-8")
        if found := _LOADED.search(text):
            raise PluginError(f"{file}: a page must load nothing from the network, but holds "
                              f"{found.group()[:200]}")
        # The page of errors may be shown at any address, so its links begin at the site's root.
        dead = sorted(link for link in set(_LINK.findall(text)) if not _exists(link, file, site)) \
            if file.suffix == ".html" else []
        if dead:
            raise PluginError(f"{file}: a page must link to files of the site, but links to "
                              f"{', '.join(dead)}; mend the links, or exclude_docs of mkdocs.yml")


def _exists(link, file, site):
    """True for a link to a file of the site, or elsewhere."""
    found = urlsplit(link)
    if found.scheme or found.netloc or not found.path:
        return True
    path = unquote(found.path)
    target = site / path.lstrip("/") if path.startswith("/") else file.parent / path
    return target.is_file() or (target / "index.html").is_file()
