//! A command being carried out: its arguments, its reply, and what it may use.
//!
//! Handlers write their reply as they go. One that fails after it has written something gives its
//! error all the same: the caller removes the reply first.

use std::sync::atomic::Ordering::Relaxed;

use keyrack_rowstore::{Kind, Row, RowBuf};
use keyrack_wire::resp::{Request, Writer};

use crate::redis::command::Command;
use crate::redis::context::CommandContext;
use crate::redis::counters::bump;
use crate::redis::fault::{Done, Fault};
use crate::redis::number::{integer, natural};
use crate::redis::state::State;
use crate::redis::task::{Task, Underway};
use keyrack_store::Update;

/// A command being carried out.
pub(crate) struct Call<'a> {
    pub(crate) command: &'static Command,
    /// Argument 0 is the command's name.
    pub(crate) args: Request<'a, 'a>,
    pub(crate) reply: Writer<'a>,
    pub(crate) ctx: CommandContext<'a>,
    pub(crate) state: &'a mut State,
    /// Whether it has to be carried out to its end at once, because it is part of a transaction.
    pub(crate) is_whole: bool,
}

impl<'a> Call<'a> {
    /// Words, the name included.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.args.len()
    }

    #[inline]
    pub(crate) fn arg(&self, index: usize) -> &'a [u8] {
        self.args.arg(index)
    }

    /// Whether argument `index` is there and is `word`, in any case.
    pub(crate) fn is(&self, index: usize, word: &str) -> bool {
        self.args.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }

    pub(crate) fn integer(&self, index: usize) -> Result<i64, Fault> {
        integer(self.arg(index)).ok_or(Fault::NOT_AN_INTEGER)
    }

    /// A number that is not below 0; [`Fault::NOT_POSITIVE`] when it is.
    pub(crate) fn natural(&self, index: usize) -> Result<u64, Fault> {
        natural(self.arg(index)).ok_or(Fault::NOT_POSITIVE)
    }

    #[inline]
    pub(crate) fn looked_up(&self, found: bool) {
        let counters = self.ctx.counters();
        bump(if found { &counters.hits } else { &counters.misses }, 1);
    }

    /// Lends the row of `key` to `visit`, or nothing; `visit` writes the reply.
    #[inline]
    pub(crate) fn row(
        &mut self,
        key: &[u8],
        mut visit: impl FnMut(Option<Row<'_>>, &mut Writer<'_>) -> Done,
    ) -> Done {
        let mut done = Ok(());
        let reply = &mut self.reply;
        let found = self.ctx.rows.get(key, &mut |row| done = visit(Some(row), reply))?;
        self.looked_up(found);
        if found { done } else { visit(None, &mut self.reply) }
    }

    /// As [`Call::row`], for a string.
    #[inline]
    pub(crate) fn string(
        &mut self,
        key: &[u8],
        mut visit: impl FnMut(Option<&[u8]>, &mut Writer<'_>),
    ) -> Done {
        self.row(key, |row, reply| {
            visit(string_of(row.as_ref())?, reply);
            Ok(())
        })
    }

    /// Reads, decides and writes one row as one step; `decide` writes the reply, and may be called
    /// again.
    #[inline]
    pub(crate) fn edit(
        &mut self,
        key: &[u8],
        mut decide: impl FnMut(Option<Row<'_>>, &mut RowBuf, &mut Writer<'_>) -> Decided,
    ) -> Done {
        let reply = &mut self.reply;
        let place = reply.place();
        let mut fault = None;
        self.ctx.rows.update(key, &mut |row, buf| {
            reply.cut(place);
            fault = None;
            decide(row, buf, reply).unwrap_or_else(|error| {
                fault = Some(error);
                Update::Keep
            })
        })?;
        fault.map_or(Ok(()), Err)
    }

    /// Begins what may take long: its first slice is carried out now, the others in later
    /// iterations.
    pub(crate) fn begin(&mut self, mut task: Task) -> Done {
        while !task.slice(&mut self.ctx, &mut self.reply)? {
            if !self.is_whole {
                self.state.task = Some(Box::new(Underway::new(task)));
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn value_bytes_max(&self) -> u64 {
        self.ctx.shared.settings.bulk_bytes_max.load(Relaxed)
    }
}

/// The function that executes a command. It writes its reply, or returns the error to reply with.
pub(crate) type Handler = fn(&mut Call<'_>) -> Done;

/// The change of a row, or why the command fails.
pub(crate) type Decided = Result<Update, Fault>;

/// The string that a row holds, if there is a row.
#[inline]
pub(crate) fn string_of<'r>(row: Option<&Row<'r>>) -> Result<Option<&'r [u8]>, Fault> {
    match row {
        None => Ok(None),
        Some(row) if row.kind() == Kind::Value => Ok(Some(row.value())),
        Some(_) => Err(Fault::WRONG_TYPE),
    }
}

pub(crate) fn type_name(row: &Row<'_>) -> &'static str {
    if row.kind() == Kind::Value { "string" } else { "hash" }
}

/// Makes `buf` a copy of `row`, attributes included.
pub(crate) fn copy_row(row: &Row<'_>, buf: &mut RowBuf) {
    match row.kind() {
        Kind::Value => buf.set_value(row.value()),
        Kind::Columns => {
            buf.columns();
            (0..row.columns()).filter_map(|index| row.column(index)).for_each(|c| buf.push(c));
        }
        Kind::Fields => {
            buf.fields();
            (0..row.columns())
                .filter_map(|index| row.field(index))
                .for_each(|(name, value)| buf.push_field(name, value));
        }
        Kind::Collection => buf.collection(row.collection().expect("a header has an id")),
    }
    buf.keep_attributes(row);
}

/// Takes flags and expiry of the row before, if there is one.
pub(crate) fn keep_attributes(row: Option<&Row<'_>>, buf: &mut RowBuf) {
    if let Some(row) = row {
        buf.keep_attributes(row);
    }
}
