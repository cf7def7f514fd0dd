//! `mpdboot` as its users meet it, in worlds of scripts.

mod failures;
mod rings;
mod secrets;
mod signals;
mod world;
