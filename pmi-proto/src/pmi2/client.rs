//! Client: the client's side of a PMI-2 conversation.
//!
//! [`Client::request`] encodes requests; any number may be open at once. [`Client::poll_reply`] returns the parsed
//! responses, each with the token of its thread. The machine is pure, like the server side.

use super::{Decoder, Element, FrameTooLong, Request, Response};
use crate::error::{ProtocolError, excerpt};
use crate::pmi1::reply;

/// The client's side of one conversation.
#[derive(Debug, Default)]
pub struct Client {
    decoder: Decoder,
}

/// A message of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The answer to `init`.
    ResponseToInit {
        /// The version of the server. If it is not 2, the conversation continues in that dialect.
        version: u32,
        /// Its subversion.
        subversion: u32,
        /// 0, or -1 if the client's version is not served.
        rc: i32,
    },
    /// The answer to a request.
    Response(Response),
    /// An invalid message. After a bad frame or an overlong line there is no further message.
    NotUnderstood(ProtocolError),
}

impl Client {
    /// A client before its first request.
    pub fn new() -> Self {
        Self::default()
    }

    /// The line that asks for PMI 2.0. Requests may follow when it was answered with rc=0.
    pub fn init(&self) -> Vec<u8> {
        b"cmd=init pmi_version=2 pmi_subversion=0\n".to_vec()
    }

    /// The frame of a request, with the token that its response will repeat.
    ///
    /// # Errors
    ///
    /// [`FrameTooLong`], for long values and for spawns with many arguments.
    pub fn request(
        &self,
        thrid: Option<&[u8]>,
        request: &Request,
    ) -> Result<Vec<u8>, FrameTooLong> {
        request.message(thrid).encode()
    }

    /// Takes bytes from the server, in any chunking.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.decoder.receive(bytes);
    }

    /// The next reply.
    pub fn poll_reply(&mut self) -> Option<Reply> {
        let received = self.decoder.poll()?;
        Some(match received {
            Ok(Element::Line(line)) => answer_to_init(&line),
            Ok(Element::Message(message)) => match Response::parse(&message) {
                Ok(response) => Reply::Response(response),
                Err(error) => Reply::NotUnderstood(error),
            },
            Err(error) => Reply::NotUnderstood(error),
        })
    }
}

/// The answer to `init`, the only line of a server.
fn answer_to_init(line: &[u8]) -> Reply {
    let reply = reply::Reply::parse(line);
    let reply::Reply::ResponseToInit { version, subversion, rc } = reply else {
        return Reply::NotUnderstood(ProtocolError::UnknownCommand { name: excerpt(line) });
    };
    Reply::ResponseToInit { version, subversion, rc }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmi2::Content;

    #[test]
    fn replies_come_in_order_with_any_chunking() {
        let stream = b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n\
            46    cmd=kvs-get-response;thrid=8;found=FALSE;rc=0;     8cmd=what;abcdefg";
        for chunk in [1, 4, 200] {
            let mut client = Client::new();
            let mut replies = Vec::new();
            for piece in stream.chunks(chunk) {
                client.receive(piece);
                replies.extend(std::iter::from_fn(|| client.poll_reply()));
            }
            assert_eq!(replies.len(), 4, "{replies:?}");
            assert_eq!(replies[0], Reply::ResponseToInit { version: 2, subversion: 0, rc: 0 });
            let response = Response {
                thrid: Some(b"8".into()),
                command: b"kvs-get".into(),
                outcome: Ok(Content::Value(None)),
            };
            assert_eq!(replies[1], Reply::Response(response));
            assert!(replies[2..].iter().all(|reply| matches!(reply, Reply::NotUnderstood(_))));
        }
    }

    #[test]
    fn an_init_and_a_request_are_written_as_slurm_s_client_writes_them() {
        let client = Client::new();
        assert_eq!(client.init(), b"cmd=init pmi_version=2 pmi_subversion=0\n");
        let request = Request::FullInit { rank: Some(0), threaded: false };
        let frame = client.request(None, &request).unwrap();
        assert_eq!(frame, b"    38cmd=fullinit;pmirank=0;threaded=FALSE;");
    }
}
