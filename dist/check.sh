#!/usr/bin/env bash
# Tries what dist/build.sh has made, as somebody does who installs it:
#
#   dist/check.sh [-i FOLDER] [PART...]         deb static oci wheels; all of them without a PART
#
# FOLDER is target/dist where none is named; PYTHON names what tries the wheels (python3). What this machine cannot try is said, and in the last lines. Nothing stays behind.
set -euo pipefail
cd "$(dirname "$0")/.."

dist=$PWD/target/dist
parts=()
while [ $# -gt 0 ]; do
    case $1 in
    -i | --in) dist=$(realpath "${2:?-i needs a folder}") && shift 2 ;;
    deb | static | oci | wheels) parts+=("$1") && shift ;;
    *) sed -n '2,6s/^# \{0,1\}//p' "$0" && exit 2 ;;
    esac
done
[ ${#parts[@]} -gt 0 ] || parts=(deb static oci wheels)

work=$(mktemp -d)
skipped=()
# What runs containers.
engine=
end() {
    local job
    for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
    wait 2>/dev/null || true
    [ -z "$engine" ] || "$engine" rm --force "causewayd-check-$$" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap end EXIT

skip() {
    skipped+=("$1: $2")
}

has() {
    command -v "$1" >/dev/null
}

fail() {
    echo "$0: $*" >&2
    exit 1
}

# Waits for something to be there: appears PATH.
appears() {
    local tries=600
    until [ -e "$1" ]; do
        [ $((tries -= 1)) -gt 0 ] || fail "$1 does not appear"
        sleep 0.1
    done
}

# What the package of the library exports, each with its version: exports LIBRARY.
exports() {
    has objdump || { skip "deb, symbols of the library" "objdump is not installed (Debian: binutils)" && return; }
    local symbols unversioned
    # Columns: address, flags, section, size, version, name. A symbol of ours without a version has five of them.
    symbols=$(objdump -T "$1" | awk '$1 ~ /^[0-9a-f]+$/ && !/\*UND\*/')
    unversioned=$(awk '$(NF - 1) != "CAUSEWAY_0.1" && $NF != "CAUSEWAY_0.1"' <<<"$symbols")
    [ -z "$unversioned" ] || fail "$(basename "$1") exports without its version: $unversioned"
    echo "deb: $(basename "$1") exports $(wc -l <<<"$symbols") symbols, all of one version"
}

# Installs the packages in a Debian that has little else, uses them, and purges them: then no file is there that was not there before. ROOTFS
# names a folder with such a system, which gets a copy; without it, mmdebstrap makes one of the release that this machine has.
deb() {
    [ -e "$(echo "$dist"/libcauseway0_*.deb)" ] || { skip deb "there are no packages" && return; }
    mkdir "$work/library" && dpkg-deb --extract "$dist"/libcauseway0_*.deb "$work/library"
    exports "$(find "$work/library" -type f -name 'libcauseway.so.*')"
    [ "$(id -u)" = 0 ] || { skip deb "only root enters another root" && return; }
    local root=$work/root
    if [ -n "${ROOTFS:-}" ]; then
        cp -a "$ROOTFS" "$root"
    elif has mmdebstrap; then
        mmdebstrap --quiet --variant=minbase --include=dbus-bin,libglib2.0-bin,systemd "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" >&2
    else
        skip deb "mmdebstrap is not installed, and ROOTFS names no system" && return
    fi
    mkdir "$root/packages" && cp "$dist"/*.deb "$root/packages/"
    cat >"$root/packages/try" <<'TRY'
set -euo pipefail
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /packages -o -path /run \) -prune -o -print | sort
}
files >/tmp/before
dpkg --install /packages/*.deb
names=$(for file in /packages/*.deb; do dpkg-deb --field "$file" Package; done)
for program in causewayd causeway weighbridge causeway-record; do "$program" --version; done
ldconfig --print-cache | grep libcauseway.so
weighbridge list >/dev/null
# The units are there, and nobody has enabled them.
XDG_RUNTIME_DIR=/tmp systemd-analyze --user --man=no verify /usr/lib/systemd/user/causewayd.{service,socket}
[ -z "$(find /etc/systemd /root /usr/lib/systemd/user/*.wants -lname '*causewayd*' 2>/dev/null)" ]
causewayd --session --nofork --nopidfile --address=unix:path=/tmp/bus &
daemon=$!
for ((tries = 600; tries > 0; tries--)); do [ -e /tmp/bus ] && break || sleep 0.1; done
busctl --address=unix:path=/tmp/bus call org.freedesktop.DBus / org.freedesktop.DBus GetId
gdbus call --address unix:path=/tmp/bus --dest org.freedesktop.DBus --object-path / --method org.freedesktop.DBus.ListNames
dbus-send --bus=unix:path=/tmp/bus --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.GetId
kill "$daemon" && wait "$daemon" || true
dpkg --purge $names
# What dpkg writes at each use may be there.
files | comm -13 /tmp/before - >/tmp/left
if grep -vE '^/var/(lib/dpkg|log|cache)(/|$)' /tmp/left; then echo "these files stayed" >&2 && exit 1; fi
TRY
    unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" bash -euc '
        for folder in dev sys; do mount --rbind "/$folder" "$0/$folder"; done
        exec chroot "$0" bash /packages/try
    ' "$root"
    echo "deb: installed, used and purged"
}

# A message through programs that need nothing of the machine: round_trip RUNNER... FOLDER.
round_trip() {
    local folder=${*: -1} at=$work/group-$RANDOM said
    set -- "${@:1:$#-1}"
    "$@" "$folder/causeway" serve "$at" >&2 &
    local server=$!
    appears "$at"
    timeout 60 "$@" "$folder/causeway" subscribe "$at" >"$at.said" &
    local subscriber=$!
    echo "42.17" | timeout 60 "$@" "$folder/causeway" publish --wait-for-subscribers 1 "$at"
    wait "$subscriber" || fail "the subscriber ended with $?"
    kill "$server" && wait "$server" || true
    said=$(cat "$at.said")
    [ "$said" = "42.17" ] || fail "the subscriber printed \`$said\`"
}

static() {
    has readelf || { skip static "readelf is not installed (Debian: binutils)" && return; }
    local archive folder program headers emulator=()
    for archive in "$dist"/causeway-weighbridge-*.tar.gz; do
        [ -e "$archive" ] || { skip static "there is no archive" && return; }
        tar -xzf "$archive" -C "$work"
        folder=$work/$(basename "$archive" .tar.gz)
        case $folder in
        *"-$(uname -m)-"*) emulator=() ;;
        *-aarch64-*)
            has qemu-aarch64 || { skip "static, aarch64" "qemu-aarch64 is not installed (Debian: qemu-user)" && continue; }
            emulator=(qemu-aarch64)
            ;;
        *) skip "$(basename "$archive")" "nothing emulates its processor here" && continue ;;
        esac
        for program in causeway causewayd weighbridge; do
            headers=$(readelf --program-headers "$folder/$program")
            [[ $headers != *INTERP* ]] || fail "$program needs a loader"
            "${emulator[@]}" "$folder/$program" --version
        done
        round_trip "${emulator[@]}" "$folder"
        echo "static: $(basename "$archive"): a message went through"
    done
}

# The image with each engine that runs containers here.
oci() {
    local archive
    archive=$(echo "$dist"/causewayd-*.oci.tar)
    [ -e "$archive" ] || { skip oci "there is no image" && return; }
    for engine in podman docker; do
        if ! has "$engine"; then
            skip "oci, $engine" "$engine is not installed"
        elif ! "$engine" info >/dev/null 2>"$work/why"; then
            skip "oci, $engine" "$(tail -n 1 "$work/why")"
        else
            image "$archive"
        fi
    done
}

# With nothing writable but the folder of its socket, and without a capability; a client of the host calls it: image ARCHIVE.
image() {
    local image options=() folder=$work/bus-$engine run
    image=$("$engine" load --quiet --input "$1" | sed 's/^Loaded image: //')
    chmod 755 "$work" && mkdir "$folder" && chmod 1777 "$folder"
    run() {
        "$engine" "${options[@]}" run --rm --name "causewayd-check-$$" --network=none --read-only --cap-drop ALL --ulimit nofile=1024:1024 \
            --ulimit nproc=1024:1024 --security-opt label=disable "$@"
    }
    if ! run "$image" --version 2>"$work/why"; then
        # Which did not begin, and is there.
        "$engine" rm --force "causewayd-check-$$" >/dev/null 2>&1 || true
        # What Debian's podman can do where there is no systemd, and where cgroups are of version 1.
        [ "$engine" != podman ] || options=(--runtime runc --cgroup-manager cgroupfs)
        if ! run "$image" --version 2>>"$work/why"; then
            skip "oci, $engine" "it runs no container here: $(head -n 1 "$work/why")"
            "$engine" rmi --force "$image" >/dev/null
            return
        fi
    fi
    # The bus of a session is for its own user: who is not root gives the container theirs, and root becomes that of the image.
    local as=() user=(--user "$(id -u):$(id -g)")
    [ "$engine" != podman ] || user+=(--userns=keep-id)
    [ "$(id -u)" != 0 ] || { user=() && as=(setpriv --reuid 65532 --regid 65532 --clear-groups); }
    run "${user[@]}" --volume "$folder:/run/causewayd" "$image" >&2 &
    appears "$folder/bus"
    "${as[@]}" busctl --address="unix:path=$folder/bus" call org.freedesktop.DBus / org.freedesktop.DBus GetId
    "${as[@]}" busctl --address="unix:path=$folder/bus" call org.freedesktop.DBus / org.freedesktop.DBus ListNames
    "$engine" "${options[@]}" stop --time 10 "causewayd-check-$$" >/dev/null
    wait $! || true
    "$engine" rmi "$image" >/dev/null
    echo "oci: a client of this machine was answered from a container of $engine"
}

# Each wheel that an interpreter can install, in an environment of its own: PYTHON, perhaps one that is linked with musl, or python3.
wheels() {
    local wheel python=${PYTHON:-python3}
    has "$python" || { skip wheels "$python is not installed" && return; }
    for wheel in "$dist"/wheels/*.whl; do
        [ -e "$wheel" ] || { skip wheels "there is no wheel" && return; }
        rm -rf "$work/environment" && "$python" -m venv "$work/environment"
        if ! "$work/environment/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel" 2>"$work/why"; then
            skip "$(basename "$wheel")" "$(grep -m 1 -o 'is not a supported wheel.*' "$work/why" || head -n 1 "$work/why")"
            continue
        fi
        (cd "$work" && environment/bin/python -c '
from causeway_ipc import Group
import weighbridge
with Group.create("prices") as group:
    publisher = group.publisher()
    subscriber = group.subscribe()
    publisher.publish(b"42.17")
    assert subscriber.recv(60.0).data == b"42.17"
')
        echo "wheels: $(basename "$wheel"): a message went through"
    done
}

for part in "${parts[@]}"; do "$part"; done
[ ${#skipped[@]} -eq 0 ] || printf 'skipped: %s\n' "${skipped[@]}"
