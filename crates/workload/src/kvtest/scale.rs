//! Jobs for scaling curves: `wscale`, the parts of `ruscale_init`, and `bdb`.
//!
//! ```text
//!   wscale        put D(x) -> D(x+1) for drawn x until the time is over
//!   ruscale_init  thread t puts the keys of part t, [t, t+1) * 8.75 million, shuffled
//!   rscale        get random keys of the parts that ruscale_init has put, checked
//!   uscale        put random keys of 16 parts
//!   bdb           put 500000 keys of 8 letters, each with 32 carets; then get 10 million
//! ```
//!
//! The parts' sizes are parameters here (`partsize`, `parts`, and `records`, `gets` of `bdb`), with
//! the original's numbers as defaults; `part` of `ruscale_init` is the part of thread 0, so that
//! several runs load what one machine could not.
//!
//! `bdb` draws letters from the generator that all threads share, starting it again from seed 0
//! before the gets and after every get whose number is a multiple of 500000, the first one
//! included. So the keys that it gets are those that it put, as long as no other thread draws.

use super::check;
use super::client::{Client, Halt};
use super::glibc::GlibcRandom;
use super::random::Lcg;
use super::timed::{report, up_to};
use keyrack_decimal::Decimal;
use std::sync::PoisonError;

const PART_KEYS: u64 = 140_000_000 / PARTS;
const PARTS: u64 = 16;
const BDB_RECORDS: u64 = 500_000;
const BDB_GETS: u64 = 10_000_000;
const BDB_KEY_BYTES: usize = 8;
const BDB_VALUE: [u8; 32] = [b'^'; 32];

/// The whole number that the parameter `name` has.
pub(crate) fn number(client: &dyn Client, name: &str) -> Result<Option<u64>, Halt> {
    let Some(text) = client.param(name) else { return Ok(None) };
    match text.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(Halt::failed(format!("parameter {name}: '{text}' is not a whole number"))),
    }
}

/// The same, at least 1 and at most 2^32-1.
fn count(client: &dyn Client, name: &str, default: u64) -> Result<u64, Halt> {
    match number(client, name)?.unwrap_or(default) {
        count @ 1..=0xffff_ffff => Ok(count),
        other => Err(Halt::failed(format!("parameter {name}: {other} is not in 1..=4294967295"))),
    }
}

pub(crate) fn wscale(client: &mut dyn Client, random: &mut Lcg) -> Result<(), Halt> {
    random.seed(client.random_seed());
    put_until_expired(client, &mut || u64::from(random.draw()))
}

pub(crate) fn uscale(client: &mut dyn Client, random: &mut Lcg) -> Result<(), Halt> {
    let keys = all_parts(client)?;
    // Every thread has a seed of its own here, beyond 48 threads too.
    random.seed(31_949u32.wrapping_add(client.id()));
    put_until_expired(client, &mut || random.below(keys))
}

fn put_until_expired(client: &mut dyn Client, draw: &mut dyn FnMut() -> u64) -> Result<(), Halt> {
    let puts = up_to(client, u64::MAX, |client, _| {
        let x = draw();
        client.put(&Decimal::new(x), &Decimal::new(x + 1))
    })?;
    report(client, "puts", puts);
    Ok(())
}

pub(crate) fn ruscale_init(client: &mut dyn Client, random: &mut Lcg) -> Result<(), Halt> {
    let part = count(client, "partsize", PART_KEYS)?;
    let before = number(client, "part")?.unwrap_or(0);
    // The time of drawing the order is in the result, as it is in the original's.
    let begin = client.seconds();
    let own = before.saturating_add(client.id().into());
    put_part(client, random, own, part)?;
    let seconds = client.seconds() - begin;
    report(client, "puts", (part, seconds));
    Ok(())
}

/// Puts the keys of part `number` in random order.
fn put_part(client: &mut dyn Client, random: &mut Lcg, number: u64, part: u64) -> Result<(), Halt> {
    random.seed(client.random_seed());
    let first = part.saturating_mul(number);
    if first > u64::from(u32::MAX) * part {
        return Err(Halt::failed(format!("parameter part: there is no part {number}")));
    }
    let mut keys: Vec<u64> = (first..first + part).collect();
    random.shuffle(&mut keys);
    for &x in &keys {
        client.put(&Decimal::new(x), &Decimal::new(x + 1))?;
    }
    client.wait_all()
}

fn all_parts(client: &dyn Client) -> Result<u64, Halt> {
    Ok(count(client, "partsize", PART_KEYS)? * count(client, "parts", PARTS)?)
}

/// What `rscale` gets, where it is the first job on its store: a part for each thread.
pub(crate) fn load_parts(client: &mut dyn Client) -> Result<(), Halt> {
    let (own, part) = (client.id().into(), count(client, "partsize", PART_KEYS)?);
    put_part(client, &mut Lcg::default(), own, part)
}

/// Gets keys of as many parts as threads have put. With the parameter `rscale_ncores` only so many
/// threads take part.
pub(crate) fn rscale(client: &mut dyn Client, random: &mut Lcg) -> Result<(), Halt> {
    let readers = number(client, "rscale_ncores")?;
    if readers.is_some_and(|readers| u64::from(client.id()) >= readers) {
        return Ok(());
    }
    let parts = count(client, "parts", u64::from(client.threads()).min(PARTS))?;
    let keys = count(client, "partsize", PART_KEYS)? * parts;
    random.seed(client.random_seed());
    let gets = up_to(client, u64::MAX, |client, _| {
        let x = random.below(keys);
        check::get(client, &Decimal::new(x), &Decimal::new(x + 1))
    })?;
    report(client, "gets", gets);
    Ok(())
}

pub(crate) fn bdb(client: &mut dyn Client) -> Result<(), Halt> {
    let records = count(client, "records", BDB_RECORDS)?;
    let gets = count(client, "gets", BDB_GETS)?;
    if client.threads() > 1 && client.id() == 0 {
        client.warn(
            "all threads draw from one generator, so the gets find their keys with one \
                       thread alone",
        );
    }
    restart(client);
    for _ in 0..records {
        let key = letters(client);
        client.put(&key, &BDB_VALUE)?;
    }
    client.wait_all()?;
    restart(client);
    let begin = client.seconds();
    for n in 0..gets {
        let key = letters(client);
        check::get(client, &key, &BDB_VALUE)?;
        if n % records == 0 {
            restart(client);
        }
    }
    client.wait_all()?;
    let seconds = client.seconds() - begin;
    report(client, "ops", (gets, seconds));
    Ok(())
}

fn with_random<R>(client: &dyn Client, with: impl FnOnce(&mut GlibcRandom) -> R) -> R {
    with(&mut client.shared_random().lock().unwrap_or_else(PoisonError::into_inner))
}

fn restart(client: &dyn Client) {
    with_random(client, |random| *random = GlibcRandom::new(0));
}

/// Eight letters; the lock is taken for each, so that threads mix as they do in the C library.
fn letters(client: &dyn Client) -> [u8; BDB_KEY_BYTES] {
    std::array::from_fn(|_| b'a' + (with_random(client, GlibcRandom::draw) % 26) as u8)
}
