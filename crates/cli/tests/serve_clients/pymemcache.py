"""pymemcache against a server: python3 pymemcache.py HOST PORT"""

import sys

from pymemcache import Client, MemcacheClientError, MemcacheIllegalInputError, serde
from pymemcache.client.base import PooledClient
from pymemcache.client.hash import HashClient

address = (sys.argv[1], int(sys.argv[2]))
client = Client(address, timeout=30)


def says(wanted, got):
    assert got == wanted, f"wanted {wanted!r}, got {got!r}"


def refuses(kind, call):
    try:
        got = call()
    except kind:
        return
    raise AssertionError(f"wanted {kind}, got {got!r}")


assert client.version(), "a version"

# One key, with and without an answer.
says(True, client.set("k", "one", noreply=False))
says(b"one", client.get("k"))
says(None, client.get("missing"))
says(True, client.set("k", "two", noreply=True))
says(b"two", client.get("k"))
says(False, client.add("k", "three", noreply=False))
says(True, client.replace("k", "three", noreply=False))
says(False, client.replace("missing", "x", noreply=False))
says(True, client.append("k", "!", noreply=False))
says(True, client.prepend("k", "<", noreply=False))
says(b"<three!", client.get("k"))
says(True, client.delete("k", noreply=False))
says(False, client.delete("k", noreply=False))
says(True, client.add("k", "", noreply=False))
says(b"", client.get("k"))

# Versions.
value, unique = client.gets("k")
says(True, client.cas("k", "by cas", unique, noreply=False))
says(False, client.cas("k", "too late", unique, noreply=False))
says(None, client.cas("missing", "x", unique, noreply=False))
says(b"by cas", client.get("k"))

# Numbers.
client.set("n", "10", noreply=False)
says(15, client.incr("n", 5))
says(0, client.decr("n", 100))
says(None, client.incr("missing", 1))
says(True, client.incr("n", 7, noreply=True) is None)
says(b"7", client.get("n").strip())
client.set("n", str(2**64 - 1), noreply=False)
says(0, client.incr("n", 1))
client.set("n", "word", noreply=False)
refuses(MemcacheClientError, lambda: client.incr("n", 1))

# Many at once; every fourth key is not there.
pairs = {f"many{index}": f"value{index}".encode() for index in range(1000)}
says([], client.set_many(pairs, noreply=False))
wanted = list(pairs) + [f"none{index}" for index in range(333)]
says(pairs, client.get_many(wanted))
says({key: value for key, (value, _) in client.gets_many(wanted).items()}, pairs)
says(True, client.delete_many(list(pairs)[:500], noreply=False))
says(500, len(client.get_many(pairs)))

# Times: what is over is not there; a touch moves the time.
says(True, client.set("gone", "x", expire=-1, noreply=False))
says(None, client.get("gone"))
client.set("t", "x", expire=1000, noreply=False)
says(True, client.touch("t", -1, noreply=False))
says(None, client.get("t"))
says(False, client.touch("t", 10, noreply=False))
client.set("t", "x", noreply=False)
if hasattr(client, "gat"):
    says(b"x", client.gat("t", 1000))
    value, unique = client.gats("t", -1)
    says(b"x", value)
    says(None, client.gat("t", 10))

# Values that are large, and those that are too large; the connection goes on.
large = bytes(range(256)) * 3900
says(True, client.set("large", large, noreply=False))
assert client.get("large") == large, "a large value came back changed"
try:
    client.set("large", b"x" * (1 << 21), noreply=False)
    raise AssertionError("two megabytes were taken")
except Exception as error:
    assert "too large" in str(error), error
says(True, client.set("k", "after", noreply=False))
says(b"after", client.get("k"))

# Keys as the client lets them through, and one that it does not.
long = "k" * 250
says(True, client.set(long, "x", noreply=False))
says(b"x", client.get(long))
refuses(MemcacheIllegalInputError, lambda: client.set("k" * 251, "x"))
refuses(MemcacheIllegalInputError, lambda: client.get("two words"))
if hasattr(client, "raw_command"):
    refuses(MemcacheClientError, lambda: client.raw_command(b"get " + b"k" * 251))
unicode = Client(address, timeout=30, allow_unicode_keys=True)
says(True, unicode.set("schlüssel", "x", noreply=False))
says(b"x", unicode.get("schlüssel"))

# Python's own values, through flags.
typed = Client(address, timeout=30, serde=serde.pickle_serde)
for value in ["text", 7, 1 << 70, {"a": [1, 2]}, None, b"bytes"]:
    typed.set("typed", value, noreply=False)
    says(value, typed.get("typed"))

# Pools, and several servers that are the same one.
pooled = PooledClient(address, max_pool_size=4, timeout=30)
says(True, pooled.set("pooled", "x", noreply=False))
says(b"x", pooled.get("pooled"))
hashed = HashClient([address], timeout=30)
says(True, hashed.set("hashed", "x", noreply=False))
says(b"x", hashed.get("hashed"))

# Statistics, and everything away.
stats = client.stats()
assert int(stats[b"get_hits"]) > 1000 and int(stats[b"curr_items"]) > 500, stats
says(True, client.flush_all(noreply=False))
says({}, client.get_many(pairs))
client.quit()
print("pymemcache is content")
