//! Listings.

use crate::constants::KEYRACK_FS_NAME_SIZE;
use crate::open::Fs;
use crate::pointers::{self, bytes, put};
use crate::space::OpenDir;
use crate::status::{Facts, Failure, code, number};
use keyrack_deltafs::ListEntry;
use keyrack_ffi::{destroy, give, handle_mut, required};
use std::collections::VecDeque;
use std::ffi::{c_char, c_int};

/// Entries that are taken at once.
const PAGE: usize = 1024;

/// A listing under way. It belongs to one thread at a time.
#[derive(Debug)]
pub struct Listing {
    /// The name space; it stays open as long as the listing, as the header demands.
    fs: *const Fs,
    dir: OpenDir,
    page: VecDeque<ListEntry>,
    /// Behind which name the next page begins.
    after: Option<Vec<u8>>,
    is_last: bool,
}

/// An entry of a listing.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its facts.
    pub stat: Facts,
    /// Bytes of its name, without the zero.
    pub name_len: u32,
    /// Its name, with a zero.
    pub name: [c_char; KEYRACK_FS_NAME_SIZE],
}

/// Begins a listing of a directory in the order of names, from behind the name `after`, or from the
/// beginning if that is null. So a listing can be resumed at any name, later, by another process.
///
/// # Safety
/// `fs` is null or a name space that stays open until the listing is closed; `path` and `after`
/// are null
/// or end with a zero; `dir` is null or room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_opendir(
    fs: *const Fs,
    path: *const c_char,
    after: *const c_char,
    dir: *mut *mut Listing,
) -> c_int {
    let open = || {
        // SAFETY: the caller promises the same.
        let space = unsafe { pointers::fs(fs) }?;
        // SAFETY: the caller promises the same.
        let path = unsafe { bytes(path) }?;
        let after = if after.is_null() {
            None
        } else {
            // SAFETY: the caller promises the same.
            Some(unsafe { bytes(after) }?.to_vec())
        };
        let dir = required(dir, "place of a result")?;
        let found = space.with(|space| space.open_dir(path))?;
        let mut listing = Listing { fs, dir: found, page: VecDeque::new(), after, is_last: false };
        listing.load(space)?;
        // SAFETY: the caller promises room for a pointer.
        Ok(unsafe { put(dir, give(listing)) }?)
    };
    code(open())
}

impl Listing {
    fn load(&mut self, fs: &Fs) -> Result<(), Failure> {
        let page = fs.with(|space| space.page(&self.dir, self.after.as_deref(), PAGE))?;
        self.page = page.entries.into();
        self.is_last = page.next.is_none();
        self.after = page.next;
        Ok(())
    }
}

/// The next entry of a listing: 1, or 0 at the end.
///
/// # Safety
/// `dir` is null or from [`keyrack_fs_opendir`], used by no other thread; `entry` is null or room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_readdir(dir: *mut Listing, entry: *mut Entry) -> c_int {
    let next = || {
        // SAFETY: as the caller promises, it is null or a listing that nobody else uses.
        let listing = unsafe { handle_mut(dir, "listing") }?;
        if listing.page.is_empty() && !listing.is_last {
            // SAFETY: the name space is open as long as the listing.
            let fs = unsafe { pointers::fs(listing.fs) }?;
            listing.load(fs)?;
        }
        let Some(found) = listing.page.pop_front() else { return Ok(0) };
        let Some(stat) = &found.stat else { return Ok(0) };
        let mut name = [0; KEYRACK_FS_NAME_SIZE];
        for (to, from) in name.iter_mut().zip(&found.name) {
            *to = *from as c_char;
        }
        // At most 255.
        let name_len = found.name.len() as u32;
        // SAFETY: the caller promises room for an entry.
        unsafe { put(entry, Entry { stat: Facts::from(stat), name_len, name }) }?;
        Ok(1)
    };
    // Errno values, 0 and 1 fit.
    number(next()) as c_int
}

/// Ends a listing.
///
/// # Safety
/// `dir` is null or from [`keyrack_fs_opendir`], and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_closedir(dir: *mut Listing) {
    // SAFETY: the caller promises the same.
    drop(unsafe { destroy(dir) });
}
