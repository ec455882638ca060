"""Causeway: a message bus in shared memory, for processes of one Linux machine. `docs/python.md` introduces it."""

from ._bus import Bus, Property, Service, Signals, Variant, method
from ._errors import (
    BusError,
    Busy,
    Closed,
    Disconnected,
    Error,
    Forked,
    MissedDeadline,
    Overwritten,
    Refused,
    ServerGone,
    TooManyPayloads,
)
from ._log import Group, Publisher, Subscriber
from ._native import BusMessage, Message, Payload, Policy

__all__ = [
    "Bus", "BusError", "BusMessage", "Busy", "Closed", "Disconnected", "Error", "Forked", "Group", "Message", "MissedDeadline",
    "Overwritten", "Payload", "Policy", "Property", "Publisher", "Refused", "ServerGone", "Service", "Signals", "Subscriber",
    "TooManyPayloads", "Variant", "method",
]  # fmt: skip
