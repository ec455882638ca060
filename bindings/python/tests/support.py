"""What tests share: folders, processes, a bus."""

import asyncio
import contextlib
import ctypes
import faulthandler
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BINDINGS = ROOT / "bindings/python"
# Longer than a loaded machine takes: a test that is right never waits so long.
LONG_S = 60.0
# How long a test may take, set as for tests in Rust: nothing else ends one that hangs.
LIMIT_S = float(os.environ.get("CAUSEWAY_TEST_LIMIT_S", "120"))
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
# A shell starts what runs in its background with the signal ignored, and Python leaves that so: nothing would end what tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


class TestCase(unittest.TestCase):
    def run(self, result=None):
        """Runs the test. Where it hangs, the stacks of all threads are printed and the program ends."""
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        try:
            return super().run(result)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def folder(self) -> Path:
        return Path(self.enterContext(tempfile.TemporaryDirectory()))

    def python(self, code: str, *args: object) -> subprocess.Popen:
        """Another process that executes this."""
        command = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
        return self.started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def started(self, command: list, **options) -> subprocess.Popen:
        """A process that is killed where the test or this program ends."""
        process = subprocess.Popen(command, preexec_fn=die_with_parent, **options)
        self.addCleanup(end, process)
        return process

    def group_server(self) -> tuple[subprocess.Popen, Path]:
        """A process that serves a group and publishes nothing, and where."""
        path = self.folder() / "group"
        code = """
            import sys, time
            from causeway_ipc import Group
            group = Group.create()
            publisher = group.publisher()
            group.serve_at(sys.argv[1])
            print("serves", flush=True)
            time.sleep(1000)
        """
        server = self.python(code, path)
        server.stdout.readline()
        return server, path

    def interrupted(self, wait) -> None:
        """Ctrl-C ends a call that blocks. How soon is not asserted on a loaded machine; the slices have 100 ms."""
        main = threading.get_ident()
        timer = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT))
        timer.start()
        start = time.monotonic()
        try:
            self.assertRaises(KeyboardInterrupt, wait)
        finally:
            timer.join()
        self.assertLess(time.monotonic() - start, LONG_S / 2)

    def bus(self) -> str:
        """The native socket of a bus of the test's own."""
        program = causewayd()
        if program is None:
            self.skipTest("causewayd is not built; cargo build -p causewayd, or set CAUSEWAYD")
        folder = self.folder()
        command = [program, "--address", f"unix:path={folder}/bus", "--native", f"{folder}/bus.native", "--print-native"]
        self.causewayd = self.started(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return self.causewayd.stdout.readline().strip()


def causewayd() -> str | None:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    places = [os.environ.get("CAUSEWAYD"), target / "release/causewayd", target / "debug/causewayd"]
    found = next((str(place) for place in places if place and Path(place).is_file()), None)
    return found or shutil.which("causewayd")


def die_with_parent() -> None:
    """The kernel kills this process where its parent ends, perhaps by a signal."""
    LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait(LONG_S)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def until(is_so, what: str) -> None:
    """Waits for what no event tells."""
    deadline = time.monotonic() + LONG_S
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {LONG_S} s, and not yet: {what}")
        time.sleep(0.005)


def run(main, loop_factory=None) -> object:
    """Runs a coroutine, for a limited time."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(asyncio.wait_for(main, LONG_S))


def loops() -> list:
    """asyncio's own loop, and uvloop's."""
    found = [None]
    with contextlib.suppress(ImportError):
        import uvloop

        found.append(uvloop.new_event_loop)
    return found
