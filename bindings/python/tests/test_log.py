"""The log, without asyncio."""

import contextlib
import gc
import os
import threading
import unittest

from support import LONG_S, TestCase, die_with_parent, until

from causeway_ipc import (
    Busy, Closed, Disconnected, Error, Forked, Group, Policy, _native,
)  # fmt: skip


class Log(TestCase):
    def test_what_one_publishes_another_process_receives_in_order(self):
        path = self.folder() / "group"
        group = Group.create("test", several_publishers=True)
        group.serve_at(path)
        publisher = group.publisher()
        code = """
            import sys
            from causeway_ipc import Group
            for message in Group.join(sys.argv[1]).subscribe():
                print(message.topic, message.data.decode(), message.publisher, message.lost, flush=True)
        """
        other = self.python(code, path)
        self.assertTrue(publisher.wait_for_subscribers(1, LONG_S))
        positions = [publisher.publish(data, topic) for topic, data in enumerate([b"one", bytearray(b"two"), memoryview(b"three")])]
        publisher.close()
        group.close()
        output, errors = other.communicate(timeout=LONG_S)
        self.assertEqual(output.splitlines(), ["0 one 0 0", "1 two 0 0", "2 three 0 0"], errors)
        self.assertEqual(positions, sorted(positions))

    def test_a_full_log_is_an_outcome_and_a_timeout_an_exception(self):
        group = Group.create(capacity_bytes=4096)
        publisher, subscriber = group.publisher(), group.subscribe()
        while publisher.try_publish(b"x" * 64) is not None:
            pass
        with self.assertRaises(TimeoutError):
            publisher.publish(b"x" * 64, timeout=0.02)
        self.assertIsNotNone(subscriber.recv())
        self.assertGreater(subscriber.health()["given_up"], 0)

    def test_a_group_begins_with_the_format_of_the_release_before_and_is_upgraded_while_messages_flow(self):
        path = self.folder() / "group"
        group = Group.create(late_publishers=True)
        group.serve_at(path)
        publisher, subscriber = group.publisher(), group.subscribe()
        for format, epoch in [(1, 0), (2, 1)]:
            report = group.report()
            self.assertEqual((report["format"], report["epoch"]), (format, epoch))
            publisher.publish(b"%d" % format)
            self.assertEqual(Group.join(path).upgrade(), 2)
            until(lambda: group.report()["format"] == 2, "another format")
        self.assertEqual([subscriber.recv().data for _ in range(2)], [b"1", b"2"])
        with self.assertRaisesRegex(ValueError, "no format 99"):
            Group.create(format=99)

    def test_losses_are_told_by_the_next_message(self):
        group = Group.create(capacity_bytes=4096)
        publisher, subscriber = group.publisher(), group.subscribe(Policy.LOSSY)
        for number in range(1000):
            publisher.publish(number.to_bytes(8, "little"))
        first = subscriber.recv()
        self.assertEqual(int.from_bytes(first.data, "little"), first.lost)
        self.assertTrue(0 < first.lost == subscriber.lost_messages)
        self.assertEqual(subscriber.recv().lost, 0)

    def test_topics_and_policies_are_those_that_were_asked_for(self):
        group = Group.create()
        publisher, subscriber = group.publisher(), group.subscribe(Policy.demote_after(0.5), topics=[7])
        for topic in (1, 7, 2, 7):
            publisher.publish(bytes([topic]), topic)
        self.assertEqual([subscriber.recv().topic, subscriber.recv().topic, subscriber.recv(0)], [7, 7, None])
        self.assertIn("500ms", group.report()["subscribers"][0]["policy"])
        self.assertEqual(Policy.lag_at_most(4096), Policy.lag_at_most(4096))
        self.assertNotEqual(Policy.LOSSY, Policy.RELIABLE)

    def test_bad_arguments_are_value_errors_and_missing_files_are_those_of_python(self):
        for wrong in (lambda: Group.create(capacity_bytes=5000), lambda: Group.create(subscribers="nobody"),
                      lambda: Group.create(colour=1), lambda: Group.create().subscribe().recv(-1.0),
                      lambda: Policy.demote_after(float("nan"))):  # fmt: skip
            self.assertRaises(ValueError, wrong)
        with self.assertRaises(FileNotFoundError) as missing:
            Group.join(self.folder() / "nothing")
        self.assertIn("check the path", str(missing.exception))
        self.assertRaises(TypeError, Group.create().publisher().publish, 7)
        self.assertRaises(ValueError, Group.create(capacity_bytes=4096).publisher().publish, b"x" * 2000)

    def test_a_closed_object_says_so_and_closing_twice_is_no_error(self):
        group = Group.create()
        subscriber = group.subscribe()
        with group.publisher() as publisher:
            publisher.publish(b"1")
        for closed in (publisher, subscriber, group):
            closed.close()
            closed.close()
        self.assertRaises(Closed, publisher.publish, b"2")
        self.assertRaises(Closed, subscriber.recv)
        self.assertRaises(Closed, group.publisher)

    def test_a_second_thread_gets_an_error_and_the_first_goes_on(self):
        group = Group.create()
        publisher, subscriber = group.publisher(), group.subscribe()
        got = []

        def receive():
            while not got:
                # The other thread may be in the middle of its look.
                with contextlib.suppress(Busy):
                    got.append(subscriber.recv())

        thread = threading.Thread(target=receive)
        thread.start()

        def is_busy():
            try:
                subscriber.try_recv()
            except Busy:
                return True

        until(is_busy, "the thread waits")
        publisher.publish(b"1")
        thread.join(LONG_S)
        self.assertEqual(got[0].data, b"1")

    def test_a_panic_is_a_runtime_error(self):
        with self.assertRaisesRegex(RuntimeError, "a bug in causeway_ipc.*as the test wants it"):
            _native._panic()

    def test_a_forked_child_gets_an_error_and_its_end_harms_nobody(self):
        group = Group.create()
        publisher, subscriber = group.publisher(), group.subscribe()
        child = os.fork()
        if child == 0:
            die_with_parent()
            status = 1
            try:
                for call in (lambda: publisher.publish(b"x"), subscriber.recv, group.report):
                    try:
                        call()
                    except Forked:
                        continue
                    os._exit(2)
                del publisher, subscriber, group
                gc.collect()
                own = Group.create()
                own_publisher, own_subscriber = own.publisher(), own.subscribe()
                own_publisher.publish(b"own")
                status = 0 if own_subscriber.recv().data == b"own" else 3
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        publisher.publish(b"y")
        self.assertEqual(subscriber.recv().data, b"y")

    def test_a_server_that_is_killed_ends_a_wait(self):
        server, path = self.group_server()
        subscriber = Group.join(path).subscribe()
        threading.Timer(0.1, server.kill).start()
        self.assertRaises(Disconnected, subscriber.recv)
        self.assertEqual(list(subscriber), [])
        self.assertTrue(issubclass(Disconnected, Error))


class Interrupts(TestCase):
    def test_ctrl_c_ends_receiving_publishing_waiting_and_subscribing(self):
        group = Group.create(capacity_bytes=4096)
        publisher, subscriber = group.publisher(), group.subscribe()
        self.interrupted(subscriber.recv)
        self.interrupted(lambda: next(iter(subscriber)))
        self.interrupted(lambda: publisher.wait_for_subscribers(2))
        while publisher.try_publish(b"x" * 64) is not None:
            pass
        self.interrupted(lambda: publisher.publish(b"x" * 64))
        large = Group.create(large_payloads=True)
        large_publisher, large_subscriber = large.large_publisher(4096, files=1), large.large_subscribe()
        self.interrupted(large_subscriber.recv)
        large_publisher.publish(b"x" * 4096)
        self.interrupted(lambda: large_publisher.publish(b"x" * 4096))
        # It waits for a publisher of another process that never comes.
        waiting = Group.create(remote_publishers=1)
        self.interrupted(waiting.subscribe)
        # All of them work afterwards.
        while subscriber.recv(0) is not None:
            pass
        publisher.publish(b"after")
        self.assertEqual(subscriber.recv().data, b"after")


if __name__ == "__main__":
    unittest.main()
