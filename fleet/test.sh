#!/usr/bin/env bash
# Tests the store of many machines and the program that asks it. Needs cargo; what else is missing (an S3 server, DuckDB, Slurm, GNU parallel,
# `weighbridge` itself) is said and skipped. Its dependencies take a quarter of an hour to compile on two cores, so .ci/run runs this only
# where FLEET_TEST is set.
set -euo pipefail
cd "$(dirname "$0")"

cargo fmt --check
cargo clippy --locked --all-targets -- -D warnings
cargo test --locked "$@"
