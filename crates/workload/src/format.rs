//! How the number of a key becomes its bytes.
//!
//! The conversions are listed at [`KeyFormat`].
//!
//! Keys are written on the hot path, once per operation, so [`KeyWriter`] keeps one buffer with
//! prefix and suffix in place and writes the digits over the old ones, eight at a time from a table
//! of the hundred pairs. The suffix moves only when the number changes its length.

use std::fmt;

use crate::error::Error;
use crate::fb;
use crate::key_set::{self, KeySet, KeySetWriter};
use crate::rng::fnv1a64;

/// The widest padding of a number.
const WIDTH_MAX: usize = 255;

/// The conversions, as errors name them.
const CONVERSIONS: &str = "%d %x %h %b %k %{SET}";

/// The longest literal text on either side of the number.
const LITERAL_BYTES_MAX: usize = 1024;

/// A parsed key pattern, such as `k:%012d`.
///
/// A format is a pattern: literal text around exactly one conversion. `%%` is a literal percent
/// sign.
///
/// | conversion | the number as | example for 42 |
/// |---|---|---|
/// | `%d` | decimal | `42` |
/// | `%12d` | decimal, padded with spaces to 12 | `          42` |
/// | `%012d` | decimal, padded with zeros to 12 | `000000000042` |
/// | `%x`, `%8x`, `%08x` | lower-case hexadecimal, padded alike | `0000002a` |
/// | `%h`, `%20h`, `%019h` | YCSB's hash of the number, in decimal | for 0: `6284781860667377211` |
/// | `%b` | eight big-endian bytes, which sort like the numbers | |
/// | `%k` | decimal, zero-padded so that the key has a size as in [ETC](KeyFormat::fb_key) | |
/// | `%{url}`, `%{url:7}` | the key of a [`KeySet`] by its name, of seed 0 or that after the colon | |
///
/// YCSB's hash is the absolute value of the FNV-1a hash of the eight little-endian bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFormat {
    prefix: String,
    suffix: String,
    conversion: Conversion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conversion {
    Decimal(Padding),
    Hex(Padding),
    Hash(Padding),
    Raw8,
    FbKey,
    Set { set: KeySet, seed: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Padding {
    width: usize,
    byte: u8,
    /// Numbers below it fit the width: 10^width, or all if that exceeds 64 bits.
    fits_below: u64,
}

impl Padding {
    const NONE: Padding = Padding::new(0, b' ');

    const fn new(width: usize, byte: u8) -> Padding {
        let fits_below = if width < 20 { 10u64.pow(width as u32) } else { u64::MAX };
        Padding { width, byte, fits_below }
    }
}

impl KeyFormat {
    /// Reads a pattern: `%d`, `%Nd`, `%0Nd`, the same with `x` or `h`, `%b`, `%k` or `%{SET}`,
    /// exactly once, with literal text before and after.
    ///
    /// # Errors
    ///
    /// [`Error::KeyFormat`] names the pattern and what is wrong with it.
    pub fn parse(pattern: &str) -> Result<KeyFormat, Error> {
        Self::read(pattern)
            .map_err(|problem| Error::KeyFormat { pattern: pattern.to_owned(), problem })
    }

    /// The format `%k`: zero-padded decimal numbers whose lengths are distributed like the keys of
    /// the ETC pool, 36 bytes on average, 250 at most. The length depends on the number alone.
    ///
    /// Without literal text this is bit for bit the key that mutilate makes for `fb_key`, except
    /// for the one key in two million that would be longer than 250 bytes.
    #[must_use]
    pub fn fb_key() -> KeyFormat {
        KeyFormat { prefix: String::new(), suffix: String::new(), conversion: Conversion::FbKey }
    }

    /// The format `%{SET:SEED}`: the keys of a set.
    #[must_use]
    pub fn of_set(set: KeySet, seed: u64) -> KeyFormat {
        let conversion = Conversion::Set { set, seed };
        KeyFormat { prefix: String::new(), suffix: String::new(), conversion }
    }

    /// The format `%0Nd` behind a literal `prefix`; `width` is cut at 255.
    #[must_use]
    pub(crate) fn padded_decimal(prefix: &str, width: usize) -> KeyFormat {
        let padding = Padding::new(width.min(WIDTH_MAX), b'0');
        KeyFormat {
            prefix: prefix.to_owned(),
            suffix: String::new(),
            conversion: Conversion::Decimal(padding),
        }
    }

    /// The format `user%019h`: YCSB's keys, with all hashes padded to the same length.
    #[must_use]
    pub fn ycsb() -> KeyFormat {
        let padding = Padding::new(19, b'0');
        KeyFormat {
            prefix: "user".to_owned(),
            suffix: String::new(),
            conversion: Conversion::Hash(padding),
        }
    }

    /// Whether the byte order of the keys is the order of their numbers, for numbers that fit the
    /// padding.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        match self.conversion {
            Conversion::Raw8 => true,
            Conversion::Decimal(padding) | Conversion::Hex(padding) => padding.width > 0,
            Conversion::Hash(_) | Conversion::FbKey | Conversion::Set { .. } => false,
        }
    }

    fn read(pattern: &str) -> Result<KeyFormat, String> {
        let (mut prefix, mut suffix) = (String::new(), String::new());
        let mut conversion = None;
        let mut rest = pattern;
        while let Some(at) = rest.find('%') {
            let literal = if conversion.is_none() { &mut prefix } else { &mut suffix };
            literal.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                literal.push('%');
                rest = after;
                continue;
            }
            let (found, after) = Self::read_conversion(rest)?;
            if conversion.replace(found).is_some() {
                return Err("more than one conversion; write %% for a percent sign".to_owned());
            }
            rest = after;
        }
        let Some(conversion) = conversion else {
            return Err(format!("no conversion; expected one of {CONVERSIONS}"));
        };
        suffix.push_str(rest);
        if prefix.len().max(suffix.len()) > LITERAL_BYTES_MAX {
            return Err(format!("literal text is longer than {LITERAL_BYTES_MAX} bytes"));
        }
        Ok(KeyFormat { prefix, suffix, conversion })
    }

    /// Reads what follows a percent sign; returns the conversion and the text after it.
    fn read_conversion(text: &str) -> Result<(Conversion, &str), String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = text.split_at(digits);
        let byte = if number.starts_with('0') { b'0' } else { b' ' };
        let width = match number {
            "" => 0,
            number => number
                .parse::<usize>()
                .ok()
                .filter(|w| *w <= WIDTH_MAX)
                .ok_or_else(|| format!("width {number} is larger than {WIDTH_MAX}"))?,
        };
        if digits > 0 && width == 0 {
            return Err("a width of 0".to_owned());
        }
        let padding = Padding::new(width, byte);
        let mut letters = rest.chars();
        let conversion = match letters.next() {
            None => return Err("ends inside a conversion".to_owned()),
            Some('d') => Conversion::Decimal(padding),
            Some('x') => Conversion::Hex(padding),
            Some('h') => Conversion::Hash(padding),
            Some(letter @ ('b' | 'k' | '{')) if width > 0 => {
                return Err(format!("conversion %{letter} takes no width"));
            }
            Some('b') => Conversion::Raw8,
            Some('k') => Conversion::FbKey,
            Some('{') => {
                let (name, after) = letters
                    .as_str()
                    .split_once('}')
                    .ok_or_else(|| "ends inside a conversion".to_owned())?;
                return Ok((Self::read_set(name)?, after));
            }
            Some(letter) => {
                return Err(format!(
                    "unknown conversion %{number}{letter}; expected one of {CONVERSIONS}"
                ));
            }
        };
        Ok((conversion, letters.as_str()))
    }

    /// Reads the name of a set, and its seed after a colon.
    fn read_set(text: &str) -> Result<Conversion, String> {
        let (name, seed) = text.split_once(':').unwrap_or((text, "0"));
        let Some(set) = KeySet::named(name) else {
            let names = KeySet::ALL.map(KeySet::name).join(" ");
            return Err(format!("unknown key set {name:?}; expected one of {names}"));
        };
        let seed = seed.parse().map_err(|_| format!("seed {seed:?} is not a whole number"))?;
        Ok(Conversion::Set { set, seed })
    }
}

impl fmt::Display for KeyFormat {
    /// Writes the pattern, so that parsing it gives the format again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.prefix.replace('%', "%%"))?;
        let (padding, letter) = match self.conversion {
            Conversion::Decimal(padding) => (padding, 'd'),
            Conversion::Hex(padding) => (padding, 'x'),
            Conversion::Hash(padding) => (padding, 'h'),
            Conversion::Raw8 => (Padding::NONE, 'b'),
            Conversion::FbKey => (Padding::NONE, 'k'),
            Conversion::Set { .. } => (Padding::NONE, '{'),
        };
        match padding {
            Padding { width: 0, .. } => write!(f, "%{letter}")?,
            Padding { width, byte: b'0', .. } => write!(f, "%0{width}{letter}")?,
            Padding { width, .. } => write!(f, "%{width}{letter}")?,
        }
        if let Conversion::Set { set, seed } = self.conversion {
            match seed {
                0 => write!(f, "{set}}}")?,
                seed => write!(f, "{set}:{seed}}}")?,
            }
        }
        f.write_str(&self.suffix.replace('%', "%%"))
    }
}

/// Writes keys of one format into one buffer.
#[derive(Clone, Debug)]
pub(crate) struct KeyWriter {
    format: KeyFormat,
    /// The fewest digits of `%k`: as many as the number of keys has.
    digits_min: usize,
    /// Writes the keys of a set, where the format is one.
    set: Option<KeySetWriter>,
    /// Prefix, then the last number, then the suffix, then spare room.
    buffer: Box<[u8]>,
    /// Bytes of the last number; `usize::MAX` before the first.
    number_bytes: usize,
    /// Where the eight low digits of a zero-padded decimal go while those before them are zeros,
    /// and the length of the key: the usual case rewrites eight bytes and nothing else.
    low_digits: Option<(usize, usize)>,
}

impl KeyWriter {
    /// A writer for a population of `count` keys.
    pub(crate) fn new(format: &KeyFormat, count: u64) -> KeyWriter {
        // 20 digits hold every 64-bit number.
        let number_bytes_max = WIDTH_MAX.max(fb::KEY_BYTES_MAX).max(key_set::KEY_BYTES_MAX).max(20);
        let set = match format.conversion {
            Conversion::Set { set, seed } => Some(KeySetWriter::new(set, seed)),
            _ => None,
        };
        let mut buffer = vec![0; format.prefix.len() + number_bytes_max + format.suffix.len()]
            .into_boxed_slice();
        buffer[..format.prefix.len()].copy_from_slice(format.prefix.as_bytes());
        KeyWriter {
            format: format.clone(),
            digits_min: decimal_digits(count),
            set,
            buffer,
            number_bytes: usize::MAX,
            low_digits: None,
        }
    }

    /// The format that is written.
    pub(crate) fn format(&self) -> &KeyFormat {
        &self.format
    }

    /// The key with number `index`, until the next call.
    #[inline(always)]
    pub(crate) fn write(&mut self, index: u64) -> &[u8] {
        if let Some((at, key_bytes)) = self.low_digits
            && index < EIGHT_DIGITS
        {
            // An array is stored by one instruction, where a slice may be copied by a call.
            *self.buffer[at..].first_chunk_mut().expect("a key holds its digits") =
                eight_digits(index as u32);
            return &self.buffer[..key_bytes];
        }
        self.write_any(index)
    }

    #[inline(never)]
    fn write_any(&mut self, index: u64) -> &[u8] {
        let start = self.format.prefix.len();
        let number = &mut self.buffer[start..];
        let number_bytes = match self.format.conversion {
            Conversion::Decimal(padding) => write_decimal(number, index, padding),
            Conversion::Hex(padding) => write_hex(number, index, padding),
            Conversion::Hash(padding) => write_decimal(number, ycsb_hash(index), padding),
            Conversion::Raw8 => {
                number[..8].copy_from_slice(&index.to_be_bytes());
                8
            }
            Conversion::FbKey => {
                let literal = start + self.format.suffix.len();
                let width = fb::key_bytes(index).saturating_sub(literal).max(self.digits_min);
                let width = width.max(decimal_digits(index));
                fill_decimal(&mut number[..width], index);
                width
            }
            Conversion::Set { .. } => {
                // A key touches more bytes than it has, so that the suffix is to be written again.
                self.number_bytes = usize::MAX;
                self.set.expect("a format of a set has its writer").write(index, number)
            }
        };
        let end = start + number_bytes;
        let key_bytes = end + self.format.suffix.len();
        if number_bytes != self.number_bytes {
            self.buffer[end..key_bytes].copy_from_slice(self.format.suffix.as_bytes());
            self.number_bytes = number_bytes;
        }
        self.low_digits = match self.format.conversion {
            Conversion::Decimal(padding)
                if padding.byte == b'0' && padding.width >= 8 && index < EIGHT_DIGITS =>
            {
                Some((end - 8, key_bytes))
            }
            _ => None,
        };
        &self.buffer[..key_bytes]
    }
}

/// YCSB's hash of a key number.
#[inline]
pub(crate) fn ycsb_hash(index: u64) -> u64 {
    fnv1a64(index).cast_signed().unsigned_abs()
}

/// The pairs `00` to `99`.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut i = 0;
    while i < 100 {
        pairs[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    pairs
};

/// The number of decimal digits of `value`; 1 for 0.
#[inline]
fn decimal_digits(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Writes `value` at the start of `out`, padded on the left; returns the bytes written.
#[inline]
fn write_decimal(out: &mut [u8], value: u64, padding: Padding) -> usize {
    // The usual case does not count digits.
    if padding.byte == b'0' && value < padding.fits_below {
        fill_decimal(&mut out[..padding.width], value);
        return padding.width;
    }
    let digits = decimal_digits(value);
    let bytes = digits.max(padding.width);
    let (pad, number) = out[..bytes].split_at_mut(bytes - digits);
    pad.fill(padding.byte);
    fill_decimal(number, value);
    bytes
}

/// Fills all of `out` with `value`, zeros in front. Digits that do not fit are dropped.
#[inline]
fn fill_decimal(mut out: &mut [u8], mut value: u64) {
    while out.len() >= 8 {
        let (rest, chunk) = out.split_last_chunk_mut().expect("eight bytes are left");
        *chunk = eight_digits((value % 100_000_000) as u32);
        value /= 100_000_000;
        out = rest;
    }
    while out.len() >= 2 {
        let (rest, chunk) = out.split_last_chunk_mut().expect("two bytes are left");
        *chunk = PAIRS[(value % 100) as usize];
        value /= 100;
        out = rest;
    }
    if let [digit] = out {
        *digit = b'0' + (value % 10) as u8;
    }
}

/// The first number of nine digits.
const EIGHT_DIGITS: u64 = 100_000_000;

/// The eight digits of a number below 10^8, without a table: the number is halved into lanes of
/// four, two and one digits, each step dividing all lanes by one multiplication. The reciprocals
/// 10486 / 2^20 and 103 / 2^10 are exact for four and for two digits.
#[inline]
fn eight_digits(value: u32) -> [u8; 8] {
    let fours = u64::from(value / 10_000) | u64::from(value % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | (twos - tens * 10) << 8;
    (ones | 0x3030_3030_3030_3030).to_le_bytes()
}

/// Writes `value` in hexadecimal at the start of `out`, padded on the left; returns the bytes
/// written.
#[inline]
fn write_hex(out: &mut [u8], mut value: u64, padding: Padding) -> usize {
    let digits = ((u64::BITS - value.leading_zeros()).div_ceil(4) as usize).max(1);
    let bytes = digits.max(padding.width);
    let (pad, number) = out[..bytes].split_at_mut(bytes - digits);
    pad.fill(padding.byte);
    for digit in number.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::SEED;

    #[test]
    fn eight_digits_are_those_of_the_formatter() {
        let edges = [0, 1, 9, 10, 99, 100, 9_999, 10_000, 10_001, 99_999_999];
        let stride = (0..100_000_000).step_by(997);
        for value in edges.into_iter().chain(stride) {
            assert_eq!(eight_digits(value), *format!("{value:08}").as_bytes(), "{value}");
        }
    }

    #[test]
    fn short_numbers_after_long_ones_have_their_zeros_again() {
        let format = KeyFormat::parse("k:%012d.").unwrap();
        let mut writer = KeyWriter::new(&format, 10);
        for value in [7, 123_456_789_012, 8, 99_999_999, 100_000_000, 5, 1_234_567_890_123, 6] {
            let expected = format!("k:{value:012}.");
            assert_eq!(writer.write(value), expected.as_bytes());
        }
    }
    use crate::rng::Rng;

    fn write(pattern: &str, index: u64) -> String {
        let format = KeyFormat::parse(pattern).unwrap();
        String::from_utf8(KeyWriter::new(&format, 100).write(index).to_vec()).unwrap()
    }

    #[test]
    fn numbers_agree_with_the_standard_formatter() {
        let mut rng = Rng::from_seed(SEED);
        let mut numbers = vec![0, 1, 9, 10, 99, 100, 99_999_999, 100_000_000, u64::MAX];
        numbers.extend((0..20).map(|power| 10u64.pow(power)));
        numbers.extend((0..20).map(|power| 10u64.pow(power) - 1));
        numbers.extend((0..64).map(|shift| rng.next_u64() >> shift));
        // One writer for all numbers: nothing of an earlier key may remain.
        let writer = |pattern| KeyWriter::new(&KeyFormat::parse(pattern).unwrap(), 1);
        let mut plain = writer("user%d!");
        let mut zeros = writer("k:%012d");
        let mut odd = writer("%07d.x");
        let mut spaces = writer("<%9d>");
        let mut hex = writer("%x;");
        let mut hex_zeros = writer("h%08x");
        let mut hash = writer("%h");
        let mut raw = writer("ab%bc");
        for n in numbers {
            assert_eq!(plain.write(n), format!("user{n}!").as_bytes());
            assert_eq!(zeros.write(n), format!("k:{n:012}").as_bytes());
            assert_eq!(odd.write(n), format!("{n:07}.x").as_bytes());
            assert_eq!(spaces.write(n), format!("<{n:9}>").as_bytes());
            assert_eq!(hex.write(n), format!("{n:x};").as_bytes());
            assert_eq!(hex_zeros.write(n), format!("h{n:08x}").as_bytes());
            let expected = (fnv1a64(n) as i64).unsigned_abs();
            assert_eq!(hash.write(n), expected.to_string().as_bytes());
            assert_eq!(raw.write(n), [&b"ab"[..], &n.to_be_bytes(), b"c"].concat());
        }
    }

    #[test]
    fn hashed_keys_are_those_of_ycsb() {
        // The first keys that YCSB inserts.
        assert_eq!(write("user%h", 0), "user6284781860667377211");
        assert_eq!(write("user%h", 1), "user8517097267634966620");
    }

    #[test]
    fn percent_signs_and_display() {
        assert_eq!(write("100%%:%d%%", 7), "100%:7%");
        let plain = ["k:%012d", "user%d", "%x", "%08x.", "a%%b%20dc%%", "%b", "user%019h", "%k"];
        let sets = ["%{url}", "t:%{email:18446744073709551615}.", "%{be8}%%"];
        for pattern in plain.into_iter().chain(sets) {
            let format = KeyFormat::parse(pattern).unwrap();
            assert_eq!(format.to_string(), pattern);
        }
        assert_eq!(KeyFormat::fb_key(), KeyFormat::parse("%k").unwrap());
        let of_set = KeyFormat::of_set(KeySet::Path, 7);
        assert_eq!(of_set, KeyFormat::parse("%{path:7}").unwrap());
    }

    #[test]
    fn errors_name_the_problem() {
        let cases = [
            ("key", "no conversion"),
            ("", "no conversion"),
            ("100%%", "no conversion"),
            ("%d%d", "more than one conversion"),
            ("a%db%xc", "more than one conversion"),
            ("k%", "ends inside"),
            ("k%012", "ends inside"),
            ("k%s", "unknown conversion %s"),
            ("k%-3d", "unknown conversion %-"),
            ("k%0d", "width of 0"),
            ("k%9999d", "width 9999"),
            ("k%99999999999999999999d", "width 99999999999999999999"),
            ("k%8b", "takes no width"),
            ("%8{url}", "takes no width"),
            ("a%{url", "ends inside"),
            ("%{ulr}", "unknown key set \"ulr\"; expected one of url path email uuid composed"),
            ("%{url:x}", "seed \"x\" is not a whole number"),
            ("%{url:}", "seed \"\" is not a whole number"),
            ("%{url}%d", "more than one conversion"),
        ];
        for (pattern, problem) in cases {
            let message = KeyFormat::parse(pattern).unwrap_err().to_string();
            assert!(message.contains(problem), "{pattern}: {message}");
            assert!(message.contains(&format!("{pattern:?}")), "{message}");
        }
        assert!(KeyFormat::parse(&format!("{}%d", "x".repeat(LITERAL_BYTES_MAX + 1))).is_err());
    }

    #[test]
    fn fb_keys_have_one_size_each() {
        let mut writer = KeyWriter::new(&KeyFormat::fb_key(), 1_000_000);
        for index in [0, 1, 17, 999_999] {
            let key = String::from_utf8(writer.write(index).to_vec()).unwrap();
            assert_eq!(key.len(), fb::key_bytes(index).max(7));
            assert_eq!(key.parse::<u64>().unwrap(), index);
        }
        let format = KeyFormat::parse("p:%k").unwrap();
        let mut writer = KeyWriter::new(&format, 1_000_000);
        let sizes: Vec<usize> = (0..1000).map(|index| writer.write(index).len()).collect();
        assert!((0..1000).all(|index| sizes[index] == fb::key_bytes(index as u64).max(9)));
    }

    #[test]
    fn keys_of_a_set_stand_between_the_literals() {
        let mut bare = KeyWriter::new(&KeyFormat::of_set(KeySet::Email, 0), 100);
        let mut wrapped = KeyWriter::new(&KeyFormat::parse("<%{email}>").unwrap(), 100);
        for number in 0..1000 {
            let expected = [b"<", bare.write(number), b">"].concat();
            assert_eq!(wrapped.write(number), expected, "{number}");
        }
    }

    #[test]
    fn order_is_known() {
        let ordered = ["%012d", "%8x", "%b", "a%3db"];
        let unordered = ["%d", "%x", "%019h", "%k", "%{be8}"];
        assert!(ordered.iter().all(|p| KeyFormat::parse(p).unwrap().is_ordered()));
        assert!(unordered.iter().all(|p| !KeyFormat::parse(p).unwrap().is_ordered()));
    }
}
