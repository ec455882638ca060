#!/bin/sh
# Lets the clients of others that are installed talk to dbus-daemon and to causewayd, and prints what came of it in Markdown. The status is 1 if
# one fails with causewayd that succeeds with dbus-daemon.
#
#   crates/causeway/causewayd/conformance/clients.sh [CAUSEWAYD]
set -u

. "$(dirname "$0")/programs.sh"
find_causewayd "${1:-}"
folder=$(mktemp -d)
bus=
stop() {
    # The services that a client started end with their bus.
    [ -z "$bus" ] || kill "$bus" 2> "$folder/none"
    bus=
}
trap 'stop; rm -rf "$folder"' EXIT INT TERM
python=/usr/bin/python3
driver="org.freedesktop.DBus /org/freedesktop/DBus"

# A bus of its own for each client. Its address comes when it listens.
start() {
    rm -f "$folder/address"
    mkfifo "$folder/address"
    "$@" --session --nofork --print-address > "$folder/address" 2> "$folder/errors" &
    bus=$!
    read -r DBUS_SESSION_BUS_ADDRESS < "$folder/address"
    export DBUS_SESSION_BUS_ADDRESS
}

# Starts what a shell line says, and waits until a name has an owner.
with_service() {
    name=$1
    shift
    "$@" > "$folder/service" 2>&1 &
    service=$!
    tries=0
    until gdbus call --session -d org.freedesktop.DBus -o /org/freedesktop/DBus -m org.freedesktop.DBus.GetNameOwner "$name" > "$folder/none" 2>&1; do
        tries=$((tries + 1))
        if [ "$tries" -gt 200 ] || ! kill -0 "$service" 2> "$folder/none"; then return 1; fi
        sleep 0.1
    done
}

dbus_python='
import dbus, dbus.service, dbus.mainloop.glib
from gi.repository import GLib
dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
class Adder(dbus.service.Object):
    @dbus.service.method("a.Python", in_signature="ii", out_signature="i")
    def Add(self, a, b): return a + b
bus = dbus.SessionBus()
name = dbus.service.BusName("a.Python", bus)
Adder(bus, "/a")
GLib.MainLoop().run()
'
dbus_next='
import asyncio
from dbus_next.aio import MessageBus
from dbus_next.service import ServiceInterface, method
class Adder(ServiceInterface):
    @method()
    def Add(self, a: "i", b: "i") -> "i": return a + b
async def main():
    server, client = await MessageBus().connect(), await MessageBus().connect()
    server.export("/a", Adder("a.Next"))
    await server.request_name("a.Next")
    tree = await client.introspect("a.Next", "/a")
    adder = client.get_proxy_object("a.Next", "/a", tree).get_interface("a.Next")
    assert await adder.call_add(20, 22) == 42
asyncio.run(main())
'

# What each line is about, what it needs, and the function that is run for it.
names() { dbus-send --print-reply --dest=org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus.ListNames; }
introspection() { gdbus introspect --session -d org.freedesktop.DBus -o /org/freedesktop/DBus; }
# shellcheck disable=SC2086 # two words
properties() { busctl "--address=$DBUS_SESSION_BUS_ADDRESS" get-property $driver org.freedesktop.DBus Features; }
list() { busctl "--address=$DBUS_SESSION_BUS_ADDRESS" list --no-pager; }
monitor() {
    dbus-monitor --session > "$folder/monitored" 2>&1 &
    watcher=$!
    tries=0
    until names > "$folder/none" && grep -q ListNames "$folder/monitored"; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || return 1
        sleep 0.1
    done
    kill "$watcher"
}
flood() {
    with_service a.Echo dbus-test-tool echo --session --name=a.Echo && dbus-test-tool spam --session --dest=a.Echo --count=2000 --queue=50
}
black_hole() {
    with_service a.Hole dbus-test-tool black-hole --session --name=a.Hole && dbus-test-tool spam --session --dest=a.Hole --no-reply --count=2000
}
python_service() {
    with_service a.Python "$python" -c "$dbus_python" && gdbus call --session -d a.Python -o /a -m a.Python.Add 20 22 | grep -q 42
}
next() { "$python" -c "$dbus_next"; }

worse=0
line() {
    what=$1 needs=$2 run=$3
    for program in $needs; do
        case $program in
            python:*) "$python" -c "import ${program#python:}" 2> "$folder/none" ;;
            *) command -v "$program" > "$folder/none" ;;
        esac || { echo "| $what | not installed | not installed |"; return; }
    done
    outcomes=
    for broker in dbus-daemon "$causewayd"; do
        start "$broker"
        if ("$run") > "$folder/said" 2>&1; then outcome=succeeds; else outcome=fails; fi
        stop
        outcomes="$outcomes | $outcome"
    done
    echo "| $what$outcomes |"
    case $outcomes in *succeeds*fails*)
        worse=$((worse + 1))
        tail -5 "$folder/said" "$folder/errors" >&2 ;;
    esac
}

command -v dbus-daemon > "$folder/none" || { echo "dbus-daemon is not installed" >&2; exit 2; }
echo "| client | dbus-daemon | causewayd |"
echo "|---|---|---|"
line "dbus-send: a call" dbus-send names
line "dbus-monitor: sees a call" "dbus-monitor dbus-send" monitor
line "dbus-test-tool: 2,000 calls of an echo" "dbus-test-tool gdbus" flood
line "dbus-test-tool: 2,000 messages to one that does not read" "dbus-test-tool gdbus" black_hole
line "gdbus: introspection" gdbus introspection
line "busctl: a property" busctl properties
line "busctl: list, which asks for the credentials of all" busctl list
line "python3-dbus: a service that gdbus calls" "python:dbus python:gi.repository gdbus" python_service
line "python3-dbus-next: service, introspection and proxy" python:dbus_next next
echo "$worse clients that fail with causewayd and not with dbus-daemon" >&2
[ "$worse" -eq 0 ]
