//! The machine of output and input: its decisions on one host, and many hosts in a tree.

mod check;
mod decisions;
mod host;
mod job;
mod tree;
