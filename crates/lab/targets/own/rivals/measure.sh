#!/usr/bin/env bash
# Rivals beside ours in one interleaved run, and the tables of docs/rivals.md.
#
#   cargo build --release --locked -p weighbridge --features peers
#   make -C crates/lab/targets/own/rivals all zenoh OUT=/tmp/rivals
#   RIVALS=/tmp/rivals crates/lab/targets/own/rivals/measure.sh rivals.jsonl       # 170 s; a record that is there is shown again
#
# WEIGHBRIDGE names another program than target/release/weighbridge. An adapter that was not built is left out, with a sentence.
set -euo pipefail
weighbridge=${WEIGHBRIDGE:-target/release/weighbridge}
record=${1:?the record that is written or shown again}
targets=()
mechanisms=ring-futex,causeway-sw,unix-stream
add() {
    if [ -e "${RIVALS:-/tmp/rivals}/$1.so" ]; then
        targets+=(--target "${RIVALS:-/tmp/rivals}/$1.so")
        mechanisms+=,$2
    else
        echo "left out: $1, of which ${RIVALS:-/tmp/rivals} has no $1.so" >&2
    fi
}
if [ ! -e "$record" ]; then
    add zeromq zeromq-ipc
    add nng nng-ipc
    add cyclone cyclone
    add zenoh zenoh,zenoh-shm
    if "$weighbridge" list iceoryx2 >/dev/null 2>&1; then
        mechanisms+=,iceoryx2
    else
        echo "left out: iceoryx2, which $weighbridge was built without (--features peers)" >&2
    fi
    # Who sleeps: the waits of all are those of programs that have other things to do.
    "$weighbridge" run "${targets[@]}" "roundtrip/{$mechanisms}/{64,4096,65536}/{same-cpu,two-cpus}" \
        --set wait=block --budget 170s --out "$record" --html none --quiet >/dev/null
fi
jq -rs '
    def round2: if . >= 100 then round elif . >= 10 then (. * 10 | round / 10) else (. * 100 | round / 100) end;
    [.[] | select(.kind == "summary") | . + (.case | split("/") | {pattern: .[0], mechanism: .[1], bytes: .[2], place: .[3]})
        | select(.pattern == "roundtrip" and .to_hub != null and .mechanism != "pipe")] as $all
    | ($all | map(.mechanism) | unique) as $names
    | ($all | map(select(.bytes == "64" and .place == "same-cpu")) | sort_by(.to_hub.median) | map(.mechanism)) as $ranked
    | def of($name; $bytes; $place): $all | map(select(.mechanism == $name and .bytes == $bytes and .place == $place)) | .[0];
      def ratio: if . == null then "–" else "\(.to_hub.median | round2)" + (if .to_hub.ci95 then " [\(.to_hub.ci95[0] | round2), \(.to_hub.ci95[1] | round2)]" else "" end) end;
    "| × hub | 64 B, one CPU | 4 KiB | 64 KiB | 64 B, two CPUs | 4 KiB | 64 KiB |", "|---|--:|--:|--:|--:|--:|--:|",
    (($ranked + ($names - $ranked))[] as $name
        | "| `\($name)` | " + ([("same-cpu", "two-cpus") as $place | ("64", "4096", "65536") as $bytes | of($name; $bytes; $place) | ratio] | join(" | ")) + " |"),
    "",
    "| of a round trip of 64 B on one CPU | µs | system calls | switches | user CPU µs | kernel CPU µs | which calls |", "|---|--:|--:|--:|--:|--:|---|",
    ($ranked[] as $name | of($name; "64"; "same-cpu")
        | "| `\($name)` | \(.median / 1000 | round2) | \(.system_calls.per_op // 0 | round2) | \(.per_op.voluntary_switches + .per_op.involuntary_switches | round2)"
        + " | \(.per_op.user_ns / 1000 | round2) | \(.per_op.kernel_ns / 1000 | round2) | "
        + ([.system_calls.roles[]?.calls // {} | to_entries[]] | group_by(.key) | map({key: .[0].key, value: (map(.value) | add)}) | sort_by(-.value)
            | map(select(.value >= 0.5) | "\(.key) \(.value | round2)") | join(", ")) + " |")
' "$record"
