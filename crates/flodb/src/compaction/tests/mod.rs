//! The choice of compactions as tables of small versions. `simulation` lets it run a store.
//!
//! A version is drawn as words `level:number:first-last`, with `=bytes` behind if it is not 100; a
//! compaction as `reason from->to [inputs] [inputs below] /grandparents/`, with `move` for a
//! trivial move.

mod amplification;
mod simulation;

use super::pick::{Targets, targets};
use super::*;
use crate::blob::{BlobMeta, BlobShare};
use crate::key::SEQUENCE_MAX;
use crate::version::tests::{dense, plain, sized, version};

/// Tables of 100 bytes, a base of 1000, a growth up to 2500, at most 1000 of grandparents.
fn options() -> CompactionOptions {
    CompactionOptions {
        level0_tables: 4,
        level0_bytes: 400,
        base_times: 1,
        level_base_bytes: 1_000,
        level_factor: 10,
        table_bytes: 100,
    }
}

fn parse(drawing: &str) -> Version {
    let file = |word: &str| {
        let (name, bytes) = word.split_once('=').unwrap_or((word, "100"));
        let parts: Vec<&str> = name.split([':', '-']).collect();
        let &[level, number, first, last] = parts.as_slice() else { panic!("{word}") };
        let number = number.parse().unwrap();
        (level.parse().unwrap(), sized(number, first, last, bytes.parse().unwrap()))
    };
    version(&drawing.split_whitespace().map(file).collect::<Vec<_>>())
}

fn draw(compaction: &Compaction) -> String {
    let numbers = |files: &[Arc<FileMeta>]| {
        let numbers: Vec<String> = files.iter().map(|file| file.number.to_string()).collect();
        numbers.join(" ")
    };
    let Compaction { level, output_level, inputs: [one, other], grandparents, .. } = compaction;
    let mut text = format!("{:?} {level}->{output_level}", compaction.reason);
    text += &format!(" [{}] [{}]", numbers(one), numbers(other));
    if !grandparents.is_empty() {
        text += &format!(" /{}/", numbers(grandparents));
    }
    if compaction.trivial_move {
        text += " move";
    }
    text
}

/// A compaction that nobody picked.
pub(crate) fn by_hand(
    level: usize,
    output_level: usize,
    inputs: [Vec<Arc<FileMeta>>; 2],
) -> Compaction {
    Compaction {
        level,
        output_level,
        inputs,
        grandparents: Vec::new(),
        trivial_move: false,
        reason: Reason::Manual,
        pointer: None,
    }
}

fn pick_in(version: &Version, in_progress: &InProgressCompactions) -> Option<Compaction> {
    pick(version, &options(), in_progress, SEQUENCE_MAX)
}

#[track_caller]
fn picks(drawing: &str, wanted: &str) -> Compaction {
    let picked = pick_in(&parse(drawing), &InProgressCompactions::default());
    let picked = picked.unwrap_or_else(|| panic!("nothing, not {wanted}"));
    assert_eq!(draw(&picked), wanted);
    picked
}

#[track_caller]
fn picks_in(version: &Version, wanted: &str) {
    assert_eq!(
        pick_in(version, &InProgressCompactions::default()).as_ref().map(draw).as_deref(),
        Some(wanted)
    );
}

#[track_caller]
fn picks_nothing(drawing: &str) {
    let picked = pick_in(&parse(drawing), &InProgressCompactions::default());
    assert_eq!(picked.as_ref().map(draw), None);
}

/// Starts whatever comes next until nothing does.
#[track_caller]
fn start_all(version: &Version, in_progress: &mut InProgressCompactions) -> Vec<String> {
    let mut started = Vec::new();
    while let Some(compaction) = pick_in(version, in_progress) {
        let _id = in_progress.start(&compaction, version.order());
        started.push(draw(&compaction));
    }
    started
}

#[test]
fn levels_are_sized_from_the_last_one_up() {
    for (drawing, base, needed, bytes) in [
        ("", 6, 6, [0; 7]),
        ("0:9:a-z=99999", 6, 6, [0; 7]),
        ("6:1:a-z=1000", 6, 6, [0; 7]),
        // More than the base may have: there is a level above.
        ("6:1:a-z=1001", 5, 5, [0, 0, 0, 0, 0, 1_000, 0]),
        ("6:1:a-z=10000", 5, 5, [0, 0, 0, 0, 0, 1_000, 0]),
        // And so is a tenth of it.
        ("6:1:a-z=10010", 4, 4, [0, 0, 0, 0, 1_000, 1_001, 0]),
        ("5:2:a-b 6:1:a-z=90000", 4, 4, [0, 0, 0, 0, 1_000, 9_000, 0]),
        ("6:1:a-z=123456", 3, 3, [0, 0, 0, 1_000, 1_234, 12_345, 0]),
        // Tables too far up for so few bytes: the levels down to the needed one are drained.
        ("3:2:a-b=5000 6:1:a-z=4000", 3, 5, [0, 0, 0, 1_000, 1_000, 1_000, 0]),
        ("3:2:a-b 6:1:a-z=20000", 3, 4, [0, 0, 0, 1_000, 1_000, 2_000, 0]),
        ("6:1:a-z=9999999999", 1, 1, [0, 99_999, 999_999, 9_999_999, 99_999_999, 999_999_999, 0]),
    ] {
        let wanted = Targets { base, needed, bytes };
        assert_eq!(targets(&parse(drawing), &options()), wanted, "{drawing}");
    }
}

#[test]
fn level_0_goes_to_the_base_when_it_has_enough_tables() {
    picks_nothing("");
    picks_nothing("0:1:a-z 0:2:a-z 0:3:a-z 6:4:a-z");
    picks("0:1:a-z 0:2:a-z 0:3:a-z 0:4:a-z", "Level0 0->6 [4 3 2 1] []");
    picks(
        "0:1:a-c 0:2:b-f 0:3:e-h 0:4:m-n 5:5:a-b 5:6:c-d 5:7:i-k 6:8:a-z=9000",
        "Level0 0->5 [3 2 1] [5 6] /8/",
    );
}

#[test]
fn level_0_begins_with_its_oldest_table() {
    let drawing = "0:1:m-n 0:2:a-c 0:3:b-d 0:4:c-e 6:5:a-e";
    picks(drawing, "Level0 0->6 [1] [] move");
    let version = parse(drawing);
    let mut in_progress = InProgressCompactions::default();
    assert_eq!(
        start_all(&version, &mut in_progress).len(),
        1,
        "with one table less nothing is due"
    );
    let drawing = "0:1:m-n 0:2:a-c 0:3:b-d 0:4:c-e 0:6:d-f 6:5:a-e";
    let started = start_all(&parse(drawing), &mut InProgressCompactions::default());
    assert_eq!(started, ["Level0 0->6 [1] [] move", "Level0 0->6 [6 4 3 2] [5]"]);
}

#[test]
fn the_fullest_level_comes_first() {
    let level0 = "0:11:a-b 0:12:c-d 0:13:e-f 0:14:g-h";
    let full = format!("{level0} 5:1:p-q=1000 6:2:a-z=10000");
    picks(&full, "Level0 0->5 [11] [] /2/");
    let fuller = format!("{level0} 5:1:p-q=1250 6:2:a-z=10000");
    picks(&fuller, "Size 5->6 [1] [2]");
    // Both of 1.25.
    let equal = format!("{level0} 0:15:i-j 5:1:p-q=1250 6:2:a-z=10000");
    picks(&equal, "Level0 0->5 [11] [] /2/");
}

#[test]
fn a_level_goes_round_by_key() {
    let tables = "5:1:a-b=400 5:2:c-d=400 5:3:e-f=400 6:4:a-a=8000 6:5:c-c=1000 6:6:e-e=1000";
    let mut version = parse(tables);
    let mut order = Vec::new();
    for _ in 0..4 {
        let picked = pick_in(&version, &InProgressCompactions::default()).unwrap();
        order.push(picked.inputs[0][0].number);
        let pointer = picked.pointer.clone().unwrap();
        assert_eq!(pointer, picked.inputs[0].last().unwrap().last());
        let edit = VersionEdit { pointers: vec![(5, pointer)], ..VersionEdit::default() };
        version = version.apply(&edit).unwrap();
    }
    assert_eq!(order, [1, 2, 3, 1]);
}

#[test]
fn inputs_grow_if_that_costs_nothing_below() {
    let sizes = "4:30:x-y=10 6:31:a-z=60000";
    // The table below reaches over two above.
    picks(&format!("5:1:a-b=3000 5:2:c-d=3000 {sizes}"), "Size 5->6 [1] [31]");
    let grow = "5:1:a-b=600 5:2:c-d=500 6:10:a-d=100 6:11:x-z=5000";
    picks(grow, "Size 5->6 [1 2] [10]");
    let would_enlarge = "5:1:a-b=600 5:2:c-e=500 6:10:a-d=100 6:12:e-e=100 6:11:x-z=5000";
    picks(would_enlarge, "Size 5->6 [1] [10]");
    let too_much = "5:1:a-b=1500 5:2:c-d=1000 6:10:a-d=100 6:11:x-z=5000";
    picks(too_much, "Size 5->6 [1] [10]");
}

#[test]
fn level_0_grows_with_all_that_shares_keys() {
    let drawing = "0:1:a-b 0:2:a-b 0:3:c-d 0:4:d-f 6:5:a-c 6:6:d-f";
    picks(drawing, "Level0 0->6 [2 1] [5]");
    let drawing = "0:1:a-b 0:2:a-b 0:3:c-d 0:4:d-e 6:5:a-e";
    picks(drawing, "Level0 0->6 [4 3 2 1] [5]");
}

#[test]
fn a_table_that_meets_nothing_is_moved() {
    picks("5:1:a-b=1100 6:2:c-z=9000", "Size 5->6 [1] [] move");
    let much_below = "4:1:a-y=2000 5:2:z-z=100 6:3:a-m=501 6:4:n-y=500";
    picks(much_below, "Size 4->5 [1] [] /3 4/");
    let little_below = "4:1:a-y=2000 5:2:z-z=100 6:3:a-m=500 6:4:n-y=500";
    picks(little_below, "Size 4->5 [1] [] /3 4/ move");
}

#[test]
fn removals_are_not_moved_to_where_they_hide_nothing() {
    let oldest = dense(1, "a", "b");
    let level0: Vec<_> = [2, 3, 4].map(|number| (0, sized(number, "x", "z", 100))).into();
    let version = version(&[&[(0, Arc::clone(&oldest))], &level0[..]].concat());
    let pick =
        |snapshot| pick(&version, &options(), &InProgressCompactions::default(), snapshot).unwrap();
    assert_eq!(draw(&pick(SEQUENCE_MAX)), "Level0 0->6 [1] []");
    assert_eq!(draw(&pick(oldest.sequence_max)), "Level0 0->6 [1] []");
    assert_eq!(draw(&pick(oldest.sequence_max - 1)), "Level0 0->6 [1] [] move");
}

#[test]
fn dense_tables_are_rewritten_when_nothing_else_is_to_do() {
    let tables = [
        (5, dense(1, "a", "c")),
        (5, dense(2, "m", "n")),
        (6, sized(3, "a", "b", 100)),
        (6, dense(4, "d", "e")),
        (6, Arc::new(FileMeta { deletes: 2, ..plain(5, "f", "g", 100) })),
    ];
    let version = version(&tables);
    let mut in_progress = InProgressCompactions::default();
    let drained = start_all(&version, &mut in_progress);
    assert_eq!(drained, ["Drain 5->6 [1] [3]", "Drain 5->6 [2] []", "Tombstones 6->6 [4] []"]);
    let last = version.files(6).iter().find(|file| file.number == 4).unwrap();
    last.set_being_compacted(false);
    let pick = |snapshot| pick(&version, &options(), &InProgressCompactions::default(), snapshot);
    assert_eq!(pick(last.sequence_max).as_ref().map(draw).unwrap(), "Tombstones 6->6 [4] []");
    assert!(pick(last.sequence_max - 1).is_none(), "a snapshot may need the removals");
}

/// One range tombstone may hide all of its table, so it counts as many.
#[test]
fn tables_with_removed_ranges_are_dense() {
    let ranged = || FileMeta { deletes: 1, range_deletes: 1, ..plain(1, "d", "e", 100) };
    let idle = version(&[(6, Arc::new(ranged())), (6, sized(2, "a", "b", 100))]);
    picks_in(&idle, "Tombstones 6->6 [1] []");
    let pick = |snapshot| pick(&idle, &options(), &InProgressCompactions::default(), snapshot);
    assert!(pick(ranged().sequence_max - 1).is_none(), "a snapshot may need the removal");
    // Moved down, it would hide nothing any more; rewritten, it is gone.
    let above = version(&[(4, Arc::new(ranged())), (6, sized(2, "m", "n", 10_000))]);
    picks_in(&above, "Drain 4->5 [1] []");
}

#[test]
fn levels_that_are_not_needed_are_drained() {
    picks("3:1:a-c 3:2:d-f 6:3:a-z=5000", "Drain 3->4 [1] [] move");
    picks("5:1:a-c 6:2:a-z=1000", "Drain 5->6 [1] [2]");
    picks_nothing("5:1:a-c 6:2:a-z=1001");
    picks_nothing("6:1:a-c 6:2:d-f");
}

#[test]
fn compactions_run_side_by_side_on_different_tables() {
    let drawing = "4:1:a-c=500 4:2:d-f=500 4:3:g-i=500 5:4:a-d=900 5:5:g-h=900 6:6:a-i=90000";
    let version = parse(drawing);
    let mut in_progress = InProgressCompactions::default();
    let first = pick_in(&version, &in_progress).unwrap();
    // 4 shares keys with 2, and 6 with all.
    assert_eq!(draw(&first), "Size 4->5 [1 2] [4] /6/");
    let id = in_progress.start(&first, version.order());
    assert!(first.files().all(|file| file.is_being_compacted()));
    assert_eq!(pick_in(&version, &in_progress).as_ref().map(draw), None);
    in_progress.finish(id);
    assert!(first.files().all(|file| !file.is_being_compacted()) && in_progress.count() == 0);

    let drawing = "5:1:a-c=600 5:2:d-f=600 5:3:g-i=600 6:4:a-d=900 6:5:g-h=900 6:6:z-z=200";
    let mut in_progress = InProgressCompactions::default();
    let started = start_all(&parse(drawing), &mut in_progress);
    assert_eq!(started, ["Size 5->6 [1 2] [4]"], "the rest of the level is as it should be");
    let drawing = format!("{drawing} 5:7:k-l=1200 5:8:x-y=1200");
    let started = start_all(&parse(&drawing), &mut InProgressCompactions::default());
    assert_eq!(
        started,
        [
            "Size 5->6 [1 2] [4]",
            "Size 5->6 [3] [5]",
            "Size 5->6 [7] [] move",
            "Size 5->6 [8] [] move",
        ],
        "as long as more is free than there should be"
    );
}

#[test]
fn outputs_do_not_meet_in_the_gaps_between_inputs() {
    let version = parse("4:1:a-c 4:2:k-m 5:3:x-y 6:4:a-z=200000");
    let mut in_progress = InProgressCompactions::default();
    let Manual::Run(both) = pick_range(&version, &options(), &in_progress, 4, (None, None)) else {
        panic!("nothing is in the way")
    };
    assert_eq!(draw(&both), "Manual 4->5 [1 2] [] /4/");
    let id = in_progress.start(&both, version.order());
    // Its one output may go from a to m, so nothing else may come to level 5 in between.
    let flushed = [5, 6, 7, 8].map(|number| (4, sized(number, "e", "f", 25_000)));
    let between = version
        .apply(&VersionEdit { added: flushed[..1].to_vec(), ..VersionEdit::default() })
        .unwrap();
    assert_eq!(pick_in(&between, &in_progress).as_ref().map(draw), None);
    in_progress.finish(id);
    assert_eq!(draw(&pick_in(&between, &in_progress).unwrap()), "Size 4->5 [1] [] /4/");
}

#[test]
fn level_0_is_merged_within_when_the_base_is_busy() {
    let busy = "5:20:a-z=1600 6:21:a-z=9000";
    let level0 = |count: u64| (1..=count).map(|n| format!("0:{n}:a-z ")).collect::<String>();
    let within = |drawing: String| {
        let version = parse(&drawing);
        let mut in_progress = InProgressCompactions::default();
        let size = version.files(5)[0].clone();
        let blocker = by_hand(5, 6, [vec![size], version.files(6).to_vec()]);
        let _id = in_progress.start(&blocker, version.order());
        start_all(&version, &mut in_progress)
    };
    assert!(within(format!("{}{busy}", level0(5))).is_empty(), "the base is waited for a while");
    let six = within(format!("{}{busy}", level0(6)));
    assert_eq!(six, ["WithinLevel0 0->0 [6 5 4 3 2 1] []"]);
    let large_oldest =
        format!("0:30:a-z 0:31:a-z {} {busy}", level0(9).replace("0:1:a-z", "0:1:a-z=700"));
    let without_it = within(large_oldest);
    assert_eq!(without_it, ["WithinLevel0 0->0 [31 30 9 8 7 6 5 4 3 2] []"]);
    let large = format!("{}0:7:a-z=2600 0:8:a-z 0:9:a-z {busy}", level0(6));
    assert!(within(large).is_empty(), "only two are newer than one that is too large");
}

#[test]
fn what_has_to_be_written_is_counted() {
    for (drawing, debt_bytes) in [
        ("", 0),
        ("0:1:a-z 0:2:a-z 0:3:a-z 6:4:a-z=5000", 0),
        // Level 0 and all of the base.
        ("0:1:a-z 0:2:a-z 0:3:a-z 0:4:a-z 6:5:a-z=500", 400 + 500),
        // 200 too many, each with five of the level below.
        ("5:1:a-z=1200 6:2:a-z=6000", 200 + 1_000),
        ("5:1:a-z=1000 6:2:a-z=6000", 0),
        // 400 come from above: 600 too many of 1600, with 6000 below.
        (
            "0:1:a-z 0:2:a-z 0:3:a-z 0:4:a-z 5:5:a-z=1200 6:6:a-z=6000",
            400 + 1_200 + 600 + 600 * 6_000 / 1_600,
        ),
    ] {
        assert_eq!(debt(&parse(drawing), &options()), debt_bytes, "{drawing}");
    }
    let huge = parse(&format!("4:1:a-z={0} 5:2:a-z={0} 6:3:a-z={0}", u64::MAX));
    assert!(debt(&huge, &options()) > u64::MAX / 2, "nothing overflows");
}

/// Writers were held against tables of level 0 that no compaction was going to take: a large one
/// from outside, or three of four.
#[test]
fn level_0_is_in_excess_when_it_is_due() {
    for (drawing, bytes) in [
        ("0:1:a-z=1000000", 0),
        ("0:1:a-z 0:2:a-z 0:3:a-z 6:4:a-z=5000", 0),
        ("0:1:a-z 0:2:a-z 0:3:a-z 0:4:a-z 6:5:a-z=500", 400),
        ("0:1:a-z 5:2:a-z=1200 6:3:a-z=6000", 200),
    ] {
        let version = parse(drawing);
        assert_eq!(excess(&version, &options()), bytes, "{drawing}");
        if bytes == 0 {
            picks_nothing(drawing);
        }
    }
}

/// Values that nobody sees any more piled up, and no writer was slower for it.
#[test]
fn garbage_of_blob_files_is_in_excess_from_three_fifths_on() {
    for (live, garbage, debt_bytes) in
        [(1_000, 0, 0), (400, 0, 0), (399, 1, 0), (300, 100, 42), (100, 300, 33)]
    {
        let blobs = vec![BlobShare { file: 3, records: 1, bytes: live }];
        let file = Arc::new(FileMeta { blobs, ..plain(7, "a", "z", 100) });
        let blob = BlobMeta { number: 3, records: 10, record_bytes: 1_000, digest: 0 };
        let edit = VersionEdit { added: vec![(6, file)], blobs: vec![blob], ..Default::default() };
        let version = Version::new(Comparator::Bytewise).apply(&edit).unwrap();
        assert_eq!(version.blob_bytes(), (1_000, 1_000 - live));
        assert_eq!(excess(&version, &options()), garbage, "{live}");
        assert_eq!(debt(&version, &options()), debt_bytes, "{live}");
    }
}

#[test]
fn a_range_is_compacted_from_the_top_down() {
    let mut version =
        parse("0:1:a-c 0:2:b-h 0:3:x-z 4:4:a-b 4:5:g-k 4:6:x-y 5:7:a-f 6:8:b-c 6:9:y-z");
    let range = (Some(&b"c"[..]), Some(&b"g"[..]));
    let in_progress = InProgressCompactions::default();
    let mut done = Vec::new();
    let mut next_number = 100;
    for level in 0..7 {
        loop {
            match pick_range(&version, &options(), &in_progress, level, range) {
                Manual::Done => break,
                Manual::Busy => panic!("nothing runs"),
                Manual::Run(compaction) => {
                    assert!(!compaction.trivial_move);
                    done.push(draw(&compaction));
                    let files: Vec<_> = compaction.files().cloned().collect();
                    let (low, high) = key_bounds(&files, version.order()).unwrap();
                    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
                    let output = sized(next_number, &text(low), &text(high), 100);
                    next_number += 1;
                    version = version.apply(&compaction.edit([output])).unwrap();
                }
            }
        }
    }
    assert_eq!(
        done,
        ["Manual 0->4 [2 1] [4 5] /7/", "Manual 4->5 [100] [7] /8/", "Manual 5->6 [101] [8]",]
    );
    let left: Vec<u64> = version.numbers().collect();
    assert_eq!(left, [3, 6, 102, 9]);
}

#[test]
fn a_large_range_is_compacted_in_portions() {
    let version = parse("5:1:a-b=1500 5:2:c-d=1000 5:3:e-f=1000 6:4:a-z=100");
    let portion =
        pick_range(&version, &options(), &InProgressCompactions::default(), 5, (None, None));
    let Manual::Run(portion) = portion else { panic!("{portion:?}") };
    assert_eq!(draw(&portion), "Manual 5->6 [1 2] [4]");
    let huge = parse("5:1:a-b=9000 5:2:c-d=1000 6:4:a-z=100");
    let portion = pick_range(&huge, &options(), &InProgressCompactions::default(), 5, (None, None));
    let Manual::Run(portion) = portion else { panic!("{portion:?}") };
    assert_eq!(draw(&portion), "Manual 5->6 [1] [4]");
}

#[test]
fn a_range_waits_for_what_runs_and_ends_where_nothing_lies_below() {
    let version = parse("4:1:a-c 5:2:a-c 6:3:x-z");
    let mut in_progress = InProgressCompactions::default();
    let ask = |in_progress: &InProgressCompactions, level, low: &[u8], high: &[u8]| {
        pick_range(&version, &options(), in_progress, level, (Some(low), Some(high)))
    };
    let Manual::Run(compaction) = ask(&in_progress, 4, b"a", b"b") else { panic!("it is free") };
    let id = in_progress.start(&compaction, version.order());
    assert!(matches!(ask(&in_progress, 4, b"a", b"b"), Manual::Busy));
    in_progress.finish(id);
    assert!(matches!(ask(&in_progress, 4, b"a", b"b"), Manual::Run(_)));
    assert!(matches!(ask(&in_progress, 5, b"a", b"b"), Manual::Done), "nothing lies below");
    assert!(matches!(ask(&in_progress, 0, b"a", b"b"), Manual::Done));
    assert!(matches!(ask(&in_progress, 6, b"x", b"y"), Manual::Done));
    assert!(matches!(ask(&in_progress, 7, b"x", b"y"), Manual::Done));
}

#[test]
fn outputs_are_cut_where_they_share_too_much() {
    let version =
        parse("4:1:a-z=20000 5:2:a-b=700 5:3:c-d=700 5:4:m-n=200 5:5:o-p=100 6:6:a-z=99999");
    let mut compaction = pick_in(&version, &InProgressCompactions::default()).unwrap();
    compaction.grandparents = version.files(5).to_vec();
    let mut splits = compaction.splits(&options());
    let order = version.order();
    let mut cut = |key: &str| {
        let due = splits.is_due(key.as_bytes(), order);
        if due {
            splits.restart();
        }
        due
    };
    let found: Vec<&str> =
        ["a", "b", "c", "d", "e", "m", "o", "q"].into_iter().filter(|key| cut(key)).collect();
    assert_eq!(found, ["e"], "two tables are behind it, 1400 bytes, and then 300");
    let mut splits = compaction.splits(&options());
    let mut begins = Vec::new();
    while let Some(key) = splits.next_table().map(<[u8]>::to_vec) {
        splits.is_due(&key, order);
        begins.push(key);
    }
    let expected: Vec<_> = version.files(5).iter().map(|file| file.first().to_vec()).collect();
    assert_eq!(begins, expected);
}

#[test]
fn edits_of_compactions_fit() {
    let version = parse("5:1:a-b=1100 6:2:b-z=9000");
    let compaction = pick_in(&version, &InProgressCompactions::default()).unwrap();
    assert_eq!(compaction.bytes(), 10_100);
    let outputs = [sized(7, "a", "k", 10), sized(8, "l", "z", 10)];
    let after = version.apply(&compaction.edit(outputs)).unwrap();
    assert_eq!(
        after,
        parse("6:7:a-k=10 6:8:l-z=10")
            .apply(&VersionEdit { pointers: vec![(5, b"b".to_vec())], ..VersionEdit::default() })
            .unwrap()
    );

    let version = parse("5:1:a-b=1100 6:2:c-z=9000");
    let compaction = pick_in(&version, &InProgressCompactions::default()).unwrap();
    let after = version.apply(&compaction.move_edit()).unwrap();
    assert_eq!(after.numbers().collect::<Vec<_>>(), [1, 2]);
    assert_eq!((after.files(6).len(), after.pointer(5)), (2, &b"b"[..]));
}

#[test]
fn removals_hide_what_lies_below_and_beside() {
    let version = parse("0:1:a-b 0:2:a-b 0:3:a-b 0:4:a-b 4:5:a-z=1100 5:6:c-d 6:7:a-b=90000");
    let compaction = picks(
        "0:1:a-b 0:2:a-b 0:3:a-b 0:4:a-b 4:5:a-z=900 5:6:c-d 6:7:a-b=90000",
        "Level0 0->4 [4 3 2 1] [5] /6/",
    );
    assert!(compaction.may_hide(&version, b"a") && compaction.may_hide(&version, b"c"));
    assert!(!compaction.may_hide(&version, b"e"));
    assert!(compaction.may_hide_range(&version, b"d", b"z"));
    assert!(!compaction.may_hide_range(&version, b"e", b"z"));
    let within = Compaction { output_level: 0, ..compaction };
    assert!(within.may_hide(&version, b"e"), "older tables of level 0 stay");
}

#[test]
#[should_panic(expected = "a compaction has inputs")]
fn a_compaction_without_inputs_is_not_registered_with_empty_bounds() {
    let compaction = by_hand(1, 2, [vec![], vec![]]);
    let _ = InProgressCompactions::default().start(&compaction, &Comparator::Bytewise);
}
