//! The way from a program to its daemon: run directories, sockets, consoles.

pub mod all_rings;
pub mod console;
pub mod private_socket;
pub mod private_sockets;
pub mod ring_name;
pub mod rundir;
pub mod siblings;
pub mod site;
pub mod slots;
