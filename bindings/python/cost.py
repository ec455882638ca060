"""What Python adds: `./test.sh cost.py [SECONDS]`. Each figure is the median of slices that take turns; see docs/python.md."""

import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from causeway_ipc import Group

SLICES = 30
# The two ends in Python; crates/causeway/causeway/examples/round_trip.rs has them in Rust.
ENDS = """
import sys, time
from causeway_ipc import Group
what, read, write = sys.argv[1:]
# The publisher first: a group admits a subscriber when its one publisher is there.
publisher = Group.join(write).publisher()
subscriber = Group.join(read).subscribe()
if what == "echo":
    for message in subscriber:
        publisher.publish(message.data)
else:
    publisher.wait_for_subscribers(1)
    data = bytes(64)
    for line in sys.stdin:
        count, start = int(line), time.perf_counter_ns()
        for _ in range(count):
            publisher.publish(data)
            subscriber.recv()
        print((time.perf_counter_ns() - start) / count, flush=True)
"""
ROOT = Path(__file__).resolve().parents[2]


def per_operation_ns(operation, count: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(count):
        operation()
    return (time.perf_counter_ns() - start) / count


def publishing() -> None:
    group = Group.create()
    publisher = group.publisher()
    data, view = bytes(64), memoryview(bytearray(64))
    publish = publisher.publish

    class Empty:
        def publish(self, data):
            return 0

    nothing = Empty().publish
    cases = {
        "an empty method of Python": lambda: per_operation_ns(lambda: nothing(data), 20_000),
        "publish 64 B of bytes": lambda: per_operation_ns(lambda: publish(data), 20_000),
        "publish 64 B of a memoryview": lambda: per_operation_ns(lambda: publish(view), 20_000),
    }
    figures = {name: [] for name in cases}
    for _ in range(SLICES):
        for name, case in cases.items():
            figures[name].append(case())
    for name, values in figures.items():
        print(f"{name}: {statistics.median(values):.0f} ns ({min(values):.0f}–{max(values):.0f})")


class Pair:
    """Two processes that send each other messages, each on a CPU of its own if there are two."""

    def __init__(self, name: str, command: list[str], folder: str) -> None:
        self.groups, paths = [], []
        for which in ("there", "back"):
            group = Group.create(remote_publishers=1)
            paths.append(f"{folder}/{name}-{which}")
            group.serve_at(paths[-1])
            self.groups.append(group)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.echo = subprocess.Popen([*command, "echo", paths[0], paths[1]])
        self.timing = subprocess.Popen([*command, "time", paths[1], paths[0]], **pipes)
        cpus = sorted(os.sched_getaffinity(0))
        for process, cpu in zip((self.echo, self.timing), (cpus[0], cpus[-1])):
            os.sched_setaffinity(process.pid, {cpu})
        self.figures = []

    def slice(self, count: int) -> None:
        self.timing.stdin.write(f"{count}\n")
        self.timing.stdin.flush()
        self.figures.append(float(self.timing.stdout.readline()))

    def close(self) -> None:
        self.timing.stdin.close()
        self.timing.wait()
        self.echo.wait()


def round_trip(folder: str) -> None:
    """Both ends in Python, and both in Rust: slices of one and of the other take turns, and each ratio is of two neighbours."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    program = target / "release/examples/round_trip"
    pairs = {"python": Pair("python", [sys.executable, "-c", ENDS], folder)}
    if program.is_file():
        pairs["rust"] = Pair("rust", [str(program)], folder)
    else:
        print("skipped: Rust beside it; cargo build --release -p causeway-ipc --example round_trip")
    for pair in pairs.values():
        pair.slice(2000)
        pair.figures.clear()
    for _ in range(SLICES):
        for pair in pairs.values():
            pair.slice(2000)
    for name, pair in pairs.items():
        pair.close()
        print(f"round trip of 64 B, {name} at both ends: {statistics.median(pair.figures):.0f} ns ({min(pair.figures):.0f}–{max(pair.figures):.0f})")
    if "rust" in pairs:
        ratios = sorted(one / other for one, other in zip(pairs["python"].figures, pairs["rust"].figures))
        # Ranks of a 95 % interval of the median of 30.
        low, high = ratios[9], ratios[20]
        verdict = "met" if high <= 2 else "missed" if low > 2 else "not decided"
        print(f"python / rust: {statistics.median(ratios):.2f} (95 % interval of the median {low:.2f}–{high:.2f}); at most 2 is {verdict}")


def payloads() -> None:
    size = 64 << 20
    group = Group.create(large_payloads=True)
    publisher, subscriber = group.large_publisher(size, files=2), group.large_subscribe()
    publisher.publish(bytes(size))
    payload = subscriber.recv().payload

    def faults(what):
        before, start = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt, time.perf_counter_ns()
        kept = what()
        took_us = (time.perf_counter_ns() - start) / 1000
        print(f"{what.__name__} of 64 MiB: {resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before} page faults, {took_us:.0f} µs")
        return kept

    def view():
        return memoryview(payload)

    def copy():
        return bytes(payload)

    faults(view), faults(copy)
    try:
        import numpy
    except ImportError:
        return

    def frombuffer():
        return numpy.frombuffer(payload, dtype=numpy.uint8)

    faults(frombuffer)


if __name__ == "__main__":
    import tempfile

    publishing()
    with tempfile.TemporaryDirectory() as folder:
        round_trip(folder)
    payloads()
