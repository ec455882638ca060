#!/bin/sh
# Runs D-Bus's own installed tests (Debian: package dbus-tests) with dbus-daemon and with causewayd, and prints a table of all cases in
# Markdown. The status is 1 if causewayd fails a case that dbus-daemon passes.
#
#   crates/causeway/causewayd/conformance/run.sh [CAUSEWAYD]
#
# Tests that talk to no bus (fdpass, server-oom, corrupt, loopback, relay) examine the library libdbus; their cases are the same with any bus.
set -u

. "$(dirname "$0")/programs.sh"
find_causewayd "${1:-}"
tests=${DBUS_TEST_EXEC:-/usr/lib/dbus-1.0/installed-tests/dbus}
data=${DBUS_TEST_DATA:-$tests/data}
programs="test-dbus-daemon test-monitor test-sd-activation test-dbus-daemon-eavesdrop test-header-fields test-fdpass test-server-oom test-corrupt test-loopback test-relay"

if [ ! -x "$tests/test-dbus-daemon" ]; then
    echo "there is no program $tests/test-dbus-daemon; install dbus-tests" >&2
    exit 2
fi
daemon=$(command -v dbus-daemon) || { echo "dbus-daemon is not installed" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM

# One case with one bus: "passes", "skips: WHY" or "fails". Each runs alone, because a case that fails ends its program.
outcome() {
    timeout 120 env DBUS_TEST_DAEMON="$3" DBUS_TEST_EXEC="$tests" DBUS_TEST_DATA="$data" XDG_RUNTIME_DIR="$folder" \
        "$tests/$1" --tap -p "$2" > "$folder/said" 2> "$folder/errors" &
    group=$!
    wait "$group" 2> "$folder/none"
    # A test that is aborted leaves its bus behind.
    kill -KILL "-$group" 2> "$folder/none"
    grep -F -q "# SKIP" "$folder/said" && { sed -n 's/.*# SKIP \(.*\)/skips: \1/p' "$folder/said"; return; }
    if grep -q '^ok' "$folder/said" && ! grep -q '^not ok' "$folder/said"; then echo passes; else echo fails; fi
}

reference=dbus-daemon
echo "| program | case | dbus-daemon | causewayd |"
echo "|---|---|---|---|"
for program in $programs; do
    for case in $(DBUS_TEST_DATA="$data" "$tests/$program" -l | grep '^/'); do
        expected=$(outcome "$program" "$case" "$daemon")
        found=$(outcome "$program" "$case" "$causewayd")
        echo "| $program | $case | $expected | $found |"
        judge "$program $case" "$expected" "$found" "$folder/errors"
    done
done
conclude cases
