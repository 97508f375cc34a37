#!/bin/sh
# Run the unit tests under each Python from 3.12 to 3.14 that the machine has, in an environment of
# its own: about three minutes each the first time. Arguments: the tests.
set -eu
cd "$(dirname "$0")/.."

find_python() {
  for python in "python$1" "$HOME"/.pyenv/versions/"$1".*/bin/python; do
    # A shim of pyenv is there for versions that are not chosen, and fails.
    if "$python" -c 'import ensurepip' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
}

found=0
for version in 3.12 3.13 3.14; do
  python=$(find_python $version)
  if [ -z "$python" ]; then
    echo "Python $version was not found."
    continue
  fi
  found=1
  venv=.venv-$version
  [ -x $venv/bin/python ] || "$python" -m venv $venv
  $venv/bin/python -m pip install --quiet ".[test]"
  echo "The unit tests under $($venv/bin/python --version):"
  $venv/bin/python -m pytest -q "$@"
done
if [ $found = 0 ]; then
  echo "No Python from 3.12 to 3.14 was found: nothing was tested." >&2
  exit 1
fi
