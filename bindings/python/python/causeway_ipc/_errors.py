"""What can go wrong. Errors of the kernel are `OSError`, arguments that are not possible `ValueError`, a timeout `TimeoutError`."""


class Error(Exception):
    """Base of the errors of this package; its text says what happened and what to do."""


class Disconnected(Error):
    """The group or the connection has ended. The normal end of a group."""


class ServerGone(Error):
    """The process that serves the group or the bus is gone."""


class Refused(Error):
    """The server refused the request."""


class MissedDeadline(Error):
    """The policy of this subscriber has disconnected it."""


class TooManyPayloads(Error):
    """This subscriber holds as many payloads as it may: release one, and receive again."""


class Overwritten(Error):
    """The publisher has used the memory of this payload again."""


class Busy(Error):
    """Another thread, task or signal handler uses this object."""


class Closed(Error):
    """The object was closed, or the payload released."""


class Forked(Error):
    """The object belongs to the parent of this process."""


class BusError(Error):
    """An error of D-Bus: the answer to a call, or one to be raised by a method of a service."""

    def __init__(self, name: str, text: str = "") -> None:
        super().__init__(name, text)
        self.name = name
        self.text = text

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"
