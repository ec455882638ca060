#!/usr/bin/env bash
# Builds the extension, and runs the tests in a folder of their own. Needs cargo and python3; what else is missing is said and skipped.
set -euo pipefail
cd "$(dirname "$0")"

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "skipped: python3 ≥ 3.11 is not installed"
    exit 0
fi
# This file is a workspace of its own: what is set for the main one does not hold here.
unset RUSTC_WORKSPACE_WRAPPER
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
if "$python" -c 'import mypy' 2>/dev/null; then
    cp pyproject.toml "$folder"
    (cd "$folder" && "$python" -m mypy --cache-dir "$folder/cache" -p causeway_ipc -p weighbridge)
    # What PyO3 makes itself, and what the buffer protocol is called from Python 3.12 on.
    printf '%s\n' 'causeway_ipc\._native\.__all__' 'causeway_ipc\._native\.Payload\.__buffer__' >"$folder/allowed"
    (cd "$folder" && "$python" -m mypy.stubtest --allowlist allowed --ignore-unused-allowlist --mypy-config-file pyproject.toml --ignore-disjoint-bases causeway_ipc._native)
else
    echo "skipped: the types, for mypy is not installed"
fi
