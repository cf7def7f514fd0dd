# shellcheck shell=bash
# Hosts of a site on the rig, for scripts/rig-site, scripts/rig-systemd and scripts/rig-upgrade. They source this file after lib.sh.

# Sets the programs (MPD_BIN_DIR, or the release build), their version, and the directory that hosts know them by.
prepare_site() {
    given=()
    if [[ -n ${MPD_BIN_DIR-} ]]; then
        given=(--programs "$MPD_BIN_DIR")
    else
        build_programs --quiet
        MPD_BIN_DIR=$TARGET/release
    fi
    MPD_BIN_DIR=$(realpath "$MPD_BIN_DIR")
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
    bin=/usr/lib/mpd-suite/$version/bin
    rig=scripts/rig.sh
}

# Ends the rig.
end_site() {
    $rig down >/dev/null 2>&1 || true
}

# Prints commands for sh that give a host a new key, and /usr, /etc, /var/lib and /var/log of its own.
# They begin as those of the rig, which do not change.
site_host() {
    cat <<END
mkdir /var/tmp/own
mount -t tmpfs -o size=400m own /var/tmp/own
for directory in /usr /etc /var/lib /var/log; do
    upper=/var/tmp/own/upper\$directory work=/var/tmp/own/work\$directory
    mkdir -p \$upper \$work
    chmod --reference=\$directory \$upper
    mount -t overlay -o lowerdir=\$directory,upperdir=\$upper,workdir=\$work own \$directory
done
cp /proc/sys/kernel/hostname /etc/hostname
rm -rf /etc/mpd /etc/ssh/ssh_host_* /var/log/mpd-suite
ssh-keygen -q -t ed25519 -N '' -C '' -f /etc/ssh/ssh_host_ed25519_key
mkdir -p /etc/ssh/ssh_config.d
printf 'Include /etc/ssh/ssh_config.d/*.conf\n' | cat - /etc/ssh/ssh_config >/etc/ssh/new
mv /etc/ssh/new /etc/ssh/ssh_config
END
}

# Prints commands for sh that give a host the version of these programs, as the packages would.
site_programs() {
    cat <<END
mkdir -p /etc/mpd $bin
mount --bind $MPD_BIN_DIR $bin
cp $ROOT/contrib/package/mpd-site-group /usr/lib/mpd-suite
ln -s /usr/sbin/sshd /usr/lib/mpd-suite/mpd-sshd
ln -s $version /usr/lib/mpd-suite/current
cp $ROOT/contrib/package/mpd-sshd.pam /etc/pam.d/mpd-sshd
$(site_pam)
END
}

# make_packages: packages of these programs and this version, in $packages/$version. Client libraries are in the directory
# of given programs, or in target/library; otherwise they are built.
make_packages() {
    mkdir -p "$TARGET"
    packages=$(mktemp -d "$TARGET/$PROGRAM.XXXXXX")
    scripts/package "${given[@]}" --output "$packages/$version" >/dev/null
}

# A command for sh that prints the files of a host that packages or mpdsite may change.
# shellcheck disable=SC2034
site_files="{ find /usr /etc /var/lib/dpkg/alternatives /var/lib/*mpd* /var/log/*mpd* /run/*mpd*; find /etc/ssh -type f -exec md5sum {} +; } 2>/dev/null"

# Prints a command for sh that removes from the PAM service what a namespace does not have: a login uid.
site_pam() {
    echo 'sed -i /pam_loginuid/d /etc/pam.d/mpd-sshd'
}

# Prints commands for sh that start the starter, without systemd as the first process.
site_starter() {
    cat <<'END'
mkdir -p /run/s /run/sshd
setsid systemd-socket-activate -l 7122 --accept --inetd /usr/lib/mpd-suite/mpd-sshd -i -f /etc/mpd/sshd_config \
    -E /run/s/sshd.log >/run/s/socket.log 2>&1 </dev/null &
END
}

on() { $rig exec "$@"; }

# until_it SECONDS COMMAND...: waits until the command succeeds.
until_it() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || return 1
        sleep 0.2
    done
}
