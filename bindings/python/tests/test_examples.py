"""The examples of `docs/examples.md` in Rust, C and Python: each speaks with those of the other languages."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from support import BINDINGS, LONG_S, ROOT, TestCase, until

from causeway_ipc import Bus

CAUSEWAY = ROOT / "crates/causeway"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# What a program is called where its file has another name.
NAMES = {"subscriber_poll": "subscriber", "service_sd_event": "clock_service"}
PROGRAMS = {"publisher", "subscriber", "frames", "clock_service", "clock_client", "news"}
FRAMES = "mean 0.0\nmean 1.0\nmean 2.0\n"


def table() -> dict[str, dict[str, Path]]:
    """The file of each program, by language, as the document has it."""
    found: dict[str, dict[str, Path]] = {}
    for line in (ROOT / "docs/examples.md").read_text().splitlines():
        for language, cell in zip(("Rust", "C", "Python"), line.strip("|").split("|")[2:]):
            for name in re.findall(r"`(\S+/examples/\S+)`", cell):
                path = (BINDINGS.parent if language == "Python" else CAUSEWAY) / name
                found.setdefault(language, {})[NAMES.get(path.stem, path.stem)] = path
    return found


class InC:
    """The programs in C, compiled against the library that cargo has built."""

    def __init__(self, sources: dict[str, Path]) -> None:
        self.lacks = next((f"{tool} is not installed" for tool in ("cc", "make", "pkg-config") if not shutil.which(tool)), None)
        archives = [path for path in (TARGET / kind / "libcauseway_c.a" for kind in ("debug", "release")) if path.is_file()]
        if self.lacks is None and not archives:
            self.lacks = "the library is not built; cargo build -p causeway-c"
        if self.lacks is not None:
            return
        self.folder = tempfile.TemporaryDirectory()
        root, archive = Path(self.folder.name), max(archives, key=lambda path: path.stat().st_mtime)
        # make links beside the archive, and tests of others may do so at the same time.
        (root / "built").mkdir()
        (root / "built/libcauseway_c.a").symlink_to(archive)
        make = ["make", "--silent", "-C", CAUSEWAY / "c", "install", f"PREFIX={root}", "STRIP=", f"ARCHIVE={root}/built/libcauseway_c.a"]
        subprocess.run(make, check=True, timeout=LONG_S)
        environment = {**os.environ, "PKG_CONFIG_PATH": f"{root}/lib/pkgconfig"}
        for name, path in sources.items():
            packages = ["libsystemd"] if "sd-event.h" in path.read_text() else []
            # Our own package is there, and an error where it is not.
            if packages and subprocess.run(["pkg-config", "--exists", *packages]).returncode != 0:
                continue
            find = ["pkg-config", "--cflags", "--libs", "causeway", *packages]
            flags = subprocess.run(find, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
            compile = ["cc", "-Wall", "-Wextra", "-Werror", "-o", root / name, path, *flags, f"-Wl,-rpath,{root}/lib"]
            subprocess.run(compile, check=True, timeout=LONG_S)

    def command(self, name: str) -> list[str] | str:
        if self.lacks is not None:
            return self.lacks
        program = Path(self.folder.name, name)
        return [str(program)] if program.is_file() else "libsystemd-dev is not installed"

    def close(self) -> None:
        if self.lacks is None:
            self.folder.cleanup()


class Examples(TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.table = table()
        cls.in_c = InC(cls.table["C"])
        cls.addClassCleanup(cls.in_c.close)
        cls.skipped: set[str] = set()

    @classmethod
    def tearDownClass(cls) -> None:
        for what in sorted(cls.skipped):
            print(f"skipped: {what}")

    def command(self, language: str, name: str) -> list[str] | None:
        """How a program is called; `None`, which is said in the end, where it is not there."""
        match language:
            case "Python":
                if name == "frames" and not numpy():
                    command: list[str] | str = "numpy is not installed"
                else:
                    command = [sys.executable, str(self.table["Python"][name])]
            case "C":
                command = self.in_c.command(name)
            case _:
                folders = [os.environ.get("CAUSEWAY_EXAMPLES"), TARGET / "debug/examples", TARGET / "release/examples"]
                places = [Path(folder, name) for folder in folders if folder]
                found = next((str(place) for place in places if place.is_file()), None)
                package = self.table["Rust"][name].parts[-3].replace("causeway", "ipc")
                command = [found] if found else f"it is not built; cargo build -p causeway-{package} --example {name}"
        if isinstance(command, str):
            self.skipped.add(f"{name} in {language}: {command}")
            return None
        return command

    def pairs(self, one: str, other: str):
        """How the two are called, in each pair of languages that have them."""
        for language in self.table:
            for second in self.table:
                commands = self.command(language, one), self.command(second, other)
                if None not in commands:
                    yield commands

    def start(self, command: list[str], *args: object) -> subprocess.Popen:
        # Another user of the machine may have a bus of the session.
        environment = {key: value for key, value in os.environ.items() if key != "CAUSEWAY_BUS"}
        command = [*command, *map(str, args)]
        return self.started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def ends(self, process: subprocess.Popen) -> str:
        """What it says until it ends, which it does well."""
        output, errors = process.communicate(timeout=LONG_S)
        self.assertEqual((process.returncode, errors), (0, ""), process.args)
        return output

    def serves(self, process: subprocess.Popen, path: Path) -> None:
        until(lambda: path.exists() or process.poll() is not None, f"{process.args} serves")

    def test_every_program_is_there_in_each_language_and_the_document_has_all_in_c_and_python(self):
        self.assertEqual({language: set(programs) for language, programs in self.table.items()}, dict.fromkeys(("Rust", "C", "Python"), PROGRAMS))
        for programs in self.table.values():
            for path in programs.values():
                self.assertTrue(path.is_file(), path)
        self.assertEqual(set((CAUSEWAY / "c/examples").glob("*.c")), set(self.table["C"].values()))

    def test_every_subscriber_prints_what_every_publisher_publishes(self):
        for number, (publisher, subscriber) in enumerate(self.pairs("publisher", "subscriber")):
            path = self.folder() / f"prices-{number}"
            publishing = self.start(publisher, path)
            self.serves(publishing, path)
            self.assertEqual(self.ends(self.start(subscriber, path)), "42.17\n42.18\n42.19\n")
            self.ends(publishing)

    def test_frames_of_every_publisher_are_what_every_subscriber_expects(self):
        for publisher, subscriber in self.pairs("frames", "frames"):
            path = self.folder() / "frames"
            publishing = self.start(publisher, "publish", path)
            self.serves(publishing, path)
            self.assertEqual(self.ends(self.start(subscriber, path)), FRAMES)
            self.ends(publishing)

    def test_every_client_is_answered_by_every_service(self):
        for service, client in self.pairs("clock_service", "clock_client"):
            path = self.bus()
            self.start(service, path)
            with Bus(path) as bus:
                until(lambda: bus.name_owner("com.example.Clock") is not None, "the clock has its name")
                # One of them goes on, and prints who comes and goes.
                line = self.start(client, path).stdout.readline()
            self.assertRegex(line, r"^seconds: \d+$")

    def test_every_listener_hears_what_every_program_emits(self):
        for emitter, listener in self.pairs("news", "news"):
            path = self.bus()
            listening = self.start(listener, path)
            self.assertEqual(listening.stdout.readline(), "listening\n")
            for text in ("rain", "and later sun"):
                self.ends(self.start(emitter, path, text))
                self.assertEqual(listening.stdout.readline(), f"{text}\n")


def numpy() -> bool:
    try:
        import numpy  # noqa: F401
    except ImportError:
        return False
    return True
