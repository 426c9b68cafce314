//! Balance, and a directory that splits under clients with old maps.

use super::*;
use crate::partition::split::DEPTH_MAX;
use keyrack_testkit::random::Draw;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn partitions_are_even_for_any_count_of_servers() {
    for servers in [1_u32, 2, 3, 5, 7, 48] {
        let placement = Placement::new(servers);
        for dir in [1_u128, 77 << 90] {
            let mut counts = vec![0_u32; servers as usize];
            for partition in 0..1 << placement.depth_max() {
                counts[placement.home(dir, partition) as usize] += 1;
            }
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            let ratio = f64::from(*most) / f64::from(*least);
            assert!(ratio < 1.1, "{servers} servers: {ratio}");
        }
    }
}

#[test]
fn names_of_the_benchmark_are_even_over_servers() {
    for servers in [2_u32, 3, 5, 7] {
        let placement = Placement::new(servers);
        let map = SplitMap::full(placement.depth_max());
        let mut counts = vec![0_u32; servers as usize];
        for number in 0..40_000_u64 {
            let name = format!("++++{number:06}+++");
            let partition = map.partition_of(hash_name(12345, name.as_bytes()));
            counts[placement.home(12345, partition) as usize] += 1;
        }
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        let ratio = f64::from(*most) / f64::from(*least);
        assert!(ratio < 1.1, "{servers} servers: {counts:?}");
    }
}

#[test]
fn a_split_always_leads_to_another_server() {
    for servers in 2_u32..100 {
        let placement = Placement::new(servers);
        for depth in 0..placement.depth_max() {
            let (from, to) = (placement.home(5, 0), placement.home(5, 1 << depth));
            assert_ne!(from, to, "{servers} servers, depth {depth}");
        }
    }
}

#[test]
fn partitions_are_whole_or_miss_some_hash() {
    assert!(is_whole(&[(0, 0)]));
    assert!(is_whole(&[(0, 1), (1, 2), (3, 2)]));
    assert!(is_whole(&[(0, 0), (1, 1)]), "what is there twice is there");
    assert!(!is_whole(&[(0, 1), (1, 2)]), "3 is missing");
    assert!(!is_whole(&[]));
    assert!(!is_whole(&[(1, 1)]));
}

#[test]
fn maps_lead_to_the_deepest_partition_that_they_know() {
    let mut map = SplitMap::new();
    assert_eq!(map.partition_of(u64::MAX), 0);
    assert!(map.add(5));
    assert!(map.has(0) && map.has(1) && map.has(5) && !map.has(4));
    assert_eq!(map.partition_of(0b101), 5);
    assert_eq!(map.partition_of(0b001), 1);
    assert_eq!(map.partition_of(0b110), 0);
    assert_eq!(map.count(), 3);
    assert!(!map.add(1 << DEPTH_MAX));
    let mut other = SplitMap::new();
    other.add(2);
    other.merge(&map);
    assert_eq!(other.count(), 4);
    assert_eq!(SplitMap::from_bytes(&other.to_bytes()), Some(other));
    assert_eq!(
        SplitMap::from_bytes(&0b10_0001_u64.to_le_bytes()),
        None,
        "5 comes from 1, which is not there"
    );
    assert_eq!(SplitMap::from_bytes(&[0; 8]), None);
    assert_eq!(SplitMap::from_bytes(&vec![0xff; 1 << DEPTH_MAX]), None);
}

/// A server: the partitions that it has, with their names, and its own map.
struct Server {
    map: SplitMap,
    shards: BTreeMap<u32, (Shard, BTreeSet<u64>)>,
}

/// A message that is under way, and may come late, twice, or behind others.
enum Mail {
    /// To the server of the new partition: here are its names.
    Install(Split, BTreeSet<u64>),
    /// Back to the old one: they are on disk.
    Installed(Split),
}

struct World {
    placement: Placement,
    servers: Vec<Server>,
    mail: Vec<Mail>,
    /// What the clients were told is there.
    truth: BTreeSet<u64>,
    split_at: usize,
    splits: usize,
    redirects: usize,
}

impl World {
    fn home(&self, partition: u32) -> usize {
        self.placement.home(7, partition) as usize
    }

    /// A client's write or read: follows corrections until some server answers. `None` is "later".
    fn call(&mut self, map: &mut SplitMap, hash: u64, write: Option<bool>) -> Option<bool> {
        for _ in 0..=DEPTH_MAX {
            let partition = map.partition_of(hash);
            let home = self.home(partition);
            let server = &mut self.servers[home];
            let Some((shard, names)) = server.shards.get_mut(&partition) else {
                panic!("a map leads to a partition that never was: {partition}");
            };
            match (shard.route(hash), write) {
                (Route::Elsewhere, _) => {
                    let before = map.count();
                    map.merge(&server.map);
                    assert!(map.count() > before, "a correction leads on");
                    self.redirects += 1;
                }
                (Route::Moving, Some(_)) => return None,
                (_, None) => return Some(names.contains(&hash)),
                (_, Some(true)) => {
                    let is_new = names.insert(hash);
                    if names.len() > self.split_at
                        && let Some(split) = shard.begin()
                    {
                        let moving: BTreeSet<u64> =
                            names.iter().copied().filter(|hash| split.moves(*hash)).collect();
                        self.mail.push(Mail::Install(split, moving));
                        self.splits += 1;
                    }
                    return Some(is_new);
                }
                (_, Some(false)) => return Some(names.remove(&hash)),
            }
        }
        panic!("no server after {DEPTH_MAX} corrections");
    }

    fn deliver(&mut self, at: usize, is_copy: bool) {
        let mail = match (is_copy, &self.mail[at]) {
            (false, _) => self.mail.swap_remove(at),
            (true, Mail::Install(split, names)) => Mail::Install(*split, names.clone()),
            (true, Mail::Installed(split)) => Mail::Installed(*split),
        };
        match mail {
            Mail::Install(split, names) => {
                let home = self.home(split.to);
                let server = &mut self.servers[home];
                // What came before is not taken again: it may have changed since.
                let shards = &mut server.shards;
                shards.entry(split.to).or_insert_with(|| (Shard::made_by(&split), names));
                server.map.add(split.to);
                self.mail.push(Mail::Installed(split));
            }
            Mail::Installed(split) => {
                let home = self.home(split.from);
                let server = &mut self.servers[home];
                let (shard, names) = server.shards.get_mut(&split.from).unwrap();
                let was = shard.clone();
                assert!(shard.commit(&split));
                if *shard != was {
                    names.retain(|hash| !split.moves(*hash));
                }
                server.map.add(split.to);
            }
        }
    }
}

#[test]
fn splits_under_clients_with_old_maps_lose_and_double_nothing() {
    for seed in 0..40_u64 {
        let mut draw = Draw::new(seed);
        let count = [1, 2, 3, 7][draw.below(4)];
        let placement = Placement::new(count);
        let server = || Server { map: SplitMap::new(), shards: BTreeMap::new() };
        let mut world = World {
            placement,
            servers: (0..count).map(|_| server()).collect(),
            mail: Vec::new(),
            truth: BTreeSet::new(),
            split_at: 8 + draw.below(30),
            splits: 0,
            redirects: 0,
        };
        let first = world.home(0);
        world.servers[first].shards.insert(0, (Shard::first(), BTreeSet::new()));
        let mut clients: Vec<SplitMap> = vec![SplitMap::new(); 4];
        for _ in 0..4000 {
            let who = draw.below(clients.len());
            let mut map = clients[who].clone();
            let hash = spread(draw.below(1500) as u64);
            match draw.below(12) {
                0..=5 => {
                    if let Some(is_new) = world.call(&mut map, hash, Some(true)) {
                        assert_eq!(is_new, world.truth.insert(hash), "SEED={seed}");
                    }
                }
                6 => {
                    if let Some(was_there) = world.call(&mut map, hash, Some(false)) {
                        assert_eq!(was_there, world.truth.remove(&hash), "SEED={seed}");
                    }
                }
                7 | 8 => {
                    let found = world.call(&mut map, hash, None);
                    assert_eq!(found, Some(world.truth.contains(&hash)), "SEED={seed}");
                }
                // A client that has forgotten all begins anew.
                9 if draw.below(10) == 0 => map = SplitMap::new(),
                _ if !world.mail.is_empty() => {
                    let at = draw.below(world.mail.len());
                    let is_copy = draw.below(4) == 0;
                    world.deliver(at, is_copy);
                }
                _ => {}
            }
            clients[who] = map;
        }
        while !world.mail.is_empty() {
            world.deliver(0, false);
        }
        let all: Vec<u64> = world
            .servers
            .iter()
            .flat_map(|server| server.shards.values())
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        let distinct: BTreeSet<u64> = all.iter().copied().collect();
        assert_eq!(all.len(), distinct.len(), "doubled, SEED={seed}");
        assert_eq!(distinct, world.truth, "lost, SEED={seed}");
        assert!(world.splits > 3 && world.redirects > 3, "SEED={seed}: nothing happened");
    }
}

#[test]
fn a_split_that_is_given_up_leaves_all_as_it_was() {
    let mut shard = Shard::first();
    let split = shard.begin().unwrap();
    assert_eq!(shard.begin(), None);
    assert_eq!((shard.route(0), shard.route(1)), (Route::Here, Route::Moving));
    shard.abort();
    assert_eq!(shard.route(1), Route::Here);
    assert!(!shard.commit(&split), "it was given up");
    let split = shard.begin().unwrap();
    assert!(shard.commit(&split) && shard.commit(&split));
    assert_eq!((shard.route(0), shard.route(1)), (Route::Here, Route::Elsewhere));
    assert_eq!(Shard::made_by(&split).route(1), Route::Here);
}
