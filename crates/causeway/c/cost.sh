#!/usr/bin/env bash
# Instructions of a round trip in user mode, through C and in Rust, counted step by step: crates/causeway/c/cost.sh
set -euo pipefail
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-../../../target}/release
cargo build --quiet --release -p causeway-c --example cost --lib
folder=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
make --silent install ARCHIVE="$target/libcauseway_c.a" DESTDIR="$folder" PREFIX=
cc -O2 -std=gnu11 tests/c/cost.c -o "$folder/cost" -I"$folder/include" -L"$folder/lib" -lcauseway -Wl,-rpath,"$folder/lib"
"$target/examples/cost" serve "$folder/socket" &
server=$!
until [ -S "$folder/socket" ]; do sleep 0.01; done

cc -O2 -std=gnu11 tests/c/steps.c -o "$folder/steps"

# Of the first thread of a program: the difference of two counts of round trips.
per_round_trip() {
    local few many
    few=$("$folder/steps" "$@" 50)
    many=$("$folder/steps" "$@" 250)
    echo $(((many - few) / 200))
}
for what in log "call $folder/socket"; do
    # shellcheck disable=SC2086
    c=$(per_round_trip "$folder/cost" $what) rust=$(per_round_trip "$target/examples/cost" $what)
    echo "${what%% *}: $c in C, $rust in Rust, $((c - rust)) more"
done
