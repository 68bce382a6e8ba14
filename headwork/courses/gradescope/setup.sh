#!/usr/bin/env bash
# Run once, when the autograder is built: Python 3.11 or newer with numpy, and headwork compiled beside it.
set -euo pipefail
root="$(cd "$(dirname "$0")" && pwd)"
case "$root" in */source) here="$root" ;; *) here="$root/source" ;; esac
python=""
for name in python3 python3.14 python3.13 python3.12 python3.11; do
  if command -v "$name" >/dev/null && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    python="$name"
    break
  fi
done
if [ -z "$python" ] || ! "$python" -c 'import ensurepip' 2>/dev/null; then
  apt-get update
  apt-get install -y "${python:-python3.11}" "${python:-python3.11}-venv"
  python="${python:-python3.11}"
fi
"$python" -m venv "$here/venv"
"$here/venv/bin/python" -m pip install --no-cache-dir -r "$here/requirements.txt"
"$here/venv/bin/python" -m compileall -q "$here/headwork"
