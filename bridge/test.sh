#!/usr/bin/env bash
# Formats, lints, documents and tests the bridge. The first time it compiles Zenoh, for minutes: .ci/run calls it only
# where CAUSEWAY_BRIDGE is set.
set -euo pipefail
cd "$(dirname "$0")"

if ! cargo fetch --locked --offline >/dev/null 2>&1 && ! cargo fetch --locked; then
    echo "skipped: the crates of Zenoh were never fetched, and there is no network"
    exit 0
fi
cargo fmt --check
cargo clippy --locked --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps
cargo test --locked "$@"
