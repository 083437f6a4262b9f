"""Takes locks with kazoo for the tests: one command a line on stdin, one answer a line on stdout.

    take KEY KIND PATH [IDENTIFIER]   answers `held KEY` once it holds, in a thread of its own
    release KEY                       answers `released KEY`
    try KEY KIND PATH                 answers `yes KEY` or `no KEY`
"""
import logging
import sys
import threading

from kazoo.client import KazooClient

logging.disable(logging.CRITICAL)
client = KazooClient(hosts=sys.argv[1], timeout=5)
client.start()
locks = {}
speaking = threading.Lock()


def say(*words):
    with speaking:
        print(*words, flush=True)


def make(kind, path, identifier):
    return getattr(client, kind)(path, identifier)


def take(key):
    locks[key].acquire()
    say("held", key)


say("ready")
for line in sys.stdin:
    # Names may contain spaces, so words are separated by tabs.
    command, key, *rest = line.rstrip("\n").split("\t")
    if command == "take":
        locks[key] = make(rest[0], rest[1], rest[2] if len(rest) > 2 else None)
        threading.Thread(target=take, args=(key,), daemon=True).start()
    elif command == "try":
        locks[key] = make(rest[0], rest[1], None)
        say("yes" if locks[key].acquire(blocking=False) else "no", key)
    elif command == "release":
        locks[key].release()
        say("released", key)
