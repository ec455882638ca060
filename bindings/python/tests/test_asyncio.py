"""The log in asyncio, and with uvloop if that is installed."""

import asyncio
import random
import signal
import subprocess
import threading
import unittest.mock

from support import LONG_S, TestCase, loops, run

from causeway_ipc import Busy, Closed, Disconnected, Group, Publisher


class Asyncio(TestCase):
    def in_each_loop(self, main) -> None:
        for factory in loops():
            with self.subTest(loop=factory):
                run(main(), factory)

    def test_async_for_gets_every_message_and_ends_with_the_group(self):
        async def main():
            group = Group.create()
            publisher, subscriber = group.publisher(), group.subscribe()

            def publish():
                for number in range(20_000):
                    publisher.publish(number.to_bytes(4, "little"))
                publisher.close()

            thread = threading.Thread(target=publish)
            thread.start()
            got = [int.from_bytes(message.data, "little") async for message in subscriber]
            thread.join()
            self.assertEqual(got, list(range(20_000)))

        self.in_each_loop(main)

    def test_a_hundred_subscribers_in_one_loop_get_everything(self):
        async def main():
            group = Group.create()
            publisher = group.publisher()
            subscribers = [group.subscribe() for _ in range(100)]

            async def count(subscriber):
                return sum([1 async for _ in subscriber])

            tasks = [asyncio.create_task(count(subscriber)) for subscriber in subscribers]
            for number in range(200):
                publisher.publish(b"x" * 16)
                if number % 7 == 0:
                    await asyncio.sleep(0)
            await asyncio.sleep(0.01)
            publisher.publish(b"last")
            publisher.close()
            self.assertEqual(await asyncio.gather(*tasks), [201] * 100)

        self.in_each_loop(main)

    def test_a_storm_of_cancellations_loses_and_repeats_nothing(self):
        async def main():
            group = Group.create(several_publishers=True)
            publisher, subscriber = group.publisher(), group.subscribe()
            dice, got, total = random.Random(7), [], 3000

            async def publish():
                for number in range(total):
                    publisher.publish(number.to_bytes(4, "little"))
                    if dice.random() < 0.3:
                        await asyncio.sleep(0)

            async def receive_once():
                got.append(int.from_bytes((await subscriber.recv_async()).data, "little"))

            publishing = asyncio.create_task(publish())
            cancelled = 0
            while len(got) < total:
                task = asyncio.create_task(receive_once())
                for _ in range(dice.randrange(4)):
                    await asyncio.sleep(0)
                if not publishing.done() or dice.random() < 0.5:
                    cancelled += task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await publishing
            self.assertEqual(got, list(range(total)))
            self.assertGreater(cancelled, 100)
            # Nobody waits any more, and the loop does not look at what nobody waits for.
            task = asyncio.create_task(receive_once())
            while subscriber._waiter is None:
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.assertFalse(asyncio.get_running_loop().remove_reader(subscriber.fileno()))

        self.in_each_loop(main)

    def test_a_task_that_publishes_waits_for_space_and_loses_nothing_when_it_is_cancelled(self):
        async def main():
            group = Group.create(capacity_bytes=4096)
            publisher, subscriber = group.publisher(), group.subscribe()
            dice, total, published = random.Random(7), 2000, []

            async def publish():
                cancelled = 0
                while len(published) < total:
                    task = asyncio.create_task(publisher.publish_async(len(published).to_bytes(4, "little") * 16))
                    await asyncio.sleep(0)
                    # The first that waits, and some of the others.
                    cancelled += (cancelled == 0 or dice.random() < 0.3) and task.cancel()
                    if isinstance((await asyncio.gather(task, return_exceptions=True))[0], int):
                        published.append(len(published))
                return cancelled

            publishing = asyncio.create_task(publish())
            # The log is full before anything is read.
            while publisher.try_publish(b"") is not None:
                await asyncio.sleep(0)
            got = []
            while len(got) < total:
                # Asleep, and now and then behind.
                if dice.random() < 0.02:
                    await asyncio.sleep(0.001)
                data = (await subscriber.recv_async()).data
                if data:
                    got.append(int.from_bytes(data[:4], "little"))
            self.assertEqual(got, list(range(total)))
            self.assertGreater(await publishing, 0)

        self.in_each_loop(main)

    def test_space_that_comes_before_its_notice_is_not_waited_for(self):
        async def main():
            group = Group.create(capacity_bytes=4096)
            subscriber = group.subscribe()

            class Overtaken(Publisher):
                """All is read while it asks for a notice, which tells nothing of that."""

                def notify_space(self):
                    while subscriber.try_recv() is not None:
                        pass
                    return super().notify_space()

            publisher = Overtaken(group)
            while publisher.try_publish(b"x" * 500) is not None:
                pass
            with unittest.mock.patch("causeway_ipc._log._readable", side_effect=AssertionError("it waits")):
                await publisher.publish_async(b"y" * 500)
            self.assertEqual(subscriber.recv(LONG_S).data, b"y" * 500)

        self.in_each_loop(main)

    def test_aclose_removes_the_reader_and_ends_the_wait(self):
        async def main():
            group = Group.create()
            publisher, subscriber = group.publisher(), group.subscribe()
            waiting = asyncio.create_task(subscriber.recv_async())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            with self.assertRaises(Busy):
                await subscriber.recv_async()
            fd = subscriber.fileno()
            await subscriber.aclose()
            self.assertFalse(asyncio.get_running_loop().remove_reader(fd))
            with self.assertRaises(Closed):
                await waiting
            publisher.publish(b"nobody waits")

        self.in_each_loop(main)

    def test_a_busy_log_does_not_keep_other_tasks_from_their_turn(self):
        async def main():
            group = Group.create(capacity_bytes=1 << 20)
            publisher, subscriber = group.publisher(), group.subscribe()
            for _ in range(1000):
                publisher.publish(b"x")
            turns = []

            async def other():
                while True:
                    turns.append(subscriber.position)
                    await asyncio.sleep(0)

            task = asyncio.create_task(other())
            for _ in range(1000):
                await subscriber.recv_async()
            task.cancel()
            self.assertGreater(len(turns), 10)

        self.in_each_loop(main)

    def test_a_server_that_is_killed_ends_the_wait_of_every_task(self):
        async def main():
            server, path = self.group_server()
            group = Group.join(path)
            waiting = [asyncio.create_task(group.subscribe().recv_async()) for _ in range(10)]
            await asyncio.sleep(0.01)
            server.kill()
            for ended in await asyncio.gather(*waiting, return_exceptions=True):
                self.assertIsInstance(ended, Disconnected)

        self.in_each_loop(main)

    def test_ctrl_c_ends_a_program_that_waits_in_asyncio(self):
        code = """
            import asyncio
            from causeway_ipc import Group

            async def main():
                group = Group.create()
                publisher, subscriber = group.publisher(), group.subscribe()
                asyncio.get_running_loop().call_soon(print, "waits", True)
                await subscriber.recv_async()

            asyncio.run(main())
        """
        process = self.python(code.replace("print, ", "lambda *a: print(*a, flush=True), "))
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=LONG_S)
        except subprocess.TimeoutExpired:
            self.fail("it waits on")
        self.assertIn("KeyboardInterrupt", errors)
