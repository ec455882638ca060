#!/usr/bin/env bash
# Starts real programs on a session bus of their own, records what they say at their start, and analyses it.
#
#   cargo build --release --locked && docs/figures/dbus-session.sh [FOLDER [CURVES]]
#
# Nothing of it touches the bus, the home or the settings of the user. Which programs take part depends on what is installed: on Debian
# dconf-service, at-spi2-core, gvfs, gvfs-daemons, evolution-data-server, xdg-desktop-portal, ibus and python3-dbusmock. FOLDER keeps the
# capture; the report goes to docs/figures/dbus-session.txt, with what the traffic costs each broker of CURVES, a record of the suite dbus-curves.
set -euo pipefail
cd "$(dirname "$0")/../.."

weighbridge=$(realpath "${WEIGHBRIDGE:-target/release/weighbridge}")
folder=$(realpath -m "${1:-$(mktemp -d)}")
mkdir -p "$folder"
costs=()
[ -z "${2:-}" ] || costs=(--costs "$(realpath "$2")")
capture=$folder/session.pcap
rm -f "$capture"

home=$(mktemp -d)
pids=()
cleanup() {
    kill "${pids[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$home"
}
trap cleanup EXIT
mkdir -p "$home"/{run,config,data,cache}
chmod 700 "$home/run"
unset DISPLAY WAYLAND_DISPLAY
export HOME=$home XDG_RUNTIME_DIR=$home/run XDG_CONFIG_HOME=$home/config XDG_DATA_HOME=$home/data XDG_CACHE_HOME=$home/cache
export GIO_USE_VFS=gvfs GSETTINGS_BACKEND=dconf NO_AT_BRIDGE=0

exec 3< <(exec dbus-daemon --session --nofork --print-address 2>/dev/null)
pids+=($!)
read -r DBUS_SESSION_BUS_ADDRESS <&3
export DBUS_SESSION_BUS_ADDRESS
"$weighbridge" dbus capture --address "$DBUS_SESSION_BUS_ADDRESS" --budget 14s -o "$capture" &
capturing=$!
sleep 1

# An activation by name, and what a desktop asks of it first. What is not installed is said once.
started=()
start() {
    local name=$1 path=$2 method=$3
    shift 3
    if gdbus call --session --timeout 5 --dest "$name" --object-path "$path" --method "$method" "$@" >/dev/null 2>"$home/error"; then
        started+=("$name")
    else
        echo "left out: $name: $(head -n 1 "$home/error")" >&2
    fi
}
start org.a11y.Bus /org/a11y/bus org.a11y.Bus.GetAddress
start org.gtk.vfs.Daemon /org/gtk/vfs/mounttracker org.gtk.vfs.MountTracker.ListMounts2 false
start org.gtk.vfs.Metadata /org/gtk/vfs/metadata org.freedesktop.DBus.Peer.Ping
start org.gnome.evolution.dataserver.Sources5 /org/gnome/evolution/dataserver/SourceManager org.freedesktop.DBus.ObjectManager.GetManagedObjects
start org.gnome.evolution.dataserver.AddressBook10 /org/gnome/evolution/dataserver/AddressBookFactory org.freedesktop.DBus.Peer.Ping
start org.gnome.evolution.dataserver.Calendar8 /org/gnome/evolution/dataserver/CalendarFactory org.freedesktop.DBus.Peer.Ping
start org.freedesktop.impl.portal.PermissionStore /org/freedesktop/impl/portal/PermissionStore org.freedesktop.impl.portal.PermissionStore.List devices
start org.freedesktop.portal.Desktop /org/freedesktop/portal/desktop org.freedesktop.DBus.Peer.Ping
start ca.desrt.dconf /ca/desrt/dconf/Writer/user org.freedesktop.DBus.Peer.Ping
for program in "ibus-daemon --panel=disable --config=disable" "python3 -m dbusmock --session --template notification_daemon"; do
    if command -v ${program%% *} >/dev/null; then
        $program >/dev/null 2>&1 &
        pids+=($!)
        started+=("${program%% *}")
    fi
done
sleep 1
gdbus call --session --timeout 5 --dest org.freedesktop.Notifications --object-path /org/freedesktop/Notifications \
    --method org.freedesktop.Notifications.GetCapabilities >/dev/null 2>&1 || true
for setting in 1 2 3; do
    gsettings set org.gtk.Settings.FileChooser window-size "($((setting * 100)), 400)" 2>/dev/null || true
    gio info "file://$home" >/dev/null 2>&1 || true
    gio mount -l >/dev/null 2>&1 || true
done
wait "$capturing" || true

out=docs/figures/dbus-session.txt
{
    printf 'Started on a bus of their own, in this order: %s.\n\n' "$(printf '%s, ' "${started[@]}" | sed 's/, $//')"
    (cd "$folder" && "$weighbridge" dbus analyse session.pcap --format markdown --top 5 "${costs[@]}")
    printf '\n`weighbridge dbus lint session.pcap --level info`, by finding:\n\n'
    { cd "$folder" && "$weighbridge" dbus lint session.pcap --level info || true; } 2>/dev/null |
        awk -F': ' '/^(error|warning|info): /{count[$1 ": " $2]++} END {for (name in count) printf "* %d × %s\n", count[name], name}' | sort -k2nr
} >"$out"
echo "The capture is $capture, the report $out." >&2
