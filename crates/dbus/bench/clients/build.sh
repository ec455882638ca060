#!/bin/sh
# Builds what `client=libdbus`, `client=sd-bus` and `client=gdbus` need: a shared object for each library whose headers are installed.
#
#   crates/dbus/bench/clients/build.sh [FOLDER]
#
# FOLDER is target/release/dbus-clients by default. `weighbridge` looks in the folder dbus-clients beside itself, or in the one that
# WEIGHBRIDGE_DBUS_CLIENTS names. What is not installed is skipped with its package.
set -eu
here=$(dirname "$0")
folder=${1:-target/release/dbus-clients}
for program in cc pkg-config; do
    command -v "$program" > /dev/null || { echo "skipped: $program is not installed" >&2; exit 0; }
done
mkdir -p "$folder"
# Name of the library here, its name in pkg-config, its package.
build() {
    if ! pkg-config --exists "$2"; then
        echo "skipped: $1 needs the package $3" >&2
        return
    fi
    # Under another name first: a peer may be loading the one that is there.
    part="$folder/.$1.$$"
    # shellcheck disable=SC2046
    cc -std=gnu11 -O2 -Wall -Wextra -fPIC -shared -fvisibility=default -DLIBRARY_VERSION="\"$(pkg-config --modversion "$2")\"" \
        $(pkg-config --cflags "$2") -o "$part" "$here/$1.c" $(pkg-config --libs "$2")
    mv "$part" "$folder/$1.so"
    echo "built: $folder/$1.so"
}
build libdbus dbus-1 libdbus-1-dev
build sd-bus libsystemd libsystemd-dev
build gdbus gio-2.0 libglib2.0-dev
