#!/bin/sh
# Look up known vulnerabilities of the pinned packages. It gives up quickly, and never fails: offline it only says so, and
# a vulnerability that became known today is no mistake in this change.
# Usage: audit.sh PYTHON
python=$1
if ! "$python" -c "import pip_audit" 2>/dev/null &&
  ! timeout 60 "$python" -m pip install --quiet --disable-pip-version-check --retries 0 --timeout 5 \
    -c constraints.txt pip-audit >/dev/null 2>&1; then
  echo "vulnerabilities: not checked, pip-audit cannot be installed here"
  exit 0
fi
found=$(timeout 60 "$python" -m pip_audit --timeout 5 --progress-spinner off --disable-pip --no-deps \
  --requirement constraints.txt 2>&1)
code=$?
if [ $code = 0 ]; then
  echo "vulnerabilities: none known"
elif echo "$found" | grep -q "known vulnerabilit"; then
  echo "$found"
else
  echo "vulnerabilities: not checked, the database cannot be reached"
fi
