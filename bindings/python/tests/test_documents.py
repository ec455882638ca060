"""Examples and snippets run, and `missing.txt` is the list of what Rust has and Python has not."""

import re
import subprocess
import sys
from pathlib import Path

from support import BINDINGS, LONG_S, ROOT, TestCase

from causeway_ipc import Bus, BusError

EXAMPLES = BINDINGS / "examples"
# The types whose functions are looked for, and the folders that define them.
TYPES = {
    "crates/causeway/causeway/src": {
        "Group", "GroupOptions", "LargeLoan", "LargePayload", "LargePublisher", "LargeSubscriber", "Loan", "PoolOptions", "Publisher",
        "SubscribeOptions", "Subscriber", "InPlace", "SealedBuffer", "SealedPayload",
    },
    "crates/causeway/bus/src": {"Connection", "Context", "Message", "Monitor"},
}  # fmt: skip
# Their functions are in folders of other things, too.
SKIPPED = {"call", "asynchronous", "typed", "zbus", "client", "tests", "serve"}


def public_functions() -> set[str]:
    """`Type::function` of the public functions without features."""
    found = set()
    for folder, types in TYPES.items():
        for path in (ROOT / folder).rglob("*.rs"):
            inside = path.relative_to(ROOT / folder)
            if SKIPPED & {part.removesuffix(".rs") for part in inside.parts}:
                continue
            present, hidden = None, False
            for line in path.read_text().splitlines():
                if match := re.match(r"impl(?:<[^>]*>)? (\w+)(?:<[^>]*>)? \{", line):
                    present = match[1] if match[1] in types else None
                elif line == "}":
                    present = None
                elif match := re.match(r"    pub (?:unsafe |const )?fn (\w+)", line):
                    if present and not hidden:
                        found.add(f"{present}::{match[1]}")
                hidden = line.strip() == "#[doc(hidden)]" or hidden and line.lstrip().startswith(("//", "#["))
    return found


def listed() -> dict[str, str]:
    lines = (line for line in (BINDINGS / "missing.txt").read_text().splitlines() if line and not line.startswith("#"))
    return {name: why for name, why in (line.split(maxsplit=1) for line in lines)}


class Missing(TestCase):
    def test_what_python_lacks_is_listed_and_what_is_listed_is_lacking(self):
        sources = "".join(path.read_text() for path in (BINDINGS / "src").glob("*.rs"))
        functions, missing = public_functions(), listed()
        self.assertGreater(len(functions), 120, "the reader finds too little")
        whole = {name for name in missing if "::" not in name}
        self.assertEqual([name for name in whole if re.search(rf"\b{name}\b", sources)], [], "listed as a whole, and used")
        functions = {one for one in functions if one.split("::")[0] not in whole}
        called = {one for one in functions if re.search(rf"(\.|::){one.split('::')[1]}\(", sources)}
        self.assertEqual(sorted(functions - called - set(missing)), [], "neither called nor listed in missing.txt")
        self.assertEqual(sorted(set(missing) - functions - whole), [], "listed in missing.txt, and not there in Rust")
        self.assertEqual(sorted(set(missing) & called), [], "listed in missing.txt, and called")


class Documents(TestCase):
    def example(self, name: str, *args: object) -> subprocess.Popen:
        command = [sys.executable, str(EXAMPLES / name), *map(str, args)]
        return self.started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_there_are_no_other_examples(self):
        # Those are of `test_examples`.
        spoken = {"publisher.py", "clock_service.py", "clock_client.py", "news.py"}
        self.assertEqual({path.name for path in EXAMPLES.iterdir()}, {"subscriber.py", "service.py", "frames.py"} | spoken)

    def test_the_service_answers(self):
        path = self.bus()
        process = self.example("service.py", path)
        self.assertIn("owner", process.stdout.readline())
        with Bus(path) as bus, bus.match("type='signal',member='Added'") as added:
            call = ("com.example.Sums", "/sums", "com.example.Sums")
            self.assertEqual(bus.call(*call, "Add", "dd", 1.5, 2.0), (3.5,))
            self.assertEqual(added.next(LONG_S).args, (3.5,))
            self.assertEqual(bus.call(*call, "Wait", "u", 1), ("done",))
            self.assertRaisesRegex(BusError, "ten seconds", bus.call, *call, "Wait", "u", 10_001)

    def test_every_snippet_of_the_document_runs(self):
        text = (ROOT / "docs/python.md").read_text()
        snippets = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(snippets), 4)
        for snippet in snippets:
            with self.subTest(snippet=snippet):
                # What a reader has: a socket, a bus, a record.
                places = {"/run/prices.sock": str(self.folder() / "prices"), "run.jsonl": str(self.record())}
                if "Bus(" in snippet:
                    places["/run/bus.native"] = self.bus()
                for name, place in places.items():
                    snippet = snippet.replace(name, place)
                try:
                    ran = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, timeout=LONG_S)
                except subprocess.TimeoutExpired:
                    self.fail("it does not end")
                lacks = re.search(r"No module named '(numpy|pyarrow|pandas)'", ran.stderr)
                if lacks:
                    print(f"skipped: a snippet, for {lacks[1]} is not installed")
                else:
                    self.assertEqual((ran.returncode, ran.stderr), (0, ""))

    def record(self) -> Path:
        return ROOT / "crates/lab/record/tests/files/every-field.jsonl"
