#!/usr/bin/env bash
# Measures the figures that the documents cite and writes them to docs/figures/ and into README.md.
#
#   cargo build --release --locked && docs/figures.sh [DIR]
#
# DIR keeps the records. A record that is already there is shown again and not measured again. Without DIR the records are
# kept in a new temporary folder. WEIGHBRIDGE names another program than target/release/weighbridge. A measurement of
# everything takes about nine minutes; leave the machine idle meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

weighbridge=$(realpath "${WEIGHBRIDGE:-target/release/weighbridge}")
records=$(realpath "${1:-$(mktemp -d)}")
figures=$PWD/docs/figures
export COLUMNS=100

# A record NAME.jsonl in $records, unless there is one: measure NAME COMMAND...
measure() {
    local name=$1
    shift
    [ -e "$records/$name.jsonl" ] || (cd "$records" && "$weighbridge" "$@" --out "$name.jsonl")
}

# A report as it is published: without what identifies the machine and says nothing about a figure.
published() {
    sed -E '/^\| (Kernel command line|Boot id) \|/d'
}

# Replaces the lines between the markers of NAME in README.md by standard input.
excerpt() {
    local lines
    lines=$(mktemp)
    cat >"$lines"
    awk -v begin="<!-- figures: $1 -->" -v lines="$lines" '
        $0 == begin { print; print "```text"; while ((getline line < lines) > 0) print line; print "```"; inside = 1 }
        $0 == "<!-- end of figures -->" { inside = 0 }
        !inside { if ($0 != begin) print }
    ' README.md >"$lines.new"
    cat "$lines.new" >README.md
    rm "$lines" "$lines.new"
}

measure quick run --suite quick --html none --quiet >/dev/null
"$weighbridge" report "$records/quick.jsonl" --format markdown | published >"$figures/quick.md"
"$weighbridge" report "$records/quick.jsonl" >"$figures/quick.txt"
# The findings and the first figures.
awk '
    /^■ Findings/ { inside = 1 }
    inside && /^■ roundtrip/ && ++sections > 1 { exit }
    inside { print }
' "$figures/quick.txt" | excerpt quick

# The picture in README.md: the top of the page, where a browser is installed.
if browser=$(command -v chromium || command -v google-chrome); then
    page=$(mktemp -d)
    "$weighbridge" report "$records/quick.jsonl" --format html --out "$page/page.html"
    "$browser" --headless --no-sandbox --hide-scrollbars --window-size=1200,1560 --virtual-time-budget=5000 \
        --screenshot="$PWD/docs/page.png" "file://$page/page.html" >/dev/null 2>&1
    rm -r "$page"
fi

measure causeway run --suite causeway --html none --quiet >/dev/null
{
    "$weighbridge" report "$records/causeway.jsonl" --format markdown | published
    # What the targets in docs/causeway.md are stated against: each baseline with the cases of a payload and a placement.
    while read -r baseline payload placement; do
        printf '\n'
        "$weighbridge" report "$records/causeway.jsonl" --format markdown --baseline "$baseline" |
            awk -v payload="$payload" -v placement="$placement" '
                /^## / { inside = /^## Compared with / }
                /^\| [a-z-]+\// { split($2, part, "/"); if (part[3] != payload || part[4] != placement) next }
                inside { print }' ||
            printf '%s\n\n%s\n' "## Compared with $baseline" "It has no figure in this record."
    done < <(
        echo pingpong/atomic/0/two-cpus 8 two-cpus
        echo stream/ring-spin/65536/two-cpus 65536 two-cpus
        echo fan-in/pipe/64/free/streams=4/writers=4 64 free
        for payload in 1 64 1024 4096 16384 65536 262144 1048576 4194304; do
            for placement in same-cpu two-cpus; do
                echo "roundtrip/pipe/$payload/$placement/wait=poll $payload $placement"
            done
        done
    )
} >"$figures/causeway.md"

# The exit code is 1 where a ratio is outside its band, which is a result.
measure check check perf iperf3 hackbench --quiet >/dev/null || [ -e "$records/check.jsonl" ]
COLUMNS=120 "$weighbridge" report "$records/check.jsonl" >"$figures/check.txt"
echo "The records are in $records." >&2
