#!/usr/bin/env bash
# Builds the extension, and runs the tests in a folder of their own. Needs cargo and python3; what else is missing is said and skipped.
# `test.sh tools` only says which Python has what the tests use.
set -euo pipefail
cd "$(dirname "$0")"

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "skipped: python3 ≥ 3.11 is not installed"
    exit 0
fi
# What tests use beside Python itself, in a folder that stays; without a network, what is installed is what there is.
tools=${CAUSEWAY_PYTHON_TOOLS:-$PWD/target/tools}
if [ ! -e "$tools/installed" ]; then
    if "$python" -m venv --clear --system-site-packages "$tools" &&
        "$tools/bin/pip" install --quiet --disable-pip-version-check mypy typing-extensions numpy uvloop 'maturin>=1.14,<2' abi3audit mcap mcap-protobuf-support; then
        touch "$tools/installed"
    else
        echo "skipped: tools of the tests (mypy, uvloop, numpy, maturin, abi3audit, mcap), for pip cannot fetch them; what is installed is used"
    fi
fi
if [ -e "$tools/installed" ]; then
    python=$tools/bin/python PATH=$tools/bin:$PATH
fi
[ "${1:-}" != tools ] || { echo "$python" && exit; }
target=${CAUSEWAY_PYTHON_TARGET:-$PWD/target}
[ -n "${CAUSEWAY_PYTHON_BUILT:-}" ] || cargo build --release --locked --target-dir "$target"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -r python/causeway_ipc python/weighbridge "$folder"
cp "$target/release/libcauseway_ipc_native.so" "$folder/causeway_ipc/_native.abi3.so"
export PYTHONPATH=$folder PYTHONDONTWRITEBYTECODE=1

if [ $# -gt 0 ]; then
    "$python" "$@"
    exit
fi
"$python" -W error::ResourceWarning -m unittest discover -s tests -t tests
(cd "$folder" && "$python" -m mypy --version >/dev/null 2>&1) || {
    echo "skipped: the types, for mypy is not installed"
    exit 0
}
cp pyproject.toml "$folder"
(cd "$folder" && "$python" -m mypy --strict --cache-dir "$folder/cache" -p causeway_ipc -p weighbridge)
# What PyO3 makes itself, and what the buffer protocol is called from Python 3.12 on.
printf '%s\n' 'causeway_ipc\._native\.__all__' 'causeway_ipc\._native\.Payload\.__buffer__' >"$folder/allowed"
(cd "$folder" && "$python" -m mypy.stubtest --allowlist allowed --ignore-unused-allowlist --mypy-config-file pyproject.toml --ignore-disjoint-bases causeway_ipc._native)

if command -v maturin >/dev/null && command -v abi3audit >/dev/null; then
    # As it is for the machines of others: no symbol of CPython beyond the limited interface.
    CARGO_TARGET_DIR=$target maturin build --quiet --release --locked --compatibility linux --interpreter "$python" --out "$folder/wheels"
    abi3audit --strict --summary --assume-minimum-abi3 3.11 "$folder"/wheels/*.whl
else
    echo "skipped: the wheel, for maturin or abi3audit is not installed"
fi
