#!/bin/sh
# A round trip of the case roundtrip/dbus-daemon agrees within 10 % with an independent program, and so does the CPU time of the broker
# for a call. Needs cc, dbus-daemon and a release build:
#
#   cargo build --release && crates/dbus-lab/agreement/run.sh [target/release/weighbridge]
#
# pingpong.c shares no code with the laboratory. dbus-test-tool (package dbus-tests), where it is installed, is shown beside: its ends go
# through libdbus, so that only what the broker spends can be compared.
set -eu
weighbridge=${1:-target/release/weighbridge}
here=$(dirname "$0")
turns=${TURNS:-7}
bytes=100
for program in cc dbus-daemon jq taskset; do
    command -v "$program" > /dev/null || { echo "skipped: $program is not installed" >&2; exit 0; }
done
work=$(mktemp -d)
name="weighbridge-agreement-$$"
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2> /dev/null; rm -rf "$work"' EXIT INT TERM
cc -O2 -o "$work/pingpong" "$here/pingpong.c"
cpu=$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')
taskset -c "$cpu" dbus-daemon --session --nofork --nopidfile --address="unix:abstract=$name" 2> /dev/null &
daemon=$!
until grep -q "@$name" /proc/net/unix; do
    kill -0 "$daemon" 2> /dev/null || { echo "error: dbus-daemon does not start" >&2; exit 2; }
    sleep 0.05
done

median() { sort -g | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }
# Nanoseconds on a CPU.
spent() { cut -d' ' -f1 "/proc/$daemon/schedstat"; }
count=100
for turn in $(seq $turns); do
    before=$(spent)
    "$work/pingpong" "$name" $count $bytes "$cpu" | cut -d' ' -f1 >> "$work/theirs"
    # 202 parts with the one that is dropped; joining costs the broker about as much as ten calls.
    awk "BEGIN { print ($(spent) - $before) / (202 * $count + 10) }" >> "$work/their_broker"
    "$weighbridge" run roundtrip/dbus-daemon/$bytes/same-cpu --alone --cpus "$cpu" --max-runs 3 --quiet \
        --html none --out "$work/$turn.jsonl" > /dev/null
    jq 'select(.kind == "summary") | .median' "$work/$turn.jsonl" >> "$work/ours"
    jq 'select(.kind == "summary") | .beside.broker.cpu_ns' "$work/$turn.jsonl" >> "$work/our_broker"
done
compare() {
    theirs=$(median < "$work/$2") ours=$(median < "$work/$3")
    awk -v what="$1" -v theirs="$theirs" -v ours="$ours" 'BEGIN {
        ratio = ours / theirs; verdict = ratio > 0.9 && ratio < 1.1 ? "agrees" : "outside 0.9 to 1.1"
        printf "%-34s pingpong.c %8.0f ns   weighbridge %8.0f ns   ratio %.3f   %s\n", what, theirs, ours, ratio, verdict
        exit ratio <= 0.9 || ratio >= 1.1
    }'
}
failed=0
compare "round trip, $bytes B, one CPU" theirs ours || failed=1
compare "CPU time of dbus-daemon for a call" their_broker our_broker || failed=1
if command -v dbus-test-tool > /dev/null; then
    export DBUS_SESSION_BUS_ADDRESS="unix:abstract=$name"
    taskset -c "$cpu" dbus-test-tool echo --name=org.weighbridge.Echo &
    echo=$!
    until dbus-send --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.GetNameOwner string:org.weighbridge.Echo \
        > /dev/null 2>&1; do sleep 0.05; done
    before=$(spent)
    began=$(date +%s%N)
    taskset -c "$cpu" dbus-test-tool spam --dest=org.weighbridge.Echo --count=20000 --payload=x > /dev/null
    awk "BEGIN { printf \"%-34s %.0f ns, %.0f ns of it CPU time of dbus-daemon\n\", \"dbus-test-tool spam, a call\", ($(date +%s%N) - $began) / 20000, \
        ($(spent) - $before) / 20000 }"
    kill "$echo"
fi
exit $failed
