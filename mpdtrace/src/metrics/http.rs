//! As much of HTTP as a reader of metrics needs: one request, one answer, and the connection ends.

/// Most bytes of a request.
pub const MAX_REQUEST: usize = 8 << 10;

/// What a client has sent so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The end of the request is missing.
    Incomplete,
    /// It asks for the metrics.
    Get,
    /// It asks for what would be said about the metrics, without them.
    Head,
    /// It is not answered with metrics, but with this status.
    Refused(&'static str),
}

impl Request {
    /// Reads a request. Bytes after its end have no effect.
    pub fn of(bytes: &[u8]) -> Self {
        let Some(end) = end(bytes) else {
            return match bytes.len() {
                MAX_REQUEST.. => Self::Refused("431 Request Header Fields Too Large"),
                _ => Self::Incomplete,
            };
        };
        let line = bytes[..end].split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut words = line.split(|byte| *byte == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Self::Refused("400 Bad Request");
        };
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        match (method, path) {
            _ if !version.starts_with(b"HTTP/1.") => Self::Refused("400 Bad Request"),
            (b"GET", b"/" | b"/metrics") => Self::Get,
            (b"HEAD", b"/" | b"/metrics") => Self::Head,
            (b"GET" | b"HEAD", _) => Self::Refused("404 Not Found"),
            _ => Self::Refused("405 Method Not Allowed"),
        }
    }

    /// The answer with the metrics `text`. `None` while the request is incomplete.
    pub fn answer(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Incomplete => None,
            Self::Get => Some(message("200 OK", super::MEDIA_TYPE, text.len(), text)),
            Self::Head => Some(message("200 OK", super::MEDIA_TYPE, text.len(), "")),
            Self::Refused(status) => {
                let text = format!("{status}; the metrics are at /metrics\n");
                Some(message(status, "text/plain; charset=utf-8", text.len(), &text))
            }
        }
    }
}

/// The length of a request with its empty line.
fn end(bytes: &[u8]) -> Option<usize> {
    let bytes = &bytes[..bytes.len().min(MAX_REQUEST)];
    let after = |pattern: &[u8]| {
        let at = bytes.windows(pattern.len()).position(|window| window == pattern);
        at.map(|at| at + pattern.len())
    };
    [after(b"\r\n\r\n"), after(b"\n\n")].into_iter().flatten().min()
}

fn message(status: &str, media: &str, length: usize, body: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    (head + body).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_the_metrics_is_answered_with_them() {
        let asked = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n";
        let whole = Request::of(asked);
        assert_eq!(whole, Request::Get);
        for cut in 0..asked.len() {
            assert_eq!(Request::of(&asked[..cut]), Request::Incomplete, "{cut}");
        }
        let answer = String::from_utf8(whole.answer("mpd_up 1\n# EOF\n").unwrap()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics"));
        assert!(
            answer.ends_with("Content-Length: 15\r\nConnection: close\r\n\r\nmpd_up 1\n# EOF\n")
        );
        let head = Request::of(b"HEAD / HTTP/1.0\n\n").answer("mpd_up 1\n").unwrap();
        let head = String::from_utf8(head).unwrap();
        assert!(head.contains("Content-Length: 9\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn other_requests_are_refused_with_a_status() {
        let status = |text: &str| match Request::of(text.as_bytes()) {
            Request::Refused(status) => &status[..3],
            other => panic!("{other:?}"),
        };
        assert_eq!(status("GET /secret HTTP/1.1\r\n\r\n"), "404");
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "405");
        assert_eq!(status("GET /metrics\r\n\r\n"), "400");
        assert_eq!(status("GET /metrics SPDY/3 \r\n\r\n"), "400");
        assert_eq!(status("\n\n"), "400");
        assert_eq!(status(&"x".repeat(MAX_REQUEST)), "431");
    }
}
