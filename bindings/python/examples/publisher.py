"""Serves a group at a socket, waits for a subscriber and publishes three prices: `publisher.py SOCKET`."""

import sys

from causeway_ipc import Group

with Group.create("prices") as group:
    publisher = group.publisher()
    group.serve_at(sys.argv[1])
    publisher.wait_for_subscribers(1)
    for price in (b"42.17", b"42.18", b"42.19"):
        publisher.publish(price)
