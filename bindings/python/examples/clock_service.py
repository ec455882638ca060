"""A service of the bus: `com.example.Clock` tells the time since it started. `clock_service.py SOCKET`, or with CAUSEWAY_BUS set."""

import asyncio
import sys
import time

from causeway_ipc import Bus, Service, method


class Clock(Service):
    interface = "com.example.Clock"
    start = time.monotonic()

    @method("", "u")
    def Seconds(self) -> int:
        return int(time.monotonic() - self.start)


async def main() -> None:
    async with Bus(sys.argv[1] if len(sys.argv) > 1 else None) as bus:
        bus.add(Clock(), "/")
        await bus.request_name("com.example.Clock")
        print(bus.unique_name, "is com.example.Clock", flush=True)
        await bus.serve()


asyncio.run(main())
