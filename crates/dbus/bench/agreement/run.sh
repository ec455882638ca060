#!/bin/sh
# Do round trips of the laboratory agree with those of independent programs? Needs cc, dbus-daemon, jq and a release build; for the part
# with libdbus also its headers and what clients/build.sh makes:
#
#   cargo build --release && crates/dbus/bench/clients/build.sh && crates/dbus/bench/agreement/run.sh [target/release/weighbridge]
#
# roundtrip/dbus-daemon is compared with sockets.c, and the same with client=libdbus with libdbus.c: programs that share no code with the
# laboratory. Client, server and broker are on one CPU on all sides, every byte is written and read, and the figure is the median of
# single calls, because those in which another program took the CPU are few. The sides take turns in blocks of a tenth of a second,
# forwards and backwards (ABCD DCBA), SETS times, so that what else the machine does falls on all of them. Printed are the median over
# the sets of the ratio within a set and its interval (order statistics, at least 95 %). Exit code 1: an interval of time or of the
# broker's CPU time lies outside 0.9 to 1.1; 3: one crosses an end, so more SETS or a quieter machine are needed.
# CLIENTS="libdbus sd-bus gdbus" shows other libraries beside.
set -eu
weighbridge=${1:-target/release/weighbridge}
here=$(dirname "$0")
sets=${SETS:-16}
bytes=100
for program in cc dbus-daemon jq taskset mkfifo; do
    command -v "$program" > /dev/null || { echo "skipped: $program is not installed" >&2; exit 0; }
done
work=$(mktemp -d)
name="weighbridge-agreement-$$"
daemon=
programs=
# The programs first: they call until they are ended, and one whose broker is gone says so.
end() {
    # shellcheck disable=SC2086
    [ -z "$programs" ] || { kill $programs; wait $programs; } 2> /dev/null || true
    [ -z "$daemon" ] || kill "$daemon" 2> /dev/null || true
    rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM
cpu=$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')
taskset -c "$cpu" dbus-daemon --session --nofork --nopidfile --address="unix:abstract=$name" 2> /dev/null &
daemon=$!
tries=1200
until grep -q "@$name" /proc/net/unix; do
    tries=$((tries - 1))
    { [ "$tries" -gt 0 ] && kill -0 "$daemon" 2> /dev/null; } || { echo "error: dbus-daemon does not start" >&2; exit 2; }
    sleep 0.05
done

cc -O2 -o "$work/sockets" "$here/sockets.c"
mkfifo "$work/sockets.in" "$work/sockets.out"
"$work/sockets" "$name" $bytes "$cpu" "$daemon" < "$work/sockets.in" > "$work/sockets.out" &
programs="$programs $!"
exec 3> "$work/sockets.in" 4< "$work/sockets.out"
sides="raw sockets"
if pkg-config --exists dbus-1 2> /dev/null; then
    # shellcheck disable=SC2046
    cc -O2 $(pkg-config --cflags dbus-1) -o "$work/libdbus" "$here/libdbus.c" $(pkg-config --libs dbus-1)
    mkfifo "$work/libdbus.in" "$work/libdbus.out"
    "$work/libdbus" "unix:abstract=$name" $bytes "$cpu" "$daemon" < "$work/libdbus.in" > "$work/libdbus.out" &
    programs="$programs $!"
    exec 5> "$work/libdbus.in" 6< "$work/libdbus.out"
    sides="$sides libdbus"
    for client in ${CLIENTS:-libdbus}; do
        if "$weighbridge" plan "roundtrip/dbus-daemon/$bytes/same-cpu/client=$client" > "$work/plan" 2>&1 && ! grep -q 'build it with\|build with' "$work/plan"; then
            sides="$sides client=$client"
        else
            echo "skipped: client=$client needs what crates/dbus/bench/clients/build.sh makes" >&2
        fi
    done
else
    echo "skipped: libdbus needs pkg-config and the package libdbus-1-dev" >&2
fi

# A block of the laboratory: as blocks.h prints it.
laboratory() {
    rm -f "$work/record.jsonl"
    "$weighbridge" run "roundtrip/dbus-daemon/$bytes/same-cpu$1/time=each" --alone --no-system-calls --cpus "$cpu" --runs 1 --quiet \
        --html none --out "$work/record.jsonl" > "$work/said" 2>&1 || { cat "$work/said" >&2; return 1; }
    jq -rs '[(.[] | select(.kind == "summary") | .distribution.percentiles[] | select(.p == 0.5) | .ns)] + [.[] | select(.kind == "run") | .roles[].per_op |
        .cpu_ns, .voluntary_switches + .involuntary_switches] | @tsv' "$work/record.jsonl"
}
# A block of a side.
block() {
    case $1 in
    raw) laboratory "" ;;
    client=*) laboratory "/$1" ;;
    sockets) echo block >&3; read -r line <&4; echo "$line" ;;
    libdbus) echo block >&5; read -r line <&6; echo "$line" ;;
    esac
}
backwards=$(for side in $sides; do echo "$side"; done | sed '1!G; h; $!d')
for set in $(seq "$sets"); do
    for side in $sides $backwards; do
        figures=$(block "$side")
        [ -n "$figures" ] || { echo "error: no figures of $side" >&2; exit 2; }
        echo "$set $side $figures" >> "$work/blocks"
    done
done

awk -v sets="$sets" -v bytes="$bytes" '
    function sorted(values, count,   i, j, value) {
        for (i = 2; i <= count; i++) {
            value = values[i]
            for (j = i - 1; j >= 1 && values[j] > value; j--) values[j + 1] = values[j]
            values[j + 1] = value
        }
    }
    function middle(values, count) {
        sorted(values, count)
        return (values[int((count + 1) / 2)] + values[int(count / 2) + 1]) / 2
    }
    # The largest rank from either end between which the median lies with 95 %; 0 where there are too few.
    function rank(count,   k, term, tail) {
        term = 0.5 ^ count
        for (k = 0; tail + term <= 0.025; k++) { tail += term; term *= (count - k) / (k + 1) }
        return k
    }
    # Of column `column`: how a side compares with another, and whether it must agree.
    function compare(what, side, other, column, must,   set, count, values, low, high, ranks, verdict) {
        for (set = 1; set <= sets; set++) values[++count] = (logs[set, side, column] - logs[set, other, column]) / 2
        low = high = middle(values, count)
        ranks = rank(count)
        verdict = ""
        if (ranks) { low = values[ranks]; high = values[count + 1 - ranks] }
        if (must) {
            if (ranks && low > log(0.9) && high < log(1.1)) verdict = "agrees"
            else if (ranks && (high < log(0.9) || low > log(1.1))) { verdict = "outside 0.9 to 1.1"; if (status != 1) status = 1 }
            else { verdict = "not settled"; if (!status) status = 3 }
        }
        printf "%-16s %-14s / %-14s %.3f (%.3f to %.3f)  %s\n", what, side, other, exp(middle(values, count)), exp(low), exp(high), verdict
    }
    {
        if (!($2 in seen)) { seen[$2]; order[++sides] = $2 }
        turns[$2]++
        for (column = 3; column <= 9; column++) {
            all[$2, column, turns[$2]] = $column
            logs[$1, $2, column] += log($column > 0 ? $column : 1e-9)
        }
    }
    END {
        printf "A call and its reply, %d bytes each way, client, server and dbus-daemon on one CPU: medians of %d blocks of each side\n", bytes, 2 * sets
        printf "%-16s %9s | %9s %9s %9s | %8s %8s %8s\n", "side", "ns", "client", "server", "broker", "client", "server", "broker"
        printf "%-16s %9s | %29s | %26s\n", "", "", "CPU time, ns", "context switches"
        for (side = 1; side <= sides; side++) {
            for (column = 3; column <= 9; column++) {
                for (turn = 1; turn <= turns[order[side]]; turn++) values[turn] = all[order[side], column, turn]
                figure[column] = middle(values, turns[order[side]])
            }
            printf "%-16s %9.0f | %9.0f %9.0f %9.0f | %8.2f %8.2f %8.2f\n", order[side], figure[3], figure[4], figure[6], figure[8], figure[5], \
                figure[7], figure[9]
        }
        printf "\nRatios, with their intervals from %d sets\n", sets
        compare("round trip", "raw", "sockets", 3, 1)
        compare("broker, CPU time", "raw", "sockets", 8, 1)
        if ("client=libdbus" in seen) {
            compare("round trip", "client=libdbus", "libdbus", 3, 1)
            compare("broker, CPU time", "client=libdbus", "libdbus", 8, 1)
        }
        for (side = 1; side <= sides; side++)
            if (order[side] ~ /^client=/) compare("the library", order[side], "raw", 3, 0)
        if ("libdbus" in seen) compare("the library", "libdbus", "sockets", 3, 0)
        exit status
    }' "$work/blocks"
