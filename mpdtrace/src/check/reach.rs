//! A server for one connection, and its client, to try whether a host reaches a port of another
//! host. Their messages are those of the original MPD.

use std::io::{self, Read as _, Write as _};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _,
};
use std::time::{Duration, Instant};

use mpd_io::network::addresses;
use nix::poll::PollFlags;

use crate::ask::left;
use crate::lookup;
use mpd_io::wait::until_ready;

/// How long a server waits for its connection.
pub const SERVER_PATIENCE: Duration = Duration::from_secs(30);

/// How long a client tries one address.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long server and client wait for a message.
const MESSAGE_PATIENCE: Duration = Duration::from_secs(5);

/// Message of the client.
pub const HELLO: &str = "hello_from_client_to_server";

/// Answer of the server.
pub const ACK: &str = "ack_from_server_to_client";

/// Text that a server prints before its host and port.
pub const LISTENING: &str = "server listening at INADDR_ANY on:";

/// The port in a line that a server has printed.
pub fn port_in(line: &str) -> Option<u16> {
    line.strip_prefix(LISTENING)?.split_whitespace().next_back()?.parse().ok()
}

/// Listens on all addresses; returns the port, too.
///
/// # Errors
/// The system's error.
pub fn listen() -> io::Result<(TcpListener, u16)> {
    let six = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let four = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let listener = TcpListener::bind(six).or_else(|_| TcpListener::bind(four))?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

/// Serves one connection; returns the peer's address.
///
/// # Errors
/// A text for people.
pub fn serve(listener: &TcpListener, patience: Duration) -> Result<SocketAddr, String> {
    let deadline = Instant::now() + patience;
    while !until_ready(listener, PollFlags::POLLIN, Some(left(deadline)))
        .map_err(|error| format!("cannot wait for a connection: {error}"))?
    {
        if left(deadline).is_zero() {
            return Err(format!("no client has connected for {patience:?}"));
        }
    }
    let (mut stream, peer) = listener.accept().map_err(|e| format!("cannot accept: {e}"))?;
    let patience = left(deadline).clamp(Duration::from_millis(1), MESSAGE_PATIENCE);
    expect(&mut stream, HELLO, patience).map_err(|e| format!("{peer} sent {e}"))?;
    stream.write_all(ACK.as_bytes()).map_err(|e| format!("cannot answer {peer}: {e}"))?;
    Ok(peer)
}

/// Connects to a server and receives its answer.
///
/// # Errors
/// A text for people.
pub fn connect(host: &str, port: u16) -> Result<SocketAddr, String> {
    let addresses =
        lookup::addresses(host).map_err(|error| format!("'{host}' does not resolve ({error})"))?;
    let mut problem = String::new();
    for ip in addresses {
        let address = SocketAddr::from((ip, port));
        match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
            Ok(mut stream) => {
                stream
                    .write_all(HELLO.as_bytes())
                    .map_err(|e| format!("cannot speak to {address}: {e}"))?;
                expect(&mut stream, ACK, MESSAGE_PATIENCE)
                    .map_err(|e| format!("{address} answered {e}"))?;
                return Ok(address);
            }
            Err(error) => problem = format!("cannot connect to {address}: {error}"),
        }
    }
    Err(problem)
}

/// Reads exactly `message` before the deadline.
fn expect(stream: &mut TcpStream, message: &str, patience: Duration) -> Result<(), String> {
    let deadline = Instant::now() + patience;
    let mut received = Vec::new();
    let mut buffer = [0_u8; 64];
    while received.len() < message.len() {
        let patience = left(deadline).max(Duration::from_millis(1));
        let read = stream.set_read_timeout(Some(patience)).and_then(|()| stream.read(&mut buffer));
        match read {
            Ok(0) => break,
            Ok(n) => received.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("nothing: {error}")),
        }
        if left(deadline).is_zero() {
            break;
        }
    }
    if received == message.as_bytes() {
        Ok(())
    } else {
        Err(format!("'{}' instead of '{message}'", String::from_utf8_lossy(&received)))
    }
}

/// The local address of packets to `host`. Nothing is sent.
pub fn own_address_towards(host: &str) -> Option<IpAddr> {
    const DISCARD: u16 = 9;
    let host = host.to_owned();
    let target = lookup::bounded(move || (host.as_str(), DISCARD).to_socket_addrs().ok()?.next())??;
    addresses::towards(target)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_client_reaches_a_server() {
        let (listener, port) = listen().unwrap();
        let server = thread::spawn(move || serve(&listener, SERVER_PATIENCE));
        let reached = connect("127.0.0.1", port).unwrap();
        assert_eq!(reached.port(), port);
        assert!(server.join().unwrap().is_ok());
        assert!(connect("127.0.0.1", port).unwrap_err().contains("cannot connect"));
    }

    #[test]
    fn a_server_ends_without_a_client_and_with_an_unknown_client() {
        let (listener, port) = listen().unwrap();
        let error = serve(&listener, Duration::from_millis(20)).unwrap_err();
        assert!(error.contains("no client has connected"), "{error}");
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stranger.write_all(b"GET / HTTP/1.0\r\n\r\n xxxxxxxxxxxxxxx").unwrap();
        let error = serve(&listener, Duration::from_secs(5)).unwrap_err();
        assert!(error.contains("'GET / HTTP"), "{error}");
    }

    #[test]
    fn the_port_is_read_from_the_servers_line() {
        assert_eq!(port_in("server listening at INADDR_ANY on: h1 4711"), Some(4711));
        assert_eq!(port_in("server listening at INADDR_ANY on: h1 x"), None);
        assert_eq!(port_in("hello 4711"), None);
    }

    #[test]
    fn packets_to_loopback_have_a_loopback_source() {
        assert_eq!(own_address_towards("127.0.0.1"), Some("127.0.0.1".parse().unwrap()));
    }
}
