#!/usr/bin/env bash
# Measures the figures that the documents cite, and writes them to docs/figures/ and into README.md.
#
#   cargo build --release --locked && docs/figures.sh [PART...]     quick causeway check explain, without a PART
#   docs/figures.sh fingerprint lab|dbus                            what the crates that measure contain
#   docs/figures.sh mark                                            marks figures of an earlier program as such
#
# Further parts: advise (four minutes), dbus-session, dbus-costs, precision (PARTS names some of its parts), coverage (sessions of hours;
# LEDGER names a folder that has some). RECORDS names the folder that keeps the records; a record that is already
# there is shown again and not measured again. WEIGHBRIDGE names another program than target/release/weighbridge. Refuses to
# measure a tree with changes. The parts without which it is called take about nine minutes; leave the machine idle meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

figures=$PWD/docs/figures
export COLUMNS=100

# The folders whose content decides what a figure of this kind is.
measuring() {
    case $1 in
    # What only shows, records or explains figures does not make them.
    lab) find crates/base/os/src crates/causeway/causeway/src crates/lab/*/src -maxdepth 0 | grep -vE '/(record|report|analysis|observe)/' | xargs ;;
    dbus) echo "$(measuring lab)" crates/base/dbus-wire/src crates/causeway/{bus,causewayd}/src crates/dbus/*/src ;;
    *) echo "a kind of figure is lab or dbus, not $1" >&2 && return 2 ;;
    esac
}

# A hash over the sources that measure, without comments and empty lines: dates and places outside of them do not matter.
fingerprint() {
    local folders
    folders=$(measuring "$1")
    # shellcheck disable=SC2086
    find $folders -name '*.rs' | LC_ALL=C sort | xargs sed -E '/^[[:space:]]*(\/\/|$)/d' | sha256sum | cut -c 1-12
}

# Rows of docs/figures/README.md end with the kind of a figure and with what measured it: "the program `FINGERPRINT`", or "an earlier
# program `FINGERPRINT`" once that is no longer what the crates contain.
mark() {
    local kind now
    for kind in lab dbus; do
        now=$(fingerprint "$kind")
        sed -i -E "/the program \`$now\`/!s/\| $kind \| the program /| $kind | an earlier program /" "$figures/README.md"
    done
}

# A figure was measured just now: NAME KIND.
measured() {
    sed -i -E "/^\| \[$1\]/s/\| $2 \| [^|]*\|\$/| $2 | the program \`$(fingerprint "$2")\` |/" "$figures/README.md"
}

# A record NAME.jsonl in $records, unless there is one: measure NAME COMMAND...
measure() {
    local name=$1
    shift
    [ -e "$records/$name.jsonl" ] || (cd "$records" && "$weighbridge" "$@" --out "$name.jsonl")
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

quick() {
    measure quick run --suite quick --html none --quiet >/dev/null
    "$weighbridge" report "$records/quick.jsonl" >"$figures/quick.txt"
    # The fastest mechanisms, and those that everybody knows, of the first table.
    awk '
        /^■ roundtrip at same-cpu/ { inside = 1 }
        inside && /^$/ { exit }
        inside && (/^■|mechanism|^─/ || ++row <= 3 || / (causeway-sw|pipe|unix-stream|tcp|memfd-pass) /) { print }
    ' "$figures/quick.txt" | excerpt quick
    measured quick.txt lab
}

causeway() {
    measure causeway run --suite causeway --html none --quiet >/dev/null
    {
        "$weighbridge" report "$records/causeway.jsonl" --format markdown |
            sed -E '/^\| (Kernel command line|Boot id) \|/d' # which say nothing about a figure
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
    } >"$figures/causeway.txt"
    # The curves of README.md: round trips over the payload.
    {
        echo placement,mechanism,payload_bytes,median_us,low_us,high_us
        jq -r 'select(.kind == "summary" and (.case | startswith("roundtrip/")) and .ci95 != null)
            | (.case | split("/")) as $case | [$case[3], ([$case[1]] + $case[4:] | join(" ")), $case[2], .median / 1e3, .ci95[0] / 1e3, .ci95[1] / 1e3]
            | @csv' "$records/causeway.jsonl" | tr -d '"' |
            grep -E '^[^,]*,(pipe wait=poll|causeway-sw( receive=in-place)?( wait=block)?),' | sort -t, -k1,2 -k3n
    } >"$figures/curves.csv"
    measured causeway.txt lab
    measured curves.csv lab
    curves
}

# docs/figures/curves.svg, from curves.csv.
curves() {
    awk -f "$figures/curves.awk" "$figures/curves.csv" >"$figures/curves.svg"
}

check() {
    # The exit code is 1 where a ratio is outside its band, which is a result.
    measure check check perf iperf3 hackbench --quiet >/dev/null || [ -e "$records/check.jsonl" ]
    COLUMNS=120 "$weighbridge" report "$records/check.jsonl" >"$figures/check.txt"
    measured check.txt lab
}

# The five answers of docs/explain.md.
explain() {
    local name arguments
    while read -r name arguments; do
        eval "measure $name explain $arguments --html none --quiet" >/dev/null
        cp "$records/$name.jsonl" "$figures/explain/"
        measured "explain\/$name.jsonl" lab
    done <<'CASES'
unix --a roundtrip/pipe/64/same-cpu --b roundtrip/unix-stream/64/same-cpu
sem --only kernel --a pingpong/sem-sysv/0/same-cpu --b pingpong/sem-posix/0/same-cpu
ring --only cost roundtrip/{pipe,ring-futex}/65536/same-cpu
halt roundtrip/pipe/1/two-cpus --timeline
kdbus --only cost roundtrip/{pipe,memfd-pass,causeway-sw}/{4096,65536,1048576}/same-cpu --budget 60s
CASES
}

# Whether what is advised for thirty random demands is the best; where it is not, the figure says so and this fails.
advise() {
    docs/figures/advise.sh "$records/advise" >"$figures/advise.txt"
    measured advise.txt lab
}

dbus-session() {
    docs/figures/dbus-session.sh "$records"
    measured dbus-session.txt dbus
}

dbus-costs() {
    docs/figures/dbus-costs.sh "$records" >"$figures/dbus-costs.txt"
    measured dbus-costs.txt dbus
}

precision() {
    local part
    # shellcheck disable=SC2086
    RECORDS=$records docs/figures/precision.sh ${PARTS:-}
    for part in ${PARTS:-quick noisy control power start}; do
        measured "precision-$part.txt" lab
    done
}

# Sessions of one selection, minutes apart, until the folder LEDGER has SESSIONS of them; then what they foretold.
coverage() {
    local ledger=${LEDGER:-$records/ledger} number
    mkdir -p "$ledger"
    for number in $(seq -w 1 "${SESSIONS:-40}"); do
        [ -e "$ledger/s$number.jsonl" ] && continue
        "$weighbridge" run 'roundtrip/{pipe,unix-stream,unix-seqpacket,tcp,ring-futex,ring-eventfd,causeway-sw,mq-posix}/{1,4096}/{same-cpu,two-cpus}' \
            --budget 45s --out "$ledger/s$number.jsonl" --html none --quiet >/dev/null
        sleep 280
    done
    {
        echo "weighbridge history LEDGER --coverage"
        echo
        "$weighbridge" history "$ledger" --coverage
    } >"$figures/coverage.txt"
    measured coverage.txt lab
}

case ${1:-} in
fingerprint) fingerprint "${2:-lab}" && exit ;;
mark) mark && exit ;;
curves) curves && exit ;;
esac
weighbridge=$(realpath "${WEIGHBRIDGE:-target/release/weighbridge}")
records=$(realpath -m "${RECORDS:-$(mktemp -d)}")
mkdir -p "$records"
[ -z "$(git status --porcelain)" ] || { echo "this tree has changes: figures are measured of a commit" >&2 && exit 1; }
for part in "${@:-quick causeway check explain}"; do
    case $part in
    quick | causeway | check | explain | advise | dbus-session | dbus-costs | precision | coverage) "$part" ;;
    "quick causeway check explain") quick && causeway && check && explain ;;
    *) echo "there is no part called $part" >&2 && exit 2 ;;
    esac
done
echo "The records are in $records." >&2
