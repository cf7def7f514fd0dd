//! The key schedule of the channel: all derivations from a key and an agreement.
//!
//! HKDF and HMAC over SHA-256 with the labels of docs/PROTOCOL.md. This module makes no decisions.

use crypto::{digest, hkdf, hmac};
use zeroize::Zeroizing;

/// A secret of 32 bytes, wiped when it is dropped.
pub(super) type Secret = Zeroizing<[u8; 32]>;

/// A MAC or hash.
pub(super) type Tag = [u8; 32];

const SALT: &[u8] = b"mpd1";

/// The secrets derived once from a key. The key itself has no other use.
pub(super) struct Root {
    pub(super) hello: Secret,
    pub(super) refuse: Secret,
    pub(super) psk: Secret,
    pub(super) id: [u8; 4],
}

impl Root {
    pub(super) fn derive(key: &Secret) -> Self {
        let root = extract(SALT, &key[..]);
        let id = hash(&[&expand(&root, &[b"mpd1 id"])[..]]);
        Self {
            hello: expand(&root, &[b"mpd1 hello"]),
            refuse: expand(&root, &[b"mpd1 refuse"]),
            psk: expand(&root, &[b"mpd1 psk"]),
            id: [id[0], id[1], id[2], id[3]],
        }
    }
}

/// The secrets that both sides derive from the pre-shared secret, the agreement and the transcript.
pub(super) struct HandshakeSecrets {
    transcript: Tag,
    responder_proof: Secret,
    initiator_proof: Secret,
    /// Seals the initiator's frames.
    pub(super) initiator_key: Secret,
    /// Seals the responder's frames.
    pub(super) responder_key: Secret,
}

impl HandshakeSecrets {
    pub(super) fn derive(psk: &Secret, agreement: &[u8], transcript: Tag) -> Self {
        let prk = extract(&psk[..], agreement);
        let bound = |label| expand(&prk, &[label, &transcript]);
        Self {
            transcript,
            responder_proof: bound(b"mpd1 mac r"),
            initiator_proof: bound(b"mpd1 mac i"),
            initiator_key: bound(b"mpd1 key i"),
            responder_key: bound(b"mpd1 key r"),
        }
    }

    /// The responder's proof of the key.
    pub(super) fn prove_as_responder(&self) -> Tag {
        mac(&self.responder_proof, &self.transcript)
    }

    pub(super) fn verify_responder(&self, proof: &Tag) -> bool {
        verify(&self.responder_proof, &self.transcript, proof)
    }

    /// The initiator's proof of the key, after the responder's proof.
    pub(super) fn prove_as_initiator(&self, responder: &Tag) -> Tag {
        mac(&self.initiator_proof, &join(&self.transcript, responder))
    }

    pub(super) fn verify_initiator(&self, responder: &Tag, proof: &Tag) -> bool {
        verify(&self.initiator_proof, &join(&self.transcript, responder), proof)
    }
}

/// The successor of `key` in one direction.
pub(super) fn next_key(key: &Secret) -> Secret {
    expand(&hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &key[..]), &[b"mpd1 next"])
}

pub(super) fn hash(parts: &[&[u8]]) -> Tag {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(part);
    }
    tag(context.finish().as_ref())
}

pub(super) fn mac(key: &Secret, data: &[u8]) -> Tag {
    tag(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key[..]), data).as_ref())
}

/// Compares in constant time.
pub(super) fn verify(key: &Secret, data: &[u8], proof: &[u8]) -> bool {
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &key[..]), data, proof).is_ok()
}

fn tag(bytes: &[u8]) -> Tag {
    bytes.try_into().expect("SHA-256 has 32 bytes")
}

fn join(transcript: &Tag, responder: &Tag) -> [u8; 64] {
    let mut joined = [0; 64];
    joined[..32].copy_from_slice(transcript);
    joined[32..].copy_from_slice(responder);
    joined
}

struct SecretLength;

impl hkdf::KeyType for SecretLength {
    fn len(&self) -> usize {
        32
    }
}

fn extract(salt: &[u8], secret: &[u8]) -> hkdf::Prk {
    hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret)
}

fn expand(prk: &hkdf::Prk, info: &[&[u8]]) -> Secret {
    let mut secret = Zeroizing::new([0; 32]);
    prk.expand(info, SecretLength)
        .and_then(|okm| okm.fill(&mut secret[..]))
        .expect("32 bytes are within the bound of HKDF");
    secret
}
