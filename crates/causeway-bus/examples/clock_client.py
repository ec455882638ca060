#!/usr/bin/python3
"""The client of `clock_service` as a D-Bus program, at the D-Bus socket; needs python3-dbus.

    causewayd --address unix:path=/tmp/bus.dbus --native /tmp/bus &
    cargo run -p causeway-bus --example clock_service -- /tmp/bus &
    crates/causeway-bus/examples/clock_client.py unix:path=/tmp/bus.dbus

The same by hand: busctl --address=unix:path=/tmp/bus.dbus call com.example.Clock / com.example.Clock Seconds
"""

import sys

import dbus.bus

CLOCK = "com.example.Clock"

if len(sys.argv) != 2:
    sys.exit("usage: clock_client.py ADDRESS")
bus = dbus.bus.BusConnection(sys.argv[1])
clock = dbus.Interface(bus.get_object(CLOCK, "/", introspect=False), CLOCK)
print("seconds:", clock.Seconds())
