//! Logs as servers leave them when they crash between two steps, settled and read.

use super::*;
use crate::id::LogId;
use crate::merge::Merge;
use crate::partition::{Split, hash_name};
use crate::rpc::codec::{Action, Transaction};
use crate::rpc::server::core::Records;
use crate::user::User;
use keyrack_vfs::MemFs;

const FILES: u32 = 40;

struct Lab {
    fs: Arc<dyn Fs>,
    logs: Vec<PathBuf>,
}

impl Lab {
    fn new() -> Lab {
        let logs = [1, 0].map(|rank| PathBuf::from(format!("/src/r{rank}"))).to_vec();
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        fs.create_dir_all(Path::new("/src")).unwrap();
        Lab { fs, logs }
    }

    /// The inside of server `server` of two.
    fn core(&self, server: u32) -> Core {
        let dir = &self.logs[1 - server as usize];
        let settings =
            Settings { log: Some(LogId::from_bits(server as u64 + 1)), ..Settings::default() };
        let space = Namespace::open_in(Arc::clone(&self.fs), dir, settings).unwrap();
        space.serve_as(server, 2).unwrap();
        let leases = Leases::new(&LeaseClock::Machine, Duration::ZERO, false);
        Core::new(Some(space), Parts::new(2, server, false, u64::MAX), leases)
    }

    /// Names in a directory with the first byte of each file, as readers of both logs see them.
    fn seen(&self, logs: &[PathBuf], path: &[u8]) -> Vec<(String, u8)> {
        let settings = Settings::default();
        let space = Namespace::open_read_only_in(Arc::clone(&self.fs), logs, settings).unwrap();
        let fs = space.as_root();
        let page = fs.list_plus_at(&fs.dir(&[path, b"/"].concat()).unwrap(), None, 1000).unwrap();
        let entries = page.entries.into_iter().map(|entry| {
            let bytes = fs.read(&[path, b"/", &entry.name].concat(), 0, 1).unwrap_or_default();
            (String::from_utf8(entry.name).unwrap(), bytes.first().copied().unwrap_or(0))
        });
        entries.collect()
    }

    /// The same after a merge, which must refuse before and not write to the logs twice.
    fn merged(&self, path: &[u8]) -> Vec<(String, u8)> {
        let refused = Merge::open(Arc::clone(&self.fs), &self.logs).unwrap_err();
        assert_eq!(refused.errno(), "EBUSY", "{refused}");
        assert!(needs_recovery(&self.fs, &self.logs).unwrap());
        assert!(recover(&self.fs, &self.logs).unwrap());
        assert!(!recover(&self.fs, &self.logs).unwrap());
        let merge = Merge::open(Arc::clone(&self.fs), &self.logs).unwrap();
        merge.part(&[], 0, Path::new("/dst/r0")).unwrap();
        self.seen(&[PathBuf::from("/dst/r0")], path)
    }
}

fn space(core: &Core) -> &Namespace {
    core.space.as_ref().unwrap()
}

/// A transaction of user 0 within one directory.
fn transaction(action: Action, (from, name): (DirId, &[u8]), to_name: &[u8]) -> Transaction {
    Transaction {
        user: User::root(),
        from,
        name: name.to_vec(),
        to: from,
        to_name: to_name.to_vec(),
        action,
        target: 0o750,
        entry: Vec::new(),
    }
}

/// Every server has the directory.
fn mkdir(cores: &[&Core], name: &[u8]) -> DirId {
    let made = cores.iter().map(|core| {
        let space = space(core);
        space.as_root().mkdir_at(&space.root().unwrap(), name, 0o755).unwrap().state.id
    });
    let made: Vec<DirId> = made.collect();
    made[0]
}

/// A directory on its first server that has begun to split and sealed its half; what goes is
/// staged at the other. Files are large, so that their bytes go as well.
fn sealed(source: &Core, target: &Core, dir: DirId) -> (Split, Records) {
    let fs = space(source).as_root();
    for n in 0..FILES {
        let bytes = vec![1 + n as u8; 4000];
        fs.put(format!("/d/f{n:02}").as_bytes(), 0o600, &bytes).unwrap();
    }
    let part = source.parts.get(space(source), dir).unwrap();
    let mut state = part.write();
    let split = state.shards[0].begin().unwrap();
    state.is_sealed = true;
    source.write_down(dir, &state.encode()).unwrap();
    drop(state);
    assert_eq!(target.split_begin(dir.0, &split, 7).unwrap(), 0);
    let mut records: Records = Vec::new();
    source
        .each_file(dir, &mut |name, value, _| {
            if split.takes(hash_name(dir.0, name)) {
                records.push((name.to_vec(), value.to_vec()));
            }
        })
        .unwrap();
    assert!(!records.is_empty() && records.len() < FILES as usize);
    let list: Vec<&[u8]> =
        records.iter().flat_map(|(name, value)| [&name[..], &value[..]]).collect();
    target.split_put(dir.0, split.to, 7, &list).unwrap();
    for (_, value) in &records {
        crate::rpc::server::split::records::each_chunk(
            source,
            value,
            &mut |inode, offset, data| {
                target
                    .split_contents((dir.0, split.to, 7), inode.to_u128(), offset, data)
                    .map_err(|error| panic!("{error:?}"))
            },
        )
        .unwrap()
        .unwrap();
    }
    (split, records)
}

/// The server of the first partition of `/d`, and the other.
fn two_servers(lab: &Lab) -> (Core, Core, DirId) {
    let cores = [lab.core(0), lab.core(1)];
    let dir = mkdir(&[&cores[0], &cores[1]], b"d");
    let first = cores[0].parts.placement.home(dir.0, 0);
    let [zero, one] = cores;
    if first == 0 { (zero, one, dir) } else { (one, zero, dir) }
}

/// A split that the target has decided, and of which the source has not heard; what went.
fn installed(lab: &Lab) -> (Core, Core, DirId, Records) {
    let (source, target, dir) = two_servers(lab);
    let (split, records) = sealed(&source, &target, dir);
    let (count, map) = (records.len() as u64, crate::partition::SplitMap::new().to_bytes());
    target.split_install(dir.0, &split, 7, count, (false, &map)).unwrap();
    (source, target, dir, records)
}

fn all_files() -> Vec<(String, u8)> {
    (0..FILES).map(|n| (format!("f{n:02}"), 1 + n as u8)).collect()
}

#[test]
fn a_split_that_the_taker_decided_is_finished_before_a_merge() {
    let lab = Lab::new();
    let (source, target, _, records) = installed(&lab);
    // The target goes on; the source knows nothing of it, and has the old names still.
    let fs = space(&target).as_root();
    let gone = String::from_utf8(records[0].0.clone()).unwrap();
    fs.unlink(format!("/d/{gone}").as_bytes()).unwrap();
    let changed = String::from_utf8(records[1].0.clone()).unwrap();
    fs.write(format!("/d/{changed}").as_bytes(), 0, b"!").unwrap();
    drop((source, target));
    let mut expected = all_files();
    expected.retain(|(name, _)| *name != gone);
    expected.iter_mut().filter(|(name, _)| *name == changed).for_each(|(_, byte)| *byte = b'!');
    assert_eq!(lab.merged(b"/d"), expected);
}

/// The source, which had the old records still, said that they were there.
#[test]
fn names_that_the_taker_removed_are_not_said_to_be_there_before_the_split_is_over() {
    let lab = Lab::new();
    let (source, target, dir, records) = installed(&lab);
    for (name, _) in all_files() {
        let is_gone = records.iter().any(|(gone, _)| *gone == name.as_bytes());
        let at = if is_gone { &target } else { &source };
        space(at).as_root().unlink(format!("/d/{name}").as_bytes()).unwrap();
    }
    let old = &records[0].0;
    for (action, from, name) in [
        (Action::Mkdir, dir, &old[..]),
        (Action::Rmdir, dir, old),
        (Action::Rename, dir, old),
        (Action::Rmdir, DirId::ROOT, b"d"),
    ] {
        let mut txn = transaction(action, (from, name), name);
        let phase = (Phase::Begun, source.parts.server);
        let error = source.prepare(space(&source), 99, phase, &mut txn).unwrap_err();
        let errno = crate::rpc::Error::errno_of(error.code);
        assert_eq!(errno, "EAGAIN", "{action:?} of {}", name.escape_ascii());
    }
    // Afterwards it knows.
    source.finish_splits(dir, &|_| Ok(true)).unwrap();
    assert!(space(&source).inner.is_empty(dir).unwrap());
}

#[test]
fn a_split_that_nobody_decided_never_began() {
    let lab = Lab::new();
    let (source, target, dir) = two_servers(&lab);
    sealed(&source, &target, dir);
    drop((source, target));
    assert_eq!(lab.merged(b"/d"), all_files());
}

#[test]
fn what_servers_do_together_is_done_by_all_or_by_none() {
    for (action, is_decided) in [Action::Mkdir, Action::Rmdir, Action::Replace]
        .into_iter()
        .flat_map(|w| [(w, true), (w, false)])
    {
        let lab = Lab::new();
        let cores = [lab.core(0), lab.core(1)];
        mkdir(&[&cores[0], &cores[1]], b"old");
        let name = if action == Action::Mkdir { b"new" } else { b"old" };
        let mut txn = transaction(action, (DirId::ROOT, name), b"moved");
        cores[0].prepare(space(&cores[0]), 99, (Phase::Begun, 0), &mut txn).unwrap();
        cores[1].prepare(space(&cores[1]), 99, (Phase::Prepared, 0), &mut txn).unwrap();
        // Held: nobody makes anything else of it.
        let taken = cores[1].prepare(space(&cores[1]), 100, (Phase::Prepared, 0), &mut txn);
        assert!(taken.unwrap_err().is_retryable());
        if is_decided {
            cores[0].decide(space(&cores[0]), 99).unwrap();
            cores[0].finish_txn(space(&cores[0]), 99, true).unwrap();
        }
        drop(cores);
        let names: Vec<String> = lab.merged(b"").into_iter().map(|(name, _)| name).collect();
        let expected: &[&str] = match (action, is_decided) {
            (Action::Mkdir, true) => &["new", "old"],
            (Action::Rmdir, true) => &[],
            (Action::Replace, true) => &["moved"],
            _ => &["old"],
        };
        assert_eq!(names, expected, "{action:?}, decided {is_decided}");
        // At each of the two.
        for log in &lab.logs {
            let names: Vec<String> = lab
                .seen(std::slice::from_ref(log), b"")
                .into_iter()
                .map(|(name, _)| name)
                .collect();
            assert_eq!(names, expected, "{action:?}, decided {is_decided}, {}", log.display());
        }
    }
}

#[test]
fn logs_of_other_servers_that_are_missing_are_said() {
    let lab = Lab::new();
    let (source, target, dir) = two_servers(&lab);
    sealed(&source, &target, dir);
    let server = source.parts.server as usize;
    drop((source, target));
    let error = recover(&lab.fs, &[lab.logs[1 - server].clone()]).unwrap_err().to_string();
    assert!(error.contains("the log of server"), "{error}");
}

#[test]
fn records_that_are_none_do_not_come_with_a_partition() {
    let lab = Lab::new();
    let (source, target, dir) = two_servers(&lab);
    let part = source.parts.get(space(&source), dir).unwrap();
    let split = part.write().shards[0].begin().unwrap();
    target.split_begin(dir.0, &split, 7).unwrap();
    for value in [&b""[..], b"\xff", b"\x14cut"] {
        let refused = target.split_put(dir.0, split.to, 7, &[b"name", value]).unwrap_err();
        assert_eq!(crate::rpc::Error::errno_of(refused.code), "EPROTO");
    }
}

#[test]
fn a_rename_whose_coordinator_is_nobody_is_damage() {
    let lab = Lab::new();
    let (one, other, _) = two_servers(&lab);
    let mut txn = transaction(Action::Replace, (DirId::ROOT, b"d"), b"moved");
    one.prepare(space(&one), 98, (Phase::Begun, 0), &mut txn).unwrap();
    other.prepare(space(&other), 99, (Phase::Prepared, 9), &mut txn).unwrap();
    drop((one, other));
    let error = recover(&lab.fs, &lab.logs).unwrap_err().to_string();
    assert!(error.starts_with("/src/r") && error.contains("coordinator 9"), "{error}");
}

/// The numbers of directories of logs have no gap when the last one is gone.
#[test]
fn the_log_of_the_last_server_could_vanish_unseen() {
    let lab = Lab::new();
    let cores = [lab.core(0), lab.core(1)];
    mkdir(&[&cores[0], &cores[1]], b"d");
    drop(cores);
    assert!(!needs_recovery(&lab.fs, &lab.logs).unwrap());
    Merge::open(Arc::clone(&lab.fs), &lab.logs).unwrap();
    for (left, absent) in [(&lab.logs[1..], 1), (&lab.logs[..1], 0)] {
        let expected = format!("the log of server {absent} of 2 is missing");
        let refused = Merge::open(Arc::clone(&lab.fs), left).unwrap_err().to_string();
        assert!(refused.contains(&expected), "{refused}");
        let refused = needs_recovery(&lab.fs, left).unwrap_err().to_string();
        assert!(refused.contains(&expected), "{refused}");
    }
}
