"""Digests, by which a flow finds out whether a row changed: 60 bits of a hash over the row's values."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def digest_sql(values: Sequence[str]) -> str:
    """SQL: the digest of these values.  Every text follows its length, so that no two rows look the same."""
    texts = (
        ", ".join(
            f"coalesce(concat(length(CAST({one} AS STRING)), ':', CAST({one} AS STRING)), '')"
            for one in values
        )
        or "''"
    )
    return f"CAST(conv(substring(md5(concat_ws(',', {texts})), 1, 15), 16, 10) AS BIGINT)"
