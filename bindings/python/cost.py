"""What Python adds: `./test.sh cost.py [SECONDS]`. Each figure is the median of slices that take turns; see docs/python.md."""

import resource
import statistics
import subprocess
import sys
import time

from causeway_ipc import Group

SLICES = 30
ECHO = """
import sys
from causeway_ipc import Group
subscriber = Group.join(sys.argv[1]).subscribe()
publisher = Group.join(sys.argv[2]).publisher()
for message in subscriber:
    publisher.publish(message.data)
"""


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


def round_trip(folder: str) -> None:
    there, back = Group.create(), Group.create(remote_publishers=1)
    there.serve_at(f"{folder}/there")
    back.serve_at(f"{folder}/back")
    publisher = there.publisher()
    echo = subprocess.Popen([sys.executable, "-c", ECHO, f"{folder}/there", f"{folder}/back"])
    subscriber = back.subscribe()
    data = bytes(64)

    def once():
        publisher.publish(data)
        subscriber.recv()

    publisher.wait_for_subscribers(1)
    values = [per_operation_ns(once, 2000) for _ in range(SLICES)]
    print(f"round trip of 64 B, Python at both ends: {statistics.median(values):.0f} ns ({min(values):.0f}–{max(values):.0f})")
    publisher.close()
    echo.wait()


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
