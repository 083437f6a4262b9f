"""Milliseconds for one acquire and release of kazoo's Lock: HOSTS ROUNDS."""
import logging
import sys
import time

from kazoo.client import KazooClient

logging.disable(logging.CRITICAL)
client = KazooClient(hosts=sys.argv[1], timeout=4)
client.start()
rounds = int(sys.argv[2])
locks = [client.Lock("/kazoo/lock-%d" % n) for n in range(16)]
for lock in locks:
    with lock:
        pass
started = time.monotonic()
for n in range(rounds):
    with locks[n % 16]:
        pass
print((time.monotonic() - started) * 1000 / rounds)
client.stop()
