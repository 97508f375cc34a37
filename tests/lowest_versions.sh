#!/bin/sh
# Run the unit tests with the lowest version of each dependency, in an environment of its own: about
# three minutes. Arguments: the tests.
set -eu
cd "$(dirname "$0")/.."

venv=.venv-lowest
[ -x $venv/bin/python ] || "${PYTHON:-python3}" -m venv $venv
$venv/bin/python tests/lowest_versions.py > $venv/lowest.txt
$venv/bin/python -m pip install --quiet -r $venv/lowest.txt
echo "The unit tests with the lowest versions, under $($venv/bin/python --version):"
exec $venv/bin/python -m pytest -q "$@"
