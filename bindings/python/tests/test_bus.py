"""The bus: calls, signals, services, values."""

import asyncio
import gc
import os
import threading
from unittest import mock

from support import LONG_S, TestCase, loops, run

from causeway_ipc import Bus, BusError, Closed, Property, ServerGone, Service, Variant, method

ECHO = "com.example.Echo"
ERROR = "org.freedesktop.DBus.Error."
VALUES = [
    ("y", 255), ("b", True), ("n", -5), ("q", 65535), ("i", -7), ("u", 2**32 - 1), ("x", -(2**63)), ("t", 2**64 - 1), ("d", 2.5),
    ("s", "tëxt"), ("o", "/a/b"), ("g", "a{sv}"), ("ay", b"\0\xff"), ("as", ["a", "b"]), ("aai", [[1], [], [2, 3]]),
    ("(si(ob))", ("s", 1, ("/", False))), ("a{us}", {1: "one", 2: "two"}), ("a(sd)", [("a", 1.0), ("b", 2.0)]),
    ("v", "text"), ("v", 7), ("v", 2**40), ("v", [1, "two", [b"three"]]), ("a{sv}", {"a": 1, "b": ["x"], "c": {"d": 0.5}}),
]  # fmt: skip


class Echo(Service):
    interface = ECHO
    file = None

    def __init__(self) -> None:
        for number, (signature, _) in enumerate(VALUES):
            setattr(self, f"same_{number}", method(signature, signature, name=f"Same{number}")(lambda value: value))

    @method("ss", "ss")
    def Swap(self, one, other):
        return other, one

    @method("")
    def Refuse(self):
        raise BusError("com.example.No", "because")

    @method("")
    def Fail(self):
        raise KeyError("x")

    @method("", "u")
    def Wrong(self):
        return "no number"

    @method("d", "s")
    async def Later(self, seconds):
        await asyncio.sleep(seconds)
        return "later"

    @method("sh", "sh")
    def Reopen(self, text, which):
        # What came is this method's to close; what is sent is copied.
        if self.file is not None:
            self.file.close()
        self.file = os.fdopen(which)
        return text, self.file

    @method("u")
    def Emit(self, count):
        for number in range(count):
            self.emit("Counted", "u", number)


class Clock(Service):
    interface = ECHO
    Zone = Property("s", "UTC", writable=True)
    Ticks = Property("u", 0)

    def on_set(self, name, value):
        if not value:
            raise BusError("com.example.No", "a zone has a name")


class OnBus(TestCase):
    def in_each_loop(self, main) -> None:
        for factory in loops():
            with self.subTest(loop=factory):
                run(main(), factory)

    async def served(self, path):
        """A service in this loop, and a client."""
        server, client = Bus(path), Bus(path)
        self.addCleanup(server.close)
        self.addCleanup(client.close)
        echo = Echo()
        self.addCleanup(lambda: echo.file and echo.file.close())
        server.add(echo, "/echo")
        self.assertEqual(await server.request_name(ECHO), ("owner",))
        serving = asyncio.create_task(server.serve())
        self.addCleanup(serving.cancel)
        return server, client

    def test_values_of_every_type_come_back_as_they_were_sent(self):
        path = self.bus()

        async def main():
            _, client = await self.served(path)
            for number, (signature, value) in enumerate(VALUES):
                with self.subTest(signature=signature):
                    self.assertEqual(await client.call(ECHO, "/echo", ECHO, f"Same{number}", signature, value), (value,))
            typed = Variant("at", [1, 2**60])
            at = VALUES.index(("v", "text"))
            self.assertEqual(await client.call(ECHO, "/echo", ECHO, f"Same{at}", "v", typed), ([1, 2**60],))
            self.assertEqual(await client.call(ECHO, "/echo", ECHO, "Swap", "ss", "a", "b"), ("b", "a"))

        run(main())

    def test_what_is_no_value_of_its_type_is_refused_before_it_is_sent(self):
        bus = Bus(self.bus())
        for signature, value in [
            ("y", 256), ("u", -1), ("s", 7), ("s", "a\0"), ("o", "no path"), ("g", "z"), ("as", "text"), ("a{ss}", ["a"]),
            ("(ii)", (1,)), ("v", object()), ("v", Variant("ii", 1)), ("h", -1), ("h", "x"), ("(", 1), ("b", "yes"), ("ai", [1, "2"]),
        ]:  # fmt: skip
            with self.subTest(signature=signature, value=value), self.assertRaises((TypeError, ValueError, OverflowError)):
                bus.emit("/", ECHO, "Signal", signature, value)
        self.assertRaises(TypeError, bus.emit, "/", ECHO, "Signal", "s")
        deep = 1
        for _ in range(100):
            deep = Variant("v", deep)
        self.assertRaises(ValueError, bus.emit, "/", ECHO, "Signal", "v", deep)

    def test_properties_are_read_set_refused_and_watched(self):
        async def main():
            path = self.bus()
            server, client = Bus(path), Bus(path)
            clock = Clock()
            clock.Zone = "CET"
            server.add(clock, "/clock")
            await server.request_name(ECHO)
            serving = asyncio.create_task(server.serve())
            at = (ECHO, "/clock", ECHO)
            self.assertEqual(await client.get_property(*at, "Zone"), ("CET",))
            rule = "type='signal',interface='org.freedesktop.DBus.Properties',member='PropertiesChanged'"
            async with client.match(rule) as changes:
                await client.set_property(*at, "Zone", "UTC")
                self.assertEqual(clock.Zone, "UTC")
                clock.Ticks = 7
                self.assertEqual((await anext(changes)).args, (ECHO, {"Zone": "UTC"}, []))
                self.assertEqual((await anext(changes)).args, (ECHO, {"Ticks": 7}, []))
            for name, value, error in [
                ("Zone", "", "com.example.No"), ("Zone", 5, ERROR + "InvalidArgs"), ("Ticks", Variant("u", 1), ERROR + "PropertyReadOnly"),
                ("Nothing", 1, ERROR + "UnknownProperty"),
            ]:  # fmt: skip
                with self.subTest(name=name, value=value), self.assertRaises(BusError) as refused:
                    await client.set_property(*at, name, value)
                self.assertEqual(refused.exception.name, error)
            self.assertEqual(await client.call(ECHO, "/clock", "org.freedesktop.DBus.Properties", "GetAll", "s", ECHO), ({"Zone": "UTC", "Ticks": 7},))
            self.assertRaises((TypeError, ValueError, OverflowError), setattr, clock, "Ticks", -1)
            self.assertEqual(clock.Ticks, 7)
            serving.cancel()
            server.close()
            client.close()

        self.in_each_loop(main)

    def test_descriptors_travel_with_calls_replies_and_signals(self):
        async def main():
            path = self.bus()
            _, client = await self.served(path)
            folder = self.folder()
            with open(folder / "given", "w+") as given:
                given.write("what was written")
                given.flush()
                call = client.begin(ECHO, "/echo", ECHO, "Reopen", "sh", "x", given)
                self.assertEqual(await call, ("x", 0))
                (got,) = call.answer.take_descriptors()
                self.assertEqual(call.answer.take_descriptors(), [])
            # It is the same file, under a number of its own, and given back by the service.
            with os.fdopen(got, "r+") as same:
                same.seek(0)
                self.assertEqual(same.read(), "what was written")
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(50):
                call = client.begin(ECHO, "/echo", ECHO, "Reopen", "sh", "x", 0)
                await call
                for fd in call.answer.take_descriptors():
                    os.close(fd)
            del call
            gc.collect()
            self.assertLess(len(os.listdir("/proc/self/fd")), before + 10, "descriptors are left open")
            with self.assertRaises(OSError):
                client.begin(ECHO, "/echo", ECHO, "Reopen", "sh", "x", 1_000_000)

        self.in_each_loop(main)

    def test_errors_are_exceptions_with_the_name_that_d_bus_has(self):
        async def main():
            path = self.bus()
            _, client = await self.served(path)
            for member, name in [
                ("Refuse", "com.example.No"), ("Fail", ERROR + "Failed"), ("Wrong", ERROR + "Failed"),
                ("Nothing", ERROR + "UnknownMethod"), ("Swap", ERROR + "InvalidArgs"),
            ]:  # fmt: skip
                with self.subTest(member=member), self.assertRaises(BusError) as refused:
                    await client.call(ECHO, "/echo", ECHO, member)
                self.assertEqual(refused.exception.name, name)
            with self.assertRaises(BusError) as nobody:
                await client.call("com.example.Nobody", "/", None, "X")
            self.assertEqual(nobody.exception.name, ERROR + "ServiceUnknown")
            with self.assertRaises(BusError) as late:
                await client.call(ECHO, "/echo", ECHO, "Later", "d", 100.0, timeout=0.05)
            self.assertEqual(late.exception.name, ERROR + "NoReply")
            (xml,) = await client.call(ECHO, "/echo", "org.freedesktop.DBus.Introspectable", "Introspect")
            self.assertIn('<method name="Swap">', xml)

        self.in_each_loop(main)

    def test_many_calls_at_once_and_cancelled_ones_get_their_own_replies(self):
        async def main():
            path = self.bus()
            _, client = await self.served(path)
            calls = [client.call(ECHO, "/echo", ECHO, "Swap", "ss", str(number), "x") for number in range(300)]
            tasks = [asyncio.ensure_future(call) for call in calls]
            for task in tasks[::3]:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            for number, reply in enumerate(done):
                if number % 3 == 0:
                    self.assertIsInstance(reply, asyncio.CancelledError)
                else:
                    self.assertEqual(reply, ("x", str(number)))
            self.assertEqual(await client.call(ECHO, "/echo", ECHO, "Later", "d", 0.0), ("later",))

        self.in_each_loop(main)

    def test_signals_come_to_the_streams_whose_rules_match_them(self):
        async def main():
            path = self.bus()
            server, client = await self.served(path)
            mine = f"type='signal',sender='{ECHO}',interface='{ECHO}'"
            async with client.match(mine) as all_of_it, client.match(mine + ",member='Other'") as other:
                await client.call(ECHO, "/echo", ECHO, "Emit", "u", 500)
                got = [(await anext(all_of_it)).args[0] for _ in range(500)]
                self.assertEqual(got, list(range(500)))
                server.emit("/echo", ECHO, "Other", "s", "x")
                async for signal in other:
                    self.assertEqual((signal.member, signal.args, signal.path), ("Other", ("x",), "/echo"))
                    break
                waiting = asyncio.ensure_future(anext(other))
                await asyncio.sleep(0)
                client.close()
                with self.assertRaises(Closed):
                    await waiting
            with self.assertRaises(BusError) as wrong:
                server.match("type='nothing'")
            self.assertEqual(wrong.exception.name, ERROR + "MatchRuleInvalid")

        self.in_each_loop(main)

    def test_a_stream_that_nobody_reads_ends_and_the_others_go_on(self):
        async def main():
            path = self.bus()
            with mock.patch("causeway_ipc._bus._BACKLOG", 100):
                server, client = await self.served(path)
                async with client.match(f"type='signal',interface='{ECHO}'") as unread, client.match("member='Other'") as other:
                    for number in range(101):
                        server.emit("/echo", ECHO, "Tick", "u", number)
                    server.emit("/echo", ECHO, "Other")
                    self.assertEqual((await anext(other)).member, "Other")
                    self.assertEqual([(await anext(unread)).args for _ in range(100)], [(number,) for number in range(100)])
                    with self.assertRaises(BusError) as full:
                        await anext(unread)
                    self.assertEqual(full.exception.name, ERROR + "LimitsExceeded")

        self.in_each_loop(main)

    def test_without_asyncio_threads_call_wait_and_serve(self):
        path = self.bus()
        ready = threading.Event()

        def serve():
            with Bus(path) as bus:
                bus.add(Echo(), "/echo")
                bus.request_name(ECHO)
                ready.set()
                try:
                    bus.run(LONG_S)
                except ServerGone:
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        self.assertTrue(ready.wait(LONG_S))
        with Bus(path) as client, client.match(f"type='signal',interface='{ECHO}'") as signals:
            self.assertEqual(client.call(ECHO, "/echo", ECHO, "Swap", "ss", "a", "b"), ("b", "a"))
            client.call(ECHO, "/echo", ECHO, "Emit", "u", 3)
            self.assertEqual([signals.next(LONG_S).args for _ in range(3)], [(0,), (1,), (2,)])
            self.assertIsNone(signals.next(0.0))
            self.assertIn(ECHO, client.list_names())
            self.assertRaises(BusError, client.call, ECHO, "/echo", ECHO, "Later", "d", 0.0)
            # The end of the bus ends what waits.
            self.causewayd.kill()
            self.assertRaises(ServerGone, signals.next, LONG_S)
        thread.join(LONG_S)
        self.assertFalse(thread.is_alive())

    def test_ctrl_c_ends_calls_streams_and_services_outside_of_asyncio(self):
        path = self.bus()
        with Bus(path) as silent, Bus(path) as bus:
            silent.request_name(ECHO)
            self.interrupted(lambda: bus.call(ECHO, "/echo", ECHO, "Swap", "ss", "a", "b"))
            self.assertEqual(bus._calls, {}, "nobody waits for the reply")
            with bus.match(f"type='signal',interface='{ECHO}'") as signals:
                self.interrupted(signals.next)
            self.interrupted(lambda: bus.run(LONG_S))
            self.interrupted(lambda: bus.next(LONG_S))
            self.assertIn(ECHO, bus.list_names())

    def test_the_end_of_the_bus_ends_calls_and_streams_of_a_loop(self):
        async def main():
            _, client = await self.served(self.bus())
            signals = await client.match("type='signal'").start()
            waiting = [asyncio.ensure_future(anext(signals)), asyncio.ensure_future(client.call(ECHO, "/echo", ECHO, "Later", "d", 1e6))]
            await asyncio.sleep(0.01)
            self.causewayd.kill()
            for ended in await asyncio.gather(*waiting, return_exceptions=True):
                self.assertIsInstance(ended, ServerGone)
            gc.collect()

        self.in_each_loop(main)
