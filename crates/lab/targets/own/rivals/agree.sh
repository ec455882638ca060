#!/usr/bin/env bash
# Do a library's own benchmark program and its adapter here find the same round trip? In turn (A B A B …), with the same payload,
# on the same CPU, each as long as the other. Prints both medians over the turns, and the median of the turns' ratios.
#
#   RIVALS=/tmp/rivals PERF=/tmp/perf crates/lab/targets/own/rivals/agree.sh [zeromq nng cyclone zenoh zenoh-shm iceoryx2]
#
# PERF holds what no package installs, each built from its project's sources; what is missing is named and left out:
#   PERF/zmq/{local_lat,remote_lat}   libzmq, perf/*.cpp
#   PERF/nng/{local_lat,remote_lat}   nng 1.5, src/tools/perf/perf.c with pair0 as its only protocol, under both names
#   ddsperf                           Debian: cyclonedds-tools
#   PERF/z_ping, PERF/z_pong          Zenoh, examples
#   PERF/benchmark-publish-subscribe  iceoryx2, benchmarks/publish-subscribe
# PAYLOAD (64), TURNS (4), WEIGHBRIDGE (target/release/weighbridge) and CPU (the one that weighbridge uses for `same-cpu`).
set -euo pipefail
weighbridge=$(realpath "${WEIGHBRIDGE:-target/release/weighbridge}")
rivals=$(realpath -m "${RIVALS:-/tmp/rivals}")
perf=$(realpath -m "${PERF:-/tmp/perf}")
payload=${PAYLOAD:-64}
folder=$(mktemp -d)
cd "$folder"
others=()
end_others() {
    for pid in "${others[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true; done
    others=()
}
trap 'end_others; rm -rf "$folder"' EXIT

# The median of numbers, one a line.
median() { sort -g | awk '{ at[NR] = $1 } END { print NR % 2 ? at[(NR + 1) / 2] : (at[NR / 2] + at[NR / 2 + 1]) / 2 }'; }

# What weighbridge finds: the median of a round trip (p50 where the other program tells that, else the mean of samples), in µs.
ours() {
    local mechanism=$1 place=$2 what=$3 wait=$4 target=()
    [ -z "$5" ] || target=(--target "$rivals/$5.so")
    rm -f ours.jsonl
    "$weighbridge" run "${target[@]}" "roundtrip/$mechanism/$payload/$place" --set "wait=$wait" --alone --runs 6 --budget 6s \
        --no-system-calls --out ours.jsonl --html none --quiet >/dev/null 2>&1
    jq -r "select(.kind == \"summary\" and (.case | startswith(\"roundtrip/$mechanism/\"))) | $what / 1e3" ours.jsonl
}
cpus() { jq -r 'select(.kind == "case" and (.case | startswith("roundtrip/"))) | .cpus[]' ours.jsonl | sort -u; }

# Starts a program beside, to be ended by `end_others`. One that reads its commands gets none.
mkfifo silence
exec 9<>silence
beside() {
    "$@" >beside.log 2>&1 <&9 &
    others+=($!)
}
until_there() { for _ in $(seq 100); do [ -e "$1" ] && return; sleep 0.02; done; echo "there is no $1" >&2; return 1; }

# Each prints a round trip in µs, on the CPUs in $cpu.
# A mean over all of its round trips is what theirs tell, and one disturbance is in it: so batches, and their median, as ours is of samples.
latencies() {
    for _ in 1 2 3 4 5 6 7 8; do
        rm -f end
        beside timeout 20 taskset -c "$cpu" "$1/local_lat" "ipc://$folder/end" "$payload" 4000
        until_there end
        timeout 20 taskset -c "$cpu" "$1/remote_lat" "ipc://$folder/end" "$payload" 4000 | awk '/average latency/ { print 2 * $3 }'
        end_others
    done | median
}
theirs_zeromq() { latencies "$perf/zmq"; }
theirs_nng() { latencies "$perf/nng"; }
theirs_cyclone() {
    export CYCLONEDDS_URI="<CycloneDDS><Domain id='any'><General><AllowMulticast>false</AllowMulticast><Interfaces><NetworkInterface name='lo' multicast='false'/></Interfaces></General><Discovery><ParticipantIndex>auto</ParticipantIndex><Peers><Peer address='127.0.0.1'/></Peers></Discovery></Domain></CycloneDDS>"
    beside timeout 20 taskset -c "$cpu" ddsperf -D 5 -i 217 pong waitset
    # It tells half of a round trip, once in a second; the first one is that in which the ends find each other.
    timeout 20 taskset -c "$cpu" ddsperf -D 4 -i 217 ping size "$payload" waitset | sed -n 's/.* 50% \([0-9.]*\)us.*/\1/p' | tail -n +2 | awk '{ print 2 * $1 }' | median
}
theirs_zenoh() {
    rm -f end*; beside timeout 20 taskset -c "$cpu" "$perf/z_pong" --no-express --no-multicast-scouting -l "unixsock-stream/$folder/end"
    until_there end
    timeout 20 taskset -c "$cpu" "$perf/z_ping" --no-express --no-multicast-scouting -e "unixsock-stream/$folder/end" -n 20000 -w 0.5 "$payload" |
        sed -n 's/.*rtt=\([0-9.]*\).*/\1/p' | median
}
theirs_iceoryx2() {
    timeout 20 "$perf/benchmark-publish-subscribe" --bench-ipc -i 1000000 -p "$payload" \
        --cpu-core-participant-1 "${cpu%%,*}" --cpu-core-participant-2 "${cpu##*,}" 2>/dev/null | sed -n '1s/.*Latency: \([0-9]*\) ns.*/\1/p' | awk '{ print 2 * $1 / 1000 }'
}

compare() {
    local name=$1 mechanism=$2 place=$3 what=$4 wait=$5 target=$6 turn
    shift 6
    for needed in "$@" ${target:+"$rivals/$target.so"}; do
        command -v "$needed" >/dev/null || [ -e "$needed" ] || { echo "$name: left out, $needed is not installed"; return; }
    done
    : >a; : >b
    for turn in $(seq "${TURNS:-4}"); do
        ours "$mechanism" "$place" "$what" "$wait" "$target" >>a
        cpu=${CPU:-$(cpus | paste -sd,)}
        "theirs_$name" >>b || true
        end_others
    done
    [ -s a ] && [ -s b ] || { echo "$name: left out, one of the two had no figure"; return; }
    # Turns are neighbors in time, so that ratios are taken within them.
    paste a b | awk '{ print $1 / $2 }' >ratios
    printf '%s %s B: here %.3g µs, its own program %.3g µs, ratio %.2f (%s)\n' "$name" "$payload" "$(median <a)" "$(median <b)" \
        "$(median <ratios)" "in turns $(awk '{ printf "%s%.2f", (NR == 1 ? "" : " "), $1 }' ratios)"
}
p50='(.distribution.percentiles[] | select(.p == 0.5) | .ns)'
for name in "${@:-zeromq nng cyclone zenoh iceoryx2}"; do
    for one in $name; do
        case $one in
        zeromq) compare zeromq zeromq-ipc same-cpu .median block zeromq "$perf/zmq/local_lat" "$perf/zmq/remote_lat" ;;
        nng) compare nng nng-ipc same-cpu .median block nng "$perf/nng/local_lat" "$perf/nng/remote_lat" ;;
        cyclone) compare cyclone cyclone same-cpu "$p50" block cyclone ddsperf ;;
        zenoh) compare zenoh zenoh same-cpu "$p50" block zenoh "$perf/z_ping" "$perf/z_pong" ;;
        iceoryx2) compare iceoryx2 iceoryx2 two-cpus .median spin "" "$perf/benchmark-publish-subscribe" ;;
        *) echo "there is nothing called $one here" >&2; exit 2 ;;
        esac
    done
done
