//! The ring machine of the daemons among made-up hosts.
//!
//! `sweep` runs random fault schedules (`schedule`) and replays one by its seed; `rules` tells one story
//! for each rule of the ring; `mass` takes rings of many. `world`, `hosts` and `network` are the hosts and what
//! lies between them, `checks` and `names` say what must hold. `jobs` does the same with the managers of a job.
//! scripts/sim and scripts/replay are the way in.

mod checks;
mod hosts;
mod jobs;
mod mass;
mod names;
mod network;
mod rules;
mod schedule;
mod sweep;
mod trace;
mod world;
