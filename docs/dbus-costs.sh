#!/usr/bin/env bash
# Compares what `weighbridge dbus analyse --costs` predicts with what replays take: CPU time and context switches of each broker.
#
#   cargo build --release --locked && docs/dbus-costs.sh [FOLDER [CAPTURE...]]
#
# FOLDER keeps captures, curves and replays; what is already there is not made again. Without a CAPTURE two are made: mixed traffic of 20,000
# messages for replays as fast as causes allow, and of 3,000, a millisecond apart, for replays at the recorded speed. A CAPTURE is
# replayed both ways. Fails where CPU time is further than 15 % from the prediction, as fast as causes allow, or switches further
# than 10 %, at the recorded speed. Needs jq. WEIGHBRIDGE names another program, ROUNDS (7) another number of replays, BUDGET (120s) the time for
# the curves.
set -euo pipefail
cd "$(dirname "$0")/.."

weighbridge=$(realpath "${WEIGHBRIDGE:-target/release/weighbridge}")
folder=$(realpath -m "${1:-$(mktemp -d)}")
captures=("${@:2}")
command -v jq >/dev/null || { echo "skipped: jq is not installed" >&2; exit 0; }
mkdir -p "$folder"
[ -e "$folder/curves.jsonl" ] ||
    "$weighbridge" run --suite dbus-curves --alone --no-system-calls --budget "${BUDGET:-120s}" --quiet --html none --out "$folder/curves.jsonl" >"$folder/curves.txt"

made() {
    [ -e "$folder/$2" ] || cargo run --quiet -p weighbridge-dbus --example make_capture -- "$1" "$folder/$2"
}

failed=0
# One table: a capture at a speed, by broker. compare CAPTURE max|recorded
compare() {
    local capture=$1 speed=$2 name
    name=$folder/$(basename "$capture" .pcap)-$speed
    "$weighbridge" dbus analyse "$capture" --costs "$folder/curves.jsonl" --format json >"$name-predicted.json"
    [ -e "$name.json" ] || "$weighbridge" dbus replay "$capture" --speed "$speed" --rounds "${ROUNDS:-7}" --format json >"$name.json"
    printf '\n%s, %s\n\n| broker | of | predicted | its interval | of the replays | their range | predicted ÷ measured | |\n| --- | --- | --: | --: | --: | --: | --: | --- |\n' \
        "$(basename "$capture")" "$([ "$speed" = max ] && echo 'as fast as causes allow' || echo 'at the recorded speed')"
    jq -rn --arg speed "$speed" --slurpfile predicted "$name-predicted.json" --slurpfile replayed "$name.json" '
        def middle: sort | .[(length - 1) / 2 | floor];
        def rounded(by): if by >= 1e6 then (. / 1e5 | round / 10 | tostring) + " ms" else round | tostring end;
        def row(broker; what; value; interval; values; unit; allowed):
            (value / (values | middle)) as $ratio
            | "| \(broker) | \(what) | \(value | rounded(unit)) | \(interval[0] | rounded(unit)) to \(interval[1] | rounded(unit)) | \(values | middle | rounded(unit)) | "
            + "\(values | min | rounded(unit)) to \(values | max | rounded(unit)) | \($ratio * 100 | round / 100) | "
            + (if allowed == null then "" elif ($ratio - 1 | fabs) <= allowed then "within \(allowed * 100) %" else "MISSED: \(allowed * 100) %" end) + " |";
        $predicted[0].costs | to_entries[] | .key as $broker | .value as $cost
        | [$replayed[0].replays[] | select(.broker == $broker).usage] | select(length > 0)
        | (map(.cpu_ns)) as $cpu | (map(.switches)) as $switches
        | if $speed == "max" then
            row($broker; "CPU time"; $cost.cpu_ns; $cost.cpu_ns_ci95; $cpu; 1e6; 0.15),
            "| \($broker) | switches | at most \($cost.switches_at_most | round) | | \($switches | middle) | \($switches | min) to \($switches | max) | | |"
          else ($cost.at_recorded_speed) as $paced |
            row($broker; "CPU time"; $paced.cpu_ns; $paced.cpu_ns_ci95; $cpu; 1e6; null),
            row($broker; "switches"; $paced.switches; $paced.switches_ci95; $switches; 1; 0.10)
          end' | tee "$name.md"
    ! grep -q MISSED "$name.md" || failed=1
}

if [ ${#captures[@]} = 0 ]; then
    made 20000 mixed.pcap
    made 3000 paced.pcap
    compare "$folder/mixed.pcap" max
    compare "$folder/paced.pcap" recorded
fi
for capture in "${captures[@]}"; do
    compare "$capture" max
    compare "$capture" recorded
done
exit $failed
