# DuckDB against what `keyrack fs find --json` says of the same tree; then it writes the tree anew, in
# another order, for us to take in.
import json

import duckdb

db = duckdb.connect()
rows = db.execute(
    "select path, name, kind, inode, mode, nlink, uid, gid, size, epoch_ns(mtime), epoch_ns(ctime), "
    "target, data from 'tree.parquet'"
).fetchall()
facts = [json.loads(line) for line in open("facts.jsonl")]
assert len(rows) == len(facts) == 9, (len(rows), len(facts))
for row, fact in zip(rows, facts):
    whole = bytes.fromhex(fact["path_hex"]) if "path_hex" in fact else fact["path"].encode()
    path = whole[len(b"/in"):].strip(b"/")
    assert row[0] == path and row[1] == path.split(b"/")[-1], (row, fact)
    assert row[2] == fact["type"] and row[3].hex() == fact["inode"], (row, fact)
    assert row[4] == int(fact["mode"], 8), (row, fact)
    wanted = [fact[key] for key in ("nlink", "uid", "gid", "size", "mtime_ns", "ctime_ns")]
    assert list(row[5:11]) == wanted, (row, fact)
    assert (row[11] is None) == (row[2] != "l"), row
    assert (row[12] is None) == (row[2] != "f" or row[8] > 3901), row
assert db.execute("select data from 'tree.parquet' where name = 'bytes'").fetchone()[0] == b"x\0y"
types = dict(db.execute("select column_name, column_type from (describe from 'tree.parquet')").fetchall())
assert types["path"] == "BLOB" and types["uid"] == "UINTEGER" and types["size"] == "UBIGINT", types
db.execute("copy (select * from 'tree.parquet' order by path desc) to 'turned.parquet' (format parquet)")
print("duckdb", duckdb.__version__, "is content")
