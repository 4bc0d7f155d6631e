#!/usr/bin/env bash
# Run the whole suite on every Python from 3.11 up that this machine has, each in an environment of its own (.venv-3.x).
set -uo pipefail
cd "$(dirname "$0")/.."

usable='import sys, venv, ensurepip; v = sys.version_info; sys.exit(0 if v >= (3, 11) else 1)'
declare -A found

consider() {
    "$1" -c "$usable" >/dev/null 2>&1 || return 0
    local version
    version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    [ -n "${found[$version]:-}" ] || found[$version]=$("$1" -c 'import sys; print(sys.executable)')
}

for minor in $(seq 11 30); do
    for candidate in $(type -ap "python3.$minor"); do consider "$candidate"; done
done
for candidate in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python; do
    [ -x "$candidate" ] && consider "$candidate"
done
if [ ${#found[@]} -eq 0 ]; then
    echo "No Python 3.11 or newer with venv and ensurepip was found."
    exit 1
fi

versions=$(printf '%s\n' "${!found[@]}" | sort -V)
for version in $versions; do echo "found Python $version: ${found[$version]}"; done

failed=()
for version in $versions; do
    room=.venv-$version
    echo
    echo "== Python $version"
    # Anything that pip or pytest prints is shown: a failure must not need a second run to be understood.
    { [ -x "$room/bin/python" ] || "${found[$version]}" -m venv "$room"; } &&
        "$room/bin/python" -m pip --disable-pip-version-check --quiet install --requirement requirements/dev.txt &&
        "$room/bin/python" -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation --editable . &&
        "$room/bin/python" -m pytest -n 2 --dist worksteal "$@" || failed+=("$version")
done

echo
for version in $versions; do
    case " ${failed[*]:-} " in *" $version "*) echo "Python $version: FAILED" ;; *) echo "Python $version: passed" ;; esac
done
[ ${#failed[@]} -eq 0 ]
