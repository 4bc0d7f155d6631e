#!/usr/bin/env bash
# Pin what requirements/*.in asks for: exact versions, nothing about where they came from.
# Run with the oldest Python that Onward supports, so that what only newer ones need is not missed: `make lock`.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:?usage: scripts/lock.sh PYTHON}

for name in dev docs peers; do
    room=$(mktemp -d)
    trap 'rm -rf "$room"' EXIT
    "$python" -m venv "$room/venv"
    "$room/venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "requirements/$name.in"
    {
        echo "# Made from $name.in by \`make lock\`. Exact versions, so that every machine checks with the same tools."
        # What is asked for on some machines only (name; marker) is pinned for these only.
        "$room/venv/bin/python" -m pip freeze --disable-pip-version-check | awk -F '; ' '
            NR == FNR { if (/^[a-z].*; /) { marker[$1] = substr($0, length($1) + 1) }; next }
            { split($0, part, "=="); print $0 marker[tolower(part[1])] }' "requirements/$name.in" -
    } > "requirements/$name.txt"
    rm -rf "$room"
    echo "requirements/$name.txt: $(grep -c == "requirements/$name.txt") packages"
done
