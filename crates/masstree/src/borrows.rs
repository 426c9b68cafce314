//! What the borrow checker has to refuse, as documentation tests. Each is followed by its twin, in
//! which the order of two lines, or the thread, is right: so it does not fail for another reason.
//!
//! A value does not outlive the guard:
//!
//! ```compile_fail,E0505
//! let tree = keyrack_masstree::Tree::<keyrack_masstree::Bytes>::new();
//! let guard = keyrack_masstree::pin();
//! let value = tree.get(b"key", &guard);
//! drop(guard);
//! assert!(value.is_none());
//! ```
//!
//! ```
//! let tree = keyrack_masstree::Tree::<keyrack_masstree::Bytes>::new();
//! let guard = keyrack_masstree::pin();
//! let value = tree.get(b"key", &guard);
//! assert!(value.is_none());
//! drop(guard);
//! ```
//!
//! A value does not outlive the tree, which frees it when it is dropped:
//!
//! ```compile_fail,E0505
//! let tree = keyrack_masstree::Tree::<keyrack_masstree::Boxed<String>>::new();
//! let guard = keyrack_masstree::pin();
//! let value: Option<&String> = tree.get(b"key", &guard);
//! drop(tree);
//! assert!(value.is_none());
//! ```
//!
//! ```
//! let tree = keyrack_masstree::Tree::<keyrack_masstree::Boxed<String>>::new();
//! let guard = keyrack_masstree::pin();
//! let value: Option<&String> = tree.get(b"key", &guard);
//! assert!(value.is_none());
//! drop(tree);
//! ```
//!
//! A value does not survive a new pin of its guard. Nor does a value that was removed or replaced,
//! which the tree no longer has:
//!
//! ```compile_fail,E0502
//! let tree = keyrack_masstree::Tree::<keyrack_masstree::Bytes>::new();
//! let mut guard = keyrack_masstree::pin();
//! let value = tree.remove(b"key", &guard);
//! guard.repin();
//! assert!(value.is_none());
//! ```
//!
//! ```
//! let tree = keyrack_masstree::Tree::<keyrack_masstree::Bytes>::new();
//! let mut guard = keyrack_masstree::pin();
//! let value = tree.remove(b"key", &guard);
//! assert!(value.is_none());
//! guard.repin();
//! ```
//!
//! A cursor has read memory under its guard, and so does not survive a new pin either:
//!
//! ```compile_fail,E0502
//! let tree = keyrack_masstree::Tree::<u64>::new();
//! let mut guard = keyrack_masstree::pin();
//! let mut cursor = tree.cursor(&guard);
//! guard.repin();
//! assert!(cursor.next().is_none());
//! ```
//!
//! ```
//! let tree = keyrack_masstree::Tree::<u64>::new();
//! let mut guard = keyrack_masstree::pin();
//! let mut cursor = tree.cursor(&guard);
//! assert!(cursor.next().is_none());
//! guard.repin();
//! ```
//!
//! A key is lent until the cursor moves:
//!
//! ```compile_fail,E0499
//! let tree = keyrack_masstree::Tree::<u64>::new();
//! let guard = keyrack_masstree::pin();
//! let mut cursor = tree.cursor(&guard);
//! let first = cursor.next();
//! let second = cursor.next();
//! assert_eq!(first, second);
//! ```
//!
//! ```
//! let tree = keyrack_masstree::Tree::<u64>::new();
//! let guard = keyrack_masstree::pin();
//! let mut cursor = tree.cursor(&guard);
//! let first = cursor.next().map(|(key, value)| (key.to_vec(), value));
//! let second = cursor.next().map(|(key, value)| (key.to_vec(), value));
//! assert_eq!(first, second);
//! ```
//!
//! A scan lends a value for one visit:
//!
//! ```compile_fail,E0521
//! let tree = keyrack_masstree::Tree::<keyrack_masstree::Bytes>::new();
//! let mut values = Vec::new();
//! tree.scan(b"", None, |_, value| {
//!     values.push(value);
//!     std::ops::ControlFlow::Continue(())
//! });
//! ```
//!
//! ```
//! let tree = keyrack_masstree::Tree::<keyrack_masstree::Bytes>::new();
//! let mut values = Vec::new();
//! tree.scan(b"", None, |_, value| {
//!     values.push(value.to_vec());
//!     std::ops::ControlFlow::Continue(())
//! });
//! ```
//!
//! A guard stays in its thread, and so do a cursor and an iterator, which borrow it:
//!
//! ```compile_fail,E0277
//! let guard = keyrack_masstree::pin();
//! std::thread::scope(|scope| {
//!     scope.spawn(move || drop(guard));
//! });
//! ```
//!
//! ```compile_fail,E0277
//! let tree = keyrack_masstree::Tree::<u64>::new();
//! let guard = keyrack_masstree::pin();
//! let mut range = tree.iter(&guard);
//! std::thread::scope(|scope| {
//!     scope.spawn(move || range.next());
//! });
//! ```
//!
//! ```
//! let tree = keyrack_masstree::Tree::<u64>::new();
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         let guard = keyrack_masstree::pin();
//!         let mut range = tree.iter(&guard);
//!         assert!(range.next().is_none());
//!     });
//! });
//! ```
//!
//! Values that threads share are shared safely, and own what they refer to:
//!
//! ```compile_fail,E0277
//! keyrack_masstree::Tree::<keyrack_masstree::Boxed<std::rc::Rc<u64>>>::new();
//! ```
//!
//! ```
//! keyrack_masstree::Tree::<keyrack_masstree::Boxed<std::sync::Arc<u64>>>::new();
//! ```
