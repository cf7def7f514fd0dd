#!/usr/bin/env python3
"""Prints channel.txt: test vectors of the channel, from docs/PROTOCOL.md alone.

    libs/channel/tests/vectors/make-channel.py > libs/channel/tests/vectors/channel.txt

Needs the Python package `cryptography` for X25519 and AES-GCM. The tests read channel.txt and do not
run this script. It is the third implementation, and makes the vectors again when the protocol changes.
"""

import hashlib
import hmac

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM


def mac(key, data):
    """HMAC-SHA256, which is HKDF-Extract too."""
    return hmac.new(key, data, hashlib.sha256).digest()


def expand(prk, info):
    """HKDF-Expand to 32 bytes, which is one block."""
    return mac(prk, info + b"\x01")


def frame(key, number, text):
    """One sealed frame."""
    length = len(text).to_bytes(4, "big")
    return length + AESGCM(key).encrypt(bytes(4) + number.to_bytes(8, "big"), text, length)


def show(name, value):
    """One line of the file."""
    print(name, "=", value.hex() if isinstance(value, bytes) else value)


def counted(first):
    """32 bytes that are clearly not random."""
    return bytes((first + i) % 256 for i in range(32))


def main():
    print("# Test vectors of the channel (docs/PROTOCOL.md); made by make-channel.py beside this file.")
    print("# Bytes are hexadecimal; text_* are text, taken literally after '= '.")

    print("\n# From the key")
    key = counted(0x00)
    root = mac(b"mpd1", key)
    k_hello, k_psk = expand(root, b"mpd1 hello"), expand(root, b"mpd1 psk")
    k_refuse, k_id = expand(root, b"mpd1 refuse"), expand(root, b"mpd1 id")
    show("key", key)
    show("root", root)
    show("k_hello", k_hello)
    show("k_psk", k_psk)
    show("k_refuse", k_refuse)
    show("k_id", k_id)
    show("id", hashlib.sha256(k_id).digest()[:4])

    print("\n# What the two sides bring; purpose 1 (ring), peer is inst_r")
    inst_i, inst_r = b"\xa1" * 16, b"\xb2" * 16
    nonce_i, nonce_r = counted(0x40), counted(0x60)
    private_i, private_r = counted(0x80), counted(0xC0)
    secret_i = X25519PrivateKey.from_private_bytes(private_i)
    secret_r = X25519PrivateKey.from_private_bytes(private_r)
    eph_i = secret_i.public_key().public_bytes_raw()
    eph_r = secret_r.public_key().public_bytes_raw()
    for name in ("inst_i", "inst_r", "nonce_i", "nonce_r", "private_i", "eph_i", "private_r", "eph_r"):
        show(name, locals()[name])

    print("\n# The handshake")
    body = b"MPDr\x01\x01\0\0" + inst_i + inst_r + nonce_i + eph_i
    m1 = body + mac(k_hello, body)
    dh = secret_i.exchange(X25519PublicKey.from_public_bytes(eph_r))
    body = inst_r + nonce_r + eph_r
    th = hashlib.sha256(m1 + body).digest()
    prk = mac(k_psk, dh)
    mac_r = mac(expand(prk, b"mpd1 mac r" + th), th)
    mac_i = mac(expand(prk, b"mpd1 mac i" + th), th + mac_r)
    key_i, key_r = expand(prk, b"mpd1 key i" + th), expand(prk, b"mpd1 key r" + th)
    show("m1", m1)
    show("dh", dh)
    show("th", th)
    show("prk", prk)
    show("m2", body + mac_r)
    show("m3", mac_i)
    show("key_i", key_i)
    show("key_r", key_r)

    print("\n# Frames: 0 and 1 of the initiator and its bye; 0 of the responder")
    show("text_i0", "first")
    show("frame_i0", frame(key_i, 0, b"first"))
    show("text_i1", "second")
    show("frame_i1", frame(key_i, 1, b"second"))
    show("bye_i2", frame(key_i, 2, b""))
    show("text_r0", "answer")
    show("frame_r0", frame(key_r, 0, b"answer"))

    print("\n# Frame number 2^20 of the initiator, the first under its second key")
    key_i_next = expand(key_i, b"mpd1 next")
    show("key_i_next", key_i_next)
    show("text_i1048576", "rekeyed")
    show("frame_i1048576", frame(key_i_next, 1 << 20, b"rekeyed"))

    print("\n# A hello of version 2, and its refusal with a given text")
    body = b"MPDr\x02\x01\0\0" + m1[8:104]
    m1_version2 = body + mac(k_hello, body)
    text = "mpd 0.0.0 here speaks protocol 1, you speak 2"
    body = b"MPDn\x01\0\0\0" + text.encode().ljust(72, b"\0")
    show("m1_version2", m1_version2)
    show("text_refusal", text)
    show("refusal", body + mac(k_refuse, m1_version2 + body))



main()
