//! The engines of a run: found by name, their options checked, their terms settled, and each opened
//! once, so that what it refuses is said before anything is measured.

use super::common::{self, Terms};
use crate::planned_engine::PlannedEngine;
use crate::settings::Settings;
use crate::stage::Stage;
use crate::surroundings::{Refusal, Surroundings, refusal};
use keyrack_store::{ANY_KEY, Backend, Durability, Engine, StoreInfo, unknown};
use keyrack_vfs::FileKind;
use std::path::{Path, PathBuf};

/// The option of engines that can have several requests of a session under way.
const DEPTH: &str = "depth";

/// Behind a name in the list of backends: to be left out, with a warning, where it cannot be had.
const OPTIONAL: char = '?';

pub(super) fn plan_engines(
    settings: &Settings,
    surroundings: &Surroundings,
    warnings: &mut Vec<String>,
) -> Result<Vec<PlannedEngine>, Refusal> {
    let registry = &surroundings.registry;
    let names = registry.names();
    let is_absent = |name: &str| registry.absent().iter().any(|absent| absent.name == name);
    for section in settings.engine_options.keys() {
        // One file serves builds with and without an engine.
        if !names.contains(&section.as_str()) && !is_absent(section) {
            let place = settings.place(section);
            return Err(refusal(format!("{place}{}", registry.not_found("section", section))));
        }
    }
    for engine in registry.iter().chain(registry.servers()) {
        engine_section(&Backend::of(*engine), settings)?;
    }
    let chosen: Vec<(Backend, bool)> = if settings.backend.is_empty() {
        let default = |e: &&Engine| e.stores && !e.persistent && e.fixed_key_bytes().is_none();
        registry.iter().filter(default).map(|engine| (Backend::of(*engine), false)).collect()
    } else {
        let mut chosen = Vec::new();
        for text in &settings.backend {
            let name = text.strip_suffix(OPTIONAL).unwrap_or(text);
            let is_optional = name != text;
            match registry.backend(name) {
                Some(backend) => chosen.push((backend, is_optional)),
                None if is_optional && is_absent(name) => {
                    warnings.push(format!("left out: {}", registry.not_found("backend", name)));
                }
                None => return Err(refusal(registry.not_found("backend", name))),
            }
        }
        chosen
    };
    let mut planned: Vec<PlannedEngine> = Vec::new();
    for (backend, is_optional) in &chosen {
        let name = backend.engine.name;
        if planned.iter().any(|earlier| earlier.engine.name == name) {
            return Err(refusal(format!("backend '{name}' is named twice")));
        }
        match plan_engine(backend, settings, surroundings, warnings) {
            Ok(engine) => planned.push(engine),
            Err(Refusal(why)) if *is_optional => warnings.push(format!("left out: {why}")),
            Err(why) => return Err(why),
        }
    }
    if planned.is_empty() {
        return Err(refusal("every backend was left out: name one that this machine has"));
    }
    if let Some(dir) = &settings.store {
        check_store(dir, &planned)?;
    }
    Ok(planned)
}

/// A store that stays is one engine's.
fn check_store(dir: &Path, planned: &[PlannedEngine]) -> Result<(), Refusal> {
    match planned {
        [one] if one.engine.persistent => Ok(()),
        [one] => Err(refusal(format!(
            "--store {}: engine '{}' stores in memory, nothing of it stays",
            dir.display(),
            one.engine.name
        ))),
        _ => Err(refusal(format!(
            "--store {} is the store of one engine: name it with --backend",
            dir.display()
        ))),
    }
}

type Options = Vec<(String, String)>;

/// What the section of a backend says: options for the engine, and what every section may hold.
#[derive(Default)]
struct Section {
    options: Options,
    data_dir: Option<PathBuf>,
    /// For engines that have no option of that name.
    durability: Option<Durability>,
}

const DURABILITY: &str = "durability";

/// The section of a backend and the options of its URL, checked.
fn engine_section(backend: &Backend, settings: &Settings) -> Result<Section, Refusal> {
    let engine = &backend.engine;
    let Section { mut options, mut data_dir, mut durability } = Section::default();
    let given = settings.engine_options.get(backend.section).map_or(&[][..], Vec::as_slice);
    let known: Vec<&str> =
        engine.options.iter().map(|option| option.key).chain(["data_dir", DURABILITY]).collect();
    if settings.depth > 1 && known.contains(&DEPTH) {
        options.push((DEPTH.to_owned(), settings.depth.to_string()));
    }
    for (key, value) in given.iter().chain(&backend.options) {
        if key == "data_dir" {
            data_dir = Some(PathBuf::from(value));
        } else if key == DURABILITY && !engine.names(DURABILITY) {
            let level = value.parse().map_err(|error: keyrack_store::Error| {
                let place = settings.place(&format!("{}.{key}", backend.section));
                refusal(format!("{place}[{}] {key}: {error}", backend.section))
            });
            durability = Some(level?);
        } else if known.contains(&key.as_str()) || engine.names(ANY_KEY) {
            options.push((key.clone(), value.clone()));
        } else {
            let what = format!("key of [{}]", backend.section);
            let place = settings.place(&format!("{}.{key}", backend.section));
            return Err(refusal(format!("{place}{}", unknown(&what, key, &known))));
        }
    }
    Ok(Section { options, data_dir, durability })
}

fn plan_engine(
    backend: &Backend,
    settings: &Settings,
    surroundings: &Surroundings,
    warnings: &mut Vec<String>,
) -> Result<PlannedEngine, Refusal> {
    let Section { options, data_dir: own_dir, durability } = engine_section(backend, settings)?;
    if let (Some(run), Some(own)) = (settings.durability, durability)
        && run != own
    {
        return Err(refusal(format!(
            "[{}] durability: {own} contradicts that of the run, {run}; give one",
            backend.section
        )));
    }
    let engine = backend.engine;
    if settings.depth > 1 && !engine.options.iter().any(|option| option.key == DEPTH) {
        warnings.push(format!(
            "--depth {}: engine '{}' answers each call before it returns, its depth is 1",
            settings.depth, engine.name
        ));
    }
    let data_dir = own_dir.or_else(|| settings.data_dir.clone());
    let mut planned = PlannedEngine {
        engine,
        options,
        data_dir: None,
        kept_dir: None,
        syncs: false,
        durability: settings.durability.or(durability),
        verify: None,
        terms: None,
        remarks: Vec::new(),
    };
    if !engine.persistent {
        return try_open(planned, settings, surroundings);
    }
    if let Some(dir) = &settings.store {
        planned.kept_dir = Some(dir.clone());
        let planned = try_open(planned, settings, surroundings)?;
        check_dir(dir, settings, surroundings, warnings)?;
        return Ok(planned);
    }
    let name = engine.name;
    let Some(dir) = data_dir else {
        return Err(refusal(format!(
            "backend '{name}' stores on disk: name a directory on the disk to measure with \
             --data-dir DIR"
        )));
    };
    let fs = &surroundings.fs;
    match fs.metadata(&dir) {
        Ok(found) if found.kind == FileKind::Dir => {}
        Ok(_) => return Err(refusal(format!("--data-dir {}: not a directory", dir.display()))),
        Err(error) => return Err(refusal(format!("--data-dir: {error}; make it with mkdir"))),
    }
    check_dir(&dir, settings, surroundings, warnings)?;
    planned.data_dir = Some(dir);
    try_open(planned, settings, surroundings)
}

/// Whether there is room in a directory, and what must be known of it.
fn check_dir(
    dir: &Path,
    settings: &Settings,
    surroundings: &Surroundings,
    warnings: &mut Vec<String>,
) -> Result<(), Refusal> {
    let fs = &surroundings.fs;
    let where_ = dir.display();
    if fs.fs_kind(dir).is_ok_and(|kind| kind.is_ram) {
        let warning = format!(
            "data directory {where_} is on a RAM file system: what is measured is memory, not a \
             disk"
        );
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    if settings.min_free > 0 {
        let space = fs.space(dir).map_err(|error| refusal(error.to_string()))?;
        if space.free_bytes < settings.min_free {
            return Err(refusal(format!(
                "{where_} has {} bytes free, --min-free wants {}",
                space.free_bytes, settings.min_free
            )));
        }
    }
    Ok(())
}

/// Settles its terms, and opens and closes a store with them, so that an option or a durability
/// that the engine refuses is said before anything is measured.
fn try_open(
    mut planned: PlannedEngine,
    settings: &Settings,
    surroundings: &Surroundings,
) -> Result<PlannedEngine, Refusal> {
    let try_with = |planned: &PlannedEngine| -> Result<StoreInfo, String> {
        let stage = Stage::open(planned, &surroundings.fs, settings.seed, planned.durability)?;
        let info = stage.store().info();
        stage.close()?;
        Ok(info)
    };
    let mut remarks = Vec::new();
    if !settings.common.is_empty() && planned.engine.stores {
        let own = planned.options.clone();
        let mut probe = |options: &[(String, String)], durability: Option<Durability>| {
            let with = PlannedEngine { options: options.to_vec(), durability, ..planned.clone() };
            try_with(&with).map(|info| info.durability)
        };
        let Terms { options, durability, remarks: of_terms } = common::negotiate(
            &planned.engine,
            &own,
            &settings.common,
            planned.durability,
            &mut probe,
        );
        (planned.options, planned.durability, remarks) = (options, durability, of_terms);
    }
    let name = planned.engine.name;
    let StoreInfo { durability, syncs_single_puts, caveats, .. } =
        try_with(&planned).map_err(|why| refusal(format!("backend '{name}': {why}")))?;
    remarks.extend(caveats.into_iter().map(|caveat| format!("{name}: {caveat}")));
    let syncs = syncs_single_puts || durability == Durability::Sync;
    let terms = (!settings.common.is_empty() && planned.engine.stores)
        .then(|| common::got(&planned.engine, &planned.options, durability));
    Ok(PlannedEngine { syncs, terms, remarks, ..planned })
}
