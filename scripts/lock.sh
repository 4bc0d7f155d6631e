#!/usr/bin/env bash
# Pin what requirements/*.in asks for: exact versions, nothing about where they came from.
# Run with the oldest Python that Onward supports, so that what only newer ones need is not missed: `make lock`.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:?usage: scripts/lock.sh PYTHON}

for name in dev docs; do
    room=$(mktemp -d)
    trap 'rm -rf "$room"' EXIT
    "$python" -m venv "$room/venv"
    "$room/venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "requirements/$name.in"
    {
        echo "# Made from $name.in by \`make lock\`. Exact versions, so that every machine checks with the same tools."
        "$room/venv/bin/python" -m pip freeze --disable-pip-version-check
    } > "requirements/$name.txt"
    rm -rf "$room"
    echo "requirements/$name.txt: $(grep -c == "requirements/$name.txt") packages"
done
