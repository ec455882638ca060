"""A large payload to numpy without a copy: `frames.py publish SOCKET` in one process, `frames.py SOCKET` in others."""

import sys

import numpy

from causeway_ipc import Group

SHAPE = (1080, 1920, 3)

if sys.argv[1] == "publish":
    group = Group.create("frames", large_payloads=True)
    publisher = group.large_publisher(1080 * 1920 * 3, files=4)
    group.serve_at(sys.argv[2])
    publisher.wait_for_subscribers(1)
    gray = 0
    while group.report()["subscribers"]:
        publisher.publish(numpy.full(SHAPE, gray, dtype=numpy.uint8))
        gray = (gray + 1) % 256
else:
    with Group.join(sys.argv[1]).large_subscribe() as subscriber:
        for _ in range(3):
            frame = numpy.frombuffer(subscriber.recv().payload, dtype=numpy.uint8).reshape(SHAPE)
            print(f"mean {frame.mean():.1f}", flush=True)
