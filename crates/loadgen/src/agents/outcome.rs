//! What a process counted, in a form that travels: counts that add, histograms that merge exactly.
//!
//! Names are the business of those who run: two outcomes are merged name by name.

use std::collections::BTreeMap;

use keyrack_measure::{Histogram, HistogramParts};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Histograms of an outcome. Each takes memory for all its buckets, however short it travels.
const HISTOGRAMS_MAX: usize = 256;

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The length of the measurement, in seconds: the longest of those that were merged.
    pub window_s: f64,
    /// The run was ended before its time.
    pub is_interrupted: bool,
    /// Counts by name.
    pub counts: BTreeMap<String, u64>,
    /// Latencies in nanoseconds, by name.
    #[serde(serialize_with = "put", deserialize_with = "get")]
    pub histograms: BTreeMap<String, Histogram>,
    /// Replies of each second from the start.
    pub ops_by_second: Vec<u64>,
    /// Processor time and time that passed of each thread, in seconds.
    pub threads: Vec<(f64, f64)>,
    /// What a person has to know.
    pub troubles: Vec<String>,
}

/// A histogram on its way.
#[derive(Serialize, Deserialize)]
struct Parts {
    sum: u64,
    min: u64,
    max: u64,
    buckets: Vec<(u64, u64)>,
}

fn put<S: Serializer>(
    histograms: &BTreeMap<String, Histogram>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(histograms.iter().map(|(name, histogram)| {
        let HistogramParts { sum, min, max, buckets } = histogram.parts();
        (name, Parts { sum, min, max, buckets })
    }))
}

fn get<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Histogram>, D::Error> {
    let parts = BTreeMap::<String, Parts>::deserialize(deserializer)?;
    if parts.len() > HISTOGRAMS_MAX {
        let count = parts.len();
        return Err(D::Error::custom(format!("{count} histograms, at most {HISTOGRAMS_MAX}")));
    }
    let histogram = |(name, Parts { sum, min, max, buckets }): (String, Parts)| {
        let parts = HistogramParts { sum, min, max, buckets };
        let histogram = Histogram::of_parts(&parts);
        let refusal = || D::Error::custom(format!("histogram {name:?} is none"));
        Ok((name.clone(), histogram.ok_or_else(refusal)?))
    };
    parts.into_iter().map(histogram).collect()
}
