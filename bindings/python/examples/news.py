"""A signal: `news.py SOCKET TEXT` emits it, `news.py SOCKET` prints each one."""

import sys

from causeway_ipc import Bus

NEWS = "com.example.News"

with Bus(sys.argv[1]) as bus:
    if len(sys.argv) > 2:
        bus.emit("/", NEWS, "Headline", "s", sys.argv[2])
    else:
        with bus.match(f"type='signal',interface='{NEWS}'") as headlines:
            print("listening", flush=True)
            while headline := headlines.next():
                print(*headline.args, flush=True)
