//! Keys against the original's arithmetic, popularity, samples, values that tell.

use std::collections::HashSet;

use keyrack_workload::{Distribution, Rng};

use super::*;

const SEED: u64 = 20_261_122;

/// The key by the definition of the original, in plain arithmetic.
fn reference(index: u64, records: u64, size: impl Fn(f64) -> f64) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let hash = index.to_le_bytes().into_iter().fold(0xCBF2_9CE4_8422_2325, step);
    let u = hash as f64 / u64::MAX as f64;
    let digits = (records as f64).log10().floor() as usize + 1;
    let width = (size(u).round() as usize).max(digits);
    format!("{index:0width$}")
}

fn text(distribution: &str, records: u64, prefix: &str) -> KeyText {
    KeyText::new(&Distribution::parse(distribution).unwrap(), records, prefix.as_bytes(), 250)
        .unwrap()
}

fn key(text: &KeyText, index: u64) -> String {
    let mut key = Vec::new();
    text.append(index, &mut key);
    assert_eq!(key.len(), text.len(index));
    let mut again = vec![b'?'; key.len()];
    text.write(index, &mut again);
    assert_eq!(again, key);
    String::from_utf8(key).unwrap()
}

#[test]
fn keys_are_those_of_mutilate() {
    let gev = |u: f64| 30.7984 + 8.20449 * ((-u.ln()).powf(-0.078688) - 1.0) / 0.078688;
    let pareto = |u: f64| 3.0 + 4.0 * (u.powf(-0.1) - 1.0) / 0.1;
    for records in [1, 9, 10, 10_000, 123_456] {
        for index in (0..records).step_by(1 + records as usize / 300) {
            assert_eq!(key(&text("30", records, ""), index), reference(index, records, |_| 30.0));
            assert_eq!(key(&text("fb_key", records, ""), index), reference(index, records, gev));
            assert_eq!(
                key(&text("pareto:3,4,0.1", records, ""), index),
                reference(index, records, pareto)
            );
            assert_eq!(
                key(&text("uniform:40", records, ""), index),
                reference(index, records, |u| 40.0 * u)
            );
        }
    }
    // Two that can be looked at.
    assert_eq!(key(&text("30", 10_000, ""), 7), "000000000000000000000000000007");
    assert_eq!(key(&text("1", 10_000, ""), 42), "00042");
}

#[test]
fn a_prefix_stands_in_front_and_counts_for_the_limit() {
    assert_eq!(key(&text("5", 10, "app:"), 3), "app:00003");
    let long = text("fixed:1000", 10, "p");
    assert_eq!((key(&long, 3).len(), long.fixed_len(), long.len_max()), (250, Some(250), 250));
    let distribution = Distribution::parse("30").unwrap();
    let refuse = |records, prefix: &[u8], max| {
        KeyText::new(&distribution, records, prefix, max).unwrap_err().to_string()
    };
    assert!(refuse(10_000, b"abc", 7).contains("3 bytes of prefix and 5 digits"));
    assert!(refuse(10, b"a b", 250).contains("0x20"));
    assert!(refuse(10, b"a\n", 250).contains("0x0a"));
    // Redis has longer keys, the original does not.
    let redis = KeyText::new(&Distribution::parse("5000").unwrap(), 10, b"", 64 << 10).unwrap();
    assert_eq!(redis.len(3), 255);
}

#[test]
fn keys_differ_and_beyond_2_to_the_32_too() {
    let many = text("1", 1 << 33, "");
    assert_eq!(key(&many, (1 << 33) - 1), "8589934591");
    assert_eq!(key(&many, 5), "0000000005");
    let some = text("fb_key", 2000, "x");
    let keys: HashSet<String> = (0..2000).map(|index| key(&some, index)).collect();
    assert_eq!(keys.len(), 2000);
}

#[test]
fn assoc_splits_keys_that_are_long_enough() {
    assert_eq!(split_assoc(b"abcd", 4), None);
    assert_eq!(split_assoc(b"abcde", 4), None);
    assert_eq!(split_assoc(b"abcdef", 4), Some((&b"ab"[..], &b"cdef"[..])));
    assert_eq!(split_assoc("käse".as_bytes(), 1), Some(("käs".as_bytes(), &b"e"[..])));
    assert_eq!(split_assoc(b"ab", 0), Some((&b"ab"[..], &b""[..])));
}

#[test]
fn popularity_has_its_laws() {
    let counts = |distribution: &str| {
        let popularity = Popularity::parse(distribution).unwrap();
        let mut source = popularity.source(1000, Rng::from_seed(SEED), (0, 1)).unwrap();
        let mut counts = vec![0u32; 1000];
        for _ in 0..100_000 {
            counts[source.next_index() as usize] += 1;
        }
        counts
    };
    assert!(counts("uniform").iter().all(|count| (40..180).contains(count)));
    let mut zipf = counts("zipf:0.99");
    assert_ne!(zipf.iter().max(), zipf.first(), "the hottest key is somewhere; SEED={SEED}");
    zipf.sort_unstable();
    assert!(zipf[999] > 10_000 && zipf[0] < 60, "{} {}", zipf[999], zipf[0]);
    let hot: u32 = counts("hotspot:0.1,0.9")[..100].iter().sum();
    assert!((89_000..91_000).contains(&hot), "{hot}; SEED={SEED}");
    let latest = counts("latest");
    assert_eq!(latest.iter().max(), latest.last());
    // Two connections share a sequence.
    let sequential = Popularity::parse("sequential").unwrap();
    let mut second = sequential.source(5, Rng::from_seed(SEED), (1, 2)).unwrap();
    assert_eq!([0; 4].map(|_| second.next_index()), [1, 3, 1, 3]);
    assert!(Popularity::parse("insert").is_err() && Popularity::parse("zipfian").is_err());
    assert_eq!(Popularity::parse("zipf").unwrap().to_string(), "zipf:0.99");
}

#[test]
fn a_sample_has_its_share_and_is_the_same_for_everybody() {
    for share in [0.0, 0.1, 0.9, 1.0] {
        let sample = Sample::new(share, SEED);
        let held = (0..100_000).filter(|index| sample.contains(*index)).count() as f64;
        assert!((held / 1e5 - share).abs() < 0.005, "{share}: {held}; SEED={SEED}");
    }
    let [one, other] = [1, 2].map(|seed| Sample::new(0.5, seed));
    let both = (0..10_000).filter(|i| one.contains(*i) && other.contains(*i)).count();
    assert!((2300..2700).contains(&both), "{both}");
    assert_eq!(one, Sample::new(0.5, 1));
}

#[test]
fn plain_values_move_through_the_pool() {
    let values = Values::new(3000, SEED);
    let mut rng = Rng::from_seed(SEED);
    let mut offset = values.offset(&mut rng);
    let mut seen = HashSet::new();
    for _ in 0..1000 {
        assert!(seen.insert(values.plain(500, &mut offset).to_vec()), "values differ");
    }
    assert!(format!("{values:?}").len() < 100, "the pool is not shown");
    for size in [0, 1, 3000] {
        offset = (1 << 20) - 1;
        assert_eq!(values.plain(size, &mut offset).len(), size);
        assert_eq!(values.plain(3000, &mut offset).len(), 3000);
    }
}

#[test]
fn checked_values_tell_every_damage() {
    let values = Values::new(5000, SEED);
    let mut value = Vec::new();
    for size in [0, 1, 8, 15, 16, 17, 200, 5000] {
        value.clear();
        values.append_checked(b"key:0001", 77, size, &mut value);
        assert_eq!((value.len(), values.check(b"key:0001", &value)), (size, Ok(())));
        if size < 4 {
            continue;
        }
        assert_eq!(values.check(b"key:0002", &value), Err(Damage::Foreign), "{size}");
        assert_eq!(values.check(b"key:0001", &value[..size - 1]), Err(Damage::Foreign));
        let longer = [&value[..], b"x"].concat();
        assert_eq!(values.check(b"key:0001", &longer), Err(Damage::Foreign));
        for at in [0, size / 2, size - 1] {
            let mut damaged = value.clone();
            damaged[at] ^= 0x10;
            let damage = values.check(b"key:0001", &damaged).unwrap_err();
            let expected = if at < 16 { Damage::Foreign } else { Damage::Changed { at } };
            assert_eq!(damage, expected, "{size} at {at}");
        }
    }
    // Writers do not have to agree on more than the seed.
    let mut other = Vec::new();
    Values::new(9000, SEED).append_checked(b"key:0001", 78, 200, &mut other);
    assert_eq!(values.check(b"key:0001", &other), Ok(()));
    assert!(Values::new(5000, SEED + 1).check(b"key:0001", &other).is_err());
    let words = Damage::Changed { at: 9 }.to_string();
    assert_eq!(words, "byte 9 of a value has changed");
}
