"""A service of the bus: `com.example.Sums` adds, and says so with a signal. `service.py [SOCKET]`, or with CAUSEWAY_BUS set."""

import asyncio
import sys

from causeway_ipc import Bus, BusError, Service, method


class Sums(Service):
    interface = "com.example.Sums"

    @method("dd", "d")
    def Add(self, one: float, other: float) -> float:
        self.emit("Added", "d", one + other)
        return one + other

    @method("u", "s")
    async def Wait(self, milliseconds: int) -> str:
        if milliseconds > 10_000:
            raise BusError("com.example.Sums.TooLong", "ten seconds at most")
        await asyncio.sleep(milliseconds / 1000)
        return "done"


async def main() -> None:
    async with Bus(sys.argv[1] if len(sys.argv) > 1 else None) as bus:
        bus.add(Sums(), "/sums")
        (owned,) = await bus.request_name("com.example.Sums")
        print(bus.unique_name, owned, flush=True)
        await bus.serve()


asyncio.run(main())
