#!/usr/bin/env bash
# Makes what people install without a toolchain, from this checkout:
#
#   dist/build.sh [-o FOLDER] [PART...]         crates static deb oci sbom wheels; all of them without a PART
#   dist/build.sh same [PART...]                makes them here and in a copy elsewhere, and says whether they are equal bit by bit
#
# FOLDER is target/dist where none is named. ARCHES ("x86_64 aarch64") says for which processors `static` is. A part that needs a tool which is
# not here says which one, and the others are made; the last line tells what was skipped. Nothing is fetched but packages of the registry and,
# with rustup, the standard library of a target.
set -euo pipefail
# A compiler that fails inside of $(…) ends this, too: nothing of an older build is packed in place of what it did not make.
shopt -s inherit_errexit
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

out=$root/target/dist
parts=()
same=
while [ $# -gt 0 ]; do
    case $1 in
    -o | --out) out=$(realpath -m "${2:?-o needs a folder}") && shift 2 ;;
    same) same=1 && shift ;;
    crates | static | deb | oci | sbom | wheels) parts+=("$1") && shift ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0" && exit ;;
    *) echo "$0: there is no part \`$1\`; there are crates, static, deb, oci, sbom and wheels" >&2 && exit 2 ;;
    esac
done
if [ ${#parts[@]} -eq 0 ]; then
    parts=(static deb oci sbom wheels)
    # What the registry would get is packed sources, the same wherever they are.
    [ -n "$same" ] || parts=(crates "${parts[@]}")
fi

# What is built knows no folder and no time but that of the last change.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.lock)
fi
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
# weighbridge says its commit; the copy that `same` makes has none to ask for.
commit=${GIT_COMMIT:-$(git describe --always --exclude='*' --abbrev=12 --dirty=+changes 2>/dev/null || true)}
[ -z "$commit" ] || export GIT_COMMIT=$commit
umask 022
registry=${CARGO_HOME:-$HOME/.cargo}
export CARGO_INCREMENTAL=0 RUSTFLAGS="--remap-path-prefix=$root=/usr/src/weighbridge --remap-path-prefix=$registry=/usr/src/cargo"
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
skipped=()

# A part that lacks something: skip WHAT WHY.
skip() {
    skipped+=("$1: $2")
}

has() {
    command -v "$1" >/dev/null
}

# What is installed, with the package that it is in.
packages=(-p weighbridge -p causewayd -p causeway-cli)
programs=(weighbridge causewayd causeway)

# What cargo makes of packages for a target: build TARGET PACKAGE... Tells the folder.
build() {
    cargo build --release --locked --target "$1" --target-dir "$target_dir" "${@:2}" >&2
    echo "$target_dir/$1/release"
}

# A tar archive that depends on its content alone: archive FILE FOLDER NAME...
archive() {
    local file=$1 folder=$2
    shift 2
    tar --create --directory "$folder" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime "$@" | if [[ $file == *.gz ]]; then gzip -9n; else cat; fi >"$file"
}

# Manual pages of PROGRAM and all its commands, and its completions, below FOLDER: documents PROGRAM FOLDER.
documents() {
    local program=$1 folder=$2 name=${1##*/}
    local man=$folder/usr/share/man/man1
    mkdir -p "$man" "$folder"/usr/share/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
    page_of() {
        case $name in
        causewayd) "$program" --man ;;
        *) "$program" man "$@" ;;
        esac
    }
    pages() {
        local text page below
        text=$(page_of "$@")
        page=$(IFS=- && echo "$name${*:+-$*}")
        printf '%s\n' "$text" | gzip -9n >"$man/$page.1.gz"
        for below in $(printf '%s\n' "$text" | sed 's/\\-/-/g' | grep -oE "^$page-[a-z-]+\(1\)" | sort -u); do
            below=${below#"$page"-}
            below=${below%(1)}
            [ "$below" = help ] || pages "$@" "$below"
        done
    }
    pages
    completion_of() {
        case $name in
        causewayd) "$program" --completions "$1" ;;
        *) "$program" completions "$1" ;;
        esac
    }
    completion_of bash >"$folder/usr/share/bash-completion/completions/$name"
    completion_of zsh >"$folder/usr/share/zsh/vendor-completions/_$name"
    completion_of fish >"$folder/usr/share/fish/vendor_completions.d/$name.fish"
}

# Every package of the bus as the registry would get it, each compiled from its packed file against the other ones.
crates() {
    RUSTFLAGS='' cargo publish --dry-run --allow-dirty --locked --target-dir "$target_dir" -p causeway-os -p causeway-waiting \
        -p causeway-command-line -p causeway-dbus-wire -p causeway-ipc -p causeway-bus -p causewayd -p causeway-cli -p causeway-recorder >&2
    mkdir -p "$out/crates"
    # Releases of cargo differ in the folder below.
    find "$target_dir/package" -name "*-$version.crate" ! -path '*/tmp-registry/*' -exec cp -t "$out/crates" {} +
}

# The standard library of a target, which rustup may fetch. It brings musl, and rustc a linker: another processor needs no compiler of its own.
has_target() {
    [ -e "$(rustc --print sysroot)/lib/rustlib/$1" ] || { has rustup && rustup target add "$1" >&2; }
}
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld

# Programs that need no library of the machine. The recorder is not among them: its compression is in C. dist/check.sh starts them.
static() {
    local arch name program triple folder stage=$work/static
    for arch in ${ARCHES:-x86_64 aarch64}; do
        triple=$arch-unknown-linux-musl
        if ! has_target "$triple"; then
            skip "static, $arch" "the standard library for $triple is not installed; rustup target add $triple"
            continue
        fi
        folder=$(build "$triple" "${packages[@]}")
        name=causeway-weighbridge-$version-$triple
        rm -rf "${stage:?}/$name" && mkdir -p "$stage/$name"
        for program in "${programs[@]}"; do cp "$folder/$program" "$stage/$name/"; done
        cp LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md "$stage/$name/"
        archive "$out/$name.tar.gz" "$stage" "$name"
    done
}

# One Debian package: package NAME SECTION SYNOPSIS DESCRIPTION FOLDER [DEPENDS].
package() {
    local name=$1 section=$2 synopsis=$3 description=$4 folder=$5 depends=${6:-}
    local doc=$folder/usr/share/doc/$name arch
    arch=$(dpkg --print-architecture)
    mkdir -p "$doc" "$folder/DEBIAN"
    cat >"$doc/copyright" <<EOF
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: weighbridge

Files: *
Copyright: $(date -u -d "@$SOURCE_DATE_EPOCH" +%Y) the authors of Weighbridge and Causeway
License: Expat or Apache-2.0

License: Expat
$(sed -n '/^Permission/,$p' LICENSE-MIT | sed 's/^$/./; s/^/ /')

License: Apache-2.0
 On Debian systems, the full text is in /usr/share/common-licenses/Apache-2.0.
EOF
    printf '%s (%s) unstable; urgency=medium\n\n  * See the changes of the project, CHANGELOG.md in its sources.\n\n -- %s  %s\n' \
        "$name" "$version" "$maintainer" "$(date -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
    # What the programs are linked with, by the tool of Debian where it is here.
    local needed=libc6 files
    mapfile -t files < <(find "$folder" -type f \( -path '*/bin/*' -o -name '*.so.*' \))
    if [ ${#files[@]} -eq 0 ]; then
        needed=
    elif has dpkg-shlibdeps; then
        mkdir -p "$work/shlibs/debian" && printf 'Source: weighbridge\n\nPackage: %s\nArchitecture: any\n' "$name" >"$work/shlibs/debian/control"
        needed=$(cd "$work/shlibs" && dpkg-shlibdeps -O --ignore-missing-info "${files[@]/#/-e}" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
    fi
    needed=${needed:+$needed${depends:+, }}$depends
    cat >"$folder/DEBIAN/control" <<EOF
Package: $name
Version: $version
Architecture: $arch
Maintainer: $maintainer
Section: $section
Priority: optional
Installed-Size: $(find "$folder" -path "$folder/DEBIAN" -prune -o -printf '%y %s\n' | awk '{ kib += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print kib }')
Depends: $needed
Description: $synopsis
$(fold -sw 76 <<<"$description" | sed 's/ *$//; s/^/ /')
EOF
    (cd "$folder" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    find "$folder" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$folder" "$out/${name}_${version}_$arch.deb" >&2
}

deb() {
    has dpkg-deb || { skip deb "dpkg-deb is not installed" && return; }
    maintainer=${DEBFULLNAME:-Weighbridge} && maintainer="$maintainer <${DEBEMAIL:-maintainers@example.invalid}>"
    local folder stage=$work/deb
    local triple
    triple=$(rustc --print host-tuple)
    folder=$(build "$triple" "${packages[@]}" -p causeway-recorder)
    rm -rf "$stage"
    install -D -t "$stage/causewayd/usr/bin" "$folder/causewayd"
    # The units of a user, which nobody enables for them.
    install -D -m 644 -t "$stage/causewayd/usr/lib/systemd/user" dist/systemd/user/causewayd.{service,socket}
    install -D -t "$stage/causeway/usr/bin" "$folder/causeway" "$folder/causeway-record"
    install -D -t "$stage/weighbridge/usr/bin" "$folder/weighbridge"
    for program in causewayd causeway weighbridge; do documents "$folder/$program" "$stage/$program"; done
    package causewayd admin "message bus for D-Bus programs and native members" \
        "A broker for programs of D-Bus, in one thread and with one order of all messages. Native members share its order in memory and need no process in between. The units for a user are installed and not enabled." \
        "$stage/causewayd"
    package causeway admin "groups and buses in shared memory, from a shell" \
        "Serves, publishes, subscribes and looks at groups of the Causeway message bus, and calls, watches and lists what is on a bus." \
        "$stage/causeway"
    package weighbridge utils "what messages between Linux processes cost, and why" \
        "Measures what it costs to move messages, wake-ups and memory between processes, and explains each figure by what was counted: context switches, faults, copies, processor time." \
        "$stage/weighbridge"
    if [ -e crates/causeway/c/Makefile ]; then
        folder=$(build "$triple" -p causeway-c)
        make -s -C crates/causeway/c install DESTDIR="$stage/c" PREFIX=/usr LIBDIR="/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || gcc -print-multiarch)" \
            ARCHIVE="$folder/libcauseway_c.a" >&2
        mkdir -p "$stage/libcauseway0/DEBIAN"
        # How programs that are linked with it find its package, and that the cache of the linker has it at once.
        echo "libcauseway ${version%.*} libcauseway0 (>= $version)" >"$stage/libcauseway0/DEBIAN/shlibs"
        echo "activate-noawait ldconfig" >"$stage/libcauseway0/DEBIAN/triggers"
        # The library itself is one package, what a compiler needs the other one.
        archive "$work/library.tar" "$stage/c" $(cd "$stage/c" && find usr -name 'libcauseway.so.*')
        tar --extract --directory "$stage/libcauseway0" --file "$work/library.tar"
        find "$stage/c" -name 'libcauseway.so.*' -delete
        package libcauseway0 libs "Causeway for programs in C: the library" \
            "Logs, calls and buses in shared memory for programs that are not in Rust." "$stage/libcauseway0"
        package libcauseway-dev libdevel "Causeway for programs in C: headers" \
            "Headers, the static library and the pkg-config files of libcauseway." "$stage/c" "libcauseway0 (= $version)"
    fi
    if has lintian; then
        lintian --fail-on error "$out"/*.deb >&2
    else
        skip "deb, a look at the packages" "lintian is not installed"
    fi
}

# An image with one static program and a user that is nobody's: a layer, its configuration and its manifest.
oci() {
    local triple=x86_64-unknown-linux-musl image=$work/oci layer=$work/layer
    has_target "$triple" || { skip oci "the standard library for $triple is not installed; rustup target add $triple" && return; }
    local program
    program=$(build "$triple" -p causewayd)/causewayd
    rm -rf "$image" "$layer" && mkdir -p "$image/blobs/sha256" "$layer/usr/bin" "$layer/run/causewayd"
    cp "$program" "$layer/usr/bin/"
    chmod 1777 "$layer/run/causewayd"
    # Adds standard input to the image, and tells its digest and size.
    blob() {
        cat >"$image/blob" && local digest
        digest=$(sha256sum <"$image/blob" | cut -d ' ' -f 1)
        # The reader goes on with the next one once it has read this line.
        mv "$image/blob" "$image/blobs/sha256/$digest" && stat -c "$digest %s" "$image/blobs/sha256/$digest"
    }
    archive "$work/layer.tar" "$layer" usr run
    local layer_digest layer_bytes config_digest config_bytes manifest_digest manifest_bytes diff
    diff=$(sha256sum <"$work/layer.tar" | cut -d ' ' -f 1)
    read -r layer_digest layer_bytes < <(gzip -9n <"$work/layer.tar" | blob)
    local created
    created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)
    read -r config_digest config_bytes < <(
        printf '{"created":"%s","architecture":"amd64","os":"linux","config":{"User":"65532:65532","Entrypoint":["/usr/bin/causewayd"],"Cmd":["--session","--nofork","--nopidfile","--address=unix:path=/run/causewayd/bus"],"Labels":{"org.opencontainers.image.version":"%s","org.opencontainers.image.licenses":"MIT OR Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"%s","created_by":"dist/build.sh"}]}' \
            "$created" "$version" "$diff" "$created" | blob
    )
    read -r manifest_digest manifest_bytes < <(
        printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:%s","size":%s}]}' \
            "$config_digest" "$config_bytes" "$layer_digest" "$layer_bytes" | blob
    )
    printf '{"imageLayoutVersion":"1.0.0"}' >"$image/oci-layout"
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s,"annotations":{"org.opencontainers.image.ref.name":"causewayd:%s"}}]}' \
        "$manifest_digest" "$manifest_bytes" "$version" >"$image/index.json"
    # How docker before 25 finds the same blobs.
    printf '[{"Config":"blobs/sha256/%s","RepoTags":["causewayd:%s"],"Layers":["blobs/sha256/%s"]}]' "$config_digest" "$version" "$layer_digest" >"$image/manifest.json"
    archive "$out/causewayd-$version.oci.tar" "$image" blobs index.json manifest.json oci-layout
}

# What the programs are made of, for who must know it (CycloneDX).
sbom() {
    has cargo-cyclonedx || { skip sbom "cargo-cyclonedx is not installed (cargo install cargo-cyclonedx)" && return; }
    local program folder
    # One for each package of a workspace, beside its manifest.
    for folder in . bindings/python; do
        cargo cyclonedx --quiet --format json --spec-version 1.5 --manifest-path "$folder/Cargo.toml" --override-filename sbom >&2
    done
    for program in weighbridge=crates/weighbridge causewayd=crates/causeway/causewayd causeway=crates/causeway/cli causeway-ipc-python=bindings/python; do
        folder=${program#*=}
        # A number and a time of each making, and the folder, are no part of what is described.
        sed -E '/"serialNumber":/d; s|"timestamp": "[^"]*"|"timestamp": "'"$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)"'"|; s|'"$root"'|/usr/src/weighbridge|g' "$folder/sbom.json" >"$out/${program%%=*}.cdx.json"
    done
    find crates bindings -name sbom.json -delete
}

# Wheels for any Python from 3.11 on, and the sources of them. With zig, which has the headers and libraries of several C libraries, they are for
# old ones and for musl, too.
wheels() {
    has maturin || { skip wheels "maturin is not installed (pip install maturin ziglang)" && return; }
    local built=$work/wheels
    # The linker is zig's. A folder of its own, for the flags of the compiler are others: with those above, cargo would build all again each time.
    maturin_of() {
        (
            unset CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER
            cd bindings/python
            SOURCES=$root RUSTC_WRAPPER=$root/dist/rustc CARGO_TARGET_DIR=$target_dir/wheels maturin "$1" --out "$built" "${@:2}"
        ) >&2
    }
    rm -rf "$built"
    maturin_of sdist
    if python3 -m ziglang version >/dev/null 2>&1 || has zig; then
        maturin_of build --release --locked --zig --target x86_64-unknown-linux-gnu --compatibility manylinux_2_28
        maturin_of build --release --locked --zig --target x86_64-unknown-linux-musl --compatibility musllinux_1_2
    else
        maturin_of build --release --locked
        skip "wheels, manylinux_2_28 and musllinux" "zig is not installed (pip install ziglang); the wheel is for the C library of this machine and newer ones"
    fi
    mkdir -p "$out/wheels" && cp "$built"/* "$out/wheels/"
}

# Nothing may depend on the folder, and nothing on what was compiled here before: the copy has a target folder of its own.
if [ -n "$same" ]; then
    [ -z "$(git status --porcelain)" ] || { echo "$0: the copy would be of the last commit, and there are changes; commit them first" >&2 && exit 1; }
    twice=$(mktemp -d)
    trap 'rm -rf "$twice"' EXIT
    copy=$twice/elsewhere/deeper
    mkdir -p "$copy"
    git archive HEAD | tar -x -C "$copy"
    dist/build.sh -o "$twice/here" "${parts[@]}" >&2
    "$copy/dist/build.sh" -o "$twice/there" "${parts[@]}" >&2
    [ -s "$twice/here/SHA256SUMS" ] || { echo "$0: nothing was made that could be equal" >&2 && exit 1; }
    if diff "$twice"/{here,there}/SHA256SUMS; then
        echo "Both are equal, bit by bit."
        exit
    fi
    rm -rf "$twice/elsewhere"
    trap - EXIT
    echo "$0: not equal; both are in $twice" >&2
    exit 1
fi

mkdir -p "$out" "$root/target"
target_dir=$root/target/dist-build
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for part in "${parts[@]}"; do "$part"; done
(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0r sha256sum >SHA256SUMS && cat SHA256SUMS)
[ ${#skipped[@]} -eq 0 ] || printf 'skipped: %s\n' "${skipped[@]}"
