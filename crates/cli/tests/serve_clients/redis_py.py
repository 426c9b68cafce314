"""redis-py against a server: python3 redis_py.py HOST PORT"""

import sys

import redis

host, port = sys.argv[1], int(sys.argv[2])
client = redis.Redis(host, port, decode_responses=True, socket_timeout=30)
plain = redis.Redis(host, port, socket_timeout=30)


def says(wanted, got):
    assert got == wanted, f"wanted {wanted!r}, got {got!r}"


def refuses(text, call):
    try:
        got = call()
    except redis.RedisError as error:
        assert text in f"{type(error).__name__} {error}", error
        return
    raise AssertionError(f"wanted an error with {text}, got {got!r}")


# Strings.
says(True, client.ping())
says(True, client.set("k", "größe"))
says("größe", client.get("k"))
says("größe".encode(), plain.get("k"))
says(None, client.get("missing"))
says(None, client.set("k", "x", nx=True))
says("größe", client.set("k", "x", get=True))
says(True, client.set("k", "y", xx=True, keepttl=True))
says(2, client.append("k", "z"))
says("z", client.getrange("k", 1, -1))
says(5, client.setrange("k", 3, "ab"))
says("yz\0ab", client.get("k"))
says("yz\0ab", client.getdel("k"))
says(12, client.incr("n", 12))
says(2, client.decr("n", 10))
says(2.5, client.incrbyfloat("n", 0.5))
says(True, client.mset({"a": "1", "b": "2"}))
says(["1", None, "2"], client.mget("a", "missing", "b"))
says(False, client.msetnx({"a": "3", "c": "3"}))
binary = bytes(range(256)) * 1000
says(True, plain.set("binary", binary))
assert plain.get("binary") == binary, "a large value came back changed"

# Errors are errors of the client's own kinds.
refuses("unknown command", lambda: client.execute_command("NOSUCH", "x"))
refuses("WRONGTYPE", lambda: (client.hset("h", "f", "v"), client.get("h")))
refuses("not an integer", lambda: client.incr("binary"))

# Hashes.
says(3, client.hset("user", mapping={"name": "Ada", "age": 36, "city": "London"}))
says({"name": "Ada", "age": "36", "city": "London"}, client.hgetall("user"))
says(["Ada", None], client.hmget("user", "name", "missing"))
says(37, client.hincrby("user", "age"))
says(37.5, client.hincrbyfloat("user", "age", 0.5))
says(True, client.hexists("user", "name"))
says({"name", "age", "city"}, set(client.hkeys("user")))
says(3, client.hlen("user"))
says(1, client.hdel("user", "city", "missing"))
says(False, client.hsetnx("user", "name", "Eve"))
assert client.hrandfield("user") in ("name", "age")
client.hset("wide", mapping={f"f{index}": index for index in range(500)})
says({f"f{index}": str(index) for index in range(500)}, dict(client.hscan_iter("wide")))
says(10, len(dict(client.hscan_iter("wide", match="f1?"))))

# A pipeline, and a transaction.
with client.pipeline(transaction=False) as pipe:
    for index in range(2000):
        pipe.set(f"pipe:{index}", index)
    for index in range(2000):
        pipe.get(f"pipe:{index}")
    replies = pipe.execute()
says([True] * 2000 + [str(index) for index in range(2000)], replies)
with client.pipeline() as pipe:
    pipe.set("t", 1).incr("t").hget("user", "name").get("user")
    replies = pipe.execute(raise_on_error=False)
says([True, 2, "Ada"], replies[:3])
assert isinstance(replies[3], redis.ResponseError), replies

# WATCH: one that sees a change begins again.
client.set("balance", 10)
attempts = 0


def double(pipe):
    global attempts
    attempts += 1
    balance = int(pipe.get("balance"))
    if attempts == 1:
        plain.incr("balance")
    pipe.multi()
    pipe.set("balance", 2 * balance)


says([True], client.transaction(double, "balance"))
says("22", client.get("balance"))
says(2, attempts)
with client.pipeline() as pipe:
    pipe.watch("balance")
    plain.set("balance", 1)
    pipe.multi()
    pipe.set("balance", 2)
    refuses("WatchError", pipe.execute)
says("1", client.get("balance"))

# Keys, and the time they have.
says(set(f"pipe:{index}" for index in range(2000)), set(client.scan_iter("pipe:*", count=97)))
says(["h", "user", "wide"], sorted(client.scan_iter(_type="hash")))
says(["pipe:7"], client.keys("pipe:[7]"))
says("string", client.type("a"))
says(2, client.exists("a", "b", "missing"))
says(True, client.rename("a", "renamed"))
says("1", client.get("renamed"))
says(1, client.unlink("renamed"))
says(True, client.copy("b", "copied"))
says(-1, client.ttl("b"))
says(-2, client.ttl("missing"))
says(True, client.expire("b", 100))
assert 98 <= client.ttl("b") <= 100
says(True, client.persist("b"))
says(True, client.set("short", "x", px=100_000))
assert 90_000 < client.pttl("short") <= 100_000
says("x", client.getex("short", persist=True))
says(-1, client.pttl("short"))
says(True, client.pexpireat("short", 1))
says(None, client.get("short"))
says(True, client.setex("b", 1000, "2"))
assert client.randomkey() is not None

# What the server tells of itself.
info = client.info()
assert info["redis_version"] and info["connected_clients"] >= 1, info
assert client.info("keyspace")["db0"]["keys"] == client.dbsize()
assert client.config_get("maxmemory*")["maxmemory"] == "0"
assert client.time()[0] > 1_000_000_000
says(True, client.client_setname("tester"))
says("tester", client.client_getname())
assert any(row["name"] == "tester" for row in client.client_list())
assert client.command_count() > 50
assert client.memory_usage("wide") > 500
says("nothing", client.echo("nothing"))

# The third version of the protocol, where the client can speak it.
if int(redis.__version__.split(".")[0]) >= 5:
    third = redis.Redis(host, port, protocol=3, decode_responses=True, socket_timeout=30)
    says({"name": "Ada", "age": "37.5"}, third.hgetall("user"))
    says(None, third.get("missing"))
    with third.pipeline() as pipe:
        says([True, "x"], pipe.set("three", "x").get("three").execute())

# A key of another database, and everything away.
refuses("out of range", lambda: redis.Redis(host, port, db=1, socket_timeout=30).ping())
says(True, client.flushall())
says(0, client.dbsize())
print("redis-py is content")
