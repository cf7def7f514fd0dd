//! Tests of the crate.

mod farm;
mod sim;
mod text;
mod worker;
