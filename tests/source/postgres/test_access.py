"""Connection strings that can never work are refused at once; no message repeats one."""

from __future__ import annotations

import pytest

from tidegauge.errors import SpecError
from tidegauge.source.postgres.access import Access, parsed

SECRET = "not-to-be-shown"


@pytest.mark.parametrize(
    ("dsn", "reason"),
    [
        ("", "it is empty"),
        ("  \n", "it is empty"),
        (f"{SECRET} and other words", "it is neither a URL nor a list"),
        (f"mysql://{SECRET}@host/x", "it is neither a URL nor a list"),
        (f"postgresql://[{SECRET}/x", "it is neither a URL nor a list"),
        (f"postgresql://user@host:{SECRET}/x", "its port is not a number"),
        ("postgresql://user@host:0/x", "its port is not a number"),
        ("postgresql://user@host:65536/x", "its port is not a number"),
        ("postgresql://user@one:5432,two:5433x/x", "its port is not a number"),
        (f"host=one connect_timeout={SECRET}", "its connect_timeout is not a number"),
        (f"host=one keepalives_idle={SECRET}", "its keepalives_idle is not a number"),
        (f"hostaddr={SECRET}", "its hostaddr is not an IP address"),
        (f"host=one sslmode={SECRET}", "libpq knows no such sslmode"),
        (f"host=one target_session_attrs={SECRET}", "libpq knows no such"),
        (f"service={SECRET}", "libpq knows no such"),
        ("host=one,two port=1,2,3", "more ports than hosts"),
    ],
)
def test_a_string_that_can_never_work(dsn: str, reason: str) -> None:
    with pytest.raises(SpecError, match=reason) as refusal:
        Access(dsn).connect()
    assert refusal.value.key == "source.dsn"
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://user:word@host.invalid:5433/x?sslmode=require&connect_timeout=3",
        "postgresql://one.invalid:5432,two.invalid:5433/x?target_session_attrs=read-write",
        "host=one.invalid,two.invalid port=5432 user=u",
        "hostaddr=192.0.2.1,2001:db8::1 host=a,b keepalives=1 tcp_user_timeout=1000",
        "host=/nowhere dbname=x",
        "postgresql:///x",
        "connect_timeout=-1 dbname=x",
    ],
)
def test_a_string_that_may_work_is_not_refused(dsn: str) -> None:
    assert parsed(dsn)
