#!/usr/bin/env bash
# Measures how far the program's own verdicts can be relied on here, and writes docs/figures/precision-PART.txt.
#
#   cargo build --release --locked && docs/figures/precision.sh [PART]...
#
# PART is quick, noisy, control, power or start; without one, all of them. They take about 2 min, 4 min, 25 min, 25 min and 20 s.
# CONTROL_ROUNDS and POWER_ROUNDS say how often a comparison is repeated. RECORDS names the folder that keeps the records; a
# record that is already there is not measured again. Needs jq, a C compiler and cargo.
set -euo pipefail
cd "$(dirname "$0")/../.."

weighbridge=$(realpath "${WEIGHBRIDGE:-target/release/weighbridge}")
records=$(realpath -m "${RECORDS:-$(mktemp -d)}")
mkdir -p "$records"
parts=${*:-quick noisy control power start}
noise=

cleanup() {
    [ -z "$noise" ] || kill "$noise" 2>/dev/null || true
}
trap cleanup EXIT

# Half-widths by place: of the ratios to the hub, or of the figures of cases that were measured alone.
precision_of() {
    jq -rs '
        [.[] | select(.kind == "summary") | (.to_hub // .) as $of | select($of.ci95 != null)
             | {place: (.case | split("/")[3:] | join(" ")), stopped_by,
                half: (($of.ci95[1] - $of.ci95[0]) / 2 / $of.median)}]
        | group_by(.place)[]
        | (map(.half) | sort) as $halves
        | "| \(.[0].place) | \(length) | ± \($halves[(length / 2 | floor)] * 1000 | round / 10) % "
          + "| ± \($halves[(length * 0.9 | floor)] * 1000 | round / 10) % "
          + "| \(map(select(.half <= (if .place | startswith("same-cpu") then 0.02 else 0.04 end))) | length) of \(length) "
          + "| \(map(select(.stopped_by == "precision")) | length) of \(length) |"' "$1"
}

session() {
    local name=$1
    shift
    [ -e "$records/$name.jsonl" ] || "$weighbridge" run --suite quick --html none --quiet --out "$records/$name.jsonl" "$@" >/dev/null
    # A case stops at the precision asked for, 2 %; what two CPUs are expected to give is twice that.
    printf '| place | cases | median half-width | nine of ten within | within 2 %%, on two CPUs 4 %% | stopped at 2 %% |\n|---|---|---|---|---|---|\n'
    precision_of "$records/$name.jsonl"
    jq -rs '"\nThe session took \([.[] | select(.kind == "end")][0].elapsed_s | round) s."' "$records/$name.jsonl"
}

# One comparison, as JSON.
compare() {
    local name=$1
    shift
    [ -e "$records/$name.json" ] ||
        "$weighbridge" compare --quiet --format json --html none --out "$records/$name.jsonl" "$@" >"$records/$name.json" ||
        [ -s "$records/$name.json" ]
    [ -s "$records/$name.json" ] || rm "$records/$name.json"
}

# Verdicts of all comparisons whose name begins so, counted.
verdicts() {
    jq -rs '[.[].cases[].verdict] | group_by(.) | map("\(length) \(.[0])") | join(", ")' "$records/$1"-*.json
}

# Reports of which one case at least was claimed to differ.
claims() {
    jq -rs 'map(select(.claims.claimed > 0)) | "\(length)"' "$records/$1"-*.json
}

mkdir -p docs/figures
for part in $parts; do
    out=docs/figures/precision-$part.txt
    case $part in
    quick)
        { printf '`weighbridge run --suite quick`, nothing else running, ratios to the hub:\n\n' && session quick; } >"$out"
        ;;
    noisy)
        cargo build --release --quiet -p weighbridge-targets --example noise
        target/release/examples/noise 600 &
        noise=$!
        {
            printf 'Beside `noise`, a process that moves memory for 50 ms and rests for 25 to 75 ms.\n\n`weighbridge run --suite quick`, ratios to the hub:\n\n'
            session noisy
            printf '\n`weighbridge run --suite quick --alone`, each case by itself:\n\n'
            session noisy-alone --alone
        } >"$out"
        kill "$noise"
        noise=
        ;;
    control)
        rounds=${CONTROL_ROUNDS:-20}
        cases=(roundtrip/{pipe,unix-stream,mq-posix,ring-futex,causeway-sw}/64/{same-cpu,two-cpus}
            pingpong/{futex,eventfd}/0/{same-cpu,two-cpus} solo/memcpy/4096/same-cpu solo/getppid/0/same-cpu
            stream/pipe/65536/{same-cpu,two-cpus} roundtrip/pipe/65536/{same-cpu,two-cpus})
        for round in $(seq "$rounds"); do
            compare "control-$round" --a "$weighbridge" --b "$weighbridge" --budget 70s --seed "$round" "${cases[@]}"
        done
        {
            printf '%s reports of %s cases, each the program compared with itself: %s.\n' "$rounds" "${#cases[@]}" "$(verdicts control)"
            printf 'Reports that claim a difference: %s.\n' "$(claims control)"
        } >"$out"
        ;;
    power)
        rounds=${POWER_ROUNDS:-20}
        library=$records/slower_write.so
        cc -O1 -shared -fPIC -o "$library" docs/figures/precision/slower_write.c
        # How many turns of the loop are 2 % of a round trip: from the difference that many turns make.
        compare calibration-1 --a "preload:$library" --b "preload:$library" --b env:SLOWER_WRITE_LOOPS=2000 \
            --budget 20s roundtrip/pipe/64/same-cpu
        per_turn=$(jq '(.cases[0].ratio - 1) / 2000' "$records/calibration-1.json")
        for percent in 2 0.5; do
            turns=$(jq -n "$percent / 100 / $per_turn | round")
            for round in $(seq "$rounds"); do
                compare "power-$percent-$round" --a "preload:$library" --b "preload:$library" --b "env:SLOWER_WRITE_LOOPS=$turns" \
                    --margin 0.3% --budget 60s --seed "$round" roundtrip/pipe/64/same-cpu
            done
        done
        {
            printf 'A loop in `write` of a pipe, %s comparisons each of at most 60 s, margin 0.3 %%:\n\n' "$rounds"
            printf '* 2 %% more: %s.\n* 0.5 %% more: %s.\n' "$(verdicts power-2)" "$(verdicts power-0.5)"
        } >"$out"
        ;;
    start)
        {
            printf 'Wall-clock time of `weighbridge run CASE`, in all:\n\n| case | s |\n|---|---|\n'
            for case in roundtrip/pipe/64/same-cpu roundtrip/pipe/64/two-cpus solo/getppid/0/same-cpu; do
                rm -f "$records/start.jsonl"
                begin=$(date +%s%N)
                "$weighbridge" run "$case" --html none --quiet --out "$records/start.jsonl" >/dev/null
                printf '| %s | %d.%d |\n' "$case" $((($(date +%s%N) - begin) / 1000000000)) $((($(date +%s%N) - begin) / 100000000 % 10))
            done
        } >"$out"
        ;;
    *)
        echo "there is no part called $part; the parts are quick, noisy, control, power and start" >&2
        exit 2
        ;;
    esac
    cat "$out"
done
echo "The records are in $records." >&2
