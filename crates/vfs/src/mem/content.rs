//! The bytes of one simulated file, twice: as the page cache shows them and as the disk holds them.
//!
//! ```text
//!   page of 8 sectors      live     what a reader sees          (None: past a cut, reads as zeros)
//!                          durable  what the disk holds         (None: never written, zeros)
//!                          dirty    one bit for each sector whose live bytes are not synced
//!                          stale    one bit for each sector marked clean though the disk differs
//!                          versions earlier unsynced bytes of dirty sectors, oldest first
//! ```
//!
//! The unit of writing to disk is a sector of 512 bytes: after a power loss each dirty sector holds
//! its durable bytes, its live bytes, or one of the versions in between (the kernel may have
//! written it back at any time), independently of all others. The length is one more such value: it
//! may be the durable one, the live one, or anything between the smallest and the largest since the
//! last sync. Bytes beyond the length are gone; bytes below it that never reached the disk are
//! zeros.
//!
//! Pages are shared by reference counts, so an image of a clean file copies pointers, not bytes.
//! Cost: a map lookup for each page touched, and a copy of a page on the first write after an
//! image.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::mem::policy::CrashPolicy;
use crate::mix::Mix;

/// Bytes that a disk writes whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;
pub(crate) const PAGE_BYTES: usize = 4_096;
const SECTORS: u8 = 8;
const _: () = assert!(PAGE_BYTES == SECTOR_BYTES * SECTORS as usize);
/// Earlier contents kept for one dirty sector; the oldest goes first.
const VERSIONS_MAX: usize = 4;

type Bytes = [u8; PAGE_BYTES];
type Sector = Box<[u8; SECTOR_BYTES]>;

/// All holes and reservations share this page.
static ZEROS: LazyLock<Arc<Bytes>> = LazyLock::new(|| Arc::new([0; PAGE_BYTES]));

#[derive(Debug, Clone, Default)]
struct Page {
    live: Option<Arc<Bytes>>,
    durable: Option<Arc<Bytes>>,
    dirty: u8,
    stale: u8,
    versions: Vec<(u8, Sector)>,
}

/// The bytes of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    pages: BTreeMap<u64, Page>,
    len: u64,
    durable_len: u64,
    /// Smallest and largest length since the last sync.
    len_low: u64,
    len_high: u64,
}

/// Space that a write may still take, in pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget(pub(crate) u64);

impl Budget {
    fn take(&mut self) -> bool {
        let enough = self.0 > 0;
        self.0 -= u64::from(enough);
        enough
    }
}

/// A sector of a page, or zeros.
fn sector_of(page: Option<&Arc<Bytes>>, sector: u8) -> &[u8; SECTOR_BYTES] {
    static NOTHING: [u8; SECTOR_BYTES] = [0; SECTOR_BYTES];
    match page {
        Some(bytes) => &bytes.as_chunks::<SECTOR_BYTES>().0[usize::from(sector)],
        None => &NOTHING,
    }
}

fn set_sector(page: &mut Arc<Bytes>, sector: u8, bytes: &[u8; SECTOR_BYTES]) {
    Arc::make_mut(page).as_chunks_mut::<SECTOR_BYTES>().0[usize::from(sector)] = *bytes;
}

fn bit(sector: u8) -> u8 {
    1 << sector
}

impl Page {
    /// Marks the sectors that `from..to` of the page touches dirty, keeping what they held if
    /// unsynced.
    fn touch(&mut self, from: usize, to: usize) {
        for sector in from / SECTOR_BYTES..to.div_ceil(SECTOR_BYTES) {
            let sector = sector as u8;
            if self.dirty & bit(sector) == 0 {
                self.dirty |= bit(sector);
                continue;
            }
            if self.versions.iter().filter(|(of, _)| *of == sector).count() == VERSIONS_MAX
                && let Some(oldest) = self.versions.iter().position(|(of, _)| *of == sector)
            {
                self.versions.remove(oldest);
            }
            self.versions.push((sector, Box::new(*sector_of(self.live.as_ref(), sector))));
        }
    }

    /// Writes the dirty sectors to disk.
    fn sync(&mut self) {
        if self.dirty == 0 {
            return;
        }
        let written = self.dirty;
        self.stale &= !written;
        if self.stale == 0 {
            // Clean sectors are equal on both sides, so the whole page is.
            self.durable = self.live.clone();
        } else {
            let mut durable = self.durable.take().unwrap_or_else(|| Arc::clone(&ZEROS));
            for sector in (0..SECTORS).filter(|sector| written & bit(*sector) != 0) {
                set_sector(&mut durable, sector, sector_of(self.live.as_ref(), sector));
            }
            self.durable = Some(durable);
        }
        self.settle();
    }

    /// Marks the page clean without writing it, or after writing some of its sectors.
    fn lose(&mut self, loss: &mut Loss) {
        if self.dirty == 0 {
            return;
        }
        if let Some(mix) = &mut loss.written {
            self.sync_partly(mix);
        }
        if loss.keep_cached {
            self.stale |= self.dirty;
        } else if let Some(live) = &mut self.live {
            for sector in (0..SECTORS).filter(|sector| self.dirty & bit(*sector) != 0) {
                set_sector(live, sector, sector_of(self.durable.as_ref(), sector));
            }
            self.stale &= !self.dirty;
        } else {
            self.stale |= self.dirty;
        }
        self.settle();
    }

    /// Writes some version of each dirty sector to disk, or leaves what is there.
    fn sync_partly(&mut self, mix: &mut Mix) {
        for sector in (0..SECTORS).filter(|sector| self.dirty & bit(*sector) != 0) {
            let bytes = *self.any_version(sector, mix);
            let durable = self.durable.get_or_insert_with(|| Arc::clone(&ZEROS));
            set_sector(durable, sector, &bytes);
        }
    }

    fn settle(&mut self) {
        self.dirty = 0;
        self.versions.clear();
    }

    /// One of the values that a dirty sector may have on disk.
    fn any_version(&self, sector: u8, mix: &mut Mix) -> &[u8; SECTOR_BYTES] {
        let count = self.versions.iter().filter(|(of, _)| *of == sector).count();
        let choice = mix.below(count as u64 + 2);
        let mut versions = self.versions.iter().filter(|(of, _)| *of == sector);
        match choice {
            0 => sector_of(self.durable.as_ref(), sector),
            1 => sector_of(self.live.as_ref(), sector),
            _ => match versions.nth(choice as usize - 2) {
                Some((_, bytes)) => bytes,
                None => sector_of(self.live.as_ref(), sector),
            },
        }
    }
}

/// What a failed sync does to dirty sectors.
#[derive(Debug)]
pub(crate) struct Loss {
    /// Do reads go on showing what was not written?
    pub(crate) keep_cached: bool,
    /// Draws what was written; without it, nothing was.
    pub(crate) written: Option<Mix>,
}

/// How the dirty sectors of one file fared.
enum Fate {
    AllLost,
    AllKept,
    /// Sectors below this count, in address order, were written; the rest were not: a torn write.
    KeptBelow(u64),
    /// Each sector for itself, earlier versions included.
    EachForItself,
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Pages that take space as running programs see it.
    pub(crate) fn live_pages(&self) -> u64 {
        self.pages.values().filter(|page| page.live.is_some()).count() as u64
    }

    /// Copies bytes out, up to the end of the file.
    pub(crate) fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let available = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = available.min(buf.len());
        let mut done = 0;
        while done < count {
            let (index, within) = split(offset + done as u64);
            let part = (PAGE_BYTES - within).min(count - done);
            let target = &mut buf[done..done + part];
            match self.pages.get(&index).and_then(|page| page.live.as_ref()) {
                Some(bytes) => target.copy_from_slice(&bytes[within..within + part]),
                None => target.fill(0),
            }
            done += part;
        }
        count
    }

    /// Copies bytes in, as many as the budget has pages for, and returns how many.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8], budget: &mut Budget) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let (index, within) = split(offset + done as u64);
            let part = (PAGE_BYTES - within).min(bytes.len() - done);
            let page = self.pages.entry(index).or_default();
            if page.live.is_none() && !budget.take() {
                break;
            }
            page.touch(within, within + part);
            let live = page.live.get_or_insert_with(|| Arc::clone(&ZEROS));
            Arc::make_mut(live)[within..within + part].copy_from_slice(&bytes[done..done + part]);
            done += part;
        }
        if done > 0 {
            self.note_len(self.len.max(offset + done as u64));
        }
        done
    }

    /// Cuts or extends. Returns how many pages became free.
    pub(crate) fn set_len(&mut self, len: u64) -> u64 {
        let mut freed = 0;
        if len < self.len {
            let (index, within) = split(len);
            if within > 0
                && let Some(page) = self.pages.get_mut(&index)
                && page.live.is_some()
            {
                page.touch(within, PAGE_BYTES);
                if let Some(live) = &mut page.live {
                    Arc::make_mut(live)[within..].fill(0);
                }
            }
            for (_, page) in self.pages.range_mut(index + u64::from(within > 0)..) {
                if page.live.is_some() {
                    page.touch(0, PAGE_BYTES);
                    page.live = None;
                    freed += 1;
                }
            }
        }
        self.note_len(len);
        freed
    }

    fn note_len(&mut self, len: u64) {
        self.len = len;
        self.len_low = self.len_low.min(len);
        self.len_high = self.len_high.max(len);
    }

    /// Reserves pages for a range: all of them or, if the budget is too small, none.
    pub(crate) fn reserve(
        &mut self,
        offset: u64,
        len: u64,
        keep_len: bool,
        budget: &mut Budget,
    ) -> bool {
        let end = offset + len;
        let indices = offset / PAGE_BYTES as u64..end.div_ceil(PAGE_BYTES as u64);
        let present = self.pages.range(indices.clone()).filter(|(_, page)| page.live.is_some());
        let missing = (indices.end - indices.start) - present.count() as u64;
        if missing > budget.0 {
            return false;
        }
        budget.0 -= missing;
        for index in indices {
            let page = self.pages.entry(index).or_default();
            page.live.get_or_insert_with(|| Arc::clone(&ZEROS));
        }
        if !keep_len && end > self.len {
            self.note_len(end);
        }
        true
    }

    /// Makes the pages that a range touches, and the length, durable.
    pub(crate) fn sync(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len);
        let range = offset / PAGE_BYTES as u64..end.div_ceil(PAGE_BYTES as u64);
        for (_, page) in self.pages.range_mut(range) {
            page.sync();
        }
        // Pages beyond a cut that is now durable hold nothing for anybody.
        self.pages.retain(|_, page| page.live.is_some() || page.dirty != 0 || page.stale != 0);
        self.durable_len = self.len;
        (self.len_low, self.len_high) = (self.len, self.len);
    }

    /// Makes whole pages durable, and the length as far as they reach. A length beyond them stays
    /// an unsynced change: they can be read without it.
    pub(crate) fn sync_pages(&mut self, from: u64, to: u64) {
        for (_, page) in self.pages.range_mut(from / PAGE_BYTES as u64..to / PAGE_BYTES as u64) {
            page.sync();
        }
        let reached = to.min(self.len);
        self.durable_len = self.durable_len.max(reached);
        self.len_low = self.len_low.max(reached);
    }

    /// Marks the pages of a range clean, written or not. The length stays an unsynced change:
    /// file systems keep it apart from the data.
    pub(crate) fn lose(&mut self, offset: u64, len: u64, loss: &mut Loss) {
        let end = offset.saturating_add(len);
        let range = offset / PAGE_BYTES as u64..end.div_ceil(PAGE_BYTES as u64);
        for (_, page) in self.pages.range_mut(range) {
            page.lose(loss);
        }
    }

    /// What a power loss leaves, as a file that is wholly durable.
    pub(crate) fn crash(&self, policy: CrashPolicy, mix: &mut Mix) -> Self {
        let (fate, len) = match policy {
            CrashPolicy::DropAll => (Fate::AllLost, self.durable_len),
            CrashPolicy::KeepAll => (Fate::AllKept, self.len),
            CrashPolicy::Ordered | CrashPolicy::Reordered => (self.fate(mix), self.any_len(mix)),
        };
        let mut seen = 0;
        let mut pages = BTreeMap::new();
        for (index, page) in &self.pages {
            let mut image = page.durable.clone();
            for sector in (0..SECTORS).filter(|sector| page.dirty & bit(*sector) != 0) {
                let survivor = match fate {
                    Fate::AllLost => None,
                    Fate::AllKept => Some(sector_of(page.live.as_ref(), sector)),
                    Fate::KeptBelow(cut) if seen >= cut => None,
                    Fate::KeptBelow(_) => Some(sector_of(page.live.as_ref(), sector)),
                    Fate::EachForItself => Some(page.any_version(sector, mix)),
                };
                seen += 1;
                if let Some(bytes) = survivor {
                    let image = image.get_or_insert_with(|| Arc::clone(&ZEROS));
                    set_sector(image, sector, bytes);
                }
            }
            let start = index * PAGE_BYTES as u64;
            if start >= len {
                continue;
            }
            if let Some(bytes) = &mut image
                && len - start < PAGE_BYTES as u64
                && bytes[(len - start) as usize..].iter().any(|byte| *byte != 0)
            {
                Arc::make_mut(bytes)[(len - start) as usize..].fill(0);
            }
            // A page without bytes on disk stays reserved if it was, and is a hole otherwise.
            if let Some(live) = image.clone().or_else(|| page.live.as_ref().map(|_| ZEROS.clone()))
            {
                pages.insert(*index, Page { live: Some(live), durable: image, ..Page::default() });
            }
        }
        Self { pages, len, durable_len: len, len_low: len, len_high: len }
    }

    fn fate(&self, mix: &mut Mix) -> Fate {
        let dirty: u64 = self.pages.values().map(|page| u64::from(page.dirty.count_ones())).sum();
        match mix.below(4) {
            0 => Fate::AllLost,
            1 => Fate::AllKept,
            2 => Fate::KeptBelow(mix.below(dirty + 1)),
            _ => Fate::EachForItself,
        }
    }

    fn any_len(&self, mix: &mut Mix) -> u64 {
        match mix.below(3) {
            0 => self.durable_len,
            1 => self.len,
            _ => {
                let low = self.len_low.min(self.durable_len);
                let high = self.len_high.max(self.durable_len);
                low + mix.below(high - low + 1)
            }
        }
    }
}

/// Page index and offset within the page.
fn split(offset: u64) -> (u64, usize) {
    let page = PAGE_BYTES as u64;
    (offset / page, (offset % page) as usize)
}
