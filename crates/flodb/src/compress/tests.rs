//! Blocks there and back, damaged ones, and codecs that are not built in.

use super::codec::without;
use super::*;

const ALL: [Compression; 6] = [
    Compression::None,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd(0),
    Compression::Zstd(-5),
    Compression::Zstd(19),
];

/// Bytes that are the same for the same seed.
fn noise(seed: u64) -> impl FnMut() -> u8 {
    let mut noise = seed;
    move || {
        noise = noise.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (noise >> 56) as u8
    }
}

fn samples() -> Vec<Vec<u8>> {
    let mut draw = noise(1);
    let mut samples = vec![Vec::new(), vec![7], b"abc".repeat(1365), vec![0; 3 << 20]];
    samples.push((0..4096).map(|_| draw()).collect());
    samples.push((0..70_000).map(|at| if at % 64 < 32 { draw() } else { b'x' }).collect());
    samples
}

#[test]
fn blocks_come_back_and_raw_ones_stay_raw() {
    for compression in ALL {
        let mut compressor = Compressor::new(compression).unwrap();
        for raw in samples() {
            let (codec, stored) = compressor.compress(&raw);
            let mut out = vec![1; 10];
            decompress(codec, stored, &mut out).unwrap();
            assert!(out == raw, "{compression:?} of {} bytes", raw.len());
            if codec == Codec::Raw {
                assert_eq!(stored, raw);
            } else {
                assert!(stored.len() <= raw.len() * 7 / 8 + 1);
            }
        }
        let (codec, _) = compressor.compress(&samples()[4]);
        assert_eq!(codec, Codec::Raw, "noise does not shrink");
        let (codec, _) = compressor.compress(&samples()[2]);
        assert_eq!(codec == Codec::Raw, compression == Compression::None);
        let bits = if codec == Codec::Raw { 0 } else { 1 << codec as u8 };
        assert_eq!(compressor.used().byte(), bits);
    }
}

#[test]
fn codecs_that_are_not_built_in_are_refused_by_name() {
    let path = Path::new("/store/000007.table");
    for compression in [Compression::Snappy, Compression::Lz4, Compression::Zstd(5)] {
        let (codec, name) = (compression.codec(), compression.codec().name());
        let mut compressor = Compressor::new(compression).unwrap();
        let raw = b"abc".repeat(100);
        let stored = compressor.compress(&raw).1.to_vec();
        let used = compressor.used();
        assert!(used.check_built_in(path).is_ok() && compression.is_built_in());
        let what = format!(
            "/store/000007.table: needs {name} compression, which is not built in; \
             build keyrack-flodb with the feature '{name}'"
        );
        without(codec, || {
            assert!(!compression.is_built_in());
            assert_eq!(used.check_built_in(path).unwrap_err().to_string(), what);
            let restored = decompress(codec, &stored, &mut Vec::new());
            assert_eq!(restored.unwrap_err().at(path, 9).to_string(), what);
            let refused = Compressor::new(compression).map(drop).unwrap_err().to_string();
            let what = format!("compression: {name} is not built in; build");
            assert!(refused.starts_with(&what), "{refused}");
            assert!(CodecSet::default().check_built_in(path).is_ok());
            for other in ALL.map(Compression::codec) {
                assert_eq!(other.is_built_in(), other != codec);
            }
        });
    }
}

#[test]
fn names_are_read_whatever_is_built_in() {
    without(Codec::Lz4, || {
        let list = Compression::parse_list("none, lz4,snappy,zstd:-3").unwrap();
        assert_eq!(Compression::show_list(&list), "none,lz4,snappy,zstd:-3");
        assert_eq!(Compression::default(), Compression::None);
    });
    assert_eq!(Compression::default(), Compression::Lz4);
}

/// Damage that a checksum would have found: no panic, and no more memory than the length says.
#[test]
fn damaged_blocks_do_not_panic() {
    for compression in ALL {
        let mut compressor = Compressor::new(compression).unwrap();
        let raw = b"some words, and some words again, and again some words".repeat(8);
        let (codec, stored) = compressor.compress(&raw);
        let stored = stored.to_vec();
        let mut out = Vec::new();
        for at in 0..stored.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = stored.clone();
                damaged[at] ^= flip;
                let _ = decompress(codec, &damaged, &mut out);
            }
            if codec != Codec::Raw {
                assert!(decompress(codec, &stored[..at], &mut out).is_err(), "{compression:?}");
            }
        }
    }
    let mut out = Vec::new();
    let claims_4_gib = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    assert!(decompress(Codec::Zstd, &claims_4_gib, &mut out).is_err());
    assert!(out.capacity() < 4096);
}

/// Decoders write with pointers. Each damage gets memory of its own, of just the size, so that
/// a byte read or written outside is one that the sanitizer of the stage `asan` finds.
#[test]
fn decoders_stay_within_their_memory() {
    const SEEDS: u64 = 4000;
    for compression in [Compression::Lz4, Compression::Snappy, Compression::Zstd(1)] {
        let mut compressor = Compressor::new(compression).unwrap();
        let mut refused = 0;
        for seed in 0..SEEDS {
            let mut draw = noise(seed);
            let period = 1 + usize::from(draw()) % 80;
            let some = usize::from(draw()) % period;
            let bytes = 16 * (1 + usize::from(draw()));
            let raw: Vec<u8> =
                (0..bytes).map(|at| if at % period < some { draw() } else { b'x' }).collect();
            let (codec, stored) = compressor.compress(&raw);
            if codec == Codec::Raw {
                continue;
            }
            let mut damaged = stored.to_vec();
            for _ in 0..1 + draw() % 4 {
                let at = (usize::from(draw()) << 8 | usize::from(draw())) % damaged.len();
                damaged[at] = draw();
            }
            if draw().is_multiple_of(2) {
                damaged.truncate(LENGTH_BYTES + usize::from(draw()) * damaged.len() / 256);
            }
            // The length is right, a little wrong, or whatever came of it.
            let length = match draw() % 3 {
                0 => bytes,
                1 => bytes + usize::from(draw()) % 64 - usize::from(draw()) % 16,
                _ => usize::from(draw()),
            };
            let room = damaged.len().max(LENGTH_BYTES);
            damaged.resize(room, 0);
            damaged[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
            refused += u64::from(decompress(codec, &damaged, &mut Vec::new()).is_err());
        }
        assert!(refused > SEEDS / 10, "{compression:?}: {refused} of {SEEDS} refused");
    }
}

#[test]
fn codecs_have_their_numbers() {
    for byte in 0..=255 {
        assert_eq!(Codec::from_byte(byte).map(|codec| codec as u8), (byte < 4).then_some(byte));
    }
}
