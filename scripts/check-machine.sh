#!/bin/sh
# Print the Python to use: 3.11 or newer, with venv. Without one, or without enough disk space, print one clear message.
# Usage: check-machine.sh GIGABYTES [PYTHON]
need=$1
for python in ${2:-python3 python3.13 python3.12 python3.11}; do
  command -v "$python" >/dev/null 2>&1 || continue
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
  if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    echo "plait: $python has no venv module; install it (Debian and Ubuntu: apt install python3-venv)" >&2
    exit 1
  fi
  free=$("$python" -c 'import shutil; print(shutil.disk_usage(".").free // 10**9)')
  if [ "$free" -lt "$need" ]; then
    echo "plait: $free GB free on this disk, $need GB needed for torch and the test libraries; free some space first" >&2
    exit 1
  fi
  echo "$python"
  exit 0
done
asked=${2:-python3}
found=$("$asked" --version 2>&1) || found="no $asked"
echo "plait: needs Python 3.11 or newer, found: $found; install one, or make PYTHON=/path/to/python" >&2
exit 1
