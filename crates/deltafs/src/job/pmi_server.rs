//! The side of a launcher of PMI-1, without input and output: lines in, lines out.
//!
//! **Invariant:** a barrier is left by all ranks or by none; what was put before it can be got
//! behind it.

use super::pmi::field;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const KVS_NAME: &str = "kvs_0";
const KEY_BYTES_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 1024;
/// Values that a job may leave, for each of its ranks.
const VALUES_A_RANK_MAX: usize = 64;

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The rank gets this.
    Reply(String),
    /// All ranks get this.
    ReplyAll(String),
    /// Nothing yet.
    Wait,
    /// The job is over, with this exit status.
    Abort(i32, String),
}

/// What the ranks of a job have said so far.
#[derive(Debug)]
pub(super) struct Book {
    values: BTreeMap<String, String>,
    ranks: Vec<Progress>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    is_in_barrier: bool,
    has_begun: bool,
    has_ended: bool,
}

impl Book {
    pub(super) fn new(size: usize) -> Book {
        Book { values: BTreeMap::new(), ranks: vec![Progress::default(); size] }
    }

    /// Whether the rank has begun to speak and not said that it ends.
    pub(super) fn is_open(&self, rank: usize) -> bool {
        self.ranks[rank].has_begun && !self.ranks[rank].has_ended
    }

    /// A line of a rank.
    pub(super) fn line(&mut self, rank: usize, line: &str) -> Action {
        // A line without a command is answered as one that is not known.
        let command = field(line, "cmd").unwrap_or_default();
        let mut reply = String::new();
        let written = match command {
            "init" => {
                self.ranks[rank].has_begun = true;
                let rc = if field(line, "pmi_version") == Some("1") { 0 } else { -1 };
                write!(reply, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc={rc}")
            }
            "get_maxes" => write!(
                reply,
                "cmd=maxes kvsname_max=256 keylen_max={KEY_BYTES_MAX} vallen_max={VALUE_BYTES_MAX}"
            ),
            "get_appnum" => write!(reply, "cmd=appnum appnum=0"),
            "get_my_kvsname" => write!(reply, "cmd=my_kvsname kvsname={KVS_NAME}"),
            "get_universe_size" => {
                write!(reply, "cmd=universe_size size={}", self.ranks.len())
            }
            "put" => {
                let rc = if self.put(line) { 0 } else { -1 };
                let words = if rc == 0 { "success" } else { "refused" };
                write!(reply, "cmd=put_result rc={rc} msg={words}")
            }
            "get" => match field(line, "key").and_then(|key| self.values.get(key)) {
                Some(value) => write!(reply, "cmd=get_result rc=0 msg=success value={value}"),
                None => write!(reply, "cmd=get_result rc=-1 msg=key_not_found value=unknown"),
            },
            "barrier_in" => {
                self.ranks[rank].is_in_barrier = true;
                if !self.ranks.iter().all(|progress| progress.is_in_barrier) {
                    return Action::Wait;
                }
                self.ranks.iter_mut().for_each(|progress| progress.is_in_barrier = false);
                return Action::ReplyAll("cmd=barrier_out\n".to_owned());
            }
            "finalize" => {
                self.ranks[rank].has_ended = true;
                write!(reply, "cmd=finalize_ack")
            }
            "abort" => {
                let status = field(line, "exitcode").and_then(|text| text.parse().ok());
                // A rank need not say why.
                let why = field(line, "message").unwrap_or_default().replace('_', " ");
                return Action::Abort(status.unwrap_or(1), why);
            }
            _ => write!(reply, "cmd=error rc=-1 msg=unknown_command"),
        };
        // Writing to a string does not fail.
        debug_assert!(written.is_ok());
        reply.push('\n');
        Action::Reply(reply)
    }

    fn put(&mut self, line: &str) -> bool {
        let (Some(key), Some(value)) = (field(line, "key"), field(line, "value")) else {
            return false;
        };
        let fits = key.len() <= KEY_BYTES_MAX
            && value.len() <= VALUE_BYTES_MAX
            && self.values.len() < VALUES_A_RANK_MAX * self.ranks.len();
        if fits {
            self.values.insert(key.to_owned(), value.to_owned());
        }
        fits
    }
}
