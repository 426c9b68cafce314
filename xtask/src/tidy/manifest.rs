//! The part of a `Cargo.toml` that the layer rules need: the package's name and description, and
//! its dependencies with their lines.
//!
//! Read by hand, line by line. Understood are tables (`[dependencies]`, `[dev-dependencies]`,
//! `[target.'cfg(unix)'.dependencies]`, `[dependencies.NAME]`) and the three ways to write an
//! entry:
//!
//! ```text
//! name = "1"    name = { workspace = true }    name.workspace = true
//! ```

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

/// What a manifest says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) dependencies: Vec<Dependency>,
}

/// Where in the file a line stands.
enum Table {
    Package,
    Dependencies(Kind),
    /// The table of one dependency; its entry is the last one.
    OneDependency,
    Other,
}

/// Reads a manifest; O(length).
pub(super) fn parse(text: &str) -> Manifest {
    let mut manifest = Manifest::default();
    let mut table = Table::Other;
    for (index, line) in text.lines().enumerate() {
        let line = without_comment(line).trim();
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = open_table(header.trim(), index + 1, &mut manifest);
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim());
        match table {
            Table::Package => match key {
                "name" => manifest.name = unquoted(value),
                "description" => manifest.description = unquoted(value),
                _ => {}
            },
            Table::Dependencies(kind) => {
                manifest.dependencies.push(entry(key, value, kind, index + 1));
            }
            Table::OneDependency => {
                if let Some(dependency) = manifest.dependencies.last_mut() {
                    match key {
                        "workspace" => dependency.inherited = value == "true",
                        "package" => dependency.name = unquoted(value).unwrap_or_default(),
                        _ => {}
                    }
                }
            }
            Table::Other => {}
        }
    }
    manifest
}

fn open_table(header: &str, line: usize, manifest: &mut Manifest) -> Table {
    if header == "package" {
        return Table::Package;
    }
    if let Some(kind) = kind_of(header) {
        return Table::Dependencies(kind);
    }
    if let Some((parent, name)) = header.rsplit_once('.')
        && let Some(kind) = kind_of(parent)
    {
        let name = name.trim_matches(['"', '\'']).to_string();
        manifest.dependencies.push(Dependency { name, kind, line, inherited: false });
        return Table::OneDependency;
    }
    Table::Other
}

fn kind_of(header: &str) -> Option<Kind> {
    if header == "workspace.dependencies" {
        return Some(Kind::Workspace);
    }
    let last = match header.strip_prefix("target.") {
        Some(rest) => rest.rsplit('.').next()?,
        None => header,
    };
    match last {
        "dependencies" => Some(Kind::Normal),
        "dev-dependencies" => Some(Kind::Dev),
        "build-dependencies" => Some(Kind::Build),
        _ => None,
    }
}

fn entry(key: &str, value: &str, kind: Kind, line: usize) -> Dependency {
    let (name, dotted) = match key.split_once('.') {
        Some((name, rest)) => (name, Some(rest.trim())),
        None => (key, None),
    };
    let name = field(value, "package").and_then(unquoted).unwrap_or_else(|| name.trim().into());
    let inherited = match dotted {
        Some("workspace") => value == "true",
        Some(_) => false,
        None => field(value, "workspace") == Some("true"),
    };
    Dependency { name: name.trim_matches(['"', '\'']).to_string(), kind, line, inherited }
}

/// The value of a key in `{ a = 1, b = [2, 3] }`, up to the next comma. The closing brace may stand
/// on a later line.
fn field<'a>(value: &'a str, key: &str) -> Option<&'a str> {
    let inside = value.strip_prefix('{')?.trim_end_matches('}');
    inside.split(',').find_map(|part| {
        let (name, value) = part.split_once('=')?;
        (name.trim() == key).then_some(value.trim())
    })
}

fn unquoted(value: &str) -> Option<String> {
    let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let (text, _) = value[1..].split_once(quote)?;
    Some(text.to_string())
}

/// The line up to a `#` that stands outside of quotes.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '#') => return &line[..at],
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
    }
    line
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
