//! Tests around a checkpoint that a client asks for.
//!
//! ```text
//!   cpa   put all keys; child 0 asks half way                 cpb   get all, checked
//!   cpc   put all keys; child 0 asks; then, while it runs:    cpd   each key is as cpc left it:
//!         key 3k stays, 3k+1 is put again, 3k+2 is removed          first value, second, gone
//! ```
//!
//! Keys are the child's own. A restart between the halves shows that the checkpoint and the log
//! behind it make one state.

use super::client::NetClient;
use super::plain::{digits, own_key, repeat, report};
use keyrack_workload::kvtest::{Client, Halt, Lcg};

const KEYS: u64 = 1_000_000;

fn put(client: &mut NetClient<'_>, key: &mut Vec<u8>, n: u64, value: u64) -> Result<(), Halt> {
    own_key(key, client.id(), n);
    client.put(key, digits(&mut [0; 20], value, 1))
}

fn check(client: &mut NetClient<'_>, key: &mut Vec<u8>, n: u64, value: u64) -> Result<(), Halt> {
    own_key(key, client.id(), n);
    client.check(key, digits(&mut [0; 20], value, 1))
}

pub(super) fn cpa(client: &mut NetClient<'_>, _random: &mut Lcg) -> Result<(), Halt> {
    let (count, mut key) = (client.limit().min(KEYS), Vec::new());
    repeat(client, "puts", count, |client, n| {
        if n == count / 2 && client.id() == 0 {
            client.ask_for_checkpoint()?;
        }
        put(client, &mut key, n, n + 1)
    })
}

pub(super) fn cpb(client: &mut NetClient<'_>, _random: &mut Lcg) -> Result<(), Halt> {
    let (count, mut key) = (client.limit().min(KEYS), Vec::new());
    repeat(client, "gets", count, |client, n| check(client, &mut key, n, n + 1))
}

pub(super) fn cpc(client: &mut NetClient<'_>, _random: &mut Lcg) -> Result<(), Halt> {
    let (count, mut key) = (client.limit().min(KEYS), Vec::new());
    let begin = client.seconds();
    for n in 0..count {
        put(client, &mut key, n, n + 1)?;
    }
    if client.id() == 0 {
        client.ask_for_checkpoint()?;
    }
    let mut removals = 0;
    for n in 0..count {
        match n % 3 {
            0 => {}
            1 => put(client, &mut key, n, n + 2)?,
            _ => {
                own_key(&mut key, client.id(), n);
                client.remove(&key)?;
                removals += 1;
            }
        }
    }
    client.wait_all()?;
    let seconds = client.seconds() - begin;
    report(client, "puts", count + (count + 1) / 3 + removals, seconds);
    Ok(())
}

pub(super) fn cpd(client: &mut NetClient<'_>, _random: &mut Lcg) -> Result<(), Halt> {
    let (count, mut key) = (client.limit().min(KEYS), Vec::new());
    repeat(client, "gets", count, |client, n| match n % 3 {
        0 => check(client, &mut key, n, n + 1),
        1 => check(client, &mut key, n, n + 2),
        _ => {
            own_key(&mut key, client.id(), n);
            client.check_absent(&key)
        }
    })
}
