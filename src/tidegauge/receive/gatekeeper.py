"""Who may send change events: requests are authenticated before their events are read."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import time
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

_FRESH: Final = 300
"""Most seconds between the time of a signed request and now."""
_SIGNATURE: Final = re.compile(r"(^| )v1,[A-Za-z0-9+/]{43}=( |$)")


class Gatekeeper:
    """Checks that requests come from our Debezium, by a bearer token or a signature ('standard-webhooks')."""

    def __init__(self, *, token: str | None = None, signing_secret: str | None = None) -> None:
        if not token and not signing_secret:
            raise SpecError(
                'an inbox needs a token or a signing secret: token = "env:INBOX_TOKEN"', key="source.token"
            )
        if token and not token.isascii():
            raise SpecError("a header cannot carry it: use ASCII", key="source.token")
        self._token = token
        self._secret = None
        if signing_secret:
            try:
                self._secret = base64.b64decode(signing_secret.removeprefix("whsec_"), validate=True)
            except binascii.Error:
                raise SpecError(
                    "is not base64 (whsec_...): copy it again from the sender's settings",
                    key="source.signing_secret",
                ) from None

    def admits(self, headers: Mapping[str, str], body: bytes, now: float | None = None) -> bool:
        """Whether the request is authentic.  The names of headers are in lower case."""
        if self.knows(headers):
            return True
        return self._secret is not None and self._signed(
            self._secret, headers, body, time.time() if now is None else now
        )

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Whether the token is right."""
        given = headers.get("authorization", "").encode()
        return self._token is not None and hmac.compare_digest(given, f"Bearer {self._token}".encode())

    def hopeless(self, headers: Mapping[str, str], now: float | None = None) -> bool:
        """Whether the request is refused whatever its body is, so that the body need not be read."""
        if self.knows(headers):
            return False
        signed = self._secret is not None and _SIGNATURE.search(headers.get("webhook-signature", ""))
        return not signed or not _fresh(
            headers.get("webhook-timestamp", ""), time.time() if now is None else now
        )

    @staticmethod
    def _signed(secret: bytes, headers: Mapping[str, str], body: bytes, now: float) -> bool:
        number, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if not _fresh(stamp, now):
            return False
        right = base64.b64encode(hmac.digest(secret, f"{number}.{stamp}.".encode() + body, "sha256"))
        return any(
            hmac.compare_digest(f"v1,{right.decode()}".encode(), one.encode())
            for one in headers.get("webhook-signature", "").split(" ")
        )


def _fresh(stamp: str, now: float) -> bool:
    """Whether a header is a time in seconds, in ASCII digits, that is close to now."""
    return re.fullmatch(r"[0-9]{1,12}", stamp) is not None and abs(int(stamp) - now) <= _FRESH
