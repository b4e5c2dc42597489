"""Encryption at rest: the secret parts of a store cannot be read without the key.

Values are encrypted with AES-256-GCM-SIV under a random nonce, blocks of the state with AES-256-GCM and a key
for each.  Each is bound to its place, so that it cannot be moved to another.  The store finds sums and keys
by a keyed hash of their secret names.  Public parts are signed with a third key, and rows are added up with
a fourth.  All keys are derived from the user's key and a random salt of the store.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, Final, Self

from tidegauge.errors import SpecError, StoreCorrupt, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

SCHEME: Final = "aes-256-gcm-siv, blake2b-128"
_NONCE: Final = 12
OVERHEAD: Final = _NONCE + 16
"""Bytes that sealing adds to a piece of a block: a nonce and a tag."""
_GRAIN: Final = 32
"""Texts are filled up to a multiple of this length, so that lengths reveal little."""
_PROOF: Final = b"the key of this store"
_encoded: Final = json.JSONEncoder(separators=(",", ":")).encode


def parse_key(text: str) -> bytes:
    """The 32 bytes of a key in hexadecimal or base64.  Raises SpecError, which never shows the text."""
    text = text.strip()
    for decode in (bytes.fromhex, _from_base64):
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


def _from_base64(text: str) -> bytes:
    """The bytes of either alphabet of base64."""
    return base64.b64decode(text, altchars=b"-_" if set("-_") & set(text) else None, validate=True)


class Cipher:
    """Seals and finds; made from the user's key and the salt of one store."""

    def __init__(self, key: bytes, salt: bytes) -> None:
        try:
            from cryptography.exceptions import InvalidTag  # noqa: PLC0415  (an extra)
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESGCMSIV  # noqa: PLC0415
        except ImportError:
            raise SpecError(
                "an encrypted store needs: pip install '.[encryption]' in a clone of Tidegauge",
                key="store.key",
            ) from None
        self._salt = salt
        self._aead = AESGCMSIV(_derived(key, salt, b"seal"))
        self._invalid, self._block = InvalidTag, AESGCM
        self._blocks = _derived(key, salt, b"blok")
        self._hash = hashlib.blake2b(key=_derived(key, salt, b"find"), digest_size=16)
        self._rows = hashlib.blake2b(key=_derived(key, salt, b"rows"), digest_size=32)
        self._mac = hashlib.blake2b(key=_derived(key, salt, b"sign"), digest_size=32)

    @classmethod
    def fresh(cls, key: bytes) -> Self:
        """For a new store."""
        return cls(key, os.urandom(32))

    def record(self) -> str:
        """The record by which the key is recognised; the store keeps it unencrypted."""
        return json.dumps(
            {"scheme": SCHEME, "salt": self._salt.hex(), "proof": self._seal(b"proof", _PROOF).hex()}
        )

    @classmethod
    def recognise(cls, record: str, key: bytes, *, store: str) -> Self:
        """The cipher of an existing store, or a refusal."""
        known = json.loads(record)
        if known["scheme"] != SCHEME:
            raise StoreError(
                f"{store} is encrypted in a way that this version of Tidegauge does not know. Nothing was "
                "changed."
            )
        cipher = cls(key, bytes.fromhex(known["salt"]))
        try:
            cipher._open(b"proof", bytes.fromhex(known["proof"]))
        except StoreCorrupt:
            raise StoreError(
                f"{store} is encrypted with another key than the one that [store] key names. Nothing was "
                "changed. Without its own key nothing secret in it can be read, and the gauge cannot go on."
            ) from None
        return cipher

    def token(self, *name: str | int) -> bytes:
        """The keyed hash by which a row of this name is found; it reveals nothing about the name."""
        digest = self._hash.copy()
        digest.update(
            "".join(f"{len(part)}:{part}" for part in map(str, name)).encode("utf-8", "surrogatepass")
        )
        return digest.digest()

    def mac(self, use: str, parts: Iterable[str | bytes]) -> str:
        """A keyed hash of these parts, in hexadecimal, which cannot be made without the key.

        `use` says what the parts are; a code that was made for one use is none for another.
        """
        digest = self._mac.copy()
        for part in (use, *parts):
            data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            digest.update(b"%b%d:" % (b"t" if isinstance(part, str) else b"b", len(data)))
            digest.update(data)
        return digest.hexdigest()

    def row_hash(self, table: str, row: Iterable[Any]) -> int:
        """A keyed hash of a sealed row (tokens, numbers, public names and sealed bytes), as a number."""
        digest = self._rows.copy()
        for part in (table, *row):
            data = part if isinstance(part, bytes) else str(part).encode()
            digest.update(b"%d:" % len(data))
            digest.update(data)
        return int.from_bytes(digest.digest(), "big")

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

    def open_block(self, name: bytes, place: bytes, sealed: object) -> bytes:
        """A block of format 4, which was sealed in one piece, or StoreCorrupt as `open_pieces`."""
        if not isinstance(sealed, bytes):
            raise StoreCorrupt("something secret in the store is not encrypted: the store was altered")
        try:
            return self._block(self._block_key(name)).decrypt(bytes(_NONCE), sealed, place)
        except (self._invalid, ValueError):
            raise _unopened() from None

    def seal_pieces(
        self, name: bytes, place: bytes, pieces: Mapping[int, bytes | memoryview]
    ) -> dict[int, bytes]:
        """Pieces of a block, by number, that can be opened at this place only, with the block's name.

        AES-256-GCM, fifteen times as fast as GCM-SIV, with a key for this name alone and random nonces.  The
        nonce comes first and the tag last, `OVERHEAD` bytes together.
        """
        encrypt, random = self._block(self._block_key(name)).encrypt, os.urandom(_NONCE * len(pieces))
        nonces = [random[first : first + _NONCE] for first in range(0, len(random), _NONCE)]
        return {
            number: nonce + encrypt(nonce, piece, b"%b\0%d" % (place, number))
            for nonce, (number, piece) in zip(nonces, pieces.items(), strict=True)
        }

    def open_pieces(self, name: bytes, place: bytes, sealed: Sequence[bytes]) -> bytes:
        """All pieces of a block, or StoreCorrupt where one was altered or is not at its place."""
        return b"".join(self._opened(name, place, enumerate(sealed)))

    def open_piece(self, name: bytes, place: bytes, number: int, sealed: bytes) -> bytes:
        """One piece of a block, as `open_pieces` opens all."""
        (piece,) = self._opened(name, place, [(number, sealed)])
        return piece

    def _opened(self, name: bytes, place: bytes, sealed: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
        block = self._block(self._block_key(name))
        try:
            for number, one in sealed:
                yield block.decrypt(one[:_NONCE], one[_NONCE:], b"%b\0%d" % (place, number))
        except (self._invalid, ValueError):
            raise _unopened() from None

    def _block_key(self, name: bytes) -> bytes:
        return hashlib.blake2b(name, key=self._blocks, digest_size=32).digest()

    def _seal(self, place: bytes, text: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._aead.encrypt(nonce, text, place)

    def _open(self, place: bytes, sealed: bytes) -> bytes:
        try:
            return self._aead.decrypt(sealed[:_NONCE], sealed[_NONCE:], place)
        except (self._invalid, ValueError):
            raise StoreCorrupt(
                "something secret in the store cannot be opened at its place: it was altered or moved"
            ) from None


def _unopened() -> StoreCorrupt:
    return StoreCorrupt(
        "a part of the secret state cannot be opened at its place: it was altered, moved or put back from an "
        "older copy"
    )


def _derived(key: bytes, salt: bytes, use: bytes) -> bytes:
    return hashlib.blake2b(salt, key=key, person=b"tidegauge." + use, digest_size=32).digest()
