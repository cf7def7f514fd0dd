//! Whether a port of one host can be reached from another: a server for one connection and its
//! client, with the words of the original between them.

use std::io::{self, Read as _, Write as _};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _,
};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use mpd_io::addresses;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::ask::left;
use crate::lookup;

/// How long a server waits for its one connection.
pub const SERVER_PATIENCE: Duration = Duration::from_secs(30);

/// How long a client tries one address.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long either waits for the other's word.
const WORD_PATIENCE: Duration = Duration::from_secs(5);

/// What a client says.
pub const HELLO: &str = "hello_from_client_to_server";

/// What a server answers.
pub const ACK: &str = "ack_from_server_to_client";

/// What a server prints before host and port.
pub const LISTENING: &str = "server listening at INADDR_ANY on:";

/// The port in a line that a server printed.
pub fn port_in(line: &str) -> Option<u16> {
    line.strip_prefix(LISTENING)?.split_whitespace().next_back()?.parse().ok()
}

/// A listener on all addresses, and its port.
///
/// # Errors
/// Those of the system.
pub fn listen() -> io::Result<(TcpListener, u16)> {
    let six = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let four = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let listener = TcpListener::bind(six).or_else(|_| TcpListener::bind(four))?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

/// Serves one connection; gives the address it came from.
///
/// # Errors
/// In words for people.
pub fn serve(listener: &TcpListener, patience: Duration) -> Result<SocketAddr, String> {
    let deadline = Instant::now() + patience;
    let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
    match poll(&mut fds, timeout) {
        Ok(0) => return Err(format!("nobody has connected for {patience:?}")),
        Ok(_) => {}
        Err(error) => return Err(format!("cannot wait for a connection: {error}")),
    }
    let (mut stream, peer) = listener.accept().map_err(|e| format!("cannot accept: {e}"))?;
    let patience = left(deadline).clamp(Duration::from_millis(1), WORD_PATIENCE);
    expect(&mut stream, HELLO, patience).map_err(|e| format!("{peer} said {e}"))?;
    stream.write_all(ACK.as_bytes()).map_err(|e| format!("cannot answer {peer}: {e}"))?;
    Ok(peer)
}

/// Connects to a server and hears its word.
///
/// # Errors
/// In words for people.
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
                expect(&mut stream, ACK, WORD_PATIENCE)
                    .map_err(|e| format!("{address} answered {e}"))?;
                return Ok(address);
            }
            Err(error) => problem = format!("cannot connect to {address}: {error}"),
        }
    }
    Err(problem)
}

/// Reads a word, whatever pieces it comes in.
fn expect(stream: &mut TcpStream, word: &str, patience: Duration) -> Result<(), String> {
    let deadline = Instant::now() + patience;
    let mut heard = Vec::new();
    let mut buffer = [0_u8; 64];
    while heard.len() < word.len() {
        let patience = left(deadline).max(Duration::from_millis(1));
        let read = stream.set_read_timeout(Some(patience)).and_then(|()| stream.read(&mut buffer));
        match read {
            Ok(0) => break,
            Ok(n) => heard.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("nothing: {error}")),
        }
        if left(deadline).is_zero() {
            break;
        }
    }
    if heard == word.as_bytes() {
        Ok(())
    } else {
        Err(format!("'{}' instead of '{word}'", String::from_utf8_lossy(&heard)))
    }
}

/// The address of ours that packets to `host` leave from. Nothing is sent.
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
    fn server_and_client_find_each_other() {
        let (listener, port) = listen().unwrap();
        let server = thread::spawn(move || serve(&listener, SERVER_PATIENCE));
        let reached = connect("127.0.0.1", port).unwrap();
        assert_eq!(reached.port(), port);
        assert!(server.join().unwrap().is_ok());
        assert!(connect("127.0.0.1", port).unwrap_err().contains("cannot connect"));
    }

    #[test]
    fn a_server_without_a_client_and_one_with_a_stranger_end() {
        let (listener, port) = listen().unwrap();
        let error = serve(&listener, Duration::from_millis(20)).unwrap_err();
        assert!(error.contains("nobody has connected"), "{error}");
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stranger.write_all(b"GET / HTTP/1.0\r\n\r\n xxxxxxxxxxxxxxx").unwrap();
        let error = serve(&listener, Duration::from_secs(5)).unwrap_err();
        assert!(error.contains("'GET / HTTP"), "{error}");
    }

    #[test]
    fn the_port_is_read_from_the_line() {
        assert_eq!(port_in("server listening at INADDR_ANY on: h1 4711"), Some(4711));
        assert_eq!(port_in("server listening at INADDR_ANY on: h1 x"), None);
        assert_eq!(port_in("hello 4711"), None);
    }

    #[test]
    fn packets_to_ourselves_leave_from_ourselves() {
        assert_eq!(own_address_towards("127.0.0.1"), Some("127.0.0.1".parse().unwrap()));
    }
}
