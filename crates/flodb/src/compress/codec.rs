//! What made the bytes of a block: its number in the files, its name, and whether this build has
//! it.
//!
//! A codec is built in if the feature of its name is on. The numbers and names are the same in
//! every build.

use crate::error::{Error, Result};
use std::path::Path;

/// What made the bytes of a block. The numbers are in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Codec {
    Raw = 0,
    Snappy = 1,
    Lz4 = 2,
    Zstd = 3,
}

impl Codec {
    const ALL: [Codec; 4] = [Codec::Raw, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Codec::ALL.into_iter().find(|codec| *codec as u8 == byte)
    }

    /// The name of the codec, and of the feature that has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Codec::Raw => "none",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    pub(crate) fn is_built_in(self) -> bool {
        #[cfg(test)]
        if WITHOUT.get() == Some(self) {
            return false;
        }
        match self {
            Codec::Raw => true,
            Codec::Snappy => cfg!(feature = "snappy"),
            Codec::Lz4 => cfg!(feature = "lz4"),
            Codec::Zstd => cfg!(feature = "zstd"),
        }
    }

    /// Refuses the file at `path`, which needs the codec, in a build without it.
    ///
    /// # Errors
    /// [`Error::UnsupportedCompression`].
    pub(crate) fn check_built_in(self, path: &Path) -> Result<()> {
        if self.is_built_in() {
            return Ok(());
        }
        Err(Error::UnsupportedCompression { path: path.to_owned(), codec: self.name() })
    }
}

/// The codecs that made blocks of a file. Raw is in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CodecSet(u8);

impl CodecSet {
    /// As it is stored: bit n is codec n. Codecs that this program does not know stay.
    pub(crate) fn from_byte(byte: u8) -> Self {
        CodecSet(byte)
    }

    pub(crate) fn byte(self) -> u8 {
        self.0
    }

    pub(super) fn add(&mut self, codec: Codec) {
        if codec != Codec::Raw {
            self.0 |= 1 << codec as u8;
        }
    }

    /// Refuses the file at `path` if this build lacks one of the codecs.
    ///
    /// # Errors
    /// [`Error::UnsupportedCompression`].
    pub(crate) fn check_built_in(self, path: &Path) -> Result<()> {
        let mut used = Codec::ALL.into_iter().filter(|codec| self.0 & 1 << *codec as u8 != 0);
        used.try_for_each(|codec| codec.check_built_in(path))
    }
}

#[cfg(test)]
thread_local! {
    static WITHOUT: std::cell::Cell<Option<Codec>> = const { std::cell::Cell::new(None) };
}

/// Runs something whose thread finds that a codec is not built in.
#[cfg(test)]
pub(crate) fn without<T>(codec: Codec, run: impl FnOnce() -> T) -> T {
    WITHOUT.set(Some(codec));
    let result = run();
    WITHOUT.set(None);
    result
}
