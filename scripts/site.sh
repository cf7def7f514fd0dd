# shellcheck shell=bash
# Hosts of a site on the rig, for scripts/rig-site and scripts/rig-systemd. They source this file after lib.sh.

# Sets the programs (MPD_BIN_DIR, or the release build), their version, and the directory that hosts know them by.
prepare_site() {
    if [[ -z ${MPD_BIN_DIR-} ]]; then
        build_programs --quiet
        MPD_BIN_DIR=$TARGET/release
    fi
    MPD_BIN_DIR=$(realpath "$MPD_BIN_DIR")
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
    bin=/usr/lib/mpd-suite/$version/bin
    rig=scripts/rig.sh
    made=false
    [[ -d /usr/lib/mpd-suite ]] || made=true
}

# Ends the rig.
end_site() {
    $rig down >/dev/null 2>&1 || true
    # The hosts share /usr with this machine.
    if $made; then rmdir --ignore-fail-on-non-empty /usr/lib/mpd-suite 2>/dev/null || true; fi
}

# site_host DIRECTORY...: prints commands for sh that give a host its own /etc/ssh with a new key, /etc/mpd, PAM service,
# versions of the suite, and copies of the directories.
site_host() {
    cat <<END
mkdir -p /etc/mpd /usr/lib/mpd-suite
for directory in /etc/mpd /usr/lib/mpd-suite /etc/ssh /etc/pam.d $*; do
    mkdir -p /var/tmp/own\$directory
    case \$directory in /usr/* | /etc/mpd) ;; *) cp -a \$directory/. /var/tmp/own\$directory ;; esac
    mount --bind /var/tmp/own\$directory \$directory
done
rm -f /etc/ssh/ssh_host_*
ssh-keygen -q -t ed25519 -N '' -C '' -f /etc/ssh/ssh_host_ed25519_key
mkdir -p /etc/ssh/ssh_config.d
printf 'Include /etc/ssh/ssh_config.d/*.conf\n' | cat - /etc/ssh/ssh_config >/etc/ssh/new
mv /etc/ssh/new /etc/ssh/ssh_config
cp $ROOT/contrib/package/mpd-sshd.pam /etc/pam.d/mpd-sshd
# A namespace has no login uid.
sed -i /pam_loginuid/d /etc/pam.d/mpd-sshd
mkdir -p $bin
mount --bind $MPD_BIN_DIR $bin
ln -s /usr/sbin/sshd /usr/lib/mpd-suite/mpd-sshd
ln -s $version /usr/lib/mpd-suite/current
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
