//! The part of a `Cargo.toml` that the layer rules need: the package's name and description, and
//! its dependencies with their lines.
//!
//! Tables of one target (`[target.'cfg(unix)'.dependencies]`) count like those of all targets.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What a dependency is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Dev,
    Build,
    /// An entry of `[workspace.dependencies]`.
    Workspace,
}

/// One entry of a dependency table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dependency {
    /// The name of the package: that after `package =` when the entry renames it.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Counted from 1.
    pub(super) line: usize,
    /// Whether version and source are those of the workspace.
    pub(super) inherited: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) dependencies: Vec<Dependency>,
}

/// Reads a manifest; one that is not TOML gives nothing. O(length).
pub(super) fn parse(text: &str) -> Manifest {
    let Ok(root) = DeTable::parse(text) else { return Manifest::default() };
    let root = DeValue::Table(root.into_inner());
    let package = |key| Some(root.get("package")?.get_ref().get(key)?.get_ref().as_str()?.into());
    let of_workspace = root.get("workspace").and_then(|table| table.get_ref().get("dependencies"));
    let mut dependencies = entries(text, of_workspace, Kind::Workspace);
    let targets = root.get("target").and_then(|table| table.get_ref().as_table());
    let targets = targets.into_iter().flatten().map(|(_, target)| target.get_ref());
    for place in std::iter::once(&root).chain(targets) {
        dependencies.extend(entries(text, place.get("dependencies"), Kind::Normal));
        dependencies.extend(entries(text, place.get("dev-dependencies"), Kind::Dev));
        dependencies.extend(entries(text, place.get("build-dependencies"), Kind::Build));
    }
    dependencies.sort_by_key(|dependency| dependency.line);
    Manifest { name: package("name"), description: package("description"), dependencies }
}

fn entries(text: &str, table: Option<&Spanned<DeValue<'_>>>, kind: Kind) -> Vec<Dependency> {
    let table = table.and_then(|table| table.get_ref().as_table());
    let entries = table.into_iter().flatten().map(|(key, value)| {
        let field = |name| value.get_ref().get(name).map(Spanned::get_ref);
        let name = field("package").and_then(DeValue::as_str).unwrap_or(key.get_ref());
        let line = text[..key.span().start].matches('\n').count() + 1;
        let inherited = field("workspace").and_then(DeValue::as_bool) == Some(true);
        Dependency { name: name.into(), kind, line, inherited }
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependency(name: &str, kind: Kind, line: usize, inherited: bool) -> Dependency {
        Dependency { name: name.into(), kind, line, inherited }
    }

    #[test]
    fn all_ways_to_write_an_entry_are_read() {
        let manifest = parse(
            "[package]\n\
             name = \"keyrack-x\" # the name\n\
             description = 'A # is not always a comment'\n\
             [dependencies]\n\
             # a comment = here\n\
             a = \"1\"\n\
             b = { workspace = true, features = [\n\
             \"one\",\n\
             ] }\n\
             c.workspace = true\n\
             d = { package = \"keyrack-d\", workspace = true }\n\
             [target.'cfg(unix)'.dev-dependencies]\n\
             e = { workspace = true }\n\
             [build-dependencies.\"f\"]\n\
             workspace = true\n\
             [features]\n\
             default = [\"a\"]\n",
        );
        assert_eq!(manifest.name.as_deref(), Some("keyrack-x"));
        assert_eq!(manifest.description.as_deref(), Some("A # is not always a comment"));
        assert_eq!(
            manifest.dependencies,
            [
                dependency("a", Kind::Normal, 6, false),
                dependency("b", Kind::Normal, 7, true),
                dependency("c", Kind::Normal, 10, true),
                dependency("keyrack-d", Kind::Normal, 11, true),
                dependency("e", Kind::Dev, 13, true),
                dependency("f", Kind::Build, 14, true),
            ]
        );
    }

    #[test]
    fn the_workspace_table_is_its_own_kind() {
        let manifest =
            parse("[workspace.dependencies]\nserde = \"1\"\n[workspace.lints.rust]\nx = 1");
        assert_eq!(manifest.dependencies, [dependency("serde", Kind::Workspace, 2, false)]);
    }

    #[test]
    fn text_that_is_no_manifest_gives_nothing() {
        assert_eq!(parse("[\n]\n=\n[dependencies\nname\n"), Manifest::default());
        assert_eq!(parse("").dependencies, []);
    }
}
