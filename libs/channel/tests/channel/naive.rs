//! A second implementation of the channel, written from docs/PROTOCOL.md alone with other cryptography:
//! no machine, no state, no regard for speed or secrecy. The product must interoperate with it.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};

pub(crate) type Bytes32 = [u8; 32];

pub(crate) fn derived(key: &Bytes32, label: &str) -> Bytes32 {
    expand(&Hkdf::new(Some(b"mpd1"), key), label.as_bytes())
}

fn expand(prk: &Hkdf<Sha256>, info: &[u8]) -> Bytes32 {
    let mut out = [0; 32];
    prk.expand(info, &mut out).unwrap();
    out
}

fn mac(key: &Bytes32, data: &[u8]) -> Bytes32 {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(data);
    mac.finalize().into_bytes().into()
}

pub(crate) fn public(private: &Bytes32) -> Bytes32 {
    x25519(*private, X25519_BASEPOINT_BYTES)
}

pub(crate) fn id(key: &Bytes32) -> String {
    let hash = Sha256::digest(derived(key, "mpd1 id"));
    hash[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The fields of a hello.
#[derive(Clone)]
pub(crate) struct Hello {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u8,
    pub(crate) purpose: u8,
    pub(crate) reserved: [u8; 2],
    pub(crate) from: [u8; 16],
    pub(crate) to: [u8; 16],
    pub(crate) nonce: Bytes32,
    pub(crate) ephemeral: Bytes32,
}

impl Hello {
    pub(crate) fn m1(&self, key: &Bytes32) -> Vec<u8> {
        let mut m1 = self.magic.to_vec();
        m1.extend([self.version, self.purpose]);
        m1.extend(self.reserved);
        m1.extend(self.from);
        m1.extend(self.to);
        m1.extend(self.nonce);
        m1.extend(self.ephemeral);
        m1.extend(mac(&derived(key, "mpd1 hello"), &m1));
        m1
    }
}

/// The secrets and proofs of both sides after the handshake.
pub(crate) struct Secrets {
    pub(crate) mac_r: Bytes32,
    pub(crate) mac_i: Bytes32,
    pub(crate) key_i: Bytes32,
    pub(crate) key_r: Bytes32,
}

impl Secrets {
    fn new(key: &Bytes32, private: &Bytes32, ephemeral: &[u8], m1: &[u8], body: &[u8]) -> Self {
        let dh = x25519(*private, ephemeral.try_into().unwrap());
        let th = Sha256::digest([m1, body].concat());
        let prk = Hkdf::new(Some(&derived(key, "mpd1 psk")), &dh);
        let bound = |label: &str| expand(&prk, &[label.as_bytes(), &th].concat());
        let mac_r = mac(&bound("mpd1 mac r"), &th);
        let mac_i = mac(&bound("mpd1 mac i"), &[&th[..], &mac_r].concat());
        Self { mac_r, mac_i, key_i: bound("mpd1 key i"), key_r: bound("mpd1 key r") }
    }
}

/// M2, and the secrets that the responder then has.
pub(crate) fn answer(
    key: &Bytes32,
    m1: &[u8],
    from: &[u8; 16],
    nonce: &Bytes32,
    private: &Bytes32,
) -> Option<(Vec<u8>, Secrets)> {
    if mac(&derived(key, "mpd1 hello"), &m1[..104]) != m1[104..] {
        return None;
    }
    let mut m2 = [&from[..], nonce, &public(private)].concat();
    let secrets = Secrets::new(key, private, &m1[72..104], m1, &m2);
    m2.extend(secrets.mac_r);
    Some((m2, secrets))
}

/// The secrets that the initiator has after M2, if its proof is right; M3 is `mac_i`.
pub(crate) fn received_answer(
    key: &Bytes32,
    m1: &[u8],
    m2: &[u8],
    private: &Bytes32,
) -> Option<Secrets> {
    let secrets = Secrets::new(key, private, &m2[48..80], m1, &m2[..80]);
    (secrets.mac_r == m2[80..]).then_some(secrets)
}

pub(crate) fn refusal(key: &Bytes32, m1: &[u8], version: u8, text: &[u8]) -> Vec<u8> {
    let mut refusal = b"MPDn".to_vec();
    refusal.extend([version, 0, 0, 0]);
    refusal.extend(text);
    refusal.resize(80, 0);
    refusal.extend(mac(&derived(key, "mpd1 refuse"), &[m1, &refusal].concat()));
    refusal
}

/// The key of a frame, from the first key of its direction.
fn key_of_frame(first: &Bytes32, number: u64) -> Bytes32 {
    (0..number >> 20).fold(*first, |key, _| expand(&Hkdf::from_prk(&key).unwrap(), b"mpd1 next"))
}

pub(crate) fn seal(first: &Bytes32, number: u64, text: &[u8]) -> Vec<u8> {
    let (cipher, nonce) = cipher(first, number);
    let length = (text.len() as u32).to_be_bytes();
    let sealed = cipher.encrypt(&nonce, Payload { msg: text, aad: &length }).unwrap();
    [&length[..], &sealed].concat()
}

/// The text of the first frame in `bytes`, and the rest.
pub(crate) fn open<'a>(first: &Bytes32, number: u64, bytes: &'a [u8]) -> (Vec<u8>, &'a [u8]) {
    let (cipher, nonce) = cipher(first, number);
    let (length, rest) = bytes.split_at(4);
    let end = u32::from_be_bytes(length.try_into().unwrap()) as usize + 16;
    let text = cipher.decrypt(&nonce, Payload { msg: &rest[..end], aad: length }).unwrap();
    (text, &rest[end..])
}

fn cipher(first: &Bytes32, number: u64) -> (Aes256Gcm, Nonce<aes_gcm::aes::cipher::consts::U12>) {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    (Aes256Gcm::new(&key_of_frame(first, number).into()), nonce.into())
}
