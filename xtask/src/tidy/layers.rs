//! The folders are the architecture: which crate may depend on which, and which packages of
//! other people are used at all.
//!
//! ```text
//! L6  cli
//! L5  fs-tools compat
//! L4  console flodb-c                                 testkit: for tests, and for
//! L3  backup rowstore deltafs deltafs-c leveldb-c        the self-test of the cli
//!     python mount objects server loadgen harness live report migrate
//! L2  masstree-engine flodb peers
//! L1  store masstree record wal net workload leveldb trace hdr calendar
//! L0  measure vfs concurrent ffi wire
//! ```
//!
//! A crate depends on crates of lower layers. Crates of one layer do not know each other, but for
//! the pairs in [`EDGES`]. Tests may also use `testkit` and `peers`. A crate that the table
//! does not know is a breach, so adding one means deciding where it stands.

use super::manifest::{self, Dependency, Kind, Manifest};
use super::markdown;
use super::{Breach, File, Tree};

/// The layers from the lowest up.
const LAYERS: &[&[&str]] = &[
    &["measure", "vfs", "concurrent", "decimal", "ffi", "wire"],
    &[
        "store", "masstree", "record", "wal", "net", "workload", "leveldb", "trace", "hdr",
        "calendar",
    ],
    &["masstree-engine", "flodb", "peers"],
    &[
        "backup",
        "rowstore",
        "deltafs",
        "deltafs-c",
        "leveldb-c",
        "python",
        "mount",
        "objects",
        "server",
        "loadgen",
        "harness",
        "live",
        "report",
        "migrate",
    ],
    &["console", "flodb-c"],
    &["fs-tools", "compat"],
    &["cli"],
];

/// Crates for tests. They see the first two layers, and nobody but tests sees them.
const TEST_CRATES: &[&str] = &["testkit"];

/// What the tests of any crate may depend on, wherever it stands.
const FOR_TESTS: &[&str] = &["testkit", "peers"];

/// Dependencies that the layers alone would forbid, with the reason for each.
const EDGES: &[(&str, &str, &str)] = &[
    ("cli", "testkit", "`keyrack bench --selftest` is the random comparison of the tests"),
    ("record", "hdr", "the histograms of a record are in their interchange format"),
    ("wire", "decimal", "lengths and numbers of protocols are decimal text"),
    ("deltafs-c", "deltafs", "the interface for C is one of name spaces"),
    ("python", "backup", "stores in Python are backed up by the same code as all others"),
    ("python", "deltafs", "the package has name spaces, too"),
    ("mount", "deltafs", "what is mounted is a name space"),
    ("objects", "deltafs", "what is kept in object stores are published name spaces"),
    ("objects", "backup", "an object store is a place for repositories of backups"),
    ("server", "rowstore", "the server serves rows, whichever store holds them"),
    ("compat", "fs-tools", "the old names of DeltaFS' programs are tools of name spaces"),
    ("harness", "loadgen", "network workloads are driven by the clients of the load generator"),
];

/// What the chores depend on: few packages, so that they are built quickly.
const FOR_CHORES: &[&str] = &["toml"];

/// Where the reasons for dependencies stand, and under which heading.
const REASONS_PATH: &str = "docs/architecture.md";
const REASONS_HEADING: &str = "Dependencies";

const PREFIX: &str = "keyrack-";

/// Where a crate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Layer(usize),
    Tests,
}

fn place(name: &str) -> Option<Place> {
    if TEST_CRATES.contains(&name) {
        return Some(Place::Tests);
    }
    LAYERS.iter().position(|layer| layer.contains(&name)).map(Place::Layer)
}

/// Why one crate may not depend on another; nothing when it may.
fn objection(from: &str, to: &str, kind: Kind) -> Option<String> {
    // A crate that names itself turns features of its own on for its tests.
    if EDGES.iter().any(|(a, b, _)| (*a, *b) == (from, to))
        || (kind == Kind::Dev && (FOR_TESTS.contains(&to) || from == to))
    {
        return None;
    }
    // The test crates look down from above the second layer.
    let height = |place| match place {
        Place::Layer(layer) => layer,
        Place::Tests => 2,
    };
    match (place(from)?, place(to)) {
        (_, None) => Some(format!("{PREFIX}{to} stands in no layer")),
        (_, Some(Place::Tests)) => Some(format!("{to} is for tests: move it to dev-dependencies")),
        (above, Some(below)) if height(below) < height(above) => None,
        (above, Some(below)) => Some(format!(
            "{from} (L{}) may not depend on {to} (L{}): only on lower layers",
            height(above),
            height(below)
        )),
    }
}

/// Rule: every crate is in the table and depends downward; the chores depend on [`FOR_CHORES`].
pub(super) fn edges(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (folder, file, manifest) in members(tree) {
        if folder == "xtask" {
            for Dependency { name, line, .. } in &manifest.dependencies {
                if !FOR_CHORES.contains(&name.as_str()) {
                    let what = format!("xtask may not depend on {name}: only on {FOR_CHORES:?}");
                    breaches.push(Breach::new(&file.path, *line, what));
                }
            }
            continue;
        }
        if place(folder).is_none() {
            let what = format!("{folder} stands in no layer: add it to the table of xtask");
            breaches.push(Breach::new(&file.path, 0, what));
        }
        for dependency in &manifest.dependencies {
            let Some(to) = dependency.name.strip_prefix(PREFIX) else { continue };
            if let Some(what) = objection(folder, to, dependency.kind) {
                breaches.push(Breach::new(&file.path, dependency.line, what));
            }
        }
    }
    breaches
}

/// Rule: a crate is named after its folder, says what it is, and takes versions from the workspace.
pub(super) fn manifests(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (folder, file, manifest) in members(tree) {
        let expected = if folder == "xtask" { folder.into() } else { format!("{PREFIX}{folder}") };
        if manifest.name.as_deref() != Some(&expected) {
            breaches.push(Breach::new(&file.path, 0, format!("the package is not {expected}")));
        }
        if manifest.description.as_deref().is_none_or(|text| text.trim().is_empty()) {
            breaches.push(Breach::new(&file.path, 0, "the package has no description"));
        }
        for Dependency { name, line, inherited, .. } in &manifest.dependencies {
            if !inherited {
                let what = format!("{name} is not taken from [workspace.dependencies]");
                breaches.push(Breach::new(&file.path, *line, what));
            }
        }
    }
    breaches
}

/// Rule: every package of other people has its reason in a table row of the architecture page,
/// ``| `name` | ... | reason |``, and every row there is still true.
pub(super) fn dependency_list(tree: &Tree) -> Vec<Breach> {
    let Some(root) = tree.text("Cargo.toml") else { return Vec::new() };
    let Some(page) = tree.text(REASONS_PATH) else {
        return vec![Breach::new(REASONS_PATH, 0, "the page with the dependencies is missing")];
    };
    let rows = reasons(page);
    let used = manifest::parse(root).dependencies;
    let used: Vec<&Dependency> = used
        .iter()
        .filter(|dependency| dependency.kind == Kind::Workspace)
        .filter(|dependency| !dependency.name.starts_with(PREFIX))
        .collect();
    let mut breaches = Vec::new();
    for Dependency { name, line, .. } in &used {
        if !rows.iter().any(|row| row.name == name) {
            let what = format!("{name} has no row in {REASONS_PATH}, \"{REASONS_HEADING}\"");
            breaches.push(Breach::new("Cargo.toml", *line, what));
        }
    }
    for row in &rows {
        if !row.has_reason {
            breaches.push(Breach::new(
                REASONS_PATH,
                row.line,
                format!("{} has no reason", row.name),
            ));
        }
        if !used.iter().any(|dependency| dependency.name == row.name) {
            let what = format!("{} is not in [workspace.dependencies]", row.name);
            breaches.push(Breach::new(REASONS_PATH, row.line, what));
        }
    }
    breaches
}

struct Row<'a> {
    name: &'a str,
    line: usize,
    has_reason: bool,
}

/// The rows under the heading, until the next heading of the same or a higher level.
fn reasons(page: &str) -> Vec<Row<'_>> {
    let mut level_open = None;
    let mut rows = Vec::new();
    for (index, line) in page.lines().enumerate() {
        if let Some((level, title)) = markdown::heading(line) {
            if title.contains(REASONS_HEADING) {
                level_open = Some(level);
            } else if level_open.is_some_and(|open| level <= open) {
                level_open = None;
            }
        }
        if level_open.is_none() {
            continue;
        }
        let Some(rest) = line.strip_prefix("| `") else { continue };
        let Some((name, rest)) = rest.split_once('`') else { continue };
        let has_reason = rest.split('|').skip(1).any(|cell| !cell.trim().is_empty());
        rows.push(Row { name, line: index + 1, has_reason });
    }
    rows
}

/// The crates: name of the folder, manifest as a file, manifest as read.
fn members(tree: &Tree) -> impl Iterator<Item = (&str, &File, Manifest)> {
    tree.files.iter().filter_map(|file| {
        let folder = file.path.strip_suffix("/Cargo.toml")?;
        let name = match folder.strip_prefix("crates/") {
            Some(name) if !name.contains('/') => name,
            _ if folder == "xtask" => folder,
            _ => return None,
        };
        Some((name, file, manifest::parse(&file.text)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{places, tree};
    use super::*;

    fn breaches_of(folder: &str, dependencies: &str) -> Vec<String> {
        let path = format!("crates/{folder}/Cargo.toml");
        edges(&tree(&[(&path, dependencies)])).into_iter().map(|breach| breach.what).collect()
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn arrows_point_downward_only() {
        assert_eq!(breaches_of("store", "[dependencies]\nkeyrack-vfs.workspace = true"), NONE);
        assert_eq!(
            breaches_of("store", "[dependencies]\nkeyrack-wal.workspace = true"),
            ["store (L1) may not depend on wal (L1): only on lower layers"]
        );
        assert_eq!(
            breaches_of("vfs", "[dependencies]\nkeyrack-store = { workspace = true }"),
            ["vfs (L0) may not depend on store (L1): only on lower layers"]
        );
        assert_eq!(breaches_of("peers", "[build-dependencies]\nkeyrack-cli = \"1\"").len(), 1);
    }

    #[test]
    fn named_edges_are_allowed_one_way() {
        assert_eq!(breaches_of("harness", "[dependencies]\nkeyrack-loadgen = \"1\""), NONE);
        assert_eq!(breaches_of("loadgen", "[dependencies]\nkeyrack-harness = \"1\"").len(), 1);
        assert_eq!(breaches_of("cli", "[dependencies]\nkeyrack-testkit = \"1\""), NONE);
    }

    #[test]
    fn test_crates_are_for_tests() {
        let breaches = breaches_of("peers", "[dependencies]\nkeyrack-testkit = \"1\"");
        assert_eq!(breaches, ["testkit is for tests: move it to dev-dependencies"]);
        assert_eq!(breaches_of("peers", "[dev-dependencies]\nkeyrack-testkit = \"1\""), NONE);
        assert_eq!(breaches_of("store", "[dev-dependencies]\nkeyrack-peers = \"1\""), NONE);
        assert_eq!(breaches_of("store", "[dev-dependencies]\nkeyrack-cli = \"1\"").len(), 1);
        assert_eq!(breaches_of("store", "[dev-dependencies]\nkeyrack-store = \"1\""), NONE);
        assert_eq!(breaches_of("store", "[dependencies]\nkeyrack-store = \"1\"").len(), 1);
        assert_eq!(breaches_of("testkit", "[dependencies]\nkeyrack-store = \"1\""), NONE);
        assert_eq!(breaches_of("testkit", "[dependencies]\nkeyrack-peers = \"1\"").len(), 1);
    }

    #[test]
    fn a_crate_without_a_place_is_a_breach_on_both_ends() {
        assert_eq!(
            breaches_of("sync", "[dependencies]\n"),
            ["sync stands in no layer: add it to the table of xtask"]
        );
        assert_eq!(
            breaches_of("cli", "[dependencies]\nkeyrack-sync = \"1\""),
            ["keyrack-sync stands in no layer"]
        );
    }

    #[test]
    fn the_chores_use_few_packages() {
        let tree = tree(&[("xtask/Cargo.toml", "[dependencies]\ntoml = \"1\"\nanyhow = \"1\"\n")]);
        assert_eq!(places(&edges(&tree)), ["xtask/Cargo.toml:3"]);
    }

    #[test]
    fn manifests_have_a_name_a_description_and_versions_of_the_workspace() {
        let good = "[package]\nname = \"keyrack-vfs\"\ndescription = \"Files\"\n\
                    [dependencies]\nlibc = { workspace = true }\n";
        assert_eq!(manifests(&tree(&[("crates/vfs/Cargo.toml", good)])), []);
        let bad = "[package]\nname = \"vfs\"\ndescription = \" \"\n[dependencies]\nlibc = \"0\"\n";
        let breaches = manifests(&tree(&[("crates/vfs/Cargo.toml", bad)]));
        assert_eq!(breaches.len(), 3, "{breaches:?}");
        assert_eq!(breaches[2].line, 5);
    }

    #[test]
    fn every_dependency_has_its_reason_and_every_row_its_dependency() {
        let root = "[workspace.dependencies]\nkeyrack-vfs = { path = \"x\" }\nserde = \"1\"\n\
                    libc = \"0\"\nclap = \"4\"\n";
        let page = "# Architecture\n\n| `clap` | elsewhere |\n\n## Dependencies\n\n\
                    | name | why |\n|---|---|\n| `serde` | records |\n| `gone` | once |\n\
                    | `libc` |  |\n\n### Notes\n\n## Glossary\n\n| `clap` | a word |\n";
        let tree = tree(&[("Cargo.toml", root), ("docs/architecture.md", page)]);
        let breaches = dependency_list(&tree);
        assert_eq!(
            places(&breaches),
            ["Cargo.toml:5", "docs/architecture.md:10", "docs/architecture.md:11"]
        );
        assert!(breaches[0].what.starts_with("clap has no row"));
        assert!(breaches[2].what.contains("no reason"));
    }

    #[test]
    fn a_missing_page_of_reasons_is_a_breach() {
        let tree = tree(&[("Cargo.toml", "[workspace.dependencies]\n")]);
        assert_eq!(places(&dependency_list(&tree)), ["docs/architecture.md:0"]);
    }

    #[test]
    fn the_table_of_layers_names_each_crate_once() {
        let mut names: Vec<&str> = LAYERS.iter().flat_map(|layer| layer.iter().copied()).collect();
        names.extend(TEST_CRATES);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(EDGES.iter().all(|(from, to, reason)| {
            place(from).is_some() && place(to).is_some() && !reason.is_empty()
        }));
    }
}
