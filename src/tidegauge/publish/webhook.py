"""The kind `webhook`: batches posted to an address as JSON, signed as Standard Webhooks says.

    webhook-id: the idempotency key          webhook-timestamp: seconds, when it was sent
    webhook-signature: v1,BASE64(HMAC-SHA256(secret, "ID.TIMESTAMP.BODY"))

An answer of 2xx means that the batch arrived.  After any other answer, or none, it is sent again with the
same id and the same body.  Redirects are not followed.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from tidegauge.errors import PublishError, SpecError
from tidegauge.model.declared import Name, PublisherSpec, Secret
from tidegauge.model.publisher import Delivery, Place, PublisherKind
from tidegauge.publish.batch import Batch

if TYPE_CHECKING:
    from collections.abc import Callable


def _an_address(value: str) -> str:
    parts = urlsplit(value)
    if not value.startswith("env:") and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("write http://... or https://..., or env:NAME where the address is secret")
    if parts.username or parts.password:
        raise ValueError("an address with a password is a secret: write env:NAME_OF_THE_VARIABLE")
    return value


class WebhookSpec(PublisherSpec):
    """[publish.NAME] with kind = "webhook"."""

    kind: Literal["webhook"]
    url: Annotated[Name, AfterValidator(_an_address)]
    secret: Secret
    timeout: Annotated[float, Field(gt=0, le=600)] = 30.0


@dataclass(frozen=True)
class WebhookPublisher:
    """Posts batches."""

    url: str = field(repr=False)
    secret: bytes = field(repr=False)
    timeout: float = 30.0
    now: Callable[[], float] = time.time

    def deliver(self, what: Batch) -> Delivery:
        """Post the batch; raises PublishError unless the receiver answers with 2xx."""
        parts = urlsplit(self.url)
        body, host = body_of(what), parts.hostname or ""
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        try:
            connection = kind(host, parts.port, timeout=self.timeout)
            try:
                path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
                connection.request("POST", path, body, self._headers(what.key, body))
                status = connection.getresponse().status
            finally:
                connection.close()
        except (OSError, HTTPException, ValueError) as error:
            raise PublishError(f"the webhook's receiver did not answer ({type(error).__name__})") from None
        if not 200 <= status < 300:
            raise PublishError(f"the webhook's receiver answered with status {status}")
        return Delivery(len(what.readings), host)

    def _headers(self, key: str, body: bytes) -> dict[str, str]:
        stamp = str(int(self.now()))
        code = hmac.digest(self.secret, f"{key}.{stamp}.".encode() + body, "sha256")
        return {
            "content-type": "application/json",
            "user-agent": "tidegauge",
            "idempotency-key": key,
            "webhook-id": key,
            "webhook-timestamp": stamp,
            "webhook-signature": f"v1,{base64.b64encode(code).decode()}",
        }


def body_of(batch: Batch) -> bytes:
    """The JSON of a batch: the same bytes whenever it is sent."""
    content = {
        "type": "readings",
        "key": batch.key,
        "plan": batch.document.guarantee.plan,
        "readings": [one.as_json() for one in batch.readings],
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


class WebhookKind(PublisherKind[WebhookSpec, Batch]):
    """Posts to an address."""

    spec = WebhookSpec
    keyed = True

    def open(self, spec: WebhookSpec, place: Place) -> WebhookPublisher:
        """The publisher for this address."""
        url = place.secret(spec.url, "url")
        key = f"publish.{place.name}"
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SpecError("the variable does not hold a web address (http or https)", key=f"{key}.url")
        secret = place.secret(spec.secret, "secret")
        if not secret.startswith("whsec_"):
            return WebhookPublisher(url, secret.encode(), spec.timeout)
        try:
            decoded = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            raise SpecError("is not base64 after whsec_", key=f"{key}.secret") from None
        return WebhookPublisher(url, decoded, spec.timeout)


KIND: Final = WebhookKind()
