//! Key sets: keys with the shapes of real ones, each a function of its number alone.
//!
//! ```text
//! number, seed -> identifier (a permutation of the numbers) ----------------+
//!              -> bits: host, directories, words, names, by popularity --+  |
//!                                                                        v  v
//!   url       https://jinige.co.uk/surface/journey/region/image-review-uckrp2
//!   path      /srv/projects/hepafo/thunder-yellow/meadow/vendor-uckrp2.pdf
//!   email     nora.murphy90@nifapo.org
//!   uuid      238275bc-38fc-4be9-8757-c256a65c51e0
//!   composed  tenant-00004/invoices/0000000000000000
//!   decimal   3065731296
//!   be8       eight random bytes
//! ```
//!
//! * Distinct numbers have distinct keys. The identifier is a permutation of the number and stands
//!   between separators that it cannot contain, so the key gives it back. In `email` the names and
//!   the digits after them are the identifier.
//! * A key depends on its set, the seed of the set and its number, and on nothing else. It is made
//!   of integers only, so it is the same on every machine.
//! * What keys share is drawn by popularity: hosts, directories, tenants. A thing of rank `r` has a
//!   share near `1 / (r + 1)` of that of the first, as in Zipf's law: see [`Draws::popular`].
//!
//! Sizes of populations, and mean lengths in bytes:
//!
//! | set | shared | bytes |
//! |---|---|---|
//! | `url` | 20,000 hosts, 4 sections of a host, up to 8 in each of these | 69 |
//! | `path` | 8 roots, 100 users in each, 8 projects of a user, 3 directories in each, 1 to 3 deep | 63 |
//! | `email` | 64 first names, 128 last names, 2000 hosts | 24 |
//! | `uuid` | nothing: random, version 4 | 36 |
//! | `composed` | 1000 tenants with 12 tables; numbers ascend in each table | 38 |
//! | `decimal` | nothing: random below 2^32 | 9.7 |
//! | `be8` | nothing: random | 8 |
//!
//! A key costs a few hashes and copies of 16 bytes: 70 ns for `url`, 50 for `path`, 7 for `be8`.

mod words;

use std::fmt;

use keyrack_decimal::Decimal;

use crate::rng::mix64;
use words::{
    EXTENSIONS, FIRST_NAMES, LAST_NAMES, ROOTS, SYLLABLES, TABLES, TOP_LEVELS, WORDS, Word,
};

/// More bytes than any key has, with the room that its last word may touch.
pub(crate) const KEY_BYTES_MAX: usize = 192;

/// Hosts of URLs.
const HOSTS: u64 = 20_000;
/// Hosts of addresses of electronic mail.
const MAIL_HOSTS: u64 = 2000;
/// Users of a root directory.
const USERS: u64 = 100;
/// Projects of a user.
const PROJECTS: u64 = 8;
/// Directories of a directory.
const SUBDIRECTORIES: u64 = 3;
/// Tenants of composed keys.
const TENANTS: u64 = 1000;
/// Words that names of neighbouring directories are apart: no divisor of the number of words.
const STRIDE: u64 = 55;
/// Sections of a host, and of each section.
const SECTIONS: u64 = 4;
const SUBSECTIONS: u64 = 8;

const HTTPS: Word = Word::of("https://");
const HTTP: Word = Word::of("http://");
const WWW: Word = Word::of("www.");
const HTML: Word = Word::of(".html");
const TENANT: Word = Word::of("tenant-");

/// Bits of an identifier in `url` and `path`: six characters of five bits. Larger numbers have
/// more.
const ID_BITS: u32 = 30;
/// Bits of a number in `decimal`: ten digits hold it.
const DECIMAL_BITS: u32 = 32;
/// Bits of the numbers that share one range of digits in `email`.
const EMAIL_BITS: u32 = 20;
/// Bits of a name in `email`: first and last.
const FIRST_NAME_BITS: u32 = FIRST_NAMES.len().trailing_zeros();
const NAME_BITS: u32 = FIRST_NAME_BITS + LAST_NAMES.len().trailing_zeros();
/// Bits of the number of a host or a user: three syllables.
const SYLLABLES_BITS: u32 = 15;

const _: () = assert!(NAME_BITS == 13 && NAME_BITS < EMAIL_BITS);
const _: () = assert!(WORDS.len() == 2 * 3 * 31);
const _: () = assert!(HOSTS < 1 << SYLLABLES_BITS && SYLLABLES.len() == 32);

/// A set of keys with the shape of real ones. A key is a function of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeySet {
    /// Web addresses of about 69 bytes on 20,000 hosts.
    Url,
    /// Names of files of about 63 bytes in shared directories.
    Path,
    /// Addresses of electronic mail of about 24 bytes.
    Email,
    /// Random identifiers as 36 characters.
    Uuid,
    /// `tenant/table/number`, about 38 bytes.
    Composed,
    /// Random numbers below 2^32 in decimal, 1 to 10 bytes.
    Decimal,
    /// Eight random bytes.
    Be8,
}

impl KeySet {
    /// All sets, in the order of their declaration.
    pub const ALL: [KeySet; 7] = [
        KeySet::Url,
        KeySet::Path,
        KeySet::Email,
        KeySet::Uuid,
        KeySet::Composed,
        KeySet::Decimal,
        KeySet::Be8,
    ];

    /// The name in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            KeySet::Url => "url",
            KeySet::Path => "path",
            KeySet::Email => "email",
            KeySet::Uuid => "uuid",
            KeySet::Composed => "composed",
            KeySet::Decimal => "decimal",
            KeySet::Be8 => "be8",
        }
    }

    /// The set called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<KeySet> {
        KeySet::ALL.into_iter().find(|set| set.name() == name)
    }
}

impl fmt::Display for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a hash of a number is for: each purpose has hashes of its own.
#[derive(Clone, Copy)]
enum Purpose {
    Id,
    /// What a key shares with many others.
    Shared,
    /// The last part of a key.
    Name,
    Host,
    Project,
}

/// Writes the keys of one set and seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySetWriter {
    set: KeySet,
    /// The seed, mixed.
    secret: u64,
}

impl KeySetWriter {
    pub(crate) fn new(set: KeySet, seed: u64) -> KeySetWriter {
        KeySetWriter { set, secret: mix64(seed) }
    }

    /// Writes the key with `number` at the start of `out`, which has [`KEY_BYTES_MAX`] bytes or
    /// more; returns the bytes of the key. Bytes after them may have changed.
    pub(crate) fn write(&self, number: u64, out: &mut [u8]) -> usize {
        let mut key = Text { bytes: out, length: 0 };
        match self.set {
            KeySet::Url => self.url(number, &mut key),
            KeySet::Path => self.path(number, &mut key),
            KeySet::Email => self.email(number, &mut key),
            KeySet::Uuid => self.uuid(number, &mut key),
            KeySet::Composed => self.composed(number, &mut key),
            KeySet::Decimal => key.decimal(self.permuted(number, DECIMAL_BITS)),
            KeySet::Be8 => key.push(&self.hash(number, Purpose::Id).to_be_bytes()),
        }
        key.length
    }

    /// A host, one to three sections, and a title of two to four words. Seven of ten hosts have
    /// `https`, half of them `www.`, and the titles of four of ten end in `.html`.
    fn url(&self, number: u64, key: &mut Text<'_>) {
        let mut draws = self.draws(number, Purpose::Shared);
        let rank = draws.popular(HOSTS);
        let mut host = self.draws(rank, Purpose::Host);
        key.word(if host.below(10) < 7 { &HTTPS } else { &HTTP });
        if host.below(2) == 0 {
            key.word(&WWW);
        }
        self.host(rank, key);
        let has_ending = host.below(10) < 4;
        let mut place = host.below(WORDS.len() as u64);
        let depth = 1 + draws.below(3);
        for sections in [SECTIONS, SUBSECTIONS, SUBSECTIONS].into_iter().take(depth as usize) {
            place += 1 + draws.popular(sections);
            key.byte(b'/');
            key.word(pick(&WORDS, place * STRIDE));
        }
        key.byte(b'/');
        let mut title = self.draws(number, Purpose::Name);
        for _ in 0..2 + title.below(3) {
            key.word(pick(&WORDS, title.below(WORDS.len() as u64)));
            key.byte(b'-');
        }
        key.id(self.permuted(number, ID_BITS));
        if has_ending {
            key.word(&HTML);
        }
    }

    /// A root, a user, a project of two words, one to three directories, and a file.
    fn path(&self, number: u64, key: &mut Text<'_>) {
        let mut draws = self.draws(number, Purpose::Shared);
        let root = draws.popular(ROOTS.len() as u64);
        let user = root * USERS + draws.popular(USERS);
        key.word(pick(&ROOTS, root));
        key.byte(b'/');
        self.syllables(user, key);
        let number_of_project = user * PROJECTS + draws.popular(PROJECTS);
        let mut project = self.draws(number_of_project, Purpose::Project);
        key.byte(b'/');
        key.word(pick(&WORDS, project.below(WORDS.len() as u64)));
        key.byte(b'-');
        key.word(pick(&WORDS, project.below(WORDS.len() as u64)));
        let mut place = project.below(WORDS.len() as u64);
        let mut name = self.draws(number, Purpose::Name);
        for _ in 0..1 + draws.below(3) {
            place += 1 + name.popular(SUBDIRECTORIES);
            key.byte(b'/');
            key.word(pick(&WORDS, place * STRIDE));
        }
        key.byte(b'/');
        key.word(pick(&WORDS, name.below(WORDS.len() as u64)));
        key.byte(b'-');
        key.id(self.permuted(number, ID_BITS));
        key.word(pick(&EXTENSIONS, name.below(EXTENSIONS.len() as u64)));
    }

    /// First name, separator, last name, and digits for those who came later. The names are the
    /// low bits of the identifier, the digits the others.
    fn email(&self, number: u64, key: &mut Text<'_>) {
        let mut draws = self.draws(number, Purpose::Shared);
        let id = self.permuted(number, EMAIL_BITS);
        key.word(pick(&FIRST_NAMES, id));
        key.byte(if draws.below(4) < 3 { b'.' } else { b'_' });
        key.word(pick(&LAST_NAMES, id >> FIRST_NAME_BITS));
        if id >> NAME_BITS > 0 {
            key.decimal(id >> NAME_BITS);
        }
        key.byte(b'@');
        let rank = draws.popular(MAIL_HOSTS);
        self.syllables(rank, key);
        key.word(pick(&TOP_LEVELS, self.draws(rank, Purpose::Host).popular(8)));
    }

    /// Version 4: all bits but six are random. Sixty bits of the identifier are in the first half
    /// and four in the second.
    fn uuid(&self, number: u64, key: &mut Text<'_>) {
        let id = self.hash(number, Purpose::Id);
        let high = (id >> 16) << 16 | 0x4000 | (id >> 4) & 0x0fff;
        let low = 0b10 << 62 | (id & 0xf) << 58 | self.hash(number, Purpose::Name) >> 6;
        key.hex(high >> 32, 8);
        for group in [high >> 16, high, low >> 48] {
            key.byte(b'-');
            key.hex(group, 4);
        }
        key.byte(b'-');
        key.hex(low, 12);
    }

    fn composed(&self, number: u64, key: &mut Text<'_>) {
        let mut draws = self.draws(number, Purpose::Shared);
        key.word(&TENANT);
        key.push(&Decimal::padded(draws.popular(TENANTS), 5));
        key.byte(b'/');
        key.word(pick(&TABLES, draws.popular(TABLES.len() as u64)));
        key.byte(b'/');
        key.push(&Decimal::padded(number, 16));
    }

    /// The name of the host with `rank`: three syllables, a word on half of them, and an ending.
    fn host(&self, rank: u64, key: &mut Text<'_>) {
        let mut draws = self.draws(rank, Purpose::Host);
        self.syllables(rank, key);
        let (word, ending) = (draws.below(2 * WORDS.len() as u64), draws.popular(8));
        if let Some(word) = WORDS.get(word as usize) {
            key.word(word);
        }
        key.word(pick(&TOP_LEVELS, ending));
    }

    /// Three syllables. Numbers below 2^15 have syllables of their own.
    fn syllables(&self, number: u64, key: &mut Text<'_>) {
        let name = self.permuted(number, SYLLABLES_BITS);
        for shift in [0, 5, 10] {
            key.word(pick(&SYLLABLES, name >> shift));
        }
    }

    /// A permutation of the 64-bit numbers for each purpose.
    fn hash(&self, number: u64, purpose: Purpose) -> u64 {
        mix64(number ^ mix64(self.secret ^ purpose as u64))
    }

    fn draws(&self, number: u64, purpose: Purpose) -> Draws {
        Draws(self.hash(number, purpose))
    }

    /// Permutes the low `bits` bits of `number`, by another permutation for each value of the
    /// others, which stay.
    fn permuted(&self, number: u64, bits: u32) -> u64 {
        let mask = (1 << bits) - 1;
        let (high, mut low) = (number & !mask, number & mask);
        let mut round = self.hash(high, Purpose::Id);
        for _ in 0..3 {
            // The low bits of a sum and a product depend on the low bits of their terms alone.
            low = low.wrapping_add(round).wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask;
            low ^= low >> bits.div_ceil(2);
            round = mix64(round);
        }
        high | low
    }
}

/// The element at `place`, which goes round.
fn pick<const COUNT: usize>(table: &'static [Word; COUNT], place: u64) -> &'static Word {
    &table[place as usize % COUNT]
}

/// Uniform bits that are drawn from until they are used up: each draw from `n` takes `log2(n)` of
/// the 64.
struct Draws(u64);

impl Draws {
    /// A number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        let product = u128::from(self.0) * u128::from(n);
        self.0 = product as u64;
        (product >> 64) as u64
    }

    /// A rank below `count`, by Zipf's law in steps: ranks 0, 1 to 2, 3 to 6, 7 to 14 and so on
    /// have the same share together, and all of a step the same. So the first of 20,000 has 7 %.
    fn popular(&mut self, count: u64) -> u64 {
        const STEP: u64 = 64;
        let steps = u64::from((count + 1).ilog2());
        let rest = count + 1 - (1 << steps);
        let share = self.below(steps * STEP + ((rest * STEP) >> steps));
        let step = share / STEP;
        let size = if step == steps { rest } else { 1 << step };
        (1 << step) - 1 + self.below(size)
    }
}

/// A key that is being written.
struct Text<'k> {
    bytes: &'k mut [u8],
    length: usize,
}

impl Text<'_> {
    fn byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn word(&mut self, word: &Word) {
        let room = self.bytes[self.length..].first_chunk_mut::<{ Word::ROOM }>();
        *room.expect("a key has room for its longest word") = *word.padded();
        self.length += word.len();
    }

    fn decimal(&mut self, number: u64) {
        self.push(&Decimal::new(number));
    }

    /// The last `digits` hexadecimal digits of `number`.
    fn hex(&mut self, number: u64, digits: u32) {
        for digit in (0..digits).rev() {
            self.byte(b"0123456789abcdef"[(number >> (4 * digit)) as usize & 15]);
        }
    }

    /// An identifier in characters of five bits, six or more of them.
    fn id(&mut self, id: u64) {
        let digits = (u64::BITS - id.leading_zeros()).div_ceil(5).max(ID_BITS / 5);
        for digit in (0..digits).rev() {
            self.byte(b"0123456789abcdefghjkmnpqrstuvwxy"[(id >> (5 * digit)) as usize & 31]);
        }
    }
}

#[cfg(test)]
#[path = "key_set_tests.rs"]
mod tests;
