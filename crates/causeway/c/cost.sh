#!/usr/bin/env bash
# Instructions of a round trip of the log in user mode, through C and in Rust, counted step by step: minutes.
set -euo pipefail
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-../../../target}/release
# An incremental build inlines nothing of another package by itself.
CARGO_INCREMENTAL=0 cargo build --quiet --release -p causeway-c --example cost --lib
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
make --silent install ARCHIVE="$target/libcauseway_c.a" DESTDIR="$folder" PREFIX=
cc -O2 -std=gnu11 tests/c/cost.c -o "$folder/cost" -I"$folder/include" -L"$folder/lib" -lcauseway -Wl,-rpath,"$folder/lib"

cc -O2 -std=gnu11 tests/c/steps.c -o "$folder/steps"

# Of the first thread of a program: the difference of two counts of round trips.
per_round_trip() {
    local few many
    few=$("$folder/steps" "$@" 50)
    many=$("$folder/steps" "$@" 250)
    echo $(((many - few) / 200))
}
rust=$target/examples/cost
echo "$(per_round_trip "$folder/cost") in C, $(per_round_trip "$rust") in Rust, $(per_round_trip "$rust" unknown) in Rust that knows no more than C"
