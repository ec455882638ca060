"""A subscriber in asyncio: `subscriber.py SOCKET` prints every message until the group ends."""

import asyncio
import sys

from causeway_ipc import Group, Policy


async def main() -> None:
    with Group.join(sys.argv[1]) as group:
        async with group.subscribe(Policy.demote_after(1.0), from_oldest=True) as subscriber:
            async for message in subscriber:
                if message.lost:
                    print(f"{message.lost} messages lost", file=sys.stderr)
                print(message.data.decode(), flush=True)


asyncio.run(main())
