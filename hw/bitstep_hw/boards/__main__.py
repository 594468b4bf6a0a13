"""A bitstream by the name of its board: ``python -m bitstep_hw.boards BOARD [options]``."""

import functools
import sys

from bitstep.cli.signals import stop_signals
from bitstep.writing import drop_output, open_streams, space_or
from bitstep_hw.boards import pynq, release
from bitstep_hw.boards.ecp5 import flow as ecp5
from bitstep_hw.boards.zynq import BOARDS as ZYNQ_BOARDS

BOARDS = {"ecp5-85": ecp5.main,
          **{name: functools.partial(pynq.main, name) for name in ZYNQ_BOARDS}}


def main(arguments: list[str]) -> int:
    """Hand the options to the flow of the board. Tools that it started end with it, after Ctrl-C,
    SIGTERM or SIGHUP, too.
    """
    open_streams()
    try:
        with stop_signals:
            code = _run(arguments)
            sys.stdout.flush()
            return code
    except BrokenPipeError:         # who read our output has seen enough, as in `... | head`
        drop_output()
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the steps that were finished",
              file=sys.stderr)
        return stop_signals.code
    except OSError as error:        # a folder that is none, or a full disk
        print(f"{error}: {space_or('choose another folder', error)}", file=sys.stderr)
    return 1


def _run(arguments):
    if arguments[:1] in (["-h"], ["--help"]):
        print("usage: python -m bitstep_hw.boards BOARD [options]\n"
              "       python -m bitstep_hw.boards release [options]\n\nBuild a board's bitstreams, "
              "or write the files of a release. "
              f"BOARD is one of {', '.join(BOARDS)};\nBOARD --help shows its options.")
        return 0
    if not arguments or arguments[0] not in {*BOARDS, "release"}:
        print(f"The board must be one of {', '.join(BOARDS)}, "
              f"not {arguments[0] if arguments else 'nothing'}", file=sys.stderr)
        return 2
    return BOARDS.get(arguments[0], release.main)(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
