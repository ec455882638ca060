#!/bin/sh
# Runs the tests of the Rust library zbus that talk to a bus, each alone and with a bus of its own, with dbus-daemon and with causewayd, and prints a
# table in Markdown. The status is 1 if a test fails with causewayd that passes with dbus-daemon.
#
#   crates/causeway/causewayd/conformance/zbus.sh SOURCE [CAUSEWAYD]
#
# SOURCE is the source of the package zbus, version 6, as cargo unpacks it: ~/.cargo/registry/src/*/zbus-6.2.1. Cargo compiles its tests in a temporary
# folder, or in CARGO_TARGET_DIR if that is set, and fetches what they need. That takes minutes.
set -u

. "$(dirname "$0")/programs.sh"
find_source "the source of the package zbus" tests/e2e.rs "$@"
for needed in cargo dbus-daemon; do
    command -v "$needed" > /dev/null || { echo "$needed is not installed" >&2; exit 2; }
done
folder=$(mktemp -d)
bus=
stop() {
    [ -z "$bus" ] || { kill "$bus" && wait "$bus"; } 2> "$folder/none"
    bus=
}
trap 'stop; rm -rf "$folder"' EXIT INT TERM

# Without benchmarks, which need most of what would be compiled. The package lacks a dependency of its tests, which depends on the package itself.
mkdir "$folder/zbus"
cp -r "$source"/* "$folder/zbus"
{
    awk '/^\[/ { is_benchmark = /^\[\[bench\]\]/ || /^\[dev-dependencies.criterion\]/ } !is_benchmark' "$source/Cargo.toml"
    printf '\n[dev-dependencies.zbus_xml]\nversion = "6"\n\n[patch.crates-io]\nzbus = { path = "." }\n'
} > "$folder/zbus/Cargo.toml"
cd "$folder/zbus" || exit 2
targets="basic e2e issues uncached_propert"
# shellcheck disable=SC2046 # one word for each option
if ! cargo test --no-run $(printf -- '--test %s ' $targets) > "$folder/built" 2>&1; then
    echo "the tests of zbus cannot be compiled:" >&2
    tail -20 "$folder/built" >&2
    exit 2
fi

# "passes" or "fails", with a bus of this kind. The tests have deadlines of their own, some of 100 ms: one that fails runs twice more.
outcome() {
    for _ in 1 2 3; do
        rm -f "$folder/address"
        mkfifo "$folder/address"
        "$3" --session --nofork --print-address > "$folder/address" 2> "$folder/errors" &
        bus=$!
        read -r address < "$folder/address"
        # The bus of the system would be another one.
        export DBUS_SESSION_BUS_ADDRESS="$address" DBUS_SYSTEM_BUS_ADDRESS="$address"
        if timeout 120 "$1" --exact "$2" > "$folder/said" 2>&1; then outcome=passes; else outcome=fails; fi
        stop
        [ "$outcome" = fails ] || return
    done
}

reference=dbus-daemon
echo "| program | test | dbus-daemon | causewayd |"
echo "|---|---|---|---|"
for target in $targets; do
    program=$(sed -n "s|.*Executable.* tests/$target.rs (\(.*\))|\1|p" "$folder/built")
    for test in $("$program" --list | sed -n 's/: test$//p'); do
        outcome "$program" "$test" dbus-daemon
        expected=$outcome
        outcome "$program" "$test" "$causewayd"
        echo "| $target | \`$test\` | $expected | $outcome |"
        judge "$target $test" "$expected" "$outcome" "$folder/said" "$folder/errors"
    done
done
conclude tests
