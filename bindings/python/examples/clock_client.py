"""Calls the method `Seconds` of `com.example.Clock`: `clock_client.py SOCKET`, or with CAUSEWAY_BUS set."""

import sys

from causeway_ipc import Bus

with Bus(sys.argv[1] if len(sys.argv) > 1 else None) as bus:
    (seconds,) = bus.call("com.example.Clock", "/", "com.example.Clock", "Seconds")
    print("seconds:", seconds)
