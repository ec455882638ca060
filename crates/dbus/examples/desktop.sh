#!/bin/sh
# Starts a private session bus with whatever of these programs is installed, records its first seconds, and ends it all:
#   desktop.sh CAPTURE [WEIGHBRIDGE]
# Packages: dbus dbus-daemon dconf-service dconf-cli at-spi2-core python3-dbusmock libglib2.0-bin systemd
set -eu
capture=$1
weighbridge=${2:-weighbridge}
[ "${3:-}" = inside ] || exec dbus-run-session -- "$0" "$capture" "$weighbridge" inside

home=$(mktemp -d)
export HOME="$home" XDG_CONFIG_HOME="$home" XDG_RUNTIME_DIR="$home" GSETTINGS_BACKEND=dconf
pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$home"' EXIT
start() {
    command -v "$1" > /dev/null || { echo "not installed: $1" >&2; return 0; }
    "$@" > /dev/null 2>&1 &
    pids="$pids $!"
}

"$weighbridge" dbus capture --session --for 8s -o "$capture" &
recording=$!
sleep 1
start gdbus monitor --session --dest org.freedesktop.Notifications
start dbus-monitor --session "type='signal',member='NameOwnerChanged'"
start /usr/libexec/at-spi-bus-launcher
start /usr/bin/python3 -m dbusmock --session --template notification_daemon
start /usr/bin/python3 -m dbusmock --session --template upower
start /usr/bin/python3 -m dbusmock --session com.example.Clock / com.example.Clock
sleep 2
if command -v dconf > /dev/null; then
    for key in a b c d e f; do dconf write "/org/example/$key" "'value $key'" || true; done
fi
if command -v gdbus > /dev/null; then
    # A script that asks for one property after the other, and one that polls.
    for property in DaemonVersion LidIsClosed LidIsPresent OnBattery DaemonVersion LidIsClosed; do
        gdbus call --session --dest org.freedesktop.UPower --object-path /org/freedesktop/UPower \
            --method org.freedesktop.DBus.Properties.Get org.freedesktop.UPower $property > /dev/null 2>&1 || true
    done
    gdbus call --session --dest org.freedesktop.Notifications --object-path /org/freedesktop/Notifications \
        --method org.freedesktop.Notifications.Notify app 0 icon Summary "a secret body" '[]' '{}' 1 > /dev/null 2>&1 || true
fi
command -v busctl > /dev/null && busctl --user --address="$DBUS_SESSION_BUS_ADDRESS" tree org.freedesktop.UPower > /dev/null 2>&1 || true
wait "$recording"
