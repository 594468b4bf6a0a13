# amaranth: UnusedElaboratable=no
"""From a project to its files, in a real tclsh with a stubbed Vivado: every board, several
versions, a build that was finished, that broke off or failed, and one of other sources.
"""

import re
import shlex

import pytest
from stubbed_vivado import SMALL, STUB, bitstream, calls, environment, run_vivado, tclsh

from bitstep_hw.boards.vivado import flow
from bitstep_hw.boards.vivado.sources import write_sources
from bitstep_hw.boards.zynq import BOARDS

BOARD = BOARDS["pynq-z2"]
INNER, SYNTHESIS = "bitstep_synth_1:synth_design", "synth_1:synth_design"
IMPLEMENTATION = [f"impl_1:{step}_design" for step in ("init", "place", "route")]
BITSTREAM = "impl_1:write_bitstream"
ALL = [INNER, SYNTHESIS, *IMPLEMENTATION, BITSTREAM]
FILES = ("bitstep.bit", "bitstep.hwh", "timing.rpt", "utilization.rpt", "result.txt")


def edit(work, name, old, new):
    """Change a source; it must have what is changed."""
    text = (work / name).read_text()
    assert old in text
    (work / name).write_text(text.replace(old, new))


def is_complete(work):
    return [(work / name).read_text() for name in FILES[:4]] == [
        "bits of bitstep_wrapper", "handoff of bitstep", "timing.rpt of impl_1",
        "utilization.rpt of impl_1"] and (work / "result.txt").exists()


@pytest.fixture
def work(tmp_path):
    return write_sources(BOARD, SMALL, tmp_path)


@pytest.mark.parametrize("version", ["2020.1", "2020.2", "2024.1"])
@pytest.mark.parametrize("name", BOARDS)
def test_files_of_a_build(name, version, tmp_path):
    """Vivado before 2020.2 has outputs of block designs in another folder."""
    work = write_sources(BOARDS[name], SMALL, tmp_path)
    session = run_vivado(work, version=version)
    assert session.code == 0, session.output
    assert session.steps == ALL
    assert is_complete(work)
    project = work / "project"
    outputs = "srcs" if version == "2020.1" else "gen"
    for path in ("bitstep.xpr", "bitstep.runs/impl_1/bitstep_wrapper.bit",
                 f"bitstep.{outputs}/sources_1/bd/bitstep/hw_handoff/bitstep.hwh"):
        assert (project / path).is_file()


@pytest.mark.parametrize(("name", "old", "new", "message"), [
    ("run.tcl", "[get_property DIRECTORY [get_runs impl_1]]",
     "[file join $::project bitstep.pipeline.results impl_1]", "without a file for .*bitstep.bit"),
    ("run.tcl", "$project bitstep.hwh]", "$project other.hwh]", "without a file for .*bitstep.hwh"),
    ("run.tcl", "open_run impl_1", "", "No open design"),
    ("run.tcl", " -to_step write_bitstream", "", "without a file for .*bitstep.bit"),
    ("build.tcl", "create_bd_design bitstep", "create_bd_design other", "no block design"),
])
def test_faults_are_noticed(work, name, old, new, message):
    edit(work, name, old, new)
    session = run_vivado(work)
    assert session.code == 1
    assert "result.txt" not in [path.name for path in work.iterdir()]
    assert re.search(message, session.output)


def test_finished_build_is_collected(work):
    """As after a mistake in the last lines of the script, which once cost a build its hours."""
    run_vivado(work)
    for name in FILES:
        (work / name).unlink()
    session = run_vivado(work)
    assert session.code == 0, session.output
    assert (session.steps, is_complete(work)) == ([], True)
    named = {call[0] for call in session.calls}
    assert "open_project" in named
    assert not named & {"create_project", "ipx::package_project", "launch_runs", "reset_run"}


@pytest.mark.parametrize("how", ["breaks", "fails"])
@pytest.mark.parametrize(("step", "missing"), [
    (INNER, ALL), (SYNTHESIS, ALL[1:]), (IMPLEMENTATION[0], ALL[2:]),
    (IMPLEMENTATION[2], ALL[2:]), (BITSTREAM, ALL[2:])])
def test_build_goes_on(work, how, step, missing):
    """What had ended is kept: synthesis, if it was the implementation that did not end."""
    first = run_vivado(work, **{how: step})
    assert first.code == (137 if how == "breaks" else 1)
    assert first.steps == ALL[:ALL.index(step) + 1]
    assert not (work / "result.txt").exists()
    session = run_vivado(work)
    assert session.code == 0, session.output
    assert (session.steps, is_complete(work)) == (missing, True)
    assert not session.named("create_project")


def test_only_the_bitstream_is_missing(work):
    """Somebody routed the design by hand, without a bitstream."""
    edit(work, "run.tcl", " -to_step write_bitstream", "")
    assert run_vivado(work).steps == ALL[:-1]
    write_sources(BOARD, SMALL, work.parent)
    session = run_vivado(work)
    assert (session.code, session.steps, is_complete(work)) == (0, [BITSTREAM], True)
    assert not session.named("reset_run")


def test_runs_that_do_not_go_on(work):
    """Vivado may hold a finished synthesis for out of date; then everything begins again."""
    run_vivado(work, breaks=IMPLEMENTATION[1])
    state = work / "project" / "bitstep.runs" / "synth_1" / "state"
    edit(work, "run.tcl", "proc launch {} {", "proc launch {} {\n    if {[lsearch -exact $::resets "
         "synth_1] < 0} { error {Run 'synth_1' needs to be reset before launching} }")
    edit(work, "run.tcl", "proc launch_again {} {", "set resets {}\n"
         "trace add execution reset_run enter {apply {{call args} {lappend ::resets "
         "[lindex $call 1]}}}\nproc launch_again {} {")
    assert state.exists()
    session = run_vivado(work)
    assert session.code == 0, session.output
    assert session.steps == ALL[1:]
    assert "WARNING: the runs were not launched: Run 'synth_1' needs to be reset" in session.output


@pytest.mark.parametrize("change", [
    lambda work: edit(work, "settings.tcl", "set sources_digest ", "set sources_digest 0"),
    lambda work: (work / "made.txt").unlink(),
    lambda work: (work / "project" / "bitstep.xpr").unlink()], ids=["sources", "made", "project"])
def test_built_anew(work, change):
    """Of other sources, or where the project was not completed."""
    run_vivado(work)
    change(work)
    session = run_vivado(work, breaks=BITSTREAM)
    assert session.steps == ALL
    # Nothing that is left of the build before may be taken for a result of this one.
    assert not (work / "result.txt").exists()
    assert run_vivado(work).steps == ALL[2:]
    assert is_complete(work)


def test_other_vivado_builds_anew(work):
    run_vivado(work)
    assert run_vivado(work, version="2023.2").steps == ALL
    assert (work / "result.txt").read_text().startswith("vivado 2023.2\nsources ")


def test_design_that_broke_off(work):
    """A project without its whole design is no project to go on with."""
    edit(work, "build.tcl", "    save_bd_design", "    exit 1")
    assert run_vivado(work).steps == []
    assert (work / "project" / "bitstep.xpr").exists()
    write_sources(BOARD, SMALL, work.parent)
    session = run_vivado(work)
    assert (session.code, session.steps) == (0, ALL)


def test_jobs_do_not_matter(work):
    run_vivado(work)
    write_sources(BOARD, SMALL, work.parent, jobs=8)
    assert run_vivado(work).steps == []


def test_folder_with_spaces(tmp_path):
    folder = tmp_path / "a folder of mine"
    folder.mkdir()
    work = write_sources(BOARD, SMALL, folder)
    for steps in (ALL, []):
        session = run_vivado(work)
        assert session.code == 0, session.output
        assert (session.steps, is_complete(work)) == (steps, True)


def test_project_that_cannot_be_opened(work):
    """Hours are not thrown away without a word."""
    run_vivado(work)
    edit(work, "run.tcl", "open_project [file", "open_project /nowhere[file")
    session = run_vivado(work)
    assert session.code == 1
    assert "delete the folder to build it anew" in session.output
    assert session.steps == []


@pytest.fixture
def program(tmp_path):
    """Makes a program ``vivado`` of the stub, with contents that :func:`flow.collect` takes."""
    from bitstep_sim.pynq_board.handoff import make_handoff
    files, folder = tmp_path / "files", tmp_path / "stub"
    folder.mkdir()
    files.mkdir()
    (files / "x.hwh").write_text(make_handoff(BOARD, SMALL))
    (files / "x.bit").write_bytes(bitstream())
    (files / "timing.rpt").write_text(
        "WNS(ns)  WHS(ns)  WPWS(ns)\n-------  -------  --------\n0.5  0.1  3.75\n")

    def make(**options):
        (folder / "calls.txt").unlink(missing_ok=True)
        told = environment(folder, files=files, **options)
        path = tmp_path / "vivado"
        settings = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in told.items()
                             if name.startswith("STUB_"))
        path.write_text(f'#!/bin/sh\n{settings}\nfor last; do :; done\n'
                        f'exec {tclsh()} {STUB} "$PWD/$last"\n')
        path.chmod(0o755)
        return flow.Vivado(str(path), "2022.1")

    make.steps = lambda: [":".join(words[1:]) for words in calls(folder) if words[0] == "step"]
    return make


def test_flow_goes_on(tmp_path, program):
    """The flow, the Tcl and a Vivado: a build that broke off goes on."""
    def build(**options):
        return flow.build(BOARD, SMALL, program(**options), folder=tmp_path / "work",
                          target=tmp_path / "out", jobs=1, timeout_s=60.0)

    with pytest.raises(flow.ToolError, match=r"Vivado failed with code 137 .* repeat the command"):
        build(breaks=IMPLEMENTATION[1])
    path = build()
    assert program.steps() == ALL[2:]
    assert path.with_suffix(".bit").read_bytes() == bitstream()
    build()
    assert program.steps() == []
