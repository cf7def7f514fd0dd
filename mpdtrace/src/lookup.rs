//! Resolves host names with a deadline, because a resolver may take half a minute to fail.

use std::io;
use std::net::IpAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mpd_io::network::addresses;

/// Deadline of a resolution.
pub const PATIENCE: Duration = Duration::from_secs(8);

/// The addresses of a host, in the resolver's order, without duplicates.
///
/// # Errors
/// A text for people that does not name the host.
pub fn addresses(host: &str) -> Result<Vec<IpAddr>, String> {
    let owned = host.to_owned();
    match bounded(move || addresses::look_up(&owned)) {
        None => Err(format!("the resolver has not answered for {} s", PATIENCE.as_secs())),
        Some(Err(error)) => Err(cause(&error)),
        Some(Ok(found)) if found.is_empty() => Err("it has no address".to_owned()),
        Some(Ok(found)) => Ok(found),
    }
}

/// The result of `work`, or `None` after [`PATIENCE`]. The thread then continues, because a
/// resolver cannot be stopped; the process ends soon.
pub fn bounded<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // The receiver may have given up.
        let _ = sender.send(work());
    });
    receiver.recv_timeout(PATIENCE).ok()
}

/// The cause alone, for instance `Name or service not known`, without the prefix of std.
fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).to_owned()
}

/// Splits `HOST[:PORT]`. HOST may be an IPv6 address in brackets, or a bare one without a port.
pub fn split_port(text: &str) -> (&str, Option<u16>) {
    if let Some((host, port)) = addresses::split_port(text) {
        return (host, Some(port));
    }
    (text.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(text), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_split_off_and_ipv6_addresses_stay_whole() {
        assert_eq!(split_port("h"), ("h", None));
        assert_eq!(split_port("h:80"), ("h", Some(80)));
        assert_eq!(split_port("::1"), ("::1", None));
        assert_eq!(split_port("[::1]"), ("::1", None));
        assert_eq!(split_port("[::1]:80"), ("::1", Some(80)));
        assert_eq!(split_port("h:99999"), ("h:99999", None));
    }

    #[test]
    fn an_address_resolves_to_itself() {
        assert_eq!(addresses("127.0.0.1"), Ok(vec!["127.0.0.1".parse().unwrap()]));
        assert!(addresses("no host").is_err());
    }
}
