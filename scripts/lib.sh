# shellcheck shell=bash
# Functions for the scripts in this directory. The scripts source this file.

PROGRAM=${0##*/}
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# CARGO_TARGET_DIR may be relative to the directory of the caller, and the scripts change their directory.
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-$ROOT/target}")
export CARGO_TARGET_DIR=$TARGET
# The toolchain of rust-toolchain.toml may be installed under another name, on machines that cannot download it.
if command -v rustup >/dev/null 2>&1 && ! (cd "$ROOT" && cargo --version) >/dev/null 2>&1; then
    # A user who installs built programs may have no toolchain at all.
    RUSTUP_TOOLCHAIN=$(rustup default 2>/dev/null | cut -d ' ' -f 1) || true
    if [[ -n $RUSTUP_TOOLCHAIN ]]; then export RUSTUP_TOOLCHAIN; else unset RUSTUP_TOOLCHAIN; fi
fi

say() {
    printf '%s: %s\n' "$PROGRAM" "$*"
}

warn() {
    printf '%s: %s\n' "$PROGRAM" "$*" >&2
}

die() {
    warn "$*"
    exit 1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# Prints the comment at the beginning of a script, which is its help text.
print_help() {
    awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"
}

# Prints those of the named Debian packages that are not installed.
missing_packages() {
    local package
    for package in "$@"; do
        dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' ||
            printf '%s\n' "$package"
    done
}

# install_packages SUDO PACKAGE...: installs Debian packages as root or by the command SUDO
# ("sudo", or "sudo -n" if no user can type a password). Fails with a line that names the packages
# to install by hand.
install_packages() {
    local sudo=$1
    shift
    local -a root=()
    if ! have apt-get; then
        warn "this machine has no apt-get; please install with its package manager: $*"
        return 1
    fi
    if [[ $(id -u) -ne 0 ]]; then
        read -r -a root <<<"$sudo"
        if ! have sudo || ! "${root[@]}" true; then
            warn "not root and no sudo; as root, please run: apt-get install $*"
            return 1
        fi
    fi
    say "installing Debian packages: $*"
    local -a apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq
        -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o DPkg::Lock::Timeout=120
        -o Dpkg::Use-Pty=0)
    "${apt[@]}" update >&2 || warn "apt-get update failed; trying with the old lists"
    if ! "${apt[@]}" install -y --no-install-recommends "$@" >&2 </dev/null; then
        warn "apt-get could not install: $*"
        return 1
    fi
}

# Prints the C compiler wrapper of an MPICH or a library derived from it. A plain "mpicc" may belong
# to another MPI, so the function examines its header.
find_mpich_compiler() {
    local wrapper
    for wrapper in mpicc.mpich mpicc; do
        if have "$wrapper" && printf '%s\n' '#include <mpi.h>' \
            '#if !defined MPICH_VERSION && !defined I_MPI_VERSION' '#error another MPI' '#endif' |
            "$wrapper" -E -x c - >/dev/null 2>&1; then
            command -v "$wrapper"
            return 0
        fi
    done
    return 1
}

# build_programs [OPTION...]: builds the programs. All scripts and people use this command. With other
# packages on the command line, the crates would have other features and be compiled again.
# shellcheck disable=SC2120 # Options are rarely given.
build_programs() {
    cargo build --release --locked "$@"
}

# Builds the tests and the files that they run: programs, client libraries, helpers, examples. The features are
# those of the test runners.
build_tests() {
    cargo build --locked --workspace --lib --bins --tests --examples --profile suite "$@"
}
