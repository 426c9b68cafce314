//! What a repair makes of a store: the state that the new manifest begins with, and the files that
//! go. New tables are written here; nothing that is there is changed.

use super::blobs::Blobs;
use super::files_of;
use super::log::{self, Look};
use super::tables::{Content, Found, Source, TableIo, groups};
use crate::batch::Write;
use crate::check::Finding;
use crate::error::{Error, Result};
use crate::key::{Comparator, Kind, SEQUENCE_MAX, user_of};
use crate::manifest::{CURRENT, FileName, FileNumbers, LOCK, LOG_DIR, Manifest, Salvaged, State};
use crate::open_table::table_path;
use crate::options::Options;
use crate::version::{FileMeta, LAST_LEVEL, LEVELS, Version, VersionEdit};
use keyrack_vfs::Fs;
use std::cell::Cell;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Positions of the log are multiples of this.
const ALIGN: u64 = 8;

/// See the module documentation.
pub(super) struct Plan {
    pub(super) state: State,
    /// The files that go.
    pub(super) gone: Vec<PathBuf>,
    /// Sound tables whose names are wrong, and their new ones.
    pub(super) renamed: Vec<(PathBuf, PathBuf)>,
    pub(super) losses: Vec<Finding>,
    pub(super) log_records: u64,
    is_needed: bool,
}

impl Plan {
    pub(super) fn is_needed(&self) -> bool {
        self.is_needed
    }

    pub(super) fn make(fs: Arc<dyn Fs>, dir: &Path, options: &Options) -> Result<Plan> {
        let mut losses = Vec::new();
        let order = options.comparator.clone();
        let (state, is_current) = match Manifest::open(Arc::clone(&fs), dir, order.clone()) {
            Ok(manifest) => (Some(manifest.state().clone()), true),
            Err(Error::Corruption { path, offset, what }) => {
                losses.push(Finding::damage(&path, offset, what));
                (Manifest::newest_whole(&*fs, dir, order)?, false)
            }
            Err(error) => return Err(error),
        };
        let salvaged = Manifest::salvage(&*fs, dir, options.comparator.clone())?;
        let next = state.as_ref().map_or(0, |state| state.next_file).max(salvaged.next_file);
        let names = files_of(&*fs, dir)?;
        let above = crate::manifest::next_above(next, names.iter().filter_map(|it| it.file_name()));
        let version = state.as_ref().map(|state| &*state.version);
        let blobs = Arc::new(Blobs::look(&*fs, dir, &names, version)?);
        let mut io = TableIo {
            fs: &*fs,
            blobs,
            dir,
            options,
            numbers: FileNumbers::new(above),
            issued: Vec::new(),
        };
        let planned = Planner { io: &mut io, losses, gone: Vec::new(), renamed: Vec::new() }
            .plan(state, is_current, &salvaged, &names);
        // What was merged by a wrong rule goes.
        let planned =
            planned.and_then(|plan| options.comparator.check_complete(dir).map(|()| plan));
        let kept = planned.as_ref().map_or(Vec::new(), |plan| {
            let files = |level: usize| plan.state.version.files(level).to_vec();
            (0..LEVELS).flat_map(files).collect()
        });
        io.discard_but(&kept);
        planned
    }
}

struct Planner<'a, 'w> {
    io: &'a mut TableIo<'w>,
    losses: Vec<Finding>,
    gone: Vec<PathBuf>,
    renamed: Vec<(PathBuf, PathBuf)>,
}

/// What a store will be.
struct Outline {
    files: Placed,
    log: Look,
    /// Whether what is wanted of the log is in tables now.
    is_log_saved: bool,
    log_records: u64,
    is_changed: bool,
}

fn is_manifest(path: &Path) -> bool {
    let name = path.file_name().map(FileName::parse);
    matches!(name, Some(Some(FileName::Manifest(_))))
}

/// Tables and their levels.
type Placed = Vec<(usize, Arc<FileMeta>)>;

impl Planner<'_, '_> {
    fn plan(
        mut self,
        state: Option<State>,
        is_current: bool,
        salvaged: &Salvaged,
        names: &[PathBuf],
    ) -> Result<Plan> {
        let found = self.look(names)?;
        let log_dir = self.io.dir.join(LOG_DIR);
        let (outline, base) = match state {
            Some(state) => (self.keep_levels(&state, &found, &log_dir)?, state),
            None => {
                let is_nothing = found.is_empty() && !names.iter().any(|path| is_manifest(path));
                if is_nothing && files_of(self.io.fs, &log_dir)?.is_empty() {
                    let dir = self.io.dir.display();
                    return Err(Error::Usage(format!("{dir} holds no store")));
                }
                let mut base = State::new(self.io.order().clone());
                base.next_file = base.next_file.max(salvaged.next_file);
                (base.log_from, base.last_sequence) = (salvaged.log_from, salvaged.last_sequence);
                (self.lay_out(&found, salvaged, &log_dir)?, base)
            }
        };
        let Outline { files, log, is_log_saved, log_records, is_changed } = outline;
        let pointers = (0..LEVELS).map(|level| (level, base.version.pointer(level).to_vec()));
        let pointers = pointers.filter(|(_, key)| !key.is_empty()).collect();
        let (added, blobs) = (files.clone(), self.io.blobs.sound());
        let edit = VersionEdit { added, blobs, pointers, ..VersionEdit::default() };
        let version = Version::new(self.io.order().clone()).apply(&edit);
        let version = version.map_err(|invalid| {
            let what = format!("what is left does not fit together: {invalid}");
            Error::corruption(self.io.dir, 0, what)
        })?;
        let misnamed = self.io.blobs.misnamed(&version);
        let is_needed = !is_current || is_changed || !misnamed.is_empty();
        if is_needed {
            self.gone.append(&mut self.io.blobs.unused(&version));
            // What an entry has lost says it already.
            let mut damage = self.io.blobs.findings();
            damage.retain(|found| self.losses.iter().all(|loss| loss.path != found.path));
            self.losses.append(&mut damage);
            self.rename_blobs(misnamed);
        }
        self.losses.extend(log.losses);
        let sequences = files.iter().map(|(_, file)| file.sequence_max);
        let last_sequence = sequences.fold(base.last_sequence, u64::max);
        let mut log_from = base.log_from;
        if is_log_saved {
            // Above everything that was ever used.
            let top = log.salvaged.top.max(log.salvaged.end).max(last_sequence + 1);
            log_from = log_from.max(top.next_multiple_of(ALIGN)).min(SEQUENCE_MAX - ALIGN + 1);
            self.gone.extend(log.salvaged.segments);
        }
        if is_needed {
            self.dismiss(&files, &found, if is_current { &[] } else { names })?;
        }
        let next_file = base.next_file.max(self.io.numbers.next());
        // The log that comes after a saved one is another.
        let log_id = if is_log_saved { 0 } else { base.log_id };
        let version = Arc::new(version);
        let has_expiries =
            base.has_expiries || files.iter().any(|(_, file)| !file.expiries.is_empty());
        let state =
            State { version, log_from, next_file, last_sequence, log_id, has_expiries, ..base };
        let (gone, renamed, losses) = (self.gone, self.renamed, self.losses);
        Ok(Plan { state, gone, renamed, losses, log_records, is_needed })
    }

    /// The files that are tables, or named as such.
    fn look(&self, names: &[PathBuf]) -> Result<Vec<Found>> {
        let mut found = Vec::new();
        for path in names {
            // A path without a name is no file of ours.
            let name = path.file_name().unwrap_or_default();
            let is_other = [CURRENT, LOCK].iter().any(|other| name == *other)
                || matches!(FileName::parse(name), Some(FileName::Unfinished | FileName::Blob(_)))
                || is_manifest(path);
            if !is_other {
                found.extend(self.io.look(path)?);
            }
        }
        Ok(found)
    }

    /// Chooses the files that go: tables that have no place in the store, which the next opening
    /// would remove; and of `names`, manifests and what names one.
    fn dismiss(&mut self, files: &Placed, found: &[Found], names: &[PathBuf]) -> Result<()> {
        let dir = self.io.dir;
        for it in found.iter().filter(|it| it.number.is_some()) {
            let is_renamed = self.renamed.iter().any(|(from, _)| *from == it.path);
            let is_named = files.iter().any(|(_, file)| it.path == table_path(dir, file.number));
            if !is_renamed && !is_named {
                self.gone.push(it.path.clone());
            }
        }
        let is_current = |path: &&PathBuf| path.file_name().is_some_and(|name| name == CURRENT);
        let others = names.iter().filter(|path| is_manifest(path) || is_current(path));
        self.gone.extend(others.cloned());
        Ok(())
    }

    /// Sound blob files get their names back.
    fn rename_blobs(&mut self, misnamed: Vec<(PathBuf, PathBuf)>) {
        for (from, to) in &misnamed {
            let what = format!("this is {}", to.display());
            self.losses.push(Finding::damage(from, 0, what));
        }
        self.renamed.extend(misnamed);
    }

    /// A new name for a sound table, and its number.
    fn rename(&mut self, path: &Path) -> u64 {
        let (number, to) = self.io.issue();
        self.renamed.push((path.to_owned(), to));
        number
    }

    /// A store whose manifest is whole: each table in its level, as far as it can be had. The log
    /// stays as it is, or its records become tables above all others.
    fn keep_levels(&mut self, state: &State, found: &[Found], log_dir: &Path) -> Result<Outline> {
        let (mut files, mut is_changed) = self.keep_tables(state, found, log_dir)?;
        let (from, id) = (Some(state.log_from), Some(state.log_id));
        let log = log::look(self.io, log_dir, from, id)?;
        let is_log_saved = !log.losses.is_empty();
        let mut log_records = log.salvaged.records;
        if is_log_saved {
            let (tables, records) = log::save(self.io, log_dir, from, id, &|_, _| true)?;
            files.extend(tables.into_iter().map(|file| (0, file)));
            log_records = records;
            is_changed = true;
        }
        Ok(Outline { files, log, is_log_saved, log_records, is_changed })
    }

    /// The tables of a version, and whether anything is different.
    fn keep_tables(
        &mut self,
        state: &State,
        found: &[Found],
        log_dir: &Path,
    ) -> Result<(Placed, bool)> {
        let order = self.io.order().clone();
        let mut used = vec![false; found.len()];
        let mut placed = Placed::new();
        let mut missing = Placed::new();
        let all = (0..LEVELS)
            .flat_map(|level| state.version.files(level).iter().map(move |it| (level, it.clone())));
        for (level, file) in all {
            let at = found.iter().position(|it| {
                it.number == Some(file.number) && it.is_sound() && is_table(&file, it, &order)
            });
            match at {
                Some(at) => {
                    used[at] = true;
                    placed.push((level, file));
                }
                None => missing.push((level, file)),
            }
        }
        let is_changed = !missing.is_empty();
        let mut damaged = Placed::new();
        for (level, file) in missing {
            let fits = |(at, it): &(usize, &Found)| {
                !used[*at] && it.is_sound() && is_table(&file, it, &order)
            };
            let Some((at, it)) = found.iter().enumerate().find(fits) else {
                damaged.push((level, file));
                continue;
            };
            used[at] = true;
            let number = self.rename(&it.path);
            let what = format!("this is table {}; it is table {number} now", file.number);
            self.losses.push(Finding::damage(&it.path, 0, what));
            placed.push((level, Arc::new(FileMeta { number, ..FileMeta::clone(&file) })));
        }
        if !damaged.is_empty() {
            placed.extend(self.restore_damaged(damaged, found, &mut used, log_dir, state)?);
        }
        Ok((placed, is_changed))
    }

    /// What can be restored of damaged tables: from the log, or what is sound in their files.
    /// `used` says which of the files `found` belong to a table by now.
    fn restore_damaged(
        &mut self,
        damaged: Placed,
        found: &[Found],
        used: &mut [bool],
        log_dir: &Path,
        state: &State,
    ) -> Result<Placed> {
        let order = self.io.order().clone();
        let mut placed = Placed::new();
        // What was flushed last may still be in the log.
        let id = Some(state.log_id);
        let look = log::look(self.io, log_dir, None, id)?;
        for (level, file) in damaged {
            let fits = |(at, it): &(usize, &Found)| !used[*at] && is_table(&file, it, &order);
            let own = |(at, it): &(usize, &Found)| {
                !used[*at]
                    && it.number == Some(file.number)
                    && matches!(it.content, Content::Scraps)
            };
            let mut candidates = found.iter().enumerate();
            let at = candidates.clone().find(fits).or_else(|| candidates.find(own));
            let logged_from = logged_from(&file, state);
            let is_logged = level == 0
                && file.sequence.is_none()
                && logged_from >= look.whole_from()
                && file.sequence_max < look.salvaged.end;
            if let Some((at, it)) = at {
                used[at] = true;
                if is_logged || it.meta().is_none() {
                    // Otherwise it is said again, with what is lost.
                    self.losses.extend(it.findings.iter().cloned());
                }
            }
            let path = table_path(self.io.dir, file.number);
            if is_logged {
                let is_wanted = |sequence: u64, write: &Write<'_>| {
                    let is_hidden = sequence < file.sequence_min;
                    (logged_from..=file.sequence_max).contains(&sequence)
                        && (!is_hidden || is_between(&file, write.key, &order))
                };
                let (tables, _) = log::save(self.io, log_dir, None, id, &is_wanted)?;
                let what = "restored from the log, nothing of it is lost";
                self.losses.push(Finding::damage(&path, 0, what));
                placed.extend(tables.into_iter().map(|it| (0, it)));
                continue;
            }
            let Some((_, it)) = at else {
                let what = format!(
                    "missing, or another table; lost are {} entries from {} to {}",
                    file.entries,
                    file.first().escape_ascii(),
                    file.last().escape_ascii()
                );
                self.losses.push(Finding::damage(&path, 0, what));
                continue;
            };
            let is_of_it = |key: &[u8]| is_within(&file, key, &order);
            let saved = self.io.save(it, level, file.sequence, &is_of_it, &mut self.losses)?;
            placed.extend(saved.map(|saved| (level, saved)));
        }
        Ok(placed)
    }

    /// A store whose manifest is lost: all tables in the last level, and above them the log.
    fn lay_out(&mut self, found: &[Found], salvaged: &Salvaged, log_dir: &Path) -> Result<Outline> {
        let mut sources = Vec::new();
        let mut newest = 0;
        let mut is_whole = true;
        for it in found {
            if it.number.is_some_and(|number| salvaged.deleted.contains(&number)) {
                // Its entries are in others.
                continue;
            }
            newest = newest.max(it.meta().map_or(0, |meta| meta.sequence_max));
            let sequence = self.sequence_of(it, found, salvaged);
            if let (true, Some(meta)) = (it.is_sound(), it.meta()) {
                let number = it.number.unwrap_or(0);
                let file = match sequence {
                    None => FileMeta::new(number, meta.clone()),
                    Some(sequence) => FileMeta::stamped(number, meta, sequence),
                };
                sources.push(Source::new(self.io, &it.path, file)?);
                continue;
            }
            is_whole = false;
            if it.meta().is_none() {
                self.losses.extend(it.findings.iter().cloned());
            }
            let all = |_: &[u8]| true;
            let saved = self.io.save(it, LAST_LEVEL, sequence, &all, &mut self.losses)?;
            if let Some(file) = saved {
                newest = newest.max(file.sequence_max);
                sources.push(self.source_of(&file)?);
            }
        }
        let log = log::look(self.io, log_dir, None, None)?;
        // Everything below is in tables.
        let above = (newest + 1).max(salvaged.log_from);
        let mut placed = Placed::new();
        // What is lost may be in the log, and with it all that came later.
        let is_merged = !is_whole && log.whole_from() < above;
        let from = if is_merged { log.whole_from() } else { above };
        let has_operands = Cell::new(false);
        let is_wanted = |sequence: u64, write: &Write<'_>| {
            has_operands.set(has_operands.get() || write.kind == Kind::Merge);
            sequence >= from
        };
        let (tables, log_records) = log::save(self.io, log_dir, None, None, &is_wanted)?;
        if is_merged {
            if has_operands.get() {
                let what = "merged with tables that may have some of its operands already; keys \
                            with operands may have one twice, or not at all";
                self.losses.push(Finding::damage(log_dir, 0, what));
            }
            for file in tables {
                sources.push(self.source_of(&file)?);
            }
        } else {
            placed.extend(tables.into_iter().map(|file| (0, file)));
        }
        for mut group in groups(sources, &self.io.order().clone()) {
            let files = match (group.pop(), group.is_empty()) {
                (Some(alone), true) => vec![self.keep(alone)],
                (last, _) => {
                    group.extend(last);
                    self.io.merge(&group, LAST_LEVEL)?
                }
            };
            placed.extend(files.into_iter().map(|file| (LAST_LEVEL, file)));
        }
        let (files, is_log_saved, is_changed) = (placed, true, true);
        Ok(Outline { files, log, is_log_saved, log_records, is_changed })
    }

    /// A table that was just written, to be merged with others.
    fn source_of(&self, file: &FileMeta) -> Result<Source> {
        let path = table_path(self.io.dir, file.number);
        Source::new(self.io, &path, file.clone())
    }

    /// A table that overlaps with no other stays as it is.
    fn keep(&mut self, source: Source) -> Arc<FileMeta> {
        if source.path == table_path(self.io.dir, source.file.number) {
            return source.file;
        }
        let number = self.rename(&source.path);
        Arc::new(FileMeta { number, ..FileMeta::clone(&source.file) })
    }

    /// The sequence number of the entries of a table that came from outside: what the manifest said
    /// of it as far as it could be read, or else one above those of all tables before it.
    fn sequence_of(&mut self, it: &Found, all: &[Found], salvaged: &Salvaged) -> Option<u64> {
        let number = it.number?;
        let said = salvaged.files.get(&number);
        let Some(meta) = it.meta() else { return said?.sequence };
        if meta.sequence_max > 0 {
            return None;
        }
        if let Some(file) = said.filter(|file| file.describes(meta, self.io.order())) {
            return file.sequence;
        }
        let before = all.iter().filter(|other| other.number.is_some_and(|other| other < number));
        let newest = before.filter_map(|other| Some(other.meta()?.sequence_max)).max();
        let sequence = newest.unwrap_or(0) + 1;
        let what = "the manifest alone said when this table was taken in; taken for later than the \
                    tables with smaller numbers, and for earlier than the others";
        self.losses.push(Finding::damage(&it.path, 0, what));
        Some(sequence)
    }
}

/// Whether a file that was found is the table that a version has as `file`.
fn is_table(file: &FileMeta, found: &Found, order: &Comparator) -> bool {
    found.meta().is_some_and(|meta| file.describes(meta, order))
}

/// The first number of the log that the table of a flush may have something of. Operands are
/// written under the number of the newest one, so the older ones lie below the smallest number of
/// the table: up to the newest number of the tables before it.
fn logged_from(file: &FileMeta, state: &State) -> u64 {
    if state.merge_operator.is_none() {
        return file.sequence_min;
    }
    let all = (0..LEVELS).flat_map(|level| state.version.files(level));
    let before = all.map(|it| it.sequence_max).filter(|newest| *newest < file.sequence_min).max();
    before.map_or(0, |newest| newest + 1)
}

/// Whether a user key lies between the first and the last key of a table.
fn is_between(file: &FileMeta, user: &[u8], order: &Comparator) -> bool {
    order.user(file.first(), user) != Ordering::Greater && !file.ends_before(user, order)
}

/// Whether an internal key, as a file has it, is one that the table can have.
fn is_within(file: &FileMeta, key: &[u8], order: &Comparator) -> bool {
    let user = user_of(key);
    let sequence = crate::key::parse(key).map_or(SEQUENCE_MAX, |parsed| parsed.sequence);
    let sequences = match file.sequence {
        Some(_) => 0..=0,
        None => file.sequence_min..=file.sequence_max,
    };
    sequences.contains(&sequence) && is_between(file, user, order)
}
