#!/usr/bin/python3
"""The client of `clock_service` as a D-Bus program, at the D-Bus socket; needs python3-dbus. Without an address it takes that of
DBUS_SESSION_BUS_ADDRESS.

    causewayd --address unix:path=/tmp/bus.dbus --native /tmp/bus &
    cargo run -p causeway-bus --example clock_service -- /tmp/bus &
    crates/causeway/bus/examples/clock_client.py unix:path=/tmp/bus.dbus

The same by hand: busctl --address=unix:path=/tmp/bus.dbus call com.example.Clock / com.example.Clock Seconds
"""

import sys

import dbus
import dbus.bus

CLOCK = "com.example.Clock"

if len(sys.argv) > 2:
    sys.exit("usage: clock_client.py [ADDRESS]")
try:
    bus = dbus.bus.BusConnection(sys.argv[1]) if len(sys.argv) == 2 else dbus.SessionBus()
    clock = dbus.Interface(bus.get_object(CLOCK, "/", introspect=False), CLOCK)
    print("seconds:", clock.Seconds())
except dbus.DBusException as error:
    sys.exit(f"clock_client.py: {error}")
