//! What the tests share: a bench that runs a script, and engines that can be watched or that fail.
//!
//! `spy` is the model store under a name that tests can look into afterwards: its option `id` says
//! under which key the store is kept once the harness has closed it. `odd` is the model store that
//! misbehaves as its option `fault` says. Engines are plain functions, so both keep what they share
//! in a table of the process, by `id`. `odd-on-disk` is `odd` with a directory. `shelf` is the
//! model that is found again under the path of its directory, in the same process.

use keyrack_harness::{Facts, sink::Dialect};
use keyrack_harness::{Outputs, Plan, Print, Refusal, Settings, Silent, Stop, Surroundings, run};
use keyrack_measure::Clock;
use keyrack_record::{Failure, OpStats, Point, Repeat, Run};
use keyrack_store::{
    Batch, BatchOp, Durability, Engine, EngineOption, Error, ModelStore, OpenOptions, Registry,
    Removed, Result, Session, Store, StoreInfo, Update,
};
use keyrack_vfs::{Fs, MemFs};
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The path of the first script of every bench.
pub(crate) const SCRIPT: &str = "/w.lua";

/// A run in the making.
pub(crate) struct Bench {
    pub(crate) settings: Settings,
    pub(crate) mem: MemFs,
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) clock: Clock,
    pub(crate) stop: Stop,
    /// What scripts printed, line by line.
    pub(crate) printed: Arc<Mutex<Vec<String>>>,
    /// A printed line that ends the run, and the reason it gives.
    stop_word: Option<(&'static str, &'static str)>,
}

impl Bench {
    /// A bench over `script`, with one unit on the model engine and no probes.
    pub(crate) fn new(script: &str) -> Bench {
        let mem = MemFs::new();
        let settings = Settings { probe: Some(vec!["none".to_owned()]), ..Settings::default() };
        let bench = Bench {
            settings,
            fs: Arc::new(mem.clone()),
            mem,
            clock: Clock::calibrated(),
            stop: Stop::default(),
            printed: Arc::default(),
            stop_word: None,
        };
        bench.file(SCRIPT, script.as_bytes()).set(&[
            ("workload", SCRIPT),
            ("backend", "btree"),
            ("ops", "1"),
        ])
    }

    /// A bench whose `run` is the Lua statements `body`.
    pub(crate) fn unit(body: &str) -> Bench {
        Bench::new(&format!("return {{ name = 'w', run = function(ctx, iter)\n{body}\nend }}"))
    }

    /// Writes a file that the harness will find.
    pub(crate) fn file(self, path: &str, bytes: &[u8]) -> Bench {
        self.mem.write_atomic(Path::new(path), bytes).unwrap();
        self
    }

    /// Applies settings as flags do.
    pub(crate) fn set(mut self, pairs: &[(&str, &str)]) -> Bench {
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        self.settings.apply(&pairs, &|key| format!("--{key}")).unwrap();
        self
    }

    /// Sets options of one engine.
    pub(crate) fn engine(mut self, name: &str, options: &[(&str, &str)]) -> Bench {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        self.settings.engine_options.entry(name.to_owned()).or_default().extend(options);
        self
    }

    /// Runs on the engine `odd` with this fault.
    pub(crate) fn odd(self, fault: &str) -> Bench {
        self.set(&[("backend", "odd")]).engine("odd", &[("fault", fault)])
    }

    /// Runs on the engine `spy`, insists that no cell failed, and returns the record and the rows
    /// of each store.
    pub(crate) fn run_spied(self) -> (Run, Vec<Rows>) {
        let id = new_id();
        let record = self.set(&[("backend", "spy")]).engine("spy", &[("id", &id)]).run_clean();
        (record, kept(&id))
    }

    /// Runs on a clock of its own: each reading is `step_ns` after the last.
    pub(crate) fn fake_clock(mut self, step_ns: u64) -> Bench {
        self.clock = Clock::fake(step_ns);
        self
    }

    /// Ends the run for `reason` when a script prints `word`.
    pub(crate) fn stop_when_printed(mut self, word: &'static str, reason: &'static str) -> Bench {
        self.stop_word = Some((word, reason));
        self
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        let (printed, stop, word) = (Arc::clone(&self.printed), self.stop.clone(), self.stop_word);
        let print = move |line: &str| {
            lock(&printed).push(line.to_owned());
            if let Some((word, reason)) = word
                && line == word
            {
                stop.set(reason);
            }
        };
        let mut engines = keyrack_peers::engines();
        engines.extend([SPY, ODD, ODD_ON_DISK, SHELF]);
        Surroundings {
            registry: Registry::new(engines),
            fs: Arc::clone(&self.fs),
            facts: Facts {
                program: "keyrack".to_owned(),
                version: "0.0.0".to_owned(),
                revision: None,
                argv: vec!["keyrack".to_owned(), "bench".to_owned()],
                compiler: "rustc".to_owned(),
                allocator: "system".to_owned(),
            },
            clock: self.clock.clone(),
            print: Some(Print(Arc::new(print))),
            bundled: &[],
        }
    }

    pub(crate) fn plan(&self) -> std::result::Result<Plan, Refusal> {
        Plan::new(self.settings.clone(), self.surroundings())
    }

    /// The one line with which the plan is refused.
    pub(crate) fn refusal(&self) -> String {
        let Err(Refusal(text)) = self.plan() else { panic!("the plan was not refused") };
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    }

    /// Runs, and returns the record and what went to standard output.
    pub(crate) fn run_outputs(&self) -> (std::result::Result<Run, String>, String) {
        let plan = self.plan().unwrap_or_else(|refusal| panic!("{refusal}"));
        let shared = SharedBuffer::default();
        let out = shared.clone();
        let stdout = move || -> Box<dyn Write> { Box::new(out.clone()) };
        let seed = plan.settings.seed;
        let mut outputs =
            Outputs::open(&plan.sinks, &self.fs, &stdout, Dialect::Keyrack, seed).unwrap();
        let result = run(&plan, &mut outputs, &mut Silent, &self.stop);
        drop(outputs);
        let text = String::from_utf8(lock(&shared.0).clone()).unwrap();
        (result, text)
    }

    pub(crate) fn run(&self) -> Run {
        self.run_outputs().0.unwrap()
    }

    /// Runs and insists that no cell failed.
    pub(crate) fn run_clean(&self) -> Run {
        let record = self.run();
        let failures: Vec<String> =
            record.failures.iter().map(|f| format!("{}\n{}", f.reason, f.detail)).collect();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
        record
    }

    /// Runs and insists that exactly one cell failed and none succeeded.
    pub(crate) fn run_failing(&self) -> Failure {
        let mut record = self.run();
        assert_eq!(record.points.len(), 0, "a cell succeeded");
        assert_eq!(record.failures.len(), 1, "{:?}", record.failures);
        record.failures.remove(0)
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        lock(&self.printed).clone()
    }
}

/// The only point of `record`.
pub(crate) fn only(record: &Run) -> &Point {
    assert_eq!(record.points.len(), 1, "{:?}", record.failures);
    &record.points[0]
}

/// The first repeat of the only point.
pub(crate) fn repeat(record: &Run) -> &Repeat {
    &only(record).repeats[0]
}

/// What was counted of `verb`.
pub(crate) fn op<'r>(repeat: &'r Repeat, verb: &str) -> &'r OpStats {
    let found = repeat.ops.iter().find(|op| op.op == verb);
    found.unwrap_or_else(|| panic!("no {verb} among {:?}", repeat.ops))
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Standard output of a run.
#[derive(Clone, Default)]
pub(crate) struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

const ID: EngineOption =
    EngineOption { key: "id", default: "", about: "key under which the store is kept" };

const SPY: Engine = Engine {
    name: "spy",
    about: "the model, kept for the test",
    persistent: false,
    stores: true,
    options: &[ID],
    open: open_spy,
};

const ODD: Engine = Engine {
    name: "odd",
    about: "the model, misbehaving",
    persistent: false,
    stores: true,
    options: &[EngineOption { key: "fault", default: "", about: "what goes wrong" }],
    open: open_odd,
};

const ODD_ON_DISK: Engine = Engine {
    name: "odd-on-disk",
    about: "as odd, with a file in its data directory",
    persistent: true,
    ..ODD
};

const SHELF: Engine = Engine {
    name: "shelf",
    about: "the model, found again by its directory",
    persistent: true,
    stores: true,
    options: &[],
    open: open_shelf,
};

/// Rows of a store.
pub(crate) type Rows = Vec<(Vec<u8>, Vec<u8>)>;

static KEPT: Mutex<BTreeMap<String, Vec<Arc<ModelStore>>>> = Mutex::new(BTreeMap::new());

/// A new key for the option `id`.
pub(crate) fn new_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed).to_string()
}

/// The rows of every store that was opened under `id`, but for the one that the plan tries out.
pub(crate) fn kept(id: &str) -> Vec<Rows> {
    let stores = lock(&KEPT).get(id).cloned().unwrap_or_default();
    let rows = |store: &Arc<ModelStore>| {
        let mut rows = Vec::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            rows.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        };
        store.session().unwrap().scan(b"", None, &mut visit).unwrap();
        rows
    };
    stores.iter().skip(1).map(rows).collect()
}

struct Spy(Arc<ModelStore>);

fn open_spy(options: &OpenOptions) -> Result<Box<dyn Store>> {
    let store = Arc::new(ModelStore::new());
    let id = options.text("id").unwrap_or_default().to_owned();
    lock(&KEPT).entry(id).or_default().push(Arc::clone(&store));
    Ok(Box::new(Spy(store)))
}

impl Store for Spy {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        self.0.session()
    }

    fn info(&self) -> StoreInfo {
        StoreInfo::new("spy", self.0.info().durability)
    }
}

static SHELVES: Mutex<BTreeMap<PathBuf, Arc<ModelStore>>> = Mutex::new(BTreeMap::new());

/// A store of the process, by its directory.
struct Shelf {
    model: Arc<ModelStore>,
    durability: Durability,
}

fn open_shelf(options: &OpenOptions) -> Result<Box<dyn Store>> {
    let dir = options.required_data_dir()?;
    assert!(options.fs.metadata(dir).is_ok(), "{}", dir.display());
    let model = Arc::clone(lock(&SHELVES).entry(dir.clone()).or_default());
    Ok(Box::new(Shelf { model, durability: options.durability.unwrap_or_default() }))
}

impl Store for Shelf {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        self.model.session()
    }

    fn info(&self) -> StoreInfo {
        StoreInfo::new("shelf", self.durability)
    }
}

struct Odd {
    model: ModelStore,
    fault: String,
}

struct OddSession<'s> {
    inner: Box<dyn Session + 's>,
    fault: &'s str,
    calls: u64,
}

fn open_odd(options: &OpenOptions) -> Result<Box<dyn Store>> {
    let fault = options.text("fault").unwrap_or_default().to_owned();
    if let Some(dir) = &options.data_dir {
        options.fs.write_atomic(&dir.join("data"), b"rows").unwrap();
    }
    if fault == "open" {
        return Err(Error::usage("this engine does not open"));
    }
    Ok(Box::new(Odd { model: ModelStore::new(), fault }))
}

impl Store for Odd {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        match self.fault.as_str() {
            "session" => Err(Error::usage("no session today")),
            "session panics" => panic!("on purpose, by the test"),
            fault => Ok(Box::new(OddSession { inner: self.model.session()?, fault, calls: 0 })),
        }
    }

    fn info(&self) -> StoreInfo {
        let removals_tell = self.fault != "blind";
        StoreInfo { removals_tell, ..StoreInfo::new("odd", Durability::None) }
    }

    fn close(self: Box<Self>) -> Result<()> {
        match self.fault.as_str() {
            // The plan's trial closes an empty store.
            "close" if !self.is_empty() => Err(Error::usage("this engine does not close")),
            _ => Ok(()),
        }
    }
}

impl Odd {
    fn is_empty(&self) -> bool {
        let mut visit = |_: &[u8], _: &[u8]| ControlFlow::Break(());
        self.model.session().unwrap().scan(b"", None, &mut visit).unwrap() == 0
    }
}

impl OddSession<'_> {
    /// What every call does first.
    fn meet(&mut self, write: bool) -> Result<()> {
        self.calls += 1;
        match self.fault {
            "panic" => panic!("on purpose, by the test"),
            "panic later" if self.calls == 50 => panic!("on purpose, by the test"),
            "write" if write => Err(Error::usage("this engine does not write")),
            "memory" if write && self.calls > 100 => Err(Error::out_of_memory("100 rows fit")),
            _ => Ok(()),
        }
    }
}

impl Session for OddSession<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.meet(false)?;
        self.inner.get(key, visit)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.meet(true)?;
        if self.fault == "forget" && self.calls == 10 {
            return Ok(());
        }
        self.inner.put(key, value)
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        self.meet(true)?;
        let removed = self.inner.remove(key)?;
        Ok(if self.fault == "blind" { Removed::Unknown } else { removed })
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Update,
    ) -> Result<()> {
        self.meet(true)?;
        self.inner.update(key, decide)
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.meet(false)?;
        self.inner.scan(low, high, visit)
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.meet(false)?;
        self.inner.scan_rev(low, high, visit)
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        for op in batch.iter() {
            match op {
                BatchOp::Put(key, value) => self.put(key, value)?,
                BatchOp::Remove(key) => {
                    self.remove(key)?;
                }
            }
        }
        Ok(())
    }
}
