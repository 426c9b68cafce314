//! Tests of the key sets: golden keys, distinctness, lengths, and what keys share.

use std::collections::{HashMap, HashSet};

use super::*;
use crate::check::assert_chi_square;

fn key(set: KeySet, seed: u64, number: u64) -> Vec<u8> {
    let mut bytes = [0; KEY_BYTES_MAX];
    let length = KeySetWriter::new(set, seed).write(number, &mut bytes);
    bytes[..length].to_vec()
}

fn text(set: KeySet, number: u64) -> String {
    String::from_utf8(key(set, 0, number)).unwrap()
}

/// Numbers below `count`, and some at the edges of what identifiers are made of.
fn numbers(count: u64) -> impl Iterator<Item = u64> {
    let edges = [13, 20, 30, 32, 40, 53, 63].into_iter().flat_map(move |bits| {
        let edge = 1u64 << bits;
        (edge - 20..edge + 20).filter(move |number| *number >= count)
    });
    (0..count).chain(edges).chain([u64::MAX - 1, u64::MAX])
}

#[test]
fn keys_stay_what_they_are() {
    let golden = [
        (KeySet::Url, 0, "http://www.fojodi.jp/travel/market-forest-timber-magnet-nd7ce1.html"),
        (KeySet::Url, 1, "http://www.fojodi.jp/travel/lunar/silver/water-compass-vdc1pk.html"),
        (KeySet::Url, 12_345, "https://jinige.co.uk/surface/journey/region/image-review-uckrp2"),
        (
            KeySet::Url,
            1 << 33,
            "https://hinilameadow.de/wallet/journey/sketch-insight-archive-8hfyj54.html",
        ),
        (KeySet::Path, 0, "/home/lebala/valley-zenith/digital/support/museum-nd7ce1.jpg"),
        (KeySet::Path, 1, "/home/porafa/balance-history/profile/topic-vdc1pk.log"),
        (KeySet::Path, 12_345, "/srv/projects/hepafo/thunder-yellow/meadow/vendor-uckrp2.pdf"),
        (
            KeySet::Path,
            1 << 33,
            "/home/ganosi/member-ocean/wonder/express/coastal/travel-8hfyj54.rs",
        ),
        (KeySet::Email, 0, "anton.molina72@dojobe.com"),
        (KeySet::Email, 1, "clara.weber126@hinila.com"),
        (KeySet::Email, 12_345, "nora.murphy90@nifapo.org"),
        (KeySet::Email, 1 << 33, "elias.dahl1048682@kanido.io"),
        (KeySet::Uuid, 0, "238275bc-38fc-4be9-8757-c256a65c51e0"),
        (KeySet::Uuid, 1, "2f32a784-96c6-47c6-8146-fc94586817ec"),
        (KeySet::Uuid, 12_345, "bc1edc4b-42bf-4ae3-b087-555bff0ad998"),
        (KeySet::Uuid, 1 << 33, "391a23aa-88be-4636-9660-2d3f21b8dea4"),
        (KeySet::Composed, 0, "tenant-00004/invoices/0000000000000000"),
        (KeySet::Composed, 1, "tenant-00006/addresses/0000000000000001"),
        (KeySet::Composed, 12_345, "tenant-00007/subscriptions/0000000000012345"),
        (KeySet::Composed, 1 << 33, "tenant-00000/shipments/0000008589934592"),
        (KeySet::Decimal, 0, "3065731296"),
        (KeySet::Decimal, 1, "3732877802"),
        (KeySet::Decimal, 12_345, "2939786363"),
        (KeySet::Decimal, 1 << 33, "9284655137"),
        (KeySet::Be8, 0, r"#\x82u\xbc8\xfc\xbe\x91"),
        (KeySet::Be8, 1, r"/2\xa7\x84\x96\xc6|`"),
        (KeySet::Be8, 12_345, r"\xbc\x1e\xdcKB\xbf\xae<"),
        (KeySet::Be8, 1 << 33, r"9\x1a#\xaa\x88\xbece"),
    ];
    for (set, number, expected) in golden {
        assert_eq!(key(set, 0, number).escape_ascii().to_string(), expected);
    }
    assert_eq!(key(KeySet::Email, 7, 0), b"ivan.costa93@pasifa.fr");
}

#[test]
fn distinct_numbers_have_distinct_keys() {
    for set in KeySet::ALL {
        for seed in [0, 1, u64::MAX] {
            let mut seen = HashSet::new();
            for number in numbers(100_000) {
                let key = key(set, seed, number);
                assert!(seen.insert(key.clone()), "{set} {number}: {}", key.escape_ascii());
            }
        }
    }
}

#[test]
fn sets_of_other_seeds_are_other_sets() {
    for set in KeySet::ALL {
        let differ = (0..1000).filter(|number| key(set, 0, *number) != key(set, 1, *number));
        assert!(differ.count() > 980, "{set}");
    }
}

#[test]
fn mean_lengths_are_those_of_the_table() {
    for (set, low, high, longest) in [
        (KeySet::Url, 68.0, 72.0, 130),
        (KeySet::Path, 62.0, 65.0, 110),
        (KeySet::Email, 24.0, 26.0, 45),
        (KeySet::Uuid, 36.0, 36.0, 36),
        (KeySet::Composed, 37.0, 39.0, 43),
        (KeySet::Decimal, 9.5, 9.9, 10),
        (KeySet::Be8, 8.0, 8.0, 8),
    ] {
        let lengths: Vec<usize> = (0..100_000).map(|number| key(set, 0, number).len()).collect();
        let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
        assert!((low..=high).contains(&mean), "{set}: {mean} bytes");
        let max = lengths.iter().max().unwrap();
        assert!(*max <= longest, "{set}: a key of {max} bytes");
    }
    // The largest numbers have the longest identifiers.
    for set in KeySet::ALL {
        assert!(key(set, 0, u64::MAX).len() + Word::ROOM <= KEY_BYTES_MAX, "{set}");
    }
}

/// How often each value of `part` occurs in the first 100,000 keys, most frequent first.
fn shares(set: KeySet, part: impl Fn(&str) -> &str) -> Vec<(String, u64)> {
    let mut counts = HashMap::new();
    for number in 0..100_000 {
        *counts.entry(part(&text(set, number)).to_owned()).or_insert(0) += 1;
    }
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(part, count)| (u64::MAX - count, part.clone()));
    counts
}

/// The ranks of `popular(count)` have these probabilities.
fn weights(count: u64) -> Vec<f64> {
    let steps = (count + 1).ilog2();
    let rest = (count + 1 - (1 << steps)) as f64;
    let whole = (0..steps).flat_map(|step| vec![1.0 / f64::from(1 << step); 1 << step]);
    let last = vec![1.0 / f64::from(1 << steps); rest as usize];
    whole.chain(last).collect()
}

#[test]
fn ranks_follow_zipfs_law_in_steps() {
    for count in [1, 2, 3, 8, 64, 1000, 20_000] {
        let mut observed = vec![0; count as usize];
        for number in 0..400_000 {
            observed[Draws(mix64(number)).popular(count) as usize] += 1;
        }
        assert_chi_square(&format!("popular({count})"), &observed, &weights(count));
    }
}

#[test]
fn hosts_of_urls_are_popular_by_rank() {
    let hosts = shares(KeySet::Url, |url| url.split('/').nth(2).unwrap());
    let total: f64 = weights(HOSTS).iter().sum();
    for (rank, weight) in weights(HOSTS).into_iter().take(7).enumerate() {
        let (host, count) = &hosts[rank];
        let (expected, share) = (weight / total, *count as f64 / 100_000.0);
        assert!((share / expected - 1.0).abs() < 0.06, "{host}: {share}, expected {expected}");
    }
    // Most hosts of the last step have no key among so few.
    assert!((12_000..15_000).contains(&hosts.len()), "{} hosts", hosts.len());
    let with = |what: &str| {
        shares(KeySet::Url, |url| if url.contains(what) { "yes" } else { "no" })
            .into_iter()
            .find(|(is, _)| is == "yes")
            .map_or(0, |(_, count)| count)
    };
    assert!((55_000..85_000).contains(&with("https://")), "{}", with("https://"));
    assert!((35_000..65_000).contains(&with("://www.")), "{}", with("://www."));
}

#[test]
fn files_share_directories() {
    let directories = shares(KeySet::Path, |path| path.rsplit_once('/').unwrap().0);
    assert!((25_000..45_000).contains(&directories.len()), "{}", directories.len());
    let roots = shares(KeySet::Path, |path| {
        let root = ROOTS.iter().map(|root| &root.padded()[..root.len()]);
        let mut root = root.filter(|root| path.as_bytes().starts_with(root));
        std::str::from_utf8(root.next().expect("a root")).map_or("", |root| &path[..root.len()])
    });
    assert_eq!(roots.len(), 8);
    assert_eq!(roots[0].0, "/home");
}

#[test]
fn addresses_and_rows_share_hosts_and_tenants() {
    let hosts = shares(KeySet::Email, |address| address.split('@').nth(1).unwrap());
    assert!((1900..=2000).contains(&hosts.len()), "{} hosts", hosts.len());
    let tenants = shares(KeySet::Composed, |key| key.split('/').next().unwrap());
    assert_eq!((tenants.len(), tenants[0].0.as_str()), (1000, "tenant-00000"));
    let tables = shares(KeySet::Composed, |key| key.split('/').nth(1).unwrap());
    assert_eq!((tables.len(), tables[0].0.as_str()), (12, "orders"));
    // Numbers ascend in each table.
    for number in 0..1000 {
        let key = text(KeySet::Composed, number);
        assert_eq!(key.rsplit('/').next(), Some(format!("{number:016}").as_str()), "{key}");
    }
}

#[test]
fn identifiers_are_random_and_well_formed() {
    let mut nibbles = [0; 16];
    for number in 0..20_000 {
        let uuid = text(KeySet::Uuid, number);
        let groups: Vec<&str> = uuid.split('-').collect();
        assert_eq!(groups.iter().map(|group| group.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_eq!(&groups[2][..1], "4", "{uuid}");
        assert!(["8", "9", "a", "b"].contains(&&groups[3][..1]), "{uuid}");
        for digit in uuid.replace('-', "").bytes().enumerate() {
            if digit.0 != 12 && digit.0 != 16 {
                nibbles[(digit.1 as char).to_digit(16).unwrap() as usize] += 1;
            }
        }
        assert!(text(KeySet::Decimal, number).parse::<u64>().unwrap() < 1 << 32);
    }
    assert_chi_square("digits of uuid", &nibbles, &[1.0; 16]);
    let mut bytes = [0; 256];
    (0..40_000).for_each(|n| key(KeySet::Be8, 0, n).iter().for_each(|b| bytes[*b as usize] += 1));
    assert_chi_square("bytes of be8", &bytes, &[1.0; 256]);
    let mut tenths = [0; 10];
    for number in 0..40_000 {
        let value: u64 = text(KeySet::Decimal, number).parse().unwrap();
        tenths[((value * 10) >> 32) as usize] += 1;
    }
    assert_chi_square("decimal", &tenths, &[1.0; 10]);
}
