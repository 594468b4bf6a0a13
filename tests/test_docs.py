"""Pages of the documentation: links, paths, commands, tables and line lengths."""

import ast
import json
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGES = {"bitstep": "host", "bitstep_gradients": "host", "bitstep_lab": "host",
            "bitstep_hw": "hw", "bitstep_sim": "sim"}
MAX_COLUMNS = 120
MAX_PARAGRAPH = 5

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


@every_page
def test_lines_are_short(page):
    long = [line for line in page.read_text("utf-8").splitlines()
            if len(line) > MAX_COLUMNS and not is_table(line) and not is_code(line)]
    assert long == []


@every_page
def test_a_sentence_stands_above_every_table(page):
    lines = ["", *page.read_text("utf-8").splitlines()]
    for number, line in enumerate(lines):
        if is_table(line) and not is_table(lines[number - 1]):
            above = next((text for text in reversed(lines[:number]) if text), "#")
            assert not above.startswith(("#", "    ")), f"line {number}: {line}"


def paragraphs(text):
    """Number of the first line and length of each paragraph and item of a list."""
    fenced, first, count = False, 0, 0
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        fenced ^= line.startswith("```")
        item = re.match(r" *(?:- |\d+\. )", line) is not None
        told = bool(line.strip()) and not fenced and (
            item or not line.startswith(("    ", "|", "#", "```", "<!--")))
        if count and (item or not told):
            yield first, count
            count = 0
        if told:
            first, count = (first, count + 1) if count else (number, 1)


@every_page
def test_paragraphs_are_short(page):
    assert [(first, count) for first, count in paragraphs(page.read_text("utf-8"))
            if count > MAX_PARAGRAPH] == []


def test_paragraphs():
    text = "# Title\none\ntwo\n\n- three\n  four\n- five\n\n    code\n\n```\nmore\n```\n| a | b |"
    assert list(paragraphs(text)) == [(2, 2), (5, 2), (7, 1)]


@every_page
def test_commands_exist(page):
    text = " ".join(page.read_text("utf-8").split())
    modules = re.findall(r"python3? -m (bitstep\w*(?:\.\w+)*)", text)
    assert [name for name in modules if not runs(name)] == []
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    named = re.findall(r"(?:`|^ {4})make ([a-z][\w-]*)", page.read_text("utf-8"), re.MULTILINE)
    assert sorted(set(named) - set(targets)) == []


def test_environment_variables_are_told():
    """Of users: those of tests and benches are set by these alone."""
    names = {name for folder in ("host", "hw", "sim") for file in (ROOT / folder).rglob("*.py")
             for name in re.findall(r"environ(?:\.get\(|\[)\"((?:BITSTEP|XDG)_\w+)\"",
                                    file.read_text("utf-8"))}
    assert {"BITSTEP_DATA", "BITSTEP_CACHE", "BITSTEP_BITSTREAMS"} <= names
    text = (ROOT / "docs/command-line.md").read_text("utf-8")
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []


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


def public_names():
    """Public packages of the libraries, with the names that they export."""
    for file in sorted(file for library in ("bitstep", "bitstep_gradients")
                       for file in (ROOT / "host" / library).rglob("__init__.py")):
        package = ".".join(file.relative_to(ROOT / "host").parent.parts)
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                yield package, ast.literal_eval(node.value)


def test_python_interface_has_every_public_name():
    """Of the packages that it is about; devices and kernels are internal below their packages."""
    text = (ROOT / "docs/api.md").read_text("utf-8")
    told = re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)
    packages = set(re.findall("^`(bitstep[\\w.]*)`:", text, re.MULTILINE))
    assert len(packages) >= 10
    exported = {f"{package}.{name}" for package, names in public_names() if package in packages
                for name in names}
    assert sorted(told) == sorted(exported)
    internal = {package for package, _ in public_names()} - packages
    assert all(package.count(".") >= 2 for package in internal), internal


def said_by_sources():
    """Texts of all strings in the library, what is filled in replaced by "..."."""
    def text(node):
        if isinstance(node, ast.JoinedStr):
            return "".join(map(text, node.values))
        if isinstance(node, ast.BinOp):
            return text(node.left) + text(node.right)
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) \
            else "..."

    for file in (ROOT / "host").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, (ast.JoinedStr, ast.Constant, ast.BinOp)):
                yield text(node)


def test_messages_of_troubleshooting():
    lines = (ROOT / "docs/troubleshooting.md").read_text("utf-8").splitlines()
    messages = [found[1] for line in lines if (found := re.match(r"\| `([^`]+)`", line))]
    assert len(messages) > 15
    said = "\n".join(said_by_sources())
    assert [message for message in messages if message not in said] == []


def test_clocks_and_speedups_agree():
    """A figure that stands in several places is the same in all of them."""
    pages = {name: (ROOT / path).read_text("utf-8") for name, path in (
        ("readme", "README.md"), ("clocks", "docs/results/clocks.md"),
        ("races", "docs/results/races.md"), ("ecp5", "docs/boards-ecp5.md"),
        ("gallery", "docs/gallery.md"), ("index", "docs/index.md"))}
    reached = []
    for path in (ROOT / "bitstreams").glob("*.json"):
        manifest = json.loads(path.read_text("utf-8"))
        clock, used = manifest["clock_mhz"], manifest["resources"]
        reached.append(clock["achieved"])
        counts = [f"{used[kind]['used']:,}" for kind in ("LUT4", "FF", "EBR", "MULT18")]
        row = [f"{manifest['seed']}", f"{clock['constraint']:g}", f"{clock['achieved']:g}", *counts]
        assert f"| {' | '.join(row)} |" in pages["ecp5"], path.name
    for name in ("readme", "clocks"):
        assert f"{max(reached):g} MHz for a whole bitstream" in " ".join(pages[name].split())
        assert all(f"{clock:g} MHz" in pages[name] for clock in reached if clock > 100)
    alone = re.findall(r"\*\*(\d+\.\d)\*\* \|", pages["ecp5"])
    assert f"{', '.join(alone)} MHz" in pages["clocks"]
    assert float(min(alone)) > 100
    cycles = {name: int(found.replace(",", "")) for name, found in re.findall(
        r"^\| pipeline, (\w+).*\((.*) cycles\)", pages["clocks"], re.MULTILINE)}
    ratio = f"{cycles['float'] / cycles['4']:.2f}"
    for name in ("readme", "clocks", "races"):
        assert re.search(rf"\b{ratio} times|\*\*{ratio}\*\*", pages[name]), name
    for name in ("readme", "clocks", "index"):
        assert "1,392 us" in pages[name]
        assert "205 us" in pages[name]
    assert f"205 us to the line, {ratio} times" in pages["gallery"]


def test_commands_of_pytest_collect_tests():
    """Files exist by the test of paths; here -k and -m leave some of their tests."""
    for page in PAGES:
        for command in re.findall("`pytest ([^`]*)`", " ".join(page.read_text("utf-8").split())):
            words = shlex.split(command)
            wanted = words[words.index("-k") + 1].split(" or ") if "-k" in words else [""]
            chosen = [node for word in words if word.startswith("tests/")
                      for file in ([ROOT / word] if word.endswith(".py")
                                   else (ROOT / word).rglob("test_*.py"))
                      for node in ast.parse(file.read_text("utf-8")).body
                      if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
                      and any(name in node.name for name in wanted)]
            slow = [any(ast.unparse(mark) == "pytest.mark.slow" for mark in node.decorator_list)
                    for node in chosen]
            assert not all(slow) or "-m slow" in command, command
