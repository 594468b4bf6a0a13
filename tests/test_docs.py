"""Pages of the documentation: links, paths, commands, tables and line lengths."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGES = {"bitstep": "host", "bitstep_lab": "host", "bitstep_hw": "hw", "bitstep_sim": "sim"}
MAX_COLUMNS = 120

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def is_code(line):
    return line.startswith("    ")


def is_table(line):
    return line.startswith("|")


def prose(page):
    """Text of a page without its code blocks."""
    return "\n".join(line for line in page.read_text("utf-8").splitlines() if not is_code(line))


def links(page):
    """Pairs of file and anchor ("" for none) that the page links to, those of the web left out."""
    found = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", prose(page))
    return [((page.parent / target).resolve() if target else page, anchor)
            for target, anchor in found if "://" not in target]


def anchors(page):
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def source(name):
    """Text of a module or package; None if there is none of this name."""
    path = ROOT / PACKAGES[name.split(".")[0]] / name.replace(".", "/")
    files = [path.with_suffix(".py"), path / "__init__.py"]
    return next((file.read_text("utf-8") for file in files if file.exists()), None)


def runs(name):
    """True for a module that `python -m` can run."""
    path = ROOT / PACKAGES[name.split(".")[0]] / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__main__.py").exists()


@every_page
def test_links_lead_somewhere(page):
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{target}#{anchor}"


def test_every_page_is_reached_from_the_readme():
    reached, ahead = {README}, [README]
    while ahead:
        for target, _ in links(ahead.pop()):
            if target.suffix == ".md" and target not in reached:
                reached.add(target)
                ahead.append(target)
    assert sorted(set(PAGES) - reached) == []


def test_lines_of_the_readme():
    long = [line for line in README.read_text("utf-8").splitlines()
            if len(line) > MAX_COLUMNS and not is_table(line) and not is_code(line)]
    assert long == []


@every_page
def test_a_sentence_stands_above_every_table(page):
    lines = ["", *page.read_text("utf-8").splitlines()]
    for number, line in enumerate(lines):
        if is_table(line) and not is_table(lines[number - 1]):
            above = next((text for text in reversed(lines[:number]) if text), "#")
            assert not above.startswith(("#", "    ")), f"line {number}: {line}"


@every_page
def test_commands_exist(page):
    text = " ".join(page.read_text("utf-8").split())
    modules = re.findall(r"python3? -m (bitstep\w*(?:\.\w+)*)", text)
    assert [name for name in modules if not runs(name)] == []
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    named = re.findall(r"(?:`|^ {4})make ([a-z][\w-]*)", page.read_text("utf-8"), re.MULTILINE)
    assert sorted(set(named) - set(targets)) == []


@every_page
def test_paths_exist(page):
    text = page.read_text("utf-8")
    paths = re.findall(r"`((?:hw|host|sim|tests|docs|bitstreams)/[\w/.*-]*)`", text)
    assert [path for path in paths if not re.search("[A-Z]{4}", path)   # as in BOARD.bit
            and not any(ROOT.glob(path.rstrip("/")))] == []
    known = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert sorted(set(re.findall(r"\b(test_[a-z0-9_]+\.py)", text)) - known) == []


@every_page
def test_modules_and_their_members_exist(page):
    for name in re.findall(r"`(bitstep\w*(?:\.\w+){2,})`", page.read_text("utf-8")):
        module, member = name.rsplit(".", 1)
        assert source(name) or re.search(rf"\b{member}\b", source(module) or ""), name


def test_pages_that_sources_name_exist():
    files = [ROOT / "Makefile", *(file for folder in ("host", "hw", "sim", "tests")
                                  for file in (ROOT / folder).rglob("*.py"))]
    for file in files:
        for page in re.findall(r"\bdocs/[\w/-]+\.md", file.read_text("utf-8")):
            assert (ROOT / page).exists(), f"{file}: {page}"


def test_architecture_names_functions_where_they_are():
    """Each "`name` (`path`)" is a class, a function or a constant of that file."""
    named = re.findall(r"`([\w.]+)`\s+\(`([\w/]+\.py)`\)",
                       (ROOT / "docs" / "architecture.md").read_text("utf-8"))
    assert len(named) > 30
    for name, path in named:
        files = [ROOT / path] if (ROOT / path).exists() else [
            file for folder in ("host", "hw") for file in (ROOT / folder).rglob(path)]
        assert any(all(re.search(rf"^ *((def|class) {part}\b|{part}\b.* = )", text, re.MULTILINE)
                       for part in name.split("."))
                   for text in (file.read_text("utf-8") for file in files)), f"{name}: {path}"
