//! Entries, and reservations that come too late.

use super::*;

fn put(arena: &Arena, sequence: u64) -> Result<(), Full> {
    arena.announce(write(arena, sequence, Kind::Put, b"key", b"value")?);
    Ok(())
}

fn write(
    arena: &Arena,
    sequence: u64,
    kind: Kind,
    key: &[u8],
    value: &[u8],
) -> Result<Written, Full> {
    let mut room = arena.reserve(Size::of(key.len(), value.len(), kind))?;
    Ok(room.write(sequence, kind, key, value))
}

#[test]
fn an_entry_holds_what_was_written() {
    let arena = Arena::new(1 << 12, true);
    for (kind, value) in
        [(Kind::Put, &b"value"[..]), (Kind::Delete, b""), (Kind::DeleteRange, b"z")]
    {
        let written = write(&arena, 77, kind, b"key", value).unwrap();
        let entry = arena.entry(written.handle);
        assert_eq!((entry.key(), entry.value()), (&b"key"[..], value));
        assert_eq!((entry.sequence(), entry.kind()), (77, kind));
        assert_eq!(entry.internal(), [b"key", &entry.trailer().to_le_bytes()[..]].concat());
        assert_eq!(entry.prev().get(), None);
        arena.announce(written);
    }
    assert_eq!(arena.count(), 3);
}

#[test]
#[should_panic(expected = "only range deletions")]
fn only_range_deletions_are_linked() {
    let arena = Arena::new(1 << 12, true);
    let written = write(&arena, 1, Kind::Put, b"key", b"value").unwrap();
    arena.entry(written.handle).other_range();
}

#[test]
fn what_is_not_announced_is_unwritten() {
    let arena = Arena::new(1 << 12, true);
    put(&arena, 1).unwrap();
    let second = write(&arena, 2, Kind::Put, b"key", b"").unwrap();
    put(&arena, 3).unwrap();
    assert!(matches!(arena.get(1), IndexSlot::Unwritten));
    assert!(matches!(arena.get(2), IndexSlot::Entry(_)));
    let handle = second.handle;
    arena.announce(second);
    assert!(matches!(arena.get(1), IndexSlot::Entry(found) if found == handle));
    arena.wait_for_inserts();
}

/// Threads that saw room where there is none any more: by bytes, by entries, or immutable.
#[test]
fn who_comes_too_late_leaves_a_void_entry() {
    let size = Size::of(3, 5, Kind::Put);
    for (bytes, entries_max) in [(100, 10), (1 << 12, 3), (1 << 12, 10)] {
        let arena = Arena::limited(bytes, entries_max, true);
        let empty = arena.state.load(Ordering::Relaxed);
        let mut kept = 0;
        while kept < 4 && put(&arena, kept).is_ok() {
            kept += 1;
        }
        arena.make_immutable();
        for late in 1..=20 {
            assert_eq!(arena.reserve_seeing(empty, size).err(), Some(Full));
            assert_eq!(arena.count() as u64, (kept + late).min(entries_max as u64));
        }
        // Nobody takes them for entries, and nobody waits for them.
        for index in 0..arena.count() {
            let is_entry = matches!(arena.get(index), IndexSlot::Entry(_));
            assert_eq!(is_entry, u64::from(index) < kept);
            assert_eq!(!is_entry, matches!(arena.get(index), IndexSlot::Void));
        }
        arena.wait_for_inserts();
        // A large one sees it in time and leaves nothing.
        let large = Size { entries: 1, bytes: OVERSHOT_UNITS_MAX as usize * UNIT_BYTES + 8 };
        let before = arena.state.load(Ordering::Relaxed);
        assert_eq!(arena.reserve_seeing(empty, large).err(), Some(Full));
        assert_eq!(arena.state.load(Ordering::Relaxed), before);
        assert!(arena.bytes() <= bytes.next_multiple_of(UNIT_BYTES));
    }
}

/// So does a write of several entries, for each of them that has a number.
#[test]
fn a_write_that_comes_too_late_leaves_void_entries() {
    let arena = Arena::limited(1 << 12, 5, true);
    let empty = arena.state.load(Ordering::Relaxed);
    let three = [Size::of(3, 5, Kind::Put); 3].into_iter().sum();
    assert!(arena.reserve_seeing(empty, three).is_ok());
    put(&arena, 1).unwrap();
    assert_eq!(arena.reserve_seeing(empty, three).err(), Some(Full), "one number is left");
    assert_eq!(arena.count(), 5);
    let places = (0..5).map(|index| match arena.get(index) {
        IndexSlot::Void => 'v',
        IndexSlot::Entry(_) => 'e',
        IndexSlot::Unwritten => '?',
    });
    assert_eq!(places.collect::<String>(), "vvvev");
    arena.wait_for_inserts();
}

#[test]
fn a_large_entry_that_saw_an_older_state_is_placed_behind_it() {
    let large = Size { entries: 1, bytes: 2 * OVERSHOT_UNITS_MAX as usize * UNIT_BYTES };
    let arena = Arena::new(large.bytes() + (1 << 12), true);
    let empty = arena.state.load(Ordering::Relaxed);
    put(&arena, 1).unwrap();
    let room = arena.reserve_seeing(empty, large).unwrap();
    assert_eq!((room.index, room.unit), (1, FIRST_UNIT + 4));
}
