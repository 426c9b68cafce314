//! How often a session of the row store allocates: a read not at all, a lookup of many keys once, a
//! write at most once. A binary of its own, since the allocator counts for its whole process.

use keyrack_rowstore::{Options, RowSession, RowStore, Rows};
use keyrack_store::Update;
use keyrack_vfs::RealFs;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    /// Allocations of this thread. Needs neither memory nor a destructor, so the allocator may use
    /// it.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn note() {
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call goes to the system's allocator with the same arguments, and nothing else.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the memory came from `System` with this layout.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note();
        // SAFETY: the memory came from `System` with this layout.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

/// How often this thread allocates in `work`.
fn allocations_in(work: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    work();
    COUNT.with(Cell::get) - before
}

const KEYS: usize = 500;

#[test]
fn reads_allocate_nothing_and_writes_a_row_at_most() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let options = Options::default().with_segment_bytes(16 << 20);
        RowStore::open(Arc::new(RealFs), dir.path(), options, &|_| {}).unwrap()
    };
    for store in [open(), RowStore::in_memory(Options::default()).unwrap()] {
        let keys: Vec<Vec<u8>> = (0..KEYS).map(|n| format!("key-{n:08}").into_bytes()).collect();
        let mut session = store.session().unwrap();
        let put_all = |session: &mut Box<dyn RowSession + '_>, value: &[u8]| {
            for key in &keys {
                session.put(key, value, 7, 0).unwrap();
                session.flush().unwrap();
            }
        };
        // Nodes, and the session's buffers, come with the first rounds.
        (0..4).for_each(|_| put_all(&mut session, &[1; 100]));
        let puts = allocations_in(|| put_all(&mut session, &[2; 100]));
        assert!(puts <= KEYS as u64, "{puts} allocations for {KEYS} puts");
        let mut seen = 0;
        let gets = allocations_in(|| {
            for key in &keys {
                session.get(key, &mut |row| seen += row.value().len()).unwrap();
            }
        });
        assert_eq!((gets, seen), (0, 100 * KEYS));
        let together: Vec<&[u8]> = keys.iter().map(Vec::as_slice).take(32).collect();
        let many = allocations_in(|| {
            session.multi_get(&together, &mut |_, row| assert!(row.is_some())).unwrap();
        });
        assert!(many <= 1, "{many} for a lookup of {} keys", together.len());
        let kept = allocations_in(|| {
            for key in &keys {
                session.update(key, &mut |_, _| Update::Keep).unwrap();
            }
        });
        assert_eq!(kept, 0, "for updates that change nothing");
        drop(session);
        Box::new(store).close().unwrap();
    }
}
