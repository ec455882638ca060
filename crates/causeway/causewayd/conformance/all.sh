#!/bin/sh
# Runs the test suites of others with dbus-daemon and with causewayd, each case alone with a bus of its own, and prints one table in Markdown. The
# status is 1 if causewayd fails a case that dbus-daemon passes, and 2 if nothing can be run. What is not installed is named and left out.
#
#   [CAUSEWAYD=PROGRAM] crates/causeway/causewayd/conformance/all.sh [SUITE…]
#
# | suite | what it is | what it needs |
# |---|---|---|
# | dbus | the installed tests of D-Bus that talk to a bus or to libdbus, as a bus | dbus-tests |
# | glib | those of GLib's gdbus, and of what stands on it | libglib2.0-tests |
# | dbus-broker | those of dbus-broker, also with that broker | DBUS_BROKER_SOURCE, cc, libsystemd-dev |
# | zbus | those of the Rust library zbus | ZBUS_SOURCE, cargo |
# | clients | clients of others, one call each | the clients |
#
# DBUS_BROKER_SOURCE is a source tree of dbus-broker 33 to 36 with its subprojects in subprojects/, as meson puts them there. ZBUS_SOURCE is the source
# of the package zbus 6, as cargo unpacks it; without it, ~/.cargo/registry/src/*/zbus-6*. Both are compiled in a temporary folder, zbus in
# CARGO_TARGET_DIR if that is set, for minutes.
set -u

suites="dbus glib dbus-broker zbus clients"
here=$(dirname "$(realpath "$0")")
driver="org.freedesktop.DBus /org/freedesktop/DBus"

# What is run inside of a case, as "$0 --in COMMAND…": commands that use functions of this script.

# A command with a bus of its own, whose address comes when it listens.
with_bus() {
    broker=$1
    shift
    mkfifo "$CASE/address"
    "$broker" --session --nofork --print-address > "$CASE/address" &
    read -r DBUS_SESSION_BUS_ADDRESS < "$CASE/address"
    # The bus of the system would be another one.
    export DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS="$DBUS_SESSION_BUS_ADDRESS"
    "$@"
}

# Until a command succeeds, at most for 20 s.
until_it() {
    tries=0
    until "$@" > "$CASE/none" 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || return 1
        sleep 0.1
    done
}

# Starts a service, and waits until its name has an owner.
with_service() {
    name=$1
    shift
    "$@" &
    # shellcheck disable=SC2086 # two words
    until_it dbus-send --print-reply --dest=$driver org.freedesktop.DBus.GetNameOwner "string:$name"
}

python() { /usr/bin/python3 "$@"; }
# shellcheck disable=SC2086 # two words
client_dbus_send() { dbus-send --print-reply --dest=$driver org.freedesktop.DBus.ListNames; }
client_dbus_monitor() {
    dbus-monitor --session > "$CASE/monitored" &
    sees_call() { client_dbus_send && grep -q ListNames "$CASE/monitored"; }
    until_it sees_call
}
client_dbus_test_tool_echo() {
    with_service a.Echo dbus-test-tool echo --session --name=a.Echo && dbus-test-tool spam --session --dest=a.Echo --count=2000 --queue=50
}
client_dbus_test_tool_black_hole() {
    with_service a.Hole dbus-test-tool black-hole --session --name=a.Hole && dbus-test-tool spam --session --dest=a.Hole --no-reply --count=2000
}
client_gdbus_introspect() { gdbus introspect --session -d org.freedesktop.DBus -o /org/freedesktop/DBus; }
# shellcheck disable=SC2086 # two words
client_busctl_property() { busctl "--address=$DBUS_SESSION_BUS_ADDRESS" get-property $driver org.freedesktop.DBus Features; }
client_busctl_list() { busctl "--address=$DBUS_SESSION_BUS_ADDRESS" list --no-pager; }
client_python_dbus() {
    with_service a.Python python -c '
import dbus, dbus.service, dbus.mainloop.glib
from gi.repository import GLib
dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
class Adder(dbus.service.Object):
    @dbus.service.method("a.Python", in_signature="ii", out_signature="i")
    def Add(self, a, b): return a + b
bus = dbus.SessionBus()
name = dbus.service.BusName("a.Python", bus)
Adder(bus, "/a")
GLib.MainLoop().run()
' && gdbus call --session -d a.Python -o /a -m a.Python.Add 20 22 | grep 42
}
client_python_dbus_next() {
    python -c '
import asyncio
from dbus_next.aio import MessageBus
from dbus_next.service import ServiceInterface, method
class Adder(ServiceInterface):
    @method()
    def Add(self, a: "i", b: "i") -> "i": return a + b
async def main():
    server, client = await MessageBus().connect(), await MessageBus().connect()
    server.export("/a", Adder("a.Next"))
    await server.request_name("a.Next")
    tree = await client.introspect("a.Next", "/a")
    adder = client.get_proxy_object("a.Next", "/a", tree).get_interface("a.Next")
    assert await adder.call_add(20, 22) == 42
asyncio.run(main())
'
}

if [ "${1:-}" = --in ]; then
    shift
    "$@"
    exit
fi

# From here on: cases, one after another.

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM
causewayd=$(realpath -m "${CAUSEWAYD:-$here/../../../../target/debug/causewayd}")
[ -x "$causewayd" ] || { echo "there is no program $causewayd; build it with: cargo build -p causewayd" >&2; exit 2; }
daemon=$(command -v dbus-daemon) || { echo "dbus-daemon is not installed" >&2; exit 2; }
self=$(realpath "$0")
unset DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS DBUS_STARTER_ADDRESS DISPLAY

# A suite that cannot be run, and why.
left_out() { echo "left out: $suite: $1" >&2; }

# Runs a command, at most for a minute, and says what came of it: "passes", "skips: WHY" or "fails". What it leaves behind is killed.
attempt() {
    export CASE="$folder/case"
    rm -rf "$CASE"
    mkdir "$CASE"
    timeout -k 5 60 env XDG_RUNTIME_DIR="$CASE" "$@" > "$folder/said" 2> "$folder/errors" < /dev/null &
    group=$!
    wait "$group" 2> "$folder/none"
    status=$?
    kill -KILL "-$group" 2> "$folder/none"
    # What the Test Anything Protocol says; other programs have their status only.
    if grep -q '^\(ok\|1\.\.0\).*# SKIP' "$folder/said"; then
        outcome="skips: $(sed -n 's/.*# SKIP *\(.*\)/\1/p' "$folder/said" | tail -1)"
    elif [ "$status" -eq 0 ] && ! grep -q '^not ok' "$folder/said"; then
        outcome=passes
    else
        outcome=fails
    fi
}

# As `attempt`. Tests have deadlines of their own, some of 100 ms: one that fails in time has two more chances.
outcome_of() {
    for _ in 1 2 3; do
        attempt "$@"
        [ "$outcome" = fails ] && [ "$status" -ne 124 ] || return
    done
}

# A line of the table: `row CASE COMMAND…`; the word BROKER in the command stands for the broker, or for what starts it.
worse=0
of_broker=-
row() {
    case=$1
    shift
    found=
    for broker in "$for_daemon" "$for_causewayd"; do
        command=
        for word in "$@"; do
            [ "$word" = BROKER ] && word=$broker
            command="$command '$word'"
        done
        eval "outcome_of $command"
        found="$found | $outcome"
    done
    echo "| $suite | \`$case\`$found | $of_broker |"
    case $found in " | passes | fails")
        worse=$((worse + 1))
        echo "$suite: $case: passes with dbus-daemon, and not with causewayd" >&2
        tail -q -n 10 "$folder/said" "$folder/errors" >&2 ;;
    esac
}

# A folder with a program `dbus-daemon` that is a broker: for tests that start one from PATH.
as_dbus_daemon() {
    mkdir -p "$folder/$1"
    printf '#!/bin/sh\nexec %s "$@"\n' "$2" > "$folder/$1/dbus-daemon"
    chmod +x "$folder/$1/dbus-daemon"
    echo "PATH=$folder/$1:$PATH"
}

# All cases of a program that lists them.
cases_of() { timeout -k 5 60 "$@" -l 2> "$folder/none" < /dev/null | grep '^/'; }

# Programs that talk to no bus (fdpass, server-oom, corrupt, loopback, relay) examine libdbus as the library that a bus is made of: their cases are
# the same with any bus.
suite_dbus() {
    tests=${DBUS_TEST_EXEC:-/usr/lib/dbus-1.0/installed-tests/dbus}
    [ -x "$tests/test-dbus-daemon" ] || { left_out "there is no $tests/test-dbus-daemon; install dbus-tests"; return; }
    export DBUS_TEST_EXEC="$tests" DBUS_TEST_DATA="${DBUS_TEST_DATA:-$tests/data}"
    for_daemon=DBUS_TEST_DAEMON=$daemon for_causewayd=DBUS_TEST_DAEMON=$causewayd
    for program in test-dbus-daemon test-monitor test-dbus-daemon-eavesdrop test-header-fields test-sd-activation test-containers \
        test-apparmor-activation test-uid-permissions test-fdpass test-server-oom test-corrupt test-loopback test-relay; do
        for case in $(cases_of "$tests/$program"); do
            row "$program $case" env BROKER "$tests/$program" --tap -p "$case"
        done
    done
    row test-dbus-daemon-fork.sh env BROKER "$tests/test-dbus-daemon-fork.sh"
}

suite_glib() {
    tests=${GLIB_TESTS:-/usr/libexec/installed-tests/glib}
    [ -x "$tests/gdbus-connection" ] || { left_out "there is no $tests/gdbus-connection; install libglib2.0-tests"; return; }
    for_daemon=PATH=$PATH for_causewayd=$(as_dbus_daemon glib "$causewayd")
    for program in "$tests"/gdbus-* "$tests"/actions "$tests"/dbus-appinfo "$tests"/debugcontroller "$tests"/fdo-notification-backend \
        "$tests"/gapplication "$tests"/gmenumodel "$tests"/gnotification; do
        name=${program##*/}
        # Programs that others start.
        case $name in *-helper|gdbus-testserver) continue ;; esac
        for case in $(cases_of "$program"); do
            row "$name $case" env BROKER "$program" --tap -p "$case"
        done
    done
}

# Without launcher, SELinux, AppArmor and audit: what a broker needs between two clients.
suite_dbus_broker() {
    source=$(realpath -m "${DBUS_BROKER_SOURCE:-none}")
    [ -f "$source/test/dbus/test-driver.c" ] || { left_out "DBUS_BROKER_SOURCE is not a source tree of dbus-broker 33 to 36"; return; }
    pkg-config --exists libsystemd || { left_out "the headers of libsystemd are missing; install libsystemd-dev"; return; }
    built=$folder/dbus-broker
    mkdir -p "$built/src"
    set -- -std=c11 -D_GNU_SOURCE -DPACKAGE_VERSION=0 -DBINDIR='""' -DSYSTEM_CONSOLE_USERS='""' -O1 -w -I"$source/src" -I"$source/test/dbus"
    for project in "$source"/subprojects/*/src; do
        set -- "$@" -I"$project"
    done
    # shellcheck disable=SC2046 # words
    set -- "$@" $(pkg-config --cflags libsystemd)
    objects=
    for file in "$source"/src/bus/*.c "$source"/src/dbus/*.c "$source"/src/util/*.c "$source"/src/broker/*.c "$source"/subprojects/*/src/*.c \
        "$source"/test/dbus/util-*.c; do
        case $file in */test-*|*/bench-*|*/main.c|*/apparmor.c|*/audit.c|*/selinux.c) continue ;; esac
        object=$built/$(echo "$file" | tr / _).o
        cc "$@" -c -o "$object" "$file" || { left_out "$file cannot be compiled"; return; }
        objects="$objects $object"
    done
    libs="$(pkg-config --libs libsystemd) -lpthread -lm"
    # shellcheck disable=SC2086 # lists
    cc "$@" -o "$built/src/dbus-broker" "$source/src/broker/main.c" $objects $libs || { left_out "dbus-broker cannot be linked"; return; }
    # The test programs know names in the abstract namespace only, and a dbus-daemon of today makes a file of the address that they configure.
    cat > "$built/dbus-daemon" <<'END'
#!/bin/sh
folder=$(dirname "$0")
sed "s|unix:tmpdir=/tmp|unix:abstract=$folder/bus-$$|" "${1#--config-file=}" > "$folder/bus-$$.conf"
shift
exec dbus-daemon --nofork --config-file="$folder/bus-$$.conf" "$@"
END
    chmod +x "$built/dbus-daemon"
    for_daemon=DBUS_BROKER_TEST_DAEMON=$built/dbus-daemon for_causewayd=DBUS_BROKER_TEST_DAEMON=$causewayd
    for name in test-broker test-driver test-fdstream test-lifetime test-matches; do
        functions=$(sed -n '/^int main/,$s/^ *\(test_[a-z0-9_]*\)();.*/\1/p' "$source/test/dbus/$name.c")
        # It passes over other brokers; this asks them.
        [ "$name" = test-fdstream ] && functions=all
        # One function, by name, in place of all in turn.
        {
            printf '#include <stdlib.h>\n#include <string.h>\n#define getenv(name) ((char *)0)\n#define main all_of_it\n'
            printf '#include "%s"\n#undef main\n' "$source/test/dbus/$name.c"
            echo 'static void all(void) { if (all_of_it(0, 0)) abort(); }'
            echo 'int main(int argc, char **argv) {'
            printf 'if (!strcmp(argv[1], "%s")) { %s(); return 0; }\n' $(for function in $functions; do echo "$function $function"; done)
            echo '(void)all; return 2; }'
        } > "$built/$name.c"
        # shellcheck disable=SC2086 # lists
        cc "$@" -o "$built/$name" "$built/$name.c" $objects $libs || { left_out "$name cannot be compiled"; continue; }
        for function in $functions; do
            outcome_of env -C "$built" -u DBUS_BROKER_TEST_DAEMON "./$name" "$function"
            of_broker=$outcome
            row "$name $function" env -C "$built" BROKER "./$name" "$function"
        done
    done
    of_broker=-
}

suite_zbus() {
    source=${ZBUS_SOURCE:-$(echo "$HOME"/.cargo/registry/src/*/zbus-6*)}
    [ -f "$source/tests/e2e.rs" ] || { left_out "ZBUS_SOURCE is not the source of the package zbus 6"; return; }
    command -v cargo > "$folder/none" || { left_out "cargo is not installed"; return; }
    # Without benchmarks, which need most of what would be compiled. The package lacks a dependency of its tests, which depends on the package itself.
    cp -r "$source" "$folder/zbus"
    {
        awk '/^\[/ { is_benchmark = /^\[\[bench\]\]/ || /^\[dev-dependencies.criterion\]/ } !is_benchmark' "$source/Cargo.toml"
        printf '\n[dev-dependencies.zbus_xml]\nversion = "6"\n\n[patch.crates-io]\nzbus = { path = "." }\n'
    } > "$folder/zbus/Cargo.toml"
    targets="basic e2e issues uncached_propert"
    # shellcheck disable=SC2046 # one word for each option
    if ! (cd "$folder/zbus" && cargo test --no-run --lib $(printf -- '--test %s ' $targets)) > "$folder/built" 2>&1; then
        tail -20 "$folder/built" >&2
        left_out "its tests cannot be compiled"
        return
    fi
    for_daemon=$daemon for_causewayd=$causewayd
    sed -n 's/.*Executable [^(]*\(src\|tests\)\/\(lib\|[a-z0-9_]*\)\.rs (\(.*\))/\2 \3/p' "$folder/built" > "$folder/programs"
    while read -r target program; do
        case $program in /*) ;; *) program=$folder/zbus/$program ;; esac
        # Most tests of the library itself talk to no bus.
        only=.
        [ "$target" = lib ] && only='^\(fdo\|proxy\|connection\|object_server\|message_stream\)::'
        for test in $("$program" --list | sed -n 's/: test$//p' | grep "$only"); do
            row "$target $test" env -C "$folder/zbus" "$self" --in with_bus BROKER "$program" --exact "$test"
        done
    done < "$folder/programs"
}

suite_clients() {
    for_daemon=$daemon for_causewayd=$causewayd
    while read -r client needs; do
        for program in $needs; do
            case $program in
                python:*) /usr/bin/python3 -c "import ${program#python:}" 2> "$folder/none" ;;
                *) command -v "$program" > "$folder/none" ;;
            esac || { left_out "$client: $program is not installed"; continue 2; }
        done
        row "$client" "$self" --in with_bus BROKER "client_$client"
    done <<'END'
dbus_send dbus-send
dbus_monitor dbus-monitor dbus-send
dbus_test_tool_echo dbus-test-tool dbus-send
dbus_test_tool_black_hole dbus-test-tool dbus-send
gdbus_introspect gdbus
busctl_property busctl
busctl_list busctl
python_dbus python:dbus python:gi.repository gdbus dbus-send
python_dbus_next python:dbus_next
END
}

echo "| suite | case | dbus-daemon | causewayd | dbus-broker |"
echo "|---|---|---|---|---|"
for suite in ${*:-$suites}; do
    case " $suites " in *" $suite "*) "suite_$(echo "$suite" | tr - _)" ;; *) left_out "there is no such suite; there are $suites" ;; esac
done
echo "$worse cases pass with dbus-daemon, and not with causewayd" >&2
[ "$worse" -eq 0 ]
