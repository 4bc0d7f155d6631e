#!/usr/bin/env bash
# Every machine that tries to break a promise, one after the other: `scripts/torture.sh quick` (minutes), `release`, or `change` (with every
# change: quick, and of the fleets those that are killed; the other faults depend on what a machine allows, and are looked at by a person).
# SEED repeats the choices of a run. A part that lacks its injector says so and counts as passed, unless ONWARD_INJECTORS=needed.
set -uo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
    change | quick | release) tier=$1 ;;
    *) echo "usage: scripts/torture.sh change|quick|release" >&2; exit 2 ;;
esac
test -x .venv/bin/python || { echo "there is no .venv yet: make torture makes it" >&2; exit 2; }
trap 'trap - INT TERM; kill 0' INT TERM
seed=${SEED:-$RANDOM}
python=.venv/bin/python
missing=77
failed=()
summary=()

try() {  # try NAME COMMAND...
    local name=$1 began=$SECONDS code
    shift
    "$@"
    code=$?
    if [ $code = $missing ]; then summary+=("$name: not run, an injector is missing")
    elif [ $code = 0 ]; then summary+=("$name: passed in $((SECONDS - began)) s")
    else failed+=("$name"); summary+=("$name: FAILED in $((SECONDS - began)) s"); fi
}

aside() {  # aside NAME COMMAND...: beside what comes next, with its output kept for later
    local name=$1
    shift
    asides+=("$name")
    ( began=$SECONDS; "$@" > "$room/$name.log" 2>&1; echo "$? $((SECONDS - began))" > "$room/$name.code" ) &
}

after() {  # after NAME COMMAND...: once what runs aside under that name is over
    while [ ! -e "$room/$1.code" ]; do sleep 1; done
    shift
    "$@"
}

together() {  # wait for what was begun aside
    local name code took
    wait
    for name in "${asides[@]}"; do
        cat "$room/$name.log"
        read -r code took < "$room/$name.code"
        if [ "$code" = $missing ]; then summary+=("$name: not run, an injector is missing")
        elif [ "$code" = 0 ]; then summary+=("$name: passed in $took s")
        else failed+=("$name"); summary+=("$name: FAILED in $took s"); fi
    done
    asides=()
}

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
asides=()
echo "torture, tier $tier, seed $seed"
if [ "$tier" = release ]; then
    # On two cores: the histories take one as long as the other two parts together take the other.
    aside "simulated histories" $python -m tests.simulation --histories 50000 --seed "$seed" --jobs 1
    aside "system calls" $python -m tests.torture.syscalls --tier release --seed "$seed"
    aside "power loss" after "system calls" $python -m tests.torture.power_loss --tier release --seed "$seed"
    together
    try "fleets" $python -m tests.torture --tier release --seed "$seed"
    try "planted bugs" $python -m tests.planted
    try "stops" env STOP_ROUNDS=25 $python -m pytest -q -s -p no:cacheprovider tests/acceptance/test_stops.py
    try "poison pills" env PILLS=100 GOOD_JOBS=10000 $python -m pytest -q -s -p no:cacheprovider tests/acceptance/test_poison_pills.py
    try "breakers, limits and lines" env WAITS_SCALE=5 WAITS_RATE=100 $python -m pytest -q -s -p no:cacheprovider tests/acceptance/test_waits.py
    try "sleep and memory" env FAILING_JOBS=20000 LATER_JOBS=200000 \
        $python -m pytest -q -s -p no:cacheprovider tests/acceptance/test_sleep.py tests/acceptance/test_memory.py
else
    try "system calls" $python -m tests.torture.syscalls --tier quick --seed "$seed"
    try "power loss" $python -m tests.torture.power_loss --tier quick --seed "$seed"
    if [ "$tier" = quick ]; then
        try "fleets" $python -m tests.torture --tier quick --seed "$seed"
    else
        try "killed fleets" $python -m tests.torture --tier quick --part kills --seed "$seed"
    fi
    try "simulated histories" $python -m tests.simulation --histories 1000 --seed "$seed"
    try "planted bugs" $python -m tests.planted
fi
printf '\ntorture, tier %s, seed %s:\n' "$tier" "$seed"
printf '  %s\n' "${summary[@]}"
[ ${#failed[@]} = 0 ]
