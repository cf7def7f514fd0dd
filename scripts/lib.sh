# shellcheck shell=bash
# What the scripts beside this file share. Sourced, never run.

PROGRAM=${0##*/}
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# CARGO_TARGET_DIR counts from the caller's directory, and the scripts change theirs.
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-$ROOT/target}")
export CARGO_TARGET_DIR=$TARGET
# The toolchain that rust-toolchain.toml names can be installed under another name, where none can be fetched.
if command -v rustup >/dev/null 2>&1 && ! (cd "$ROOT" && cargo --version) >/dev/null 2>&1; then
    RUSTUP_TOOLCHAIN=$(rustup default | cut -d ' ' -f 1) && export RUSTUP_TOOLCHAIN
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

# The lines of the comment at the head of a script are its help text.
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
# ("sudo", or "sudo -n" where nobody is there to type a password). Fails with a line that tells
# what to install by hand.
install_packages() {
    local sudo=$1
    shift
    local -a root=()
    if ! have apt-get; then
        warn "no apt-get on this machine; please install by its own means: $*"
        return 1
    fi
    if [[ $(id -u) -ne 0 ]]; then
        read -r -a root <<<"$sudo"
        if ! have sudo || ! "${root[@]}" true; then
            warn "not root and no sudo; please have installed: apt-get install $*"
            return 1
        fi
    fi
    say "installing Debian packages: $*"
    local -a apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq
        -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o DPkg::Lock::Timeout=120
        -o Dpkg::Use-Pty=0)
    "${apt[@]}" update >&2 || warn "apt-get update failed; trying with the lists at hand"
    if ! "${apt[@]}" install -y --no-install-recommends "$@" >&2 </dev/null; then
        warn "apt-get could not install: $*"
        return 1
    fi
}

# Prints the C compiler wrapper of an MPICH or a relative of it; a plain "mpicc" may well belong to
# another MPI, so the header it finds is asked.
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

# build_programs [OPTION...]: builds the programs. All scripts and people use this one command: other
# packages on the command line would mean other features of the crates, and each crate compiled again.
# shellcheck disable=SC2120 # Options are rarely given.
build_programs() {
    cargo build --release --locked "$@"
}

# Builds the tests with all that they run: programs, client libraries, helpers, examples. The features are those
# that the test runners ask for.
build_tests() {
    cargo build --locked --workspace --lib --bins --tests --examples --profile suite "$@"
}
