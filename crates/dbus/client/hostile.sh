#!/bin/sh
# Prints what hostile clients of causewayd, dbus-daemon and dbus-broker cost two honest ones, as a table in Markdown: round trips beside
# each hostile client and without it, in turn, in less than 90 s. Brokers that are not installed are left out.
#
#   crates/dbus/client/hostile.sh [BROKER…]
set -eu

cd "$(dirname "$0")/../../.."
cargo build --quiet --release -p causewayd -p weighbridge-dbus-client --bin causewayd --example hostile
exec target/release/examples/hostile "$@"
