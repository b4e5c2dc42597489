"""Work on blocks and parts by several threads, with results in order."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future, ThreadPoolExecutor

S = TypeVar("S")
T = TypeVar("T")


def in_turn(
    pool: ThreadPoolExecutor, threads: int, work: Callable[[S], T], things: Iterable[S]
) -> Iterator[T]:
    """Yield the results in order.  Only `threads` of them are begun ahead, so memory stays bounded."""
    ahead: deque[Future[T]] = deque()
    try:
        for thing in things:
            ahead.append(pool.submit(work, thing))
            if len(ahead) > threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        for future in ahead:
            future.cancel()
