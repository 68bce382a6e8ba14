#!/usr/bin/env bash
# Run for each submission: writes results/results.json, whole and once, and nothing to the screen.
exec >/dev/null 2>&1 </dev/null
root="$(cd "$(dirname "$0")" && pwd)"
python="$root/source/venv/bin/python"
[ -x "$python" ] || python=python3
mkdir -p "$root/results"
rm -f "$root/results/results.json"
export PYTHONPATH="$root/source" PYTHONSAFEPATH=1 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
(
  cd "$root/source" && ulimit -v 700000
  exec timeout -k 5 60 "$python" -m headwork.courses.autograder "$root" HINT
) >"$root/grading.log" 2>&1
if [ ! -f "$root/results/results.json" ]; then
  why="Unreadable: marking stopped before it was done. Submit a plain answer file, or tell your teacher."
  printf '{"score": 0.0, "output": "%s", "output_format": "text", "visibility": "visible"}\n' "$why" \
    >"$root/results/.results.json" && mv "$root/results/.results.json" "$root/results/results.json"
fi
exit 0
