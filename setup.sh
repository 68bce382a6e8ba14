#!/bin/sh
# Makes the .venv with the pinned versions of constraints.txt. Called by make; safe to call again.
set -e

python=""
for candidate in "${PYTHON:-python3}" python3.11 python3.12 python3.13 python3; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "headwork needs Python 3.11 or later; none was found. Install it, or say where it is: make PYTHON=/path/to/python3.11" >&2
    exit 1
fi
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    echo "headwork needs Python's venv module; $python lacks it. On Debian and Ubuntu: apt-get install python3-venv" >&2
    exit 1
fi
if ! command -v cc >/dev/null 2>&1; then
    echo "note: no C compiler (cc) was found. All works without one; torch.compile is skipped. On Debian and Ubuntu: apt-get install gcc" >&2
fi

if ! .venv/bin/python -c '' 2>/dev/null; then
    echo "setting up .venv (once; a few minutes on a slow line) ..." >&2
    rm -rf .venv
    "$python" -m venv .venv
fi
# compat: a plain path. Python looks it up before a folder that only happens to be called headwork, such as this one.
.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --config-settings editable_mode=compat -e '.[train,dev]' 2>.venv/pip.log || {
    grep -v '^WARNING: Location' .venv/pip.log >&2
    echo "the set-up failed; the lines above say why. Nothing else was changed." >&2
    exit 1
}
