//! `mpdboot`: raises a ring of daemons over ssh.

fn main() {}
