"""The log. What the native classes lack for asyncio and `with` is here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _native
from ._errors import Busy, Closed, Disconnected
from ._native import Message, Policy

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Group", "Publisher", "Subscriber"]

# Messages that a task takes before others of its loop have a turn.
_AT_ONCE = 64


class Group(_native.Group):
    """Access to a group of publishers and subscribers: `Group.create` or `Group.join`."""

    @classmethod
    def create(cls, name: str = "", **options: Any) -> Group:
        """Makes a group, served from a thread of this process. Options are those of `GroupOptions` in Rust."""
        return cls(name=name, **options)

    @classmethod
    def join(cls, path: str | os.PathLike[str]) -> Group:
        """Joins the group that is served on the socket at this path."""
        return cls(path)

    def publisher(self) -> Publisher:
        return Publisher(self)

    def large_publisher(self, payload_bytes_max: int, *, files: int = 8, sealed: bool = True) -> Publisher:
        """A publisher by reference. What is sealed no process can change, so subscribers read it where it lies."""
        return Publisher(self, payload_bytes_max, files, sealed)

    def subscribe(
        self,
        policy: Policy = Policy.RELIABLE,
        *,
        topics: Iterable[int] | None = None,
        from_oldest: bool = False,
        timeout: float | None = None,
    ) -> Subscriber:
        return Subscriber(self, policy, None if topics is None else list(topics), from_oldest, timeout)

    def large_subscribe(
        self,
        policy: Policy = Policy.RELIABLE,
        *,
        topics: Iterable[int] | None = None,
        from_oldest: bool = False,
        timeout: float | None = None,
    ) -> Subscriber:
        """A subscriber of a group with `large_payloads=True`; its messages have a `payload`."""
        return Subscriber(self, policy, None if topics is None else list(topics), from_oldest, timeout, True)

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


async def _readable(fd: int) -> None:
    """Waits until a descriptor is readable, once."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    loop.add_reader(fd, wake)
    try:
        await waiter
    finally:
        loop.remove_reader(fd)


class Publisher(_native.Publisher):
    """Publishes messages. One thread at a time."""

    async def publish_async(self, data: Buffer, topic: int = 0) -> int:
        """Publishes a copy and returns its position; the task waits while there is no space. Cancelled, it has published nothing."""
        while (position := self.try_publish(data, topic)) is None:
            notice = self.notify_space()
            try:
                # What has become free before the notice began, it does not tell.
                if (position := self.try_publish(data, topic)) is not None:
                    break
                await _readable(notice.fileno())
            finally:
                notice.close()
        return position

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


class Subscriber(_native.Subscriber):
    """Receives messages: `recv`, `for`, or in asyncio `await recv_async()` and `async for`. One thread or task at a time."""

    # The future of the task that waits, and its loop.
    _waiter: asyncio.Future[None] | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _fd = -1
    _taken = 0

    async def recv_async(self) -> Message:
        """The next message. Nothing is taken before the task runs, so cancellation loses nothing."""
        if self._waiter is not None:
            raise Busy("another task waits for this subscriber; give each an own one, or a queue")
        self._taken += 1
        if self._taken >= _AT_ONCE:
            # A log that never gets empty must not keep the loop from other tasks.
            self._taken = 0
            await asyncio.sleep(0)
        while (message := self.try_recv()) is None:
            self._taken = 0
            if self.arm():
                await self._readable()
        return message

    async def _readable(self) -> None:
        """Waits for the descriptor, which is watched for this one time: it stays readable until the next `arm`."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiter, self._loop, self._fd = waiter, loop, self.fileno()
        loop.add_reader(self._fd, self._wake)
        try:
            await waiter
        finally:
            if self._waiter is not None:  # cancelled
                self._stop()
                self.disarm()

    def _stop(self) -> asyncio.Future[None] | None:
        waiter, loop = self._waiter, self._loop
        self._waiter = self._loop = None
        if waiter is not None and loop is not None:
            loop.remove_reader(self._fd)
        return waiter

    def _wake(self) -> None:
        waiter = self._stop()
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def __aiter__(self) -> Subscriber:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.recv_async()
        except Disconnected:
            raise StopAsyncIteration from None

    def close(self) -> None:
        """Leaves the group. A task that waits gets `Closed`."""
        waiter = self._stop()
        if waiter is not None and not waiter.done():
            waiter.set_exception(Closed("it was closed"))
        self._close()

    async def aclose(self) -> None:
        self.close()

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    async def __aenter__(self) -> Subscriber:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self.close()
