//! `mpdboot` as users run it, with scripts in place of hosts and daemons.

mod accounts;
mod failures;
mod rings;
mod secrets;
mod signals;
mod slurm;
mod world;
