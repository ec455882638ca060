#!/usr/bin/env bash
# Compares what `weighbridge dbus analyse --costs` predicts with what replays take: CPU time and context switches of each broker.
#
#   cargo build --release --locked && docs/figures/dbus-costs.sh [FOLDER [CAPTURE...]]
#
# In each of ROUNDS (3) rounds the curves are measured (BUDGET, 120s) and each capture is replayed, and the ratio of both is taken: a machine whose
# speed drifts in minutes is compared with itself. Without a CAPTURE two are made: mixed traffic of 20,000 messages for replays as fast as causes
# allow, and of 3,000, a millisecond apart, for replays at the recorded speed: with the broker on the CPU of the player and on a CPU of its own, each
# compared with the prediction for that placement. A CAPTURE is replayed in all these ways. FOLDER keeps everything; what
# is there already is not made again. Fails where the median ratio of CPU time, as fast as causes allow, is further than 15 % from 1, or that
# of switches, at the recorded speed on two CPUs, further than 10 %. Needs jq. WEIGHBRIDGE names another program.
set -euo pipefail
cd "$(dirname "$0")/../.."

weighbridge=$(realpath "${WEIGHBRIDGE:-target/release/weighbridge}")
folder=$(realpath -m "${1:-$(mktemp -d)}")
command -v jq >/dev/null || { echo "skipped: jq is not installed" >&2; exit 0; }
mkdir -p "$folder"

# What is compared, as SPEED:PLACE:CAPTURE.
pairs=()
for capture in "${@:2}"; do
    capture=$(realpath "$capture")
    pairs+=("max:free:$capture" "recorded:same-cpu:$capture" "recorded:two-cpus:$capture")
done
if [ ${#pairs[@]} = 0 ]; then
    pairs=("max:free:$folder/mixed.pcap" "recorded:same-cpu:$folder/paced.pcap" "recorded:two-cpus:$folder/paced.pcap")
    for made in 20000:mixed 3000:paced; do
        [ -e "$folder/${made#*:}.pcap" ] ||
            cargo run --quiet -p weighbridge-dbus-traffic --example make_capture -- "${made%:*}" "$folder/${made#*:}.pcap"
    done
fi

for round in $(seq "${ROUNDS:-3}"); do
    curves=$folder/$round-curves.jsonl
    [ -e "$curves" ] || "$weighbridge" run --suite dbus-curves --alone --no-system-calls --budget "${BUDGET:-120s}" --quiet --html none \
        --out "$curves" >"$folder/$round-curves.txt"
    for pair in "${pairs[@]}"; do
        IFS=: read -r speed place capture <<<"$pair"
        name=$(basename "$capture" .pcap)-$speed-$place-$round
        [ -e "$folder/$name.replayed" ] || {
            "$weighbridge" dbus replay "$capture" --speed "$speed" --place "$place" --rounds 1 --format json >"$folder/$name.new"
            mv "$folder/$name.new" "$folder/$name.replayed"
        }
        "$weighbridge" dbus analyse "$capture" --costs "$curves" --format json >"$folder/$name.predicted"
    done
done

failed=0
for pair in "${pairs[@]}"; do
    IFS=: read -r speed place capture <<<"$pair"
    name=$(basename "$capture" .pcap)-$speed-$place
    printf '\n%s at speed %s, %s\n\n' "$(basename "$capture")" "$speed" "$place"
    echo '| broker | of | predicted | of the replay | predicted ÷ replay | its range | |'
    echo '| --- | --- | --: | --: | --: | --: | --- |'
    for round in $(seq "${ROUNDS:-3}"); do
        jq -c --slurpfile predicted "$folder/$name-$round.predicted" --arg speed "$speed" --arg place "$place" '
            .replays[] | .usage as $usage | .broker as $broker | ($predicted[0].costs[$broker] // empty) as $cost
            | ($cost.at_recorded_speed[$place] // {}) as $paced
            | (if $speed == "max" then {cpu: $cost.cpu_ns, switches: null, most: $cost.switches_at_most} else $paced + {cpu: $paced.cpu_ns} end) as $said
            | {$broker, of: "CPU time, ms", said: ($said.cpu / 1e6), was: ($usage.cpu_ns / 1e6), allowed: (if $speed == "max" then 0.15 else null end)},
              {$broker, of: (if $said.most then "switches, at most" else "switches" end), said: ($said.switches // $said.most), was: $usage.switches,
               allowed: (if $place == "two-cpus" then 0.10 else null end)},
              (select($speed != "max") | {$broker, of: "voluntary switches", said: ($said.switches - $said.preemptions),
               was: ($usage.switches - $usage.preemptions), allowed: null})' "$folder/$name-$round.replayed"
    done | jq -rs '
        def middle: sort | .[(length - 1) / 2 | floor];
        def short: if . < 1000 then . * 10 | round / 10 else round end;
        def percent: . * 100 | round / 100;
        group_by(.broker, .of)[] | .[0] as $one | map(.said / .was) as $ratios | ($ratios | middle) as $ratio
        | "| \($one.broker) | \($one.of) | \(map(.said) | middle | short) | \(map(.was) | middle | short) | \($ratio | percent) | "
        + "\($ratios | min | percent) to \($ratios | max | percent) | "
        + (if $one.allowed == null then "" elif ($ratio - 1 | fabs) <= $one.allowed then "within \($one.allowed * 100) %" else "MISSED \($one.allowed * 100) %" end) + " |"
        ' | tee "$folder/$name.md"
    ! grep -q MISSED "$folder/$name.md" || failed=1
done
exit $failed
