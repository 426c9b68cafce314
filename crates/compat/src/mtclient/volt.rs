//! `volt1a`, `volt1b`, `volt2a`, `volt2b`: the mixes that the paper sets beside a store of
//! relations: a table is loaded, then rows of it are read and written at random, half and half.
//!
//! | | key | row |
//! |---|---|---|
//! | `volt1` | `volt1-` and 8 digits | one value of 8 digits |
//! | `volt2` | `volt2-` and 8 digits | ten columns of 4 digits; one is read or written at a time |
//!
//! A row is put anew with what it has, so that every read can be checked, whoever else writes.

use super::client::NetClient;
use super::plain::{acts_max, digits, repeat, repeat_for, report_both};
use keyrack_workload::kvtest::{Client, Halt, Lcg};

/// Rows of a table; `-l` may leave less, for both halves of a pair.
const ROWS: u64 = 1_000_000;
const COLUMNS_MAX: u64 = 10;

/// What rows look like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    name: &'static [u8],
    columns: u64,
    digits: usize,
}

pub(super) const ONE: Table = Table { name: b"volt1-", columns: 1, digits: 8 };
pub(super) const TEN: Table = Table { name: b"volt2-", columns: COLUMNS_MAX, digits: 4 };

impl Table {
    fn key(&self, row: u64, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(self.name);
        key.extend_from_slice(digits(&mut [0; 20], row, 8));
    }

    /// What is in a column of a row.
    fn value<'b>(&self, row: u64, column: u64, buffer: &'b mut [u8; 20]) -> &'b [u8] {
        let most = 10_u64.pow(self.digits as u32);
        digits(buffer, (row * COLUMNS_MAX + column + 1) % most, self.digits)
    }
}

pub(super) fn load(client: &mut NetClient<'_>, table: Table) -> Result<(), Halt> {
    let (first, step) = (u64::from(client.id()), u64::from(client.threads()));
    let rows = client.limit().min(ROWS).saturating_sub(first).div_ceil(step);
    let mut key = Vec::new();
    let mut buffers = [[0; 20]; COLUMNS_MAX as usize];
    repeat(client, "puts", rows, |client, n| {
        let row = first + n * step;
        table.key(row, &mut key);
        if table.columns == 1 {
            return client.put(&key, table.value(row, 0, &mut buffers[0]));
        }
        let columns = (0_u32..).zip(&mut buffers);
        let changes: Vec<(u32, &[u8])> = columns
            .map(|(column, buffer)| (column, table.value(row, column.into(), buffer)))
            .collect();
        client.put_columns(&key, &changes)
    })
}

pub(super) fn mix(client: &mut NetClient<'_>, random: &mut Lcg, table: Table) -> Result<(), Halt> {
    let (rows, most) = (client.limit().min(ROWS), acts_max(client));
    random.seed(client.random_seed());
    let (mut key, mut buffer, mut gets) = (Vec::new(), [0; 20], 0);
    let (acts, seconds) = repeat_for(client, 0, most, |client, _| {
        let (row, column) = (random.below(rows), random.below(table.columns));
        table.key(row, &mut key);
        let value = table.value(row, column, &mut buffer);
        let is_get = random.below(2) == 0;
        gets += u64::from(is_get);
        match (is_get, table.columns) {
            (true, 1) => client.check(&key, value),
            (true, _) => client.check_column(&key, column as u16, value),
            (false, 1) => client.put(&key, value),
            (false, _) => client.put_column(&key, column as u16, value),
        }
    })?;
    report_both(client, (acts - gets, seconds), (gets, seconds));
    Ok(())
}
