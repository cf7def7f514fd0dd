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

# expect NAME WANTED GOT: compares, and ends the script if the values differ.
expect() {
    [[ $2 == "$3" ]] || die "$1: wanted '$2', got '$3'"
    echo "ok: $1"
}
