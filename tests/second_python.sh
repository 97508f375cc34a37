#!/bin/sh
# Run tests under Python 3.13, else 3.12, in an environment of its own. Arguments: the tests.
# On a machine with neither it does nothing, but fails where CI is set.
set -eu
cd "$(dirname "$0")/.."

find_python() {
  for version in 3.13 3.12; do
    for python in "python$version" "$HOME"/.pyenv/versions/$version.*/bin/python; do
      # A shim of pyenv is there for versions that are not chosen, and fails.
      if "$python" -c 'import ensurepip' 2>/dev/null; then
        echo "$python"
        return
      fi
    done
  done
}

python=$(find_python)
if [ -z "$python" ]; then
  echo "No Python 3.13 or 3.12 was found: tests run under one version only." >&2
  [ -z "${CI:-}" ] || exit 1
  exit 0
fi

venv=.venv-second
[ -x $venv/bin/python ] || "$python" -m venv $venv
$venv/bin/python -m pip install --quiet --no-compile ".[test]"
echo "Under $($venv/bin/python --version):"
exec $venv/bin/python -m pytest -q "$@"
