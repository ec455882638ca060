# Which programs the scripts of this folder examine. They source this file; a script that cannot go on ends with status 2.

# Sets `causewayd` to the path of causewayd: the argument, or where cargo puts it.
find_causewayd() {
    causewayd=${1:-$(dirname "$0")/../../../../target/debug/causewayd}
    if [ ! -x "$causewayd" ]; then
        echo "there is no program $causewayd; build it with: cargo build -p causewayd" >&2
        exit 2
    fi
    causewayd=$(realpath "$causewayd")
}

# Sets `source` and `causewayd` from the arguments of a script: `find_source WHAT FILE [SOURCE [CAUSEWAYD]]`. A source that is WHAT has FILE.
find_source() {
    if [ ! -f "${3:-}/$2" ]; then
        echo "usage: $0 SOURCE [CAUSEWAYD]; SOURCE is $1, and has no $2 here" >&2
        exit 2
    fi
    source=$(realpath "$3")
    find_causewayd "${4:-}"
}

# Counts and says what causewayd fails and another broker passes: `judge WHAT EXPECTED FOUND ERRORS…`, two outcomes and the files that say why.
worse=0
judge() {
    judged="$1: passes with $reference, and not with causewayd ($3)"
    [ "$2" = passes ] && [ "$3" != passes ] || return 0
    worse=$((worse + 1))
    echo "$judged" >&2
    shift 3
    tail -q -n 10 "$@" >&2
}

# The last word of a script, and its status: `conclude WHAT`.
conclude() {
    echo "$worse $1 pass with $reference, and not with causewayd" >&2
    [ "$worse" -eq 0 ]
}
