"""Encryption at rest: what is secret in a store, unreadable without the key.

Values are sealed with AES-256-GCM-SIV under a random nonce, each bound to its place, so that none can be moved to
another.  Where the store must find something by a secret name, it looks for a keyed hash of the name.  Both keys follow
from the user's and from a salt that each store has of its own.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from typing import Any, Final, Self

from tidegauge.errors import SpecError, StoreCorrupt, StoreError

SCHEME: Final = "aes-256-gcm-siv, blake2b-128"
_NONCE: Final = 12
_GRAIN: Final = 32
"""Texts are filled up to a multiple of this, so that lengths tell little."""
_PROOF: Final = b"the key of this store"
_encoded: Final = json.JSONEncoder(separators=(",", ":")).encode


def parse_key(text: str) -> bytes:
    """The 32 bytes that a key is, from hexadecimal or base64; what was given is never shown."""
    text = text.strip()
    for decode in (bytes.fromhex, lambda given: base64.b64decode(given, altchars=b"-_" if set("-_") & set(given) else None, validate=True)):  # fmt: skip
        try:
            key = decode(text)
        except (ValueError, binascii.Error):
            continue
        if len(key) == 32:
            return bytes(key)
    raise SpecError(
        "must stand for 32 random bytes, in hexadecimal or base64. Make one with: openssl rand -hex 32",
        key="store.key",
    )


class Cipher:
    """Seals and finds; made from the user's key and the salt of one store."""

    def __init__(self, key: bytes, salt: bytes) -> None:
        try:
            from cryptography.exceptions import InvalidTag  # noqa: PLC0415  (an extra)
            from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV  # noqa: PLC0415
        except ImportError:
            raise SpecError(
                "an encrypted store needs: pip install 'tidegauge[encryption]'", key="store.key"
            ) from None
        self._salt = salt
        self._aead = AESGCMSIV(_derived(key, salt, b"seal"))
        self._invalid = InvalidTag
        self._hash = hashlib.blake2b(key=_derived(key, salt, b"find"), digest_size=16)

    @classmethod
    def fresh(cls, key: bytes) -> Self:
        """For a new store."""
        return cls(key, os.urandom(32))

    def record(self) -> str:
        """What the store keeps in the clear, by which the key is recognised."""
        return json.dumps(
            {"scheme": SCHEME, "salt": self._salt.hex(), "proof": self._seal(b"proof", _PROOF).hex()}
        )

    @classmethod
    def recognise(cls, record: str, key: bytes, *, store: str) -> Self:
        """The cipher of an existing store, or a refusal."""
        told = json.loads(record)
        if told["scheme"] != SCHEME:
            raise StoreError(
                f"{store} is encrypted in a way that this version of Tidegauge does not know. Nothing was changed."
            )
        cipher = cls(key, bytes.fromhex(told["salt"]))
        try:
            cipher._open(b"proof", bytes.fromhex(told["proof"]))
        except StoreCorrupt:
            raise StoreError(
                f"{store} is encrypted with another key than the one that [store] key names. Nothing was changed. "
                "Without its own key nothing secret in it can be read, and the gauge cannot go on."
            ) from None
        return cipher

    def token(self, *name: str | int) -> bytes:
        """Where something is found: the same for the same name, and telling nothing of it."""
        digest = self._hash.copy()
        digest.update(
            "".join(f"{len(part)}:{part}" for part in map(str, name)).encode("utf-8", "surrogatepass")
        )
        return digest.digest()

    def seal(self, place: bytes, value: Any) -> bytes:
        """A JSON value that can be opened at this place only."""
        text = _encoded(value).encode()
        return self._seal(place, text.ljust(-(-len(text) // _GRAIN) * _GRAIN))

    def open(self, place: bytes, sealed: object) -> Any:
        """The value, or StoreCorrupt where it was altered or is not at its place."""
        if not isinstance(sealed, bytes):
            raise StoreCorrupt("something secret in the store is not encrypted: the store was altered")
        return json.loads(self._open(place, sealed))

    def seal_bytes(self, place: bytes, content: bytes) -> bytes:
        """Bytes that can be opened at this place only."""
        return self._seal(place, content)

    def open_bytes(self, place: bytes, sealed: object) -> bytes:
        """The bytes, or StoreCorrupt where they were altered or are not at their place."""
        if not isinstance(sealed, bytes):
            raise StoreCorrupt("something secret in the store is not encrypted: the store was altered")
        return self._open(place, sealed)

    def _seal(self, place: bytes, text: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._aead.encrypt(nonce, text, place)

    def _open(self, place: bytes, sealed: bytes) -> bytes:
        try:
            return self._aead.decrypt(sealed[:_NONCE], sealed[_NONCE:], place)
        except (self._invalid, ValueError):
            raise StoreCorrupt(
                "something secret in the store cannot be opened where it stands: it was altered or moved"
            ) from None


def _derived(key: bytes, salt: bytes, use: bytes) -> bytes:
    return hashlib.blake2b(salt, key=key, person=b"tidegauge." + use, digest_size=32).digest()
