#!/bin/sh
# Runs the test programs of the dbus-broker project, each function of them alone, with that broker, with dbus-daemon and with causewayd, and
# prints a table in Markdown. The status is 1 if causewayd fails a function that dbus-broker passes.
#
#   crates/causeway/causewayd/conformance/dbus-broker.sh SOURCE [CAUSEWAYD]
#
# SOURCE is a source tree of dbus-broker, version 33 to 36, with its subprojects in SOURCE/subprojects, as meson puts them there. It is compiled in a
# temporary folder, with cc and libsystemd.
set -u

. "$(dirname "$0")/programs.sh"
find_source "a source tree of dbus-broker 33 to 36" test/dbus/test-driver.c "$@"
pkg-config --exists libsystemd || { echo "the headers of libsystemd are missing; install libsystemd-dev" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM
cd "$folder" || exit 2

# Without launcher, SELinux, AppArmor and audit: what a broker needs between two clients.
fail() {
    echo "$1 cannot be compiled:" >&2
    tail -20 "$folder/errors" >&2
    exit 2
}
set -- -std=c11 -D_GNU_SOURCE -DPACKAGE_VERSION=0 -DBINDIR='""' -DSYSTEM_CONSOLE_USERS='""' -O1 -w -I"$source/src" -I"$source/test/dbus"
for project in "$source"/subprojects/*/src; do
    set -- "$@" -I"$project"
done
objects=
compile() {
    object=$folder/$(echo "$1" | tr / _).o
    shift
    cc "$@" -c -o "$object" 2> errors || fail "$object"
}
for file in "$source"/src/bus/*.c "$source"/src/dbus/*.c "$source"/src/util/*.c "$source"/src/broker/*.c "$source"/subprojects/*/src/*.c; do
    case $file in
        */test-*|*/bench-*|*/main.c|*/apparmor.c|*/audit.c|*/selinux.c) continue ;;
    esac
    compile "$file" "$@" "$file"
    objects="$objects $object"
done
mkdir src
# shellcheck disable=SC2086 # a list of files
cc "$@" -o src/dbus-broker "$source/src/broker/main.c" $objects -lm 2> errors || fail dbus-broker
for file in util-broker util-message; do
    compile "$file" "$@" "$source/test/dbus/$file.c"
    objects="$objects $object"
done

# The function of a test program that is to run, by name, in place of all in turn. test-fdstream passes over other brokers; this asks them.
# With which number unique names begin is a broker's own matter: the programs know that of dbus-broker, and are told that of causewayd.
program() {
    functions=$(sed -n '/^int main/,$s/^ *\(test_[a-z0-9_]*\)();.*/\1/p' "$source/test/dbus/$1.c")
    [ "$1" = test-fdstream ] && functions=all
    sed 's/":1\.\([0-9]\)"/name_of(\1)/' "$source/test/dbus/$1.c" > "$1.inc"
    {
        echo '#include <stdlib.h>'
        echo '#include <stdio.h>'
        echo '#include <string.h>'
        echo '#define getenv(name) ((char *)0)'
        echo 'static const char *name_of(int number) {'
        echo '    static char names[10][8];'
        echo '    sprintf(names[number], ":1.%d", number + atoi(secure_getenv("FIRST_NUMBER")));'
        echo '    return names[number]; }'
        echo '#define main all_of_it'
        echo "#include \"$1.inc\""
        echo '#undef main'
        echo 'static void all(void) { if (all_of_it(0, 0)) abort(); }'
        echo 'int main(int argc, char **argv) {'
        for function in $functions; do
            echo "if (!strcmp(argv[1], \"$function\")) { $function(); return 0; }"
        done
        echo '(void)all; return 2; }'
    } > "$1.c"
    # shellcheck disable=SC2086
    name=$1; shift; cc "$@" 2> errors || fail "$name"
}

outcome() {
    [ "$3" != missing ] || { echo "not installed"; return; }
    if [ "$3" = dbus-broker ]; then unset DBUS_BROKER_TEST_DAEMON; else export DBUS_BROKER_TEST_DAEMON="$3"; fi
    if [ "$3" = "$causewayd" ]; then export FIRST_NUMBER=1; else export FIRST_NUMBER=0; fi
    if timeout 60 "./$1" "$2" > said 2> errors; then echo passes; else echo fails; fi
}

# The test programs know names in the abstract namespace only, and a dbus-daemon of today makes a file of the address that they configure.
daemon=missing
if command -v dbus-daemon > said; then
    daemon=$folder/dbus-daemon
    cat > "$daemon" <<'END'
#!/bin/sh
folder=$(dirname "$0")
sed "s|unix:tmpdir=/tmp|unix:abstract=$folder/bus-$$|" "${1#--config-file=}" > "$folder/bus-$$.conf"
shift
exec dbus-daemon --nofork --config-file="$folder/bus-$$.conf" "$@"
END
    chmod +x "$daemon"
fi

reference=dbus-broker
echo "| program | function | dbus-broker | dbus-daemon | causewayd |"
echo "|---|---|---|---|---|"
for name in test-broker test-driver test-fdstream test-lifetime test-matches; do
    # shellcheck disable=SC2086
    program "$name" "$@" -o "$name" "$name.c" $objects $(pkg-config --libs libsystemd) -lpthread -lm
    for function in $functions; do
        own=$(outcome "$name" "$function" dbus-broker)
        of_daemon=$(outcome "$name" "$function" "$daemon")
        found=$(outcome "$name" "$function" "$causewayd")
        echo "| $name | \`$function\` | $own | $of_daemon | $found |"
        judge "$name $function" "$own" "$found" errors
    done
done
conclude functions
