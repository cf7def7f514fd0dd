//! `mpdtrace`: consoles of the ring: mpdtrace and its siblings.

fn main() {}
