//! Options of stores as keyword arguments, each with the name that it has in Rust.

use crate::error::{Failure, Result};
use crate::listener::listener;
use keyrack_flodb::{
    Append, Compression, Counter, MergeOperator, Options, PrefixExtractor, SetUnion,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::sync::Arc;

/// All options but `comparator`, `filter_policy` and `clock`, which are code of the program's, and
/// `discards_memtables`, which is for measurements.
const NAMES: [&str; 31] = [
    "blob_bytes_min",
    "block_bytes",
    "cache_bytes",
    "compaction_threads",
    "compression",
    "counts_reads",
    "create_if_missing",
    "durability",
    "error_if_exists",
    "feed_hold_bytes",
    "filter_bits_per_key",
    "hash_level",
    "immutable_memtables_max",
    "level0_slow",
    "level0_stop",
    "level0_tables",
    "level_base_bytes",
    "listener",
    "log_retention_bytes",
    "log_retention_seconds",
    "memory_budget",
    "memtable_bytes",
    "merge_operator",
    "paranoid_checks",
    "prefix_extractor",
    "restart_interval",
    "segment_bytes",
    "table_bytes",
    "table_bytes_per_second",
    "table_files_max",
    "unordered_max",
];

/// The options that keyword arguments give.
///
/// # Errors
/// An unknown name, or a value of another kind, is a `TypeError`; a value that cannot be is one of
/// `Usage`.
pub(crate) fn options_of(given: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let mut options = Options::new();
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        set(&mut options, &name, &value).map_err(|error| named(given, &name, error))?;
    }
    Ok(options)
}

/// A value of another kind, with the name of its option.
fn named(given: Option<&Bound<'_, PyDict>>, name: &str, error: PyErr) -> PyErr {
    let Some(py) = given.map(Bound::py) else { return error };
    let is_kind = error.is_instance_of::<pyo3::exceptions::PyTypeError>(py);
    let is_size = error.is_instance_of::<pyo3::exceptions::PyOverflowError>(py);
    if is_size {
        return Failure::Usage(format!("{name}: {}", error.value(py))).into();
    }
    if !is_kind || !NAMES.contains(&name) {
        return error;
    }
    Failure::Kind(format!("{name}: {}", error.value(py))).into()
}

fn set(options: &mut Options, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match name {
        "block_bytes" => options.block_bytes = value.extract()?,
        "blob_bytes_min" => options.blob_bytes_min = value.extract()?,
        "cache_bytes" => options.cache_bytes = value.extract()?,
        "compaction_threads" => options.compaction_threads = value.extract()?,
        "compression" => options.compression = codecs(value)?,
        "counts_reads" => options.counts_reads = value.extract()?,
        "create_if_missing" => options.create_if_missing = value.extract()?,
        "durability" => {
            let text: String = value.extract()?;
            let parsed = text.parse();
            options.durability =
                parsed.map_err(|error: keyrack_store::Error| Failure::Usage(error.to_string()))?;
        }
        "error_if_exists" => options.error_if_exists = value.extract()?,
        "feed_hold_bytes" => options.feed_hold_bytes = value.extract()?,
        "filter_bits_per_key" => options.filter_bits_per_key = value.extract()?,
        "hash_level" => options.hash_level = value.extract()?,
        "immutable_memtables_max" => options.immutable_memtables_max = value.extract()?,
        "level0_slow" => options.level0_slow = value.extract()?,
        "level0_stop" => options.level0_stop = value.extract()?,
        "level0_tables" => options.level0_tables = value.extract()?,
        "level_base_bytes" => options.level_base_bytes = value.extract()?,
        "listener" => options.listener = Some(listener(value)?),
        "log_retention_bytes" => options.log_retention_bytes = value.extract()?,
        "log_retention_seconds" => options.log_retention_seconds = value.extract()?,
        "memory_budget" => options.memory_budget = value.extract()?,
        "memtable_bytes" => options.memtable_bytes = value.extract()?,
        "merge_operator" => options.merge_operator = Some(merge_operator(value)?),
        "paranoid_checks" => options.paranoid_checks = value.extract()?,
        "prefix_extractor" => options.prefix_extractor = Some(prefix_extractor(value)?),
        "restart_interval" => options.restart_interval = value.extract()?,
        "segment_bytes" => options.segment_bytes = value.extract()?,
        "table_bytes" => options.table_bytes = value.extract()?,
        "table_bytes_per_second" => options.table_bytes_per_second = value.extract()?,
        "table_files_max" => options.table_files_max = value.extract()?,
        "unordered_max" => options.unordered_max = value.extract()?,
        _ => {
            let known = NAMES.join(", ");
            return Err(
                Failure::Kind(format!("{name} is no option; the options are {known}")).into()
            );
        }
    }
    Ok(())
}

/// What is given as text, or as bytes if it is no text.
fn spelled(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    match value.cast::<PyString>() {
        Ok(text) => Ok(text.to_str()?.as_bytes().to_vec()),
        Err(_) => Ok(value.extract::<&[u8]>()?.to_vec()),
    }
}

fn merge_operator(value: &Bound<'_, PyAny>) -> PyResult<Arc<dyn MergeOperator>> {
    let name = spelled(value)?;
    match &name[..] {
        b"counter" => Ok(Arc::new(Counter)),
        b"set-union" => Ok(Arc::new(SetUnion)),
        name => match name.strip_prefix(b"append:") {
            Some(separator) => Ok(Arc::new(Append::new(separator))),
            None => Err(Failure::Usage(format!(
                "merge_operator must be counter, set-union or append:SEPARATOR (got \"{}\")",
                name.escape_ascii()
            ))
            .into()),
        },
    }
}

fn prefix_extractor(value: &Bound<'_, PyAny>) -> PyResult<PrefixExtractor> {
    let rule = spelled(value)?;
    if let Some(bytes) = rule.strip_prefix(b"fixed:")
        && let Some(Ok(bytes)) = std::str::from_utf8(bytes).ok().map(str::parse)
    {
        return Ok(PrefixExtractor::Fixed(bytes));
    }
    if let Some(&[byte]) = rule.strip_prefix(b"separator:") {
        return Ok(PrefixExtractor::Separator(byte));
    }
    Err(Failure::Usage(format!(
        "prefix_extractor must be fixed:BYTES or separator:BYTE (got \"{}\")",
        rule.escape_ascii()
    ))
    .into())
}

/// One codec for all tables, or a list of those of the levels.
fn codecs(value: &Bound<'_, PyAny>) -> PyResult<Vec<Compression>> {
    let names: Vec<String> = match value.cast::<PyString>() {
        Ok(name) => vec![name.to_str()?.to_owned()],
        Err(_) => value.extract()?,
    };
    Ok(names.iter().map(|name| codec(name)).collect::<Result<Vec<_>>>()?)
}

fn codec(name: &str) -> Result<Compression> {
    let level = name.strip_prefix("zstd:").map(str::parse);
    match (name, level) {
        ("none", _) => Ok(Compression::None),
        ("lz4", _) => Ok(Compression::Lz4),
        ("snappy", _) => Ok(Compression::Snappy),
        ("zstd", _) => Ok(Compression::Zstd(0)),
        (_, Some(Ok(level))) => Ok(Compression::Zstd(level)),
        _ => Err(Failure::Usage(format!(
            "compression must be none, lz4, snappy, zstd or zstd:LEVEL (got {name:?})"
        ))),
    }
}
