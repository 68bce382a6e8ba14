#!/bin/sh
# sh setup.sh run|dev: a .venv with what that needs, at the pinned versions of constraints.txt.
# Called by make; safe to call again. Finds a Python; setup/environment.py does the rest.
set -e
cd "$(dirname "$0")"

python=""
for candidate in "${PYTHON:-python3}" python3.11 python3.12 python3.13 python3; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "headwork needs Python 3.11 or later; none was found." >&2
    echo "Install it, or name it: make PYTHON=/path/to/python3.11" >&2
    exit 1
fi
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    echo "headwork needs Python's venv module; $python lacks it." >&2
    echo "On Debian and Ubuntu: apt-get install python3-venv" >&2
    exit 1
fi
exec "$python" setup/environment.py "$@"
