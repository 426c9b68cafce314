//! Flags: letters, the words that some of them take, and the numbers among those.

use crate::memcached::text::line::Words;
use crate::memcached::text::refusal::Fault;
use crate::number::{parse_i64, parse_u64};

const OPAQUE_BYTES_MAX: usize = 32;

/// The letters of all commands. A letter that means nothing to a command is ignored by it.
const LETTERS: &[u8] = b"bcfhklqstuvxICDEFJLMNOPRT";

/// [`LETTERS`] as bits: see [`bit`].
const LETTERS_MASK: u64 = {
    let (mut mask, mut index) = (0, 0);
    while index < LETTERS.len() {
        mask |= bit(LETTERS[index]);
        index += 1;
    }
    mask
};

/// The bit of a letter: n for 64 + n. Nothing below 64 or above 127 has one, and no letter is `@`.
const fn bit(letter: u8) -> u64 {
    if letter > 64 && letter < 128 { 1 << (letter - 64) } else { 0 }
}

/// A flag as it stands in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag<'a> {
    /// Its letter.
    pub letter: u8,
    /// What stands between the letter and the next blank.
    pub token: &'a [u8],
}

/// The flags of a line, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct FlagWords<'a> {
    words: Words<'a>,
}

impl<'a> FlagWords<'a> {
    /// Those in `text`.
    #[must_use]
    pub fn new(text: &'a [u8]) -> Self {
        FlagWords { words: Words::new(text) }
    }

    /// The word after a letter; nothing when the letter is not there.
    #[must_use]
    pub fn token(mut self, letter: u8) -> Option<&'a [u8]> {
        self.find(|flag| flag.letter == letter).map(|flag| flag.token)
    }

    /// The number after a letter.
    #[must_use]
    pub fn number(self, letter: u8) -> Option<u64> {
        parse_u64(self.token(letter)?)
    }
}

impl<'a> Iterator for FlagWords<'a> {
    type Item = Flag<'a>;

    #[inline]
    fn next(&mut self) -> Option<Flag<'a>> {
        let (&letter, token) = self.words.next()?.split_first()?;
        Some(Flag { letter, token })
    }
}

impl PartialEq for FlagWords<'_> {
    fn eq(&self, other: &Self) -> bool {
        Iterator::eq(*self, *other)
    }
}

impl Eq for FlagWords<'_> {}

/// The flags of a command, checked: each letter is one of the protocol and there once, and what
/// takes a number has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags<'a> {
    words: FlagWords<'a>,
    /// The bits of the letters that are there.
    letters: u64,
    cas: u64,
    new_cas: u64,
    delta: u64,
    initial: u64,
    ttl: i64,
    vivify_ttl: i64,
    recache_ttl: i64,
    client_flags: u32,
    mode: u8,
}

impl<'a> Flags<'a> {
    /// No flags.
    pub const NONE: Flags<'static> = Flags {
        words: FlagWords { words: Words::EMPTY },
        letters: 0,
        cas: 0,
        new_cas: 0,
        delta: 1,
        initial: 0,
        ttl: 0,
        vivify_ttl: 0,
        recache_ttl: 0,
        client_flags: 0,
        mode: 0,
    };

    /// The flags in `text`, which a client may make to be sent.
    ///
    /// # Errors
    /// What a server replies when it gets such flags.
    pub fn parse(text: &'a [u8]) -> Result<Self, Fault> {
        let mut flags = Flags { words: FlagWords::new(text), ..Flags::NONE };
        for flag in flags.words {
            let bit = bit(flag.letter);
            if LETTERS_MASK & bit == 0 {
                return Err(Fault::Flag);
            }
            if flags.letters & bit != 0 {
                return Err(Fault::FlagTwice);
            }
            flags.letters |= bit;
            flags.set_value(flag)?;
        }
        Ok(flags)
    }

    /// Reads the word of a flag that takes one.
    fn set_value(&mut self, flag: Flag<'_>) -> Result<(), Fault> {
        let unsigned = || parse_u64(flag.token).ok_or(Fault::FlagToken);
        let signed = || parse_i64(flag.token).ok_or(Fault::FlagToken);
        match flag.letter {
            b'C' => self.cas = unsigned()?,
            b'E' => self.new_cas = unsigned()?,
            b'D' => self.delta = unsigned()?,
            b'J' => self.initial = unsigned()?,
            b'T' => self.ttl = signed()?,
            b'N' => self.vivify_ttl = signed()?,
            b'R' => self.recache_ttl = signed()?,
            b'F' => self.client_flags = unsigned()?.try_into().map_err(|_| Fault::FlagToken)?,
            b'M' => match flag.token {
                [mode] => self.mode = *mode,
                _ => return Err(Fault::Mode),
            },
            b'O' if flag.token.len() > OPAQUE_BYTES_MAX => return Err(Fault::OpaqueTooLong),
            _ => {}
        }
        Ok(())
    }

    /// The flags as they stand in the line.
    #[must_use]
    pub fn words(&self) -> FlagWords<'a> {
        self.words
    }

    /// Whether the flag of this letter is there.
    #[inline]
    #[must_use]
    pub fn has(&self, letter: u8) -> bool {
        self.letters & bit(letter) != 0
    }

    fn given<T>(&self, letter: u8, what: T) -> Option<T> {
        self.has(letter).then_some(what)
    }

    /// `q`: replies that say nothing new are not wanted.
    #[must_use]
    pub fn quiet(&self) -> bool {
        self.has(b'q')
    }

    /// `v`: the value is wanted.
    #[must_use]
    pub fn value(&self) -> bool {
        self.has(b'v')
    }

    /// `I`: the row becomes stale.
    #[must_use]
    pub fn invalidate(&self) -> bool {
        self.has(b'I')
    }

    /// `C`: the version that the row must have.
    #[must_use]
    pub fn cas(&self) -> Option<u64> {
        self.given(b'C', self.cas)
    }

    /// `E`: the version that the row gets.
    #[must_use]
    pub fn new_cas(&self) -> Option<u64> {
        self.given(b'E', self.new_cas)
    }

    /// `F`: what is stored beside the value; 0 when nothing is said.
    #[must_use]
    pub fn client_flags(&self) -> u32 {
        self.client_flags
    }

    /// `T`: the expiration time, as of `set`.
    #[must_use]
    pub fn ttl(&self) -> Option<i64> {
        self.given(b'T', self.ttl)
    }

    /// `N`: the expiration time of the row that is made where there is none.
    #[must_use]
    pub fn vivify_ttl(&self) -> Option<i64> {
        self.given(b'N', self.vivify_ttl)
    }

    /// `R`: the time left below which the client is to renew the row.
    #[must_use]
    pub fn recache_ttl(&self) -> Option<i64> {
        self.given(b'R', self.recache_ttl)
    }

    /// `D`: by how much to count; 1 when nothing is said.
    #[must_use]
    pub fn delta(&self) -> u64 {
        self.delta
    }

    /// `J`: the number that a row made by `ma` begins with; 0 when nothing is said.
    #[must_use]
    pub fn initial(&self) -> u64 {
        self.initial
    }

    /// `M`: the letter of the mode.
    pub(super) fn mode(&self) -> Option<u8> {
        self.given(b'M', self.mode)
    }

    /// `O`: the word that is sent back.
    #[must_use]
    pub fn opaque(&self) -> Option<&'a [u8]> {
        if self.has(b'O') { self.words.token(b'O') } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_of_the_document_is_read() {
        let text = b"b c f h k l q s t u v x I C7 E8 F9 T-1 N60 R30 D5 J6 MA Oxyz Pp Ll";
        let flags = Flags::parse(text).unwrap();
        for letter in 0..=255 {
            assert_eq!(flags.has(letter), LETTERS.contains(&letter), "{letter}");
        }
        assert_eq!((flags.cas(), flags.new_cas(), flags.client_flags()), (Some(7), Some(8), 9));
        assert_eq!(
            (flags.ttl(), flags.vivify_ttl(), flags.recache_ttl()),
            (Some(-1), Some(60), Some(30))
        );
        assert_eq!((flags.delta(), flags.initial(), flags.mode()), (5, 6, Some(b'A')));
        assert_eq!(flags.opaque(), Some(&b"xyz"[..]));
        assert_eq!(flags.words().count(), LETTERS.len());
    }

    #[test]
    fn what_is_not_asked_for_is_not_there() {
        let flags = Flags::parse(b"").unwrap();
        assert_eq!(flags, Flags::NONE);
        assert_eq!((flags.delta(), flags.initial(), flags.client_flags()), (1, 0, 0));
        assert_eq!((flags.cas(), flags.ttl(), flags.opaque()), (None, None, None));
        assert!(!flags.quiet() && !flags.value() && !flags.invalidate());
    }

    #[test]
    fn flags_that_are_none_are_refused() {
        let cases: [(&str, Fault); 19] = [
            ("z", Fault::Flag),
            ("W", Fault::Flag),
            ("\u{e9}", Fault::Flag),
            ("@", Fault::Flag),
            ("0", Fault::Flag),
            ("v v", Fault::FlagTwice),
            ("T1 T1", Fault::FlagTwice),
            ("T", Fault::FlagToken),
            ("Tx", Fault::FlagToken),
            ("C-1", Fault::FlagToken),
            ("C18446744073709551616", Fault::FlagToken),
            ("F4294967296", Fault::FlagToken),
            ("N9223372036854775808", Fault::FlagToken),
            ("D+1", Fault::FlagToken),
            ("J", Fault::FlagToken),
            ("M", Fault::Mode),
            ("MAA", Fault::Mode),
            ("Oabcdefghijklmnopqrstuvwxyz0123456", Fault::OpaqueTooLong),
            ("R1 Z", Fault::Flag),
        ];
        for (text, fault) in cases {
            assert_eq!(Flags::parse(text.as_bytes()), Err(fault), "{text:?}");
        }
        assert!(Flags::parse(b"Oabcdefghijklmnopqrstuvwxyz012345").is_ok());
    }
}
