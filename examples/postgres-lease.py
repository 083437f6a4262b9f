"""A lock of Holdfast from Python: PostgreSQL leases by their SQL functions.

`lock(connect, name)` waits in the queue, renews from a thread and releases. `connect` makes a
connection that commits each statement, for example
`lambda: psycopg2.connect(dsn)` with `connection.autocommit = True`.
"""

import os
import socket
import threading
import time
import uuid


class LockTimeout(Exception):
    """Others held the lock all the time."""


class HoldLost(Exception):
    """The lease ended, or the claim was taken away."""


class Hold:
    def __init__(self, connect, name, claim_id, fence, ttl_ms, sent_at):
        self.fence = fence
        self._connect, self._name, self._id, self._ttl_ms = connect, name, claim_id, ttl_ms
        self._deadline = sent_at + ttl_ms / 1000
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def assert_held(self):
        if time.monotonic() >= self._deadline:
            raise HoldLost(self._name)

    def _renew(self):
        connection = self._connect()
        while not self._stop.wait(self._ttl_ms / 3000):
            sent_at = time.monotonic()  # before the request: the lease counts from there
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT holdfast.renew(%s, %s, %s)", (self._name, self._id, self._ttl_ms))
                    is_held = cursor.fetchone()[0]
            except Exception:  # unknown: try again on a new connection until the deadline
                try:
                    connection = self._connect()
                except Exception:
                    pass
                continue
            if not is_held:
                self._deadline = 0
                return
            self._deadline = sent_at + self._ttl_ms / 1000

    def release(self):
        self._stop.set()
        self._thread.join()
        with self._connect().cursor() as cursor:
            cursor.execute("SELECT holdfast.release(%s, %s)", (self._name, self._id))


class lock:
    def __init__(self, connect, name, ttl_ms=30_000, wait_s=10):
        self._connect, self._name, self._ttl_ms, self._wait_s = connect, name, ttl_ms, wait_s

    def __enter__(self):
        connection = self._connect()
        claim_id = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4()}"
        give_up_at = time.monotonic() + self._wait_s
        while True:
            sent_at = time.monotonic()
            with connection.cursor() as cursor:
                # The same id each time: it keeps the position in the queue.
                cursor.execute(
                    "SELECT granted, fence, retry_after_ms FROM holdfast.claim(%s, %s, %s, true)",
                    (self._name, claim_id, self._ttl_ms),
                )
                granted, fence, retry_after_ms = cursor.fetchone()
            if granted:
                self._hold = Hold(self._connect, self._name, claim_id, fence, self._ttl_ms, sent_at)
                return self._hold
            left_s = give_up_at - time.monotonic()
            if left_s <= 0:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT holdfast.release(%s, %s)", (self._name, claim_id))
                raise LockTimeout(self._name)
            time.sleep(min((retry_after_ms or 1000) / 1000, left_s))

    def __exit__(self, *_):
        self._hold.release()
