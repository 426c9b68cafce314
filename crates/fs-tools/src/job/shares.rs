//! What each server of a job did: every rank tells its numbers when it ends, and rank 0 adds them
//! up. A rank that is gone has none, and does not keep the others.

use super::totals::{NUMBERS, Totals};
use keyrack_deltafs::job::Job;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// How long rank 0 waits for the numbers of the others, which end at the same time.
const PATIENCE: Duration = Duration::from_secs(10);

/// The numbers of one server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    pub(super) calls: u64,
    /// Of all threads of the process, while it served.
    pub(super) cpu_ns: u64,
    pub(super) store: Totals,
}

impl Share {
    fn to_bytes(self) -> Vec<u8> {
        let store = self.store.numbers().map(f64::to_bits);
        let all = [self.calls, self.cpu_ns].into_iter().chain(store);
        all.flat_map(u64::to_le_bytes).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Share> {
        let (numbers, []) = bytes.as_chunks::<8>() else { return None };
        let mut numbers = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let (calls, cpu_ns) = (numbers.next()?, numbers.next()?);
        let store: Vec<f64> = numbers.map(f64::from_bits).collect();
        let store: [f64; NUMBERS] = store.try_into().ok()?;
        Some(Share { calls, cpu_ns, store: Totals::from_numbers(&store) })
    }

    fn add(&mut self, other: &Share) {
        self.calls += other.calls;
        self.cpu_ns += other.cpu_ns;
        self.store.add(&other.store);
    }

    fn cpu_us_per_call(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.cpu_ns as f64 / 1e3 / self.calls as f64 }
    }

    fn json(&self) -> Value {
        json!({
            "calls": self.calls,
            "cpu_us_per_call": self.cpu_us_per_call(),
            "cpu_seconds": self.cpu_ns as f64 / 1e9,
            "store": self.store.json(),
        })
    }
}

/// The numbers of all servers.
#[derive(Debug)]
pub(super) struct Shares {
    /// In the order of ranks; of one that is gone, why there is nothing.
    ranks: Vec<Result<Share, String>>,
}

impl Shares {
    /// Tells the numbers of this rank; rank 0 gets those of all.
    pub(super) fn gather(job: &mut Job, mine: &Share) -> Option<Shares> {
        let all = job.last_words(&mine.to_bytes(), PATIENCE)?;
        let read = |told: keyrack_deltafs::job::Result<Vec<u8>>| match told {
            Ok(bytes) => Share::from_bytes(&bytes).ok_or_else(|| "other numbers".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        Some(Shares { ranks: all.into_iter().map(read).collect() })
    }

    fn sum(&self) -> Share {
        let mut sum = Share::default();
        self.ranks.iter().flatten().for_each(|share| sum.add(share));
        sum
    }

    /// The sums, and where there are several ranks a line for each.
    pub(super) fn text(&self, has_store: bool) -> String {
        let sum = self.sum();
        let mut text = if has_store { sum.store.text() } else { String::new() };
        let (calls, each_us) = (sum.calls, sum.cpu_us_per_call());
        // Writing to a string does not fail.
        let _ = writeln!(text, "Calls: {calls}, CPU of all ranks {each_us:.2} us/call");
        if self.ranks.len() > 1 {
            for (rank, share) in self.ranks.iter().enumerate() {
                let _ = match share {
                    Ok(share) => writeln!(
                        text,
                        "Rank {rank}: {} calls, CPU {:.2} us/call, {:.0} bytes written",
                        share.calls,
                        share.cpu_us_per_call(),
                        share.store.written_bytes(),
                    ),
                    Err(why) => writeln!(text, "Rank {rank}: no numbers: {why}"),
                };
            }
        }
        text
    }

    /// The same as fields of the document: the sums, then `ranks`.
    pub(super) fn fields(&self, has_store: bool) -> Vec<(&'static str, Value)> {
        let sum = self.sum();
        let ranks: Vec<Value> = (0..)
            .zip(&self.ranks)
            .map(|(rank, share): (u32, _)| {
                let mut value = match share {
                    Ok(share) => share.json(),
                    Err(why) => json!({ "error": why }),
                };
                value["rank"] = rank.into();
                value
            })
            .collect();
        let mut fields = vec![
            ("calls", sum.calls.into()),
            ("cpu_us_per_call", sum.cpu_us_per_call().into()),
            ("cpu_seconds", (sum.cpu_ns as f64 / 1e9).into()),
            ("ranks", ranks.into()),
        ];
        if has_store {
            fields.push(("store", sum.store.json()));
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(calls: u64, cpu_ns: u64) -> Share {
        let store = Totals::from_numbers(&std::array::from_fn(|at| at as f64 * calls as f64));
        Share { calls, cpu_ns, store }
    }

    #[test]
    fn numbers_of_ranks_come_back_and_add_up() {
        let one = Share::from_bytes(&share(10, 30_000).to_bytes()).unwrap();
        let (two, gone) = (share(30, 10_000), "rank 2 is gone".to_owned());
        for cut in [0, 8, 20, one.to_bytes().len() - 1] {
            assert!(Share::from_bytes(&one.to_bytes()[..cut]).is_none());
        }
        let shares = Shares { ranks: vec![Ok(one), Ok(two), Err(gone)] };
        let sum = shares.sum();
        assert_eq!((sum.calls, sum.cpu_ns), (40, 40_000));
        assert_eq!(sum.store.numbers(), share(40, 0).store.numbers());
        let text = shares.text(false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Calls: 40, CPU of all ranks 1.00 us/call");
        assert!(lines[1].starts_with("Rank 0: 10 calls, CPU 3.00 us/call, "), "{text}");
        assert_eq!(lines[3], "Rank 2: no numbers: rank 2 is gone");
        let fields = shares.fields(true);
        let ranks = &fields.iter().find(|field| field.0 == "ranks").unwrap().1;
        assert_eq!(
            (&ranks[1]["calls"], &ranks[2]["error"]),
            (&30.into(), &"rank 2 is gone".into())
        );
        // One rank alone is the sum.
        assert_eq!(Shares { ranks: vec![Ok(one)] }.text(false).lines().count(), 1);
    }
}
