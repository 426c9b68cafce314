//! The jobs by name.

use super::reads::{self, Keys};
use super::tools::{self, Codec};
use super::writes::{self, WriteOrder};
use super::{flodb, params};
use crate::kvtest::{Client, End, Halt, Job, Lcg, limited};

/// All jobs of this module, in the order of lists.
#[must_use]
pub fn jobs() -> &'static [Job] {
    JOBS
}

type Run = fn(&mut dyn Client, &mut Lcg) -> Result<(), Halt>;

/// Entries that a job of `db/..` works on where `num` is not given.
pub(crate) const NUM: u64 = params::NUM;

const WRITES: &[&str] = &["num", "key_prefix", "value_size", "compression_ratio", "batch"];
const SYNCED: &[&str] = &["num", "key_prefix", "value_size", "compression_ratio"];
/// Of a job without a store.
const VALUES: &[&str] = &["num", "value_size", "compression_ratio"];
const OVERWRITES: &[&str] =
    &["num", "key_prefix", "value_size", "compression_ratio", "batch", "fill"];
const READS: &[&str] = &["num", "key_prefix", "reads", "value_size", "compression_ratio", "fill"];
const SEEKS: &[&str] =
    &["num", "key_prefix", "reads", "nexts", "value_size", "compression_ratio", "fill"];
const LOADED: &[&str] = &["num", "key_prefix", "value_size", "compression_ratio", "fill"];
const MIXED: &[&str] = &["num", "key_prefix", "writes", "value_size", "compression_ratio", "fill"];
const FLODB: &[&str] = &[
    "initial",
    "range",
    "updates",
    "skew",
    "one_writer",
    "scans",
    "bursts",
    "latency",
    "fill",
    "wait",
    "value_size",
    "compression_ratio",
];

/// A job on an empty store.
const fn fill(name: &'static str, about: &'static str, run: Run) -> Job {
    let job = limited(name, about, run);
    Job { end: End::CountOrTime, params: WRITES, wants_fresh: true, ..job }
}

/// A job that does not touch the store.
const fn storeless(name: &'static str, about: &'static str, run: Run) -> Job {
    Job { end: End::CountOrTime, params: VALUES, ..limited(name, about, run) }
}

/// A job on a store that has every key.
const fn loaded(
    name: &'static str,
    about: &'static str,
    params: &'static [&'static str],
    run: Run,
) -> Job {
    let job = limited(name, about, run);
    Job { end: End::CountOrTime, params, load: Some(writes::load), ..job }
}

const JOBS: &[Job] = &[
    fill("db/fillseq", "put num entries in order of their keys", |c, _| {
        writes::put(c, WriteOrder::Seq)
    }),
    fill("db/fillrandom", "put num entries with drawn keys", |c, _| {
        writes::put(c, WriteOrder::Random)
    }),
    Job {
        params: SYNCED,
        syncs: true,
        ..fill("db/fillsync", "put num/1000 entries, each of them synced", |c, _| {
            writes::put_synced(c)
        })
    },
    Job {
        params: SYNCED,
        ..fill("db/fillbatch", "put num entries in order, a thousand a batch", |c, _| {
            writes::put_batches(c)
        })
    },
    Job {
        params: SYNCED,
        ..fill("db/fill100K", "put num/1000 entries with values of 100,000 bytes", |c, _| {
            writes::put_large(c)
        })
    },
    loaded("db/overwrite", "put num drawn keys of a full store", OVERWRITES, |c, _| {
        writes::put(c, WriteOrder::Random)
    }),
    loaded("db/readrandom", "get drawn keys", READS, |c, _| reads::get(c, Keys::All)),
    loaded("db/readrandomsmall", "get reads/1000 drawn keys", READS, |c, _| reads::get_few(c)),
    loaded("db/readmissing", "get keys that are not there", READS, |c, _| {
        reads::get(c, Keys::Missing)
    }),
    loaded("db/readhot", "get drawn keys of the first hundredth", READS, |c, _| {
        reads::get(c, Keys::Hot)
    }),
    loaded("db/readseq", "walk over rows from the first on", READS, |c, _| reads::walk(c, false)),
    loaded("db/readreverse", "walk over rows from the last on", READS, |c, _| reads::walk(c, true)),
    loaded("db/seekrandom", "look for a drawn key and read nexts rows behind it", SEEKS, |c, _| {
        reads::seek(c, false)
    }),
    loaded("db/seekordered", "the same, each key a drawn step above the last", SEEKS, |c, _| {
        reads::seek(c, true)
    }),
    loaded("db/deleteseq", "remove every key in order", OVERWRITES, |c, _| {
        writes::remove(c, WriteOrder::Seq)
    }),
    loaded("db/deleterandom", "remove num drawn keys", OVERWRITES, |c, _| {
        writes::remove(c, WriteOrder::Random)
    }),
    Job {
        beside: 1,
        ..loaded("db/readwhilewriting", "get drawn keys while one thread beside puts", READS, {
            |c, _| reads::read_while_writing(c)
        })
    },
    loaded("db/mixed", "put or get drawn keys; writes=PERCENT of them puts", MIXED, |c, _| {
        reads::mixed(c)
    }),
    loaded("db/compact", "compact the whole store", LOADED, |c, _| tools::compact(c)),
    loaded("db/stats", "what the store says about its levels", LOADED, |c, _| {
        tools::property(c, "stats")
    }),
    loaded("db/sstables", "what the store says about its tables", LOADED, |c, _| {
        tools::property(c, "sstables")
    }),
    storeless("db/crc32c", "checksums of blocks of 4 KiB", |c, _| tools::crc32c(c)),
    storeless("db/snappycomp", "compress blocks of 4 KiB with Snappy", |c, _| {
        tools::compress(c, Codec::Snappy)
    }),
    storeless("db/snappyuncomp", "decompress blocks of 4 KiB with Snappy", |c, _| {
        tools::decompress(c, Codec::Snappy)
    }),
    storeless("db/zstdcomp", "compress blocks of 4 KiB with Zstandard", |c, _| {
        tools::compress(c, Codec::Zstd)
    }),
    storeless("db/zstduncomp", "decompress blocks of 4 KiB with Zstandard", |c, _| {
        tools::decompress(c, Codec::Zstd)
    }),
    Job {
        end: End::Time,
        params: FLODB,
        load: Some(flodb::load),
        ..limited("flodb/mixed", "the test of FloDB: puts, removals, and gets or scans", |c, _| {
            flodb::run(c)
        })
    },
];
