"""The bus: calls, signals, services. Replies and signals come in one order from the native connection; here they go to who waits."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar, overload
from xml.sax.saxutils import quoteattr

from . import _native
from ._errors import BusError, Closed, Error, ServerGone
from ._native import BusMessage

_DRIVER = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
_ERROR = "org.freedesktop.DBus.Error."
_PROPERTIES = "org.freedesktop.DBus.Properties"
_AT_ONCE = 64
# Signals that may wait in one stream.
_BACKLOG = 65_536
_NAME_REPLIES = {1: "owner", 2: "queued", 3: "exists", 4: "owner"}

_F = TypeVar("_F", bound=Callable[..., Any])


class Variant(NamedTuple):
    """A value in a variant, with its type: `Variant("u", 7)`."""

    signature: str
    value: Any


def method(args: str = "", returns: str = "", *, name: str | None = None) -> Callable[[_F], _F]:
    """Makes a function of a `Service` a method of D-Bus with these types. It may be `async`."""

    def mark(function: _F) -> _F:
        function.__dict__["_dbus"] = (name or function.__name__, args, returns)
        return function

    return mark


class Property:
    """A property of a `Service`: `Zone = Property("s", "UTC", writable=True)`. To assign tells everybody who watches."""

    def __init__(self, signature: str, value: Any, *, writable: bool = False) -> None:
        self.signature, self.default, self.writable = signature, value, writable

    def __set_name__(self, _owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, service: None, _owner: type) -> Property: ...
    @overload
    def __get__(self, service: Service, _owner: type) -> Any: ...
    def __get__(self, service: Service | None, _owner: type) -> Any:
        return self if service is None else service.__dict__.get(self.name, self.default)

    def __set__(self, service: Service, value: Any) -> None:
        if (bus := service.__dict__.get("bus")) is not None:
            bus._keep_property(service.path, service.interface, self.name, self.signature, value)
        service.__dict__[self.name] = value


class Service:
    """An object with one interface. A method returns one value, a tuple of as many as `returns` has types, or raises `BusError`."""

    interface: str
    bus: Bus
    path: str

    def on_set(self, name: str, value: Any) -> None:
        """Somebody sets a property that is writable. Raise `BusError` to refuse it; afterwards the property has the value."""

    def emit(self, member: str, signature: str = "", *args: Any) -> None:
        self.bus.emit(self.path, self.interface, member, signature, *args)

    def _methods(self) -> dict[str, tuple[Callable[..., Any], str, str]]:
        found = {}
        for _, function in inspect.getmembers(self, callable):
            if (dbus := getattr(function, "_dbus", None)) is not None:
                found[dbus[0]] = (function, dbus[1], dbus[2])
        return found

    def _properties(self) -> dict[str, Property]:
        return {name: one for name, one in inspect.getmembers_static(type(self)) if isinstance(one, Property)}

    def _xml(self) -> str:
        def arguments(types: str, direction: str) -> str:
            return "".join(f'<arg type={quoteattr(one)} direction="{direction}"/>' for one in _types(types))

        properties = "".join(
            f'<property name={quoteattr(name)} type={quoteattr(one.signature)} access="{"readwrite" if one.writable else "read"}"/>'
            for name, one in self._properties().items()
        )
        methods = self._methods().items()
        inside = "".join(
            f"<method name={quoteattr(name)}>{arguments(args, 'in')}{arguments(returns, 'out')}</method>"
            for name, (_, args, returns) in methods
        )
        return f"<interface name={quoteattr(self.interface)}>{inside}{properties}</interface>"


def _types(signature: str) -> list[str]:
    """The complete types of a valid signature."""
    found, start, depth = [], 0, 0
    for at, letter in enumerate(signature):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(letter, 0)
        if depth == 0 and letter != "a":
            found.append(signature[start : at + 1])
            start = at + 1
    return found


class Signals:
    """The signals that a rule matches: `for` and `async for`. `close` removes the rule; signals that wait are gone then."""

    def __init__(self, bus: Bus, rule: str) -> None:
        self._bus, self._text = bus, rule
        self._rule = _native.Rule(rule)
        self._queue: deque[BusMessage] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._end: Exception | None = None
        self._added = False

    def _put(self, signal: BusMessage) -> None:
        if len(self._queue) < _BACKLOG:
            self._queue.append(signal)
        elif self._end is None:
            self._end = BusError(_ERROR + "LimitsExceeded", f"{_BACKLOG} signals wait unread in one stream")
        _finish(self._waiter)

    def _take(self) -> BusMessage | None:
        if self._queue:
            return self._queue.popleft()
        if self._end is not None:
            raise self._end
        return None

    async def __anext__(self) -> BusMessage:
        if not self._added:
            await self._bus._add_async(self)
        while (signal := self._take()) is None:
            self._waiter = asyncio.get_running_loop().create_future()
            self._bus._attach()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return signal

    def __aiter__(self) -> Signals:
        return self

    async def start(self) -> Signals:
        """Adds the rule now, and not with the first signal that is asked for. Also `async with`."""
        if not self._added:
            await self._bus._add_async(self)
        return self

    def next(self, timeout: float | None = None) -> BusMessage | None:
        """The next signal; `None` when the time is over."""
        if not self._added:
            self._bus._add(self)
        self._bus._until(lambda: bool(self._queue) or self._end is not None, timeout)
        return self._take()

    def close(self) -> None:
        if self._added and self._bus._ended is None and self in self._bus._streams:
            self._bus._streams.remove(self)
            self._bus.send_call(*_DRIVER, "RemoveMatch", "s", [self._text], False)
        self._end = self._end or Closed("the stream was closed")
        _finish(self._waiter)

    async def __aenter__(self) -> Signals:
        return await self.start()

    async def __aexit__(self, *_exception: object) -> None:
        self.close()

    def __enter__(self) -> Signals:
        if not self._added:
            self._bus._add(self)
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _finish(waiter: asyncio.Future[Any] | None, value: Any = None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(value)


class _Call:
    """A call that was sent. As it is it waits for its reply; `await` waits for it in asyncio."""

    def __init__(self, bus: Bus, serial: int, timeout: float) -> None:
        self._bus, self._serial, self._timeout = bus, serial, timeout
        self._future: asyncio.Future[BusMessage | Exception] | None = None
        self.answer: BusMessage | Exception | None = None
        bus._calls[serial] = self

    def _set(self, answer: BusMessage | Exception) -> None:
        self.answer = answer
        _finish(self._future, answer)

    def _forget(self) -> Exception:
        self._bus._calls.pop(self._serial, None)
        return BusError(_ERROR + "NoReply", f"no reply within {self._timeout} s")

    def wait(self) -> tuple[Any, ...]:
        try:
            if not self._bus._until(lambda: self.answer is not None, self._timeout):
                raise self._forget()
        except BaseException:
            self._forget()
            raise
        return _result(self.answer)

    async def _wait_async(self) -> tuple[Any, ...]:
        if self.answer is None:
            loop = asyncio.get_running_loop()
            self._future = loop.create_future()
            self._bus._attach()
            end = loop.call_later(self._timeout, lambda: _finish(self._future, self._forget()))
            try:
                return _result(await self._future)
            finally:
                end.cancel()
                self._bus._calls.pop(self._serial, None)
        return _result(self.answer)

    def __await__(self) -> Generator[Any, None, tuple[Any, ...]]:
        return self._wait_async().__await__()


def _result(answer: BusMessage | Exception | None) -> tuple[Any, ...]:
    if isinstance(answer, Exception):
        raise answer
    assert answer is not None
    if answer.kind == "error":
        text = answer.args[0] if answer.args and isinstance(answer.args[0], str) else ""
        raise BusError(answer.error_name or _ERROR + "Failed", text)
    return answer.args


class Bus(_native.Connection):
    """A member of the bus. `begin` sends a call, whose reply is waited for with `.wait()` or `await`; `call` and `call_async` do both."""

    _loop: asyncio.AbstractEventLoop | None = None
    _fd = -1
    _is_pumping = False

    def __init__(self, path: str | os.PathLike[str] | None = None, outbox_bytes: int | None = None) -> None:
        self._calls: dict[int, _Call] = {}
        self._streams: list[Signals] = []
        self._objects: dict[str, list[Service]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Future[Exception]] = set()
        self._ended: Exception | None = None

    def begin(
        self,
        destination: str,
        path: str,
        interface: str | None,
        member: str,
        signature: str = "",
        *args: Any,
        timeout: float = 25.0,
        auto_start: bool = True,
    ) -> _Call:
        """Sends a call."""
        if self._ended is not None:
            raise self._ended
        call = _Call(self, self.send_call(destination, path, interface, member, signature, list(args), True, auto_start), timeout)
        self._schedule()
        return call

    def call(
        self, destination: str, path: str, interface: str | None, member: str, signature: str = "", *args: Any, timeout: float = 25.0
    ) -> _Reply:
        """Calls a method. In a running loop: `await bus.call(…)`; elsewhere it waits, and returns the arguments of the reply."""
        call = self.begin(destination, path, interface, member, signature, *args, timeout=timeout)
        return call if _is_in_loop() else call.wait()

    def call_without_reply(self, destination: str, path: str, interface: str | None, member: str, signature: str = "", *args: Any) -> None:
        self.send_call(destination, path, interface, member, signature, list(args), False)
        self._schedule()

    def request_name(self, name: str, flags: int = 4) -> _Reply:
        """Asks for a name: `("owner",)`, `("queued",)` or `("exists",)`. By default it does not queue. In a loop it is awaited."""
        call = self.begin(*_DRIVER, "RequestName", "su", name, flags)
        return _mapped(call) if _is_in_loop() else (_NAME_REPLIES[call.wait()[0]],)

    def release_name(self, name: str) -> _Reply:
        return self.call(*_DRIVER, "ReleaseName", "s", name)

    def get_property(self, destination: str, path: str, interface: str, name: str, *, timeout: float = 25.0) -> _Reply:
        """Asks for a property, as `call`: a tuple with its value."""
        return self.call(destination, path, _PROPERTIES, "Get", "ss", interface, name, timeout=timeout)

    def set_property(self, destination: str, path: str, interface: str, name: str, value: Any, *, timeout: float = 25.0) -> _Reply:
        """Sets a property, as `call`: to a `Variant`, or a value whose type is clear."""
        return self.call(destination, path, _PROPERTIES, "Set", "ssv", interface, name, value, timeout=timeout)

    def match(self, rule: str) -> Signals:
        """The signals that a rule matches."""
        return Signals(self, rule)

    # Match rules. Signals between the rule and its registration are received.

    def _add(self, stream: Signals) -> None:
        self._enlist(stream).wait()

    async def _add_async(self, stream: Signals) -> None:
        await self._enlist(stream)

    def _enlist(self, stream: Signals) -> _Call:
        stream._added = True
        call = self.begin(*_DRIVER, "AddMatch", "s", stream._text)
        self._streams.append(stream)
        return call

    # What comes.

    def _dispatch(self, message: BusMessage) -> None:
        kind = message.kind
        if kind == "signal":
            for stream in self._streams:
                if stream._rule.matches(message, self):
                    stream._put(message)
        elif kind == "call":
            self._serve(message)
        elif kind == "end":
            self._fail(ServerGone("the process that serves the bus is gone"))
        elif (call := self._calls.pop(message.reply_serial or 0, None)) is not None:
            call._set(message)

    def _fail(self, why: Exception) -> None:
        self._ended = why
        for call in list(self._calls.values()):
            call._set(why)
        self._calls.clear()
        for stream in self._streams:
            stream._end = stream._end or why
            _finish(stream._waiter)
        for ended in self._serving:
            _finish(ended, why)

    def _until(self, is_done: Callable[[], bool], timeout: float | None) -> bool:
        """Waits, outside of asyncio; false when the time is over."""
        end = None if timeout is None else time.monotonic() + timeout
        try:
            while not is_done():
                left = None if end is None else max(0.0, end - time.monotonic())
                message = self.next(left)
                if message is not None:
                    self._dispatch(message)
                elif left == 0.0:
                    return False
        finally:
            # It has ended a sleep that was announced for the loop.
            self._schedule()
        return True

    def _attach(self) -> None:
        """From now on the running loop reads."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop:
            if not self._loop.is_closed():
                raise Error("another loop uses this connection; open one for each")
            self._loop = None
        if self._loop is None:
            self._loop, self._fd = loop, self.fileno()
            loop.add_reader(self._fd, self._pump)
            self._schedule()

    def _schedule(self) -> None:
        if self._loop is not None and not self._is_pumping and not self._loop.is_closed():
            self._is_pumping = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Takes what is there, 64 messages at most, and prepares to wait; refused, it comes back by itself."""
        self._is_pumping = False
        if self._loop is None:
            return
        try:
            for _ in range(_AT_ONCE):
                message = self.next_now()
                if message is None:
                    break
                self._dispatch(message)
            if not self.prepare_to_wait():
                self._schedule()
        except Exception as why:
            self._detach()
            self._fail(why)

    def _detach(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._loop = None

    # Services.

    def add(self, service: Service, path: str = "/") -> None:
        """Serves an object at this path, by `run` or in a loop by `serve`."""
        service.bus, service.path = self, path
        objects = self._objects.setdefault(path, [])
        objects.append(service)
        self.describe(path, "".join(one._xml() for one in objects))
        for name in service._properties():
            setattr(service, name, getattr(service, name))

    def run(self, timeout: float | None = None) -> None:
        """Serves, outside of asyncio, for this time or until an exception."""
        self._until(lambda: self._ended is not None, timeout)
        if self._ended is not None:
            raise self._ended

    async def serve(self) -> None:
        """Serves in the running loop until it is cancelled or the bus ends."""
        if self._ended is not None:
            raise self._ended
        self._attach()
        ended = asyncio.get_running_loop().create_future()
        self._serving.add(ended)
        try:
            raise await ended
        finally:
            self._serving.discard(ended)

    def _serve(self, call: BusMessage) -> None:
        if self.answer_standard(call):
            return
        if (call.interface, call.member, call.signature) == (_PROPERTIES, "Set", "ssv"):
            return self._set(call)
        for service in self._objects.get(call.path or "", []):
            if call.interface in (None, service.interface) and (found := service._methods().get(call.member or "")):
                function, types, returns = found
                if call.signature != types:
                    text = f"{call.member} takes arguments of the types {types!r}"
                    return self.reply_error(call, _ERROR + "InvalidArgs", text)
                try:
                    result = function(*(call.take_args() if "h" in types else call.args))
                except Exception as error:
                    return self._refuse(call, error)
                if not inspect.isawaitable(result):
                    return self._answer(call, returns, result)
                if self._loop is None:
                    result.close() if inspect.iscoroutine(result) else None
                    return self.reply_error(call, _ERROR + "Failed", "this method needs a loop, and the service runs without one")
                task = self._loop.create_task(self._answer_later(call, returns, result))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                return None
        self.reply_error(call, _ERROR + "UnknownMethod", f"there is no method {call.member} here")

    def _set(self, call: BusMessage) -> None:
        """Lets a service decide. The library has checked that there is such a property, and its type; the answer sets it there."""
        interface, name, value = call.args
        for service in self._objects.get(call.path or "", []):
            if interface in ("", service.interface) and name in service._properties():
                try:
                    service.on_set(name, value)
                except Exception as error:
                    return self._refuse(call, error)
                self.reply(call)
                service.__dict__[name] = value
                return None
        self.reply_error(call, _ERROR + "UnknownProperty", f"there is no property {name} here")

    async def _answer_later(self, call: BusMessage, returns: str, result: Any) -> None:
        try:
            value = await result
        except Exception as error:
            self._refuse(call, error)
        else:
            self._answer(call, returns, value)
        self._schedule()

    def _answer(self, call: BusMessage, returns: str, value: Any) -> None:
        count = len(_types(returns))
        values = () if count == 0 else (value,) if count == 1 else tuple(value)
        try:
            self.reply(call, returns, *values)
        except (TypeError, ValueError, OverflowError) as error:
            self._refuse(call, error)

    def _refuse(self, call: BusMessage, error: Exception) -> None:
        name, text = (error.name, error.text) if isinstance(error, BusError) else (_ERROR + "Failed", f"{type(error).__name__}: {error}")
        self.reply_error(call, name, text)

    def close(self) -> None:
        """Leaves the bus. Who waits gets `Closed`."""
        self._detach()
        self._fail(Closed("the connection was closed"))
        for task in self._tasks:
            task.cancel()
        self._close()

    async def aclose(self) -> None:
        self.close()

    def __enter__(self) -> Bus:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    async def __aenter__(self) -> Bus:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self.close()


_Reply = Any
"""The arguments of a reply, a tuple; in a running loop, what is awaited for them."""


async def _mapped(call: _Call) -> tuple[str]:
    return (_NAME_REPLIES[(await call)[0]],)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
