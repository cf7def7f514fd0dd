# shellcheck shell=bash
# Functions for the scripts in this directory, which source this file. Each script tries one thing that people use with an mpirun.
#
# A script installs what it needs from Debian or PyPI, into target/ecosystem where that is possible. If it cannot, it prints a
# line that begins with SKIP, and exits with 77. The programs are those of target/release, or of $MPD_BIN_DIR.

set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    print_help
    exit 0
fi

bin=$(realpath -m "${MPD_BIN_DIR:-$TARGET/release}")
work=$TARGET/ecosystem/$PROGRAM

skip() {
    echo "SKIP $PROGRAM: $*"
    exit 77
}

[[ -x $bin/mpirun && -x $bin/mpd ]] || die "no $bin/mpirun; build first: cargo build --release"
rm -rf "$work"
mkdir -p "$work"
export PATH=$bin:$PATH
# No settings of the user have an effect.
unset MPD_RUNDIR MPD_KEY_FILE MPD_RING

# needs PROGRAM=PACKAGE...: installs the Debian package of each program that is missing.
needs() {
    local pair missing=()
    for pair in "$@"; do
        have "${pair%%=*}" || missing+=("${pair#*=}")
    done
    ((${#missing[@]} == 0)) || install_packages "sudo -n" "${missing[@]}" || skip "needs the packages ${missing[*]}"
}

# wheel NAME PROGRAM: the path of a program of a wheel of PyPI, in a virtual environment of its own.
wheel() {
    local venv=$TARGET/ecosystem/venv-$1
    if [[ ! -x $venv/bin/$2 ]]; then
        { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet "$1"; } >&2 || return 1
    fi
    echo "$venv/bin/$2"
}

# venv NAME PACKAGE...: the python of a virtual environment of that name, with these packages of PyPI.
venv() {
    local venv=$TARGET/ecosystem/venv-$1
    shift
    if [[ ! -e $venv/complete ]]; then
        { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check "$@" &&
            touch "$venv/complete"; } >&2 || return 1
    fi
    echo "$venv/bin/python"
}

# run_python PYTHON LIMIT COMMAND...: runs a command with the environment of that python, for at most LIMIT seconds.
run_python() {
    local python=$1 limit=$2
    shift 2
    # MPICH of PyPI looks for fast networks first.
    PATH=$bin:$(dirname "$python"):$PATH FI_PROVIDER=tcp MPIR_CVAR_CH4_NETMOD=ofi timeout "$limit" "$@"
}

# no_job_is_left: ends the script if a job of this user runs without a daemon.
no_job_is_left() {
    expect "no job is left" "" "$(mpdlistjobs 2>&1 | grep ^jobid || true)"
}

# expect NAME WANTED GOT: compares, and ends the script if the values differ.
expect() {
    [[ $2 == "$3" ]] || die "$1: wanted '$2', got '$3'"
    echo "ok: $1"
}
