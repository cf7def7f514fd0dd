//! Neighbours by PMI: each rank tells where it is and reads the word of the rank behind it.

use std::error::Error;
use std::io::Write;

use pmi_client::{Client, Version};

fn main() -> Result<(), Box<dyn Error>> {
    // An argument, whichever, asks for PMI-2.
    let version = if std::env::args().len() > 1 { Version::Two } else { Version::One };
    let client = Client::connect(version)?;
    let (rank, size) = (client.process_info().rank, client.process_info().size);
    let here = client.ranks_of_node()?.len();

    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    let address = format!("{}:{}", host.trim(), std::process::id());
    client.put(format!("address-{rank}").as_bytes(), address.as_bytes())?;
    client.fence()?;

    let right = (rank + 1) % size;
    let key = format!("address-{right}");
    let neighbour = client.get(key.as_bytes())?.ok_or("the neighbour has put nothing")?;
    let neighbour = String::from_utf8_lossy(&neighbour);
    let line =
        format!("rank {rank} of {size}, {here} on this node; rank {right} is at {neighbour}\n");
    std::io::stdout().write_all(line.as_bytes())?;
    client.finalize()?;
    Ok(())
}
