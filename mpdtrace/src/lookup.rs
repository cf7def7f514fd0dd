//! Names of hosts to addresses, with a deadline: a resolver may take half a minute for a no.

use std::io;
use std::net::IpAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mpd_io::addresses;

/// How long a resolver may take.
pub const PATIENCE: Duration = Duration::from_secs(8);

/// The addresses of a host, in the resolver's order, none twice.
///
/// # Errors
/// In words for people, without the host.
pub fn addresses(host: &str) -> Result<Vec<IpAddr>, String> {
    let owned = host.to_owned();
    match bounded(move || addresses::look_up(&owned)) {
        None => Err(format!("the resolver has not answered for {PATIENCE:?}")),
        Some(Err(error)) => Err(cause(&error)),
        Some(Ok(found)) if found.is_empty() => Err("it has no address".to_owned()),
        Some(Ok(found)) => Ok(found),
    }
}

/// What `work` gives, unless that takes longer than [`PATIENCE`]. Its thread is left to itself then:
/// there is no way to stop a resolver, and the process ends soon.
pub fn bounded<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Nobody may be waiting any more.
        let _ = sender.send(work());
    });
    receiver.recv_timeout(PATIENCE).ok()
}

/// `Name or service not known` without what std says before it.
fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).to_owned()
}

/// `HOST[:PORT]`, where HOST may be an IPv6 address in brackets, or a bare one without a port.
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
    fn ports_are_split_off_and_addresses_of_six_stay_whole() {
        assert_eq!(split_port("h"), ("h", None));
        assert_eq!(split_port("h:80"), ("h", Some(80)));
        assert_eq!(split_port("::1"), ("::1", None));
        assert_eq!(split_port("[::1]"), ("::1", None));
        assert_eq!(split_port("[::1]:80"), ("::1", Some(80)));
        assert_eq!(split_port("h:99999"), ("h:99999", None));
    }

    #[test]
    fn addresses_are_their_own_names() {
        assert_eq!(addresses("127.0.0.1"), Ok(vec!["127.0.0.1".parse().unwrap()]));
        assert!(addresses("no host").is_err());
    }
}
