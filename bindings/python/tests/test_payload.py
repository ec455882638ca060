"""Large payloads: buffers over memory that nobody can change."""

import gc
import os
import resource
import threading

from support import LONG_S, TestCase, die_with_parent

from causeway_ipc import Closed, Group, TooManyPayloads

MEGABYTE = 1 << 20


def pair(sealed=True, payload_bytes=MEGABYTE, files=8):
    group = Group.create(large_payloads=True)
    return group.large_publisher(payload_bytes, files=files, sealed=sealed), group.large_subscribe()


class Payloads(TestCase):
    def test_a_sealed_payload_is_a_read_only_buffer(self):
        publisher, subscriber = pair()
        publisher.publish(b"abc" * 1000)
        message = subscriber.recv()
        payload = message.payload
        self.assertTrue(payload.sealed and len(payload) == 3000)
        with memoryview(payload) as view:
            self.assertTrue(view.readonly and view == b"abc" * 1000)
            with self.assertRaises(TypeError):
                view[0] = 1
        self.assertEqual(bytes(payload), message.data)

    def test_release_fails_while_views_live_and_works_after(self):
        publisher, subscriber = pair()
        publisher.publish(b"x" * 5000)
        payload = subscriber.recv().payload
        view = memoryview(payload)
        part = view[100:200]
        self.assertRaisesRegex(BufferError, "live", payload.release)
        view.release()
        self.assertEqual(part.tobytes(), b"x" * 100)
        self.assertRaises(BufferError, payload.release)
        part.release()
        payload.release()
        self.assertRaises(Closed, memoryview, payload)
        self.assertRaises(Closed, len, payload)
        with self.assertRaises(BufferError), payload_of(publisher, subscriber) as held:
            kept = memoryview(held)
        self.assertEqual(bytes(kept), b"y")

    def test_views_outlive_subscriber_publisher_group_and_garbage_collection(self):
        publisher, subscriber = pair(files=16)
        views = []
        for number in range(8):
            publisher.publish(bytes([number]) * MEGABYTE)
            views.append(memoryview(subscriber.recv().payload)[::4096])
            gc.collect()
        del publisher, subscriber
        gc.collect()
        # Memory that was given back would be used again by these.
        spare = [bytearray(MEGABYTE) for _ in range(16)]
        for number, view in enumerate(views):
            self.assertEqual(set(view.tolist()), {number})
        del spare

    def test_a_view_in_a_cycle_is_freed_with_it(self):
        publisher, subscriber = pair(files=2)
        for number in range(20):
            publisher.publish(b"z" * 8192, timeout=LONG_S)
            cycle = {"view": memoryview(subscriber.recv().payload)}
            cycle["self"] = cycle
            del cycle
            # Without it the files of the pool would be held by garbage, and the publisher wait.
            gc.collect()

    def test_one_that_is_used_again_is_copied_and_has_no_buffer(self):
        publisher, subscriber = pair(sealed=False)
        publisher.publish(b"again" * 100)
        payload = subscriber.recv().payload
        self.assertFalse(payload.sealed)
        self.assertRaisesRegex(BufferError, "can still change", memoryview, payload)
        self.assertEqual(bytes(payload), b"again" * 100)

    def test_too_many_that_are_held_are_an_error_and_nothing_is_lost(self):
        publisher, subscriber = pair(payload_bytes=4096, files=32)
        for number in range(20):
            publisher.publish(bytes([number + 1]) * 4096)
        held = [subscriber.recv().payload for _ in range(16)]
        self.assertRaises(TooManyPayloads, subscriber.recv, LONG_S)
        held.pop(0).release()
        self.assertEqual(subscriber.recv(LONG_S).data[:1], bytes([17]))

    def test_a_view_of_a_payload_takes_no_page_fault_and_no_memory(self):
        size = 64 * MEGABYTE
        publisher, subscriber = pair(payload_bytes=size, files=1)
        publisher.publish(bytes(size))
        payload = subscriber.recv().payload
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        view = memoryview(payload)
        touched = sum(view[::4096])
        faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
        self.assertEqual((touched, len(view)), (0, size))
        # A copy would take 16,384.
        self.assertLess(faults, 100)
        try:
            import numpy
        except ImportError:
            print("skipped: numpy.frombuffer, for numpy is not installed")
            return
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        array = numpy.frombuffer(payload, dtype=numpy.uint64)
        faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
        self.assertFalse(array.flags.writeable or array.flags.owndata)
        self.assertEqual((array.ctypes.data, array.nbytes), (address(view), size))
        self.assertLess(faults, 100)

    def test_threads_that_view_and_release_at_once_never_see_memory_that_is_gone(self):
        publisher, subscriber = pair()
        publisher.publish(b"t" * 4096)
        payload = subscriber.recv().payload
        wrong = []

        def view_and_release():
            while True:
                try:
                    with memoryview(payload) as view:
                        wrong.extend(byte for byte in view[::512].tolist() if byte != ord("t"))
                    payload.release()
                except BufferError:
                    continue
                except Closed:
                    return

        threads = [threading.Thread(target=view_and_release) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG_S)
        self.assertEqual((wrong, [thread.is_alive() for thread in threads]), ([], [False] * 4))

    def test_a_child_that_was_forked_gets_no_view(self):
        publisher, subscriber = pair()
        publisher.publish(b"f" * 4096)
        payload = subscriber.recv().payload
        child = os.fork()
        if child == 0:
            die_with_parent()
            try:
                memoryview(payload)
            except BaseException as error:
                del payload
                os._exit(0 if type(error).__name__ == "Forked" else 2)
            os._exit(3)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(bytes(payload), b"f" * 4096)


def payload_of(publisher, subscriber):
    publisher.publish(b"y")
    return subscriber.recv().payload


def address(view: memoryview) -> int:
    import numpy

    return numpy.asarray(view).ctypes.data
