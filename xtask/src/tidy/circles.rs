//! Rule: no circle of imports of more than two files inside a crate.
//!
//! ```text
//! file -> module -> paths in its code (`crate::a::B`, `super::C`, `use` trees) -> the file that
//! defines each name, through re-exports -> strongly connected components -> breaches
//! ```
//!
//! A parent and its child module may import each other: a folder is one noun with its parts. Any
//! other circle has no first file to read. Code under `#[cfg(test)]` does not count.
//!
//! This is a reader of paths, not a compiler: a name that comes by a glob or a macro is not seen,
//! so a circle can be missed, and none is made up.

use std::collections::{BTreeMap, BTreeSet};

use super::code::{code_only, without_tests};
use super::{Breach, Tree};

/// Files that may import each other.
const FILES_MAX: usize = 2;

/// A module's path below its crate: empty for the root.
type Module = Vec<String>;

/// The rule.
pub(super) fn circles(tree: &Tree) -> Vec<Breach> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, Source>> = BTreeMap::new();
    for file in tree.rust() {
        if let Some((home, module)) = module_of(&file.path) {
            let source = Source::read(&file.path, &file.text, &module);
            crates.entry(home).or_default().insert(module, source);
        }
    }
    crates.values_mut().flat_map(circles_of).collect()
}

/// The source folder of a file and the module that the file is.
fn module_of(path: &str) -> Option<(&str, Module)> {
    let (home, below) = path.split_once("/src/")?;
    let below = below.strip_suffix(".rs")?;
    let mut module: Module = below.split('/').map(str::to_owned).collect();
    let root = matches!(below, "lib" | "main");
    if root || module.last().is_some_and(|name| name == "mod") {
        module.pop();
    }
    Some((home, module))
}

/// What a file says of others.
#[derive(Debug)]
struct Source {
    path: String,
    /// Every path in the code, as absolute as the text makes it.
    paths: BTreeSet<Vec<String>>,
    /// Names that `use` brings in, with where they come from.
    aliases: BTreeMap<String, Vec<String>>,
    /// Child modules that exist for tests alone.
    test_children: Vec<String>,
}

impl Source {
    fn read(path: &str, text: &str, module: &Module) -> Source {
        let code = code_only(text);
        let (code, test_children) = without_tests(&code);
        let mut source = Source {
            path: path.to_owned(),
            paths: BTreeSet::new(),
            aliases: BTreeMap::new(),
            test_children,
        };
        let tokens = tokens_of(&code);
        let mut at = 0;
        while at < tokens.len() {
            if tokens[at] == "use" {
                at = source.add_use(&tokens, at + 1, &[], module);
            } else if is_name(&tokens[at]) && (at == 0 || tokens[at - 1] != "::") {
                at = source.add_path(&tokens, at, module);
            } else {
                at += 1;
            }
        }
        source
    }

    /// Reads a path that begins at a name. Returns the place after it.
    fn add_path(&mut self, tokens: &[String], mut at: usize, module: &Module) -> usize {
        let mut names = vec![tokens[at].clone()];
        while tokens.get(at + 1).is_some_and(|token| token == "::")
            && tokens.get(at + 2).is_some_and(|token| is_name(token))
        {
            names.push(tokens[at + 2].clone());
            at += 2;
        }
        if names.len() > 1 {
            self.paths.insert(absolute(&names, module));
        }
        at + 1
    }

    /// Reads a tree of `use` behind `prefix`. Returns the place after it.
    fn add_use(
        &mut self,
        tokens: &[String],
        mut at: usize,
        prefix: &[String],
        module: &Module,
    ) -> usize {
        let mut names = prefix.to_vec();
        loop {
            match tokens.get(at).map(String::as_str) {
                Some("{") => {
                    at += 1;
                    while tokens.get(at).is_some_and(|token| token != "}") {
                        at = self.add_use(tokens, at, &names, module);
                        at += usize::from(tokens.get(at).is_some_and(|token| token == ","));
                    }
                    return at + 1;
                }
                Some("as") => {
                    self.add_alias(&names, tokens.get(at + 1), module);
                    return at + 2;
                }
                Some("::") => at += 1,
                Some(token) if is_name(token) => {
                    names.push(token.to_owned());
                    at += 1;
                }
                _ => {
                    self.add_alias(&names, None, module);
                    return at;
                }
            }
        }
    }

    fn add_alias(&mut self, names: &[String], alias: Option<&String>, module: &Module) {
        let names = match names.split_last() {
            Some((last, rest)) if last == "self" && !rest.is_empty() => rest,
            _ => names,
        };
        let Some(last) = names.last() else { return };
        let path = absolute(names, module);
        self.aliases.insert(alias.unwrap_or(last).clone(), path.clone());
        self.paths.insert(path);
    }
}

/// The path from the root of the crate, `crate` left out, where the text says so; else as it is.
fn absolute(names: &[String], module: &Module) -> Vec<String> {
    let mut base = match names[0].as_str() {
        "crate" => return names[1..].to_vec(),
        "self" | "super" => module.clone(),
        // Another crate, or a name of this module.
        _ => return [&["".to_owned()], names].concat(),
    };
    let mut rest = names;
    while let Some((first, after)) = rest.split_first() {
        match first.as_str() {
            "self" => {}
            "super" => drop(base.pop()),
            _ => break,
        }
        rest = after;
    }
    [&base, rest].concat()
}

/// Names, `::` and the signs that a tree of `use` is made of.
fn tokens_of(code: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut letters = code.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter.is_alphanumeric() || letter == '_' {
            let mut name = letter.to_string();
            while let Some(next) = letters.next_if(|next| next.is_alphanumeric() || *next == '_') {
                name.push(next);
            }
            tokens.push(name);
        } else if letter == ':' && letters.next_if_eq(&':').is_some() {
            tokens.push("::".to_owned());
        } else if !letter.is_whitespace() {
            tokens.push(letter.to_string());
        }
    }
    tokens
}

fn is_name(token: &str) -> bool {
    token.chars().next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && !matches!(token, "as" | "use" | "pub" | "in" | "fn" | "mod" | "impl" | "for" | "let")
}

fn circles_of(sources: &mut BTreeMap<Module, Source>) -> Vec<Breach> {
    let tests: Vec<Module> = sources
        .iter()
        .flat_map(|(module, source)| {
            let child = |name: &String| [module.as_slice(), std::slice::from_ref(name)].concat();
            source.test_children.iter().map(child).collect::<Vec<_>>()
        })
        .collect();
    sources.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    let modules: Vec<&Module> = sources.keys().collect();
    let index_of: BTreeMap<&Module, usize> =
        modules.iter().enumerate().map(|(index, module)| (*module, index)).collect();
    let mut edges: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); modules.len()];
    for (from, (module, source)) in sources.iter().enumerate() {
        let targets = source.paths.iter().filter_map(|path| resolve(sources, module, path, 0));
        edges[from].extend(targets.map(|to| index_of[&to]).filter(|to| *to != from));
    }
    let is_child =
        |a: usize, b: usize| modules[a].split_last().map(|(_, up)| up) == Some(modules[b]);
    for (from, targets) in edges.iter_mut().enumerate() {
        targets.retain(|to| !is_child(from, *to));
    }
    let mut breaches = Vec::new();
    for circle in components(&edges).into_iter().filter(|circle| circle.len() > FILES_MAX) {
        let path = |index: &usize| sources[modules[*index]].path.as_str();
        let names: Vec<&str> = circle.iter().map(path).collect();
        let what = format!("{} files import each other: {}", names.len(), names.join(", "));
        breaches.push(Breach::new(names[0], 0, what));
    }
    breaches
}

/// The module whose file defines what a path in `module` names, through re-exports.
fn resolve(
    sources: &BTreeMap<Module, Source>,
    module: &Module,
    path: &[String],
    depth: usize,
) -> Option<Module> {
    // Re-exports can lead in a circle; the compiler would not take such a tree.
    if depth > 8 {
        return None;
    }
    let (mut here, names) = match path.split_first() {
        Some((first, names)) if first.is_empty() => {
            // Relative: a child module, or a name that the module has brought in.
            let child = [module.as_slice(), &names[..1]].concat();
            if sources.contains_key(&child) {
                (module.clone(), names)
            } else {
                let alias = sources.get(module)?.aliases.get(&names[0])?;
                if alias.first().is_some_and(String::is_empty) && alias.get(1) == names.first() {
                    return None;
                }
                let whole = [alias.as_slice(), &names[1..]].concat();
                return resolve(sources, module, &whole, depth + 1);
            }
        }
        _ => (Module::new(), path),
    };
    for (index, name) in names.iter().enumerate() {
        let child = [here.as_slice(), std::slice::from_ref(name)].concat();
        if sources.contains_key(&child) {
            here = child;
            continue;
        }
        let aliases = &sources.get(&here)?.aliases;
        return match aliases.get(name) {
            Some(alias) if here != *module || depth > 0 => {
                let whole = [alias.as_slice(), &names[index + 1..]].concat();
                resolve(sources, &here, &whole, depth + 1).or(Some(here))
            }
            _ => Some(here),
        };
    }
    Some(here)
}

/// The strongly connected components of a graph with more than one node: two walks in depth, the
/// second over the edges turned round, in the order in which the first one ends.
fn components(edges: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let mut turned = vec![BTreeSet::new(); edges.len()];
    for (from, targets) in edges.iter().enumerate() {
        for to in targets {
            turned[*to].insert(from);
        }
    }
    let (mut seen, mut order) = (vec![false; edges.len()], Vec::new());
    (0..edges.len()).for_each(|start| visit(edges, start, &mut seen, &mut order));
    let mut seen = vec![false; edges.len()];
    let mut found = Vec::new();
    for start in order.into_iter().rev() {
        let mut component = Vec::new();
        visit(&turned, start, &mut seen, &mut component);
        component.sort_unstable();
        if component.len() > 1 {
            found.push(component);
        }
    }
    found.sort();
    found
}

/// Appends the nodes that can be reached and were not seen, each after those behind it.
fn visit(edges: &[BTreeSet<usize>], node: usize, seen: &mut [bool], ended: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[node], true) {
        return;
    }
    edges[node].iter().for_each(|next| visit(edges, *next, seen, ended));
    ended.push(node);
}

#[cfg(test)]
mod tests {
    use super::super::testing::tree;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, &str)> =
            files.iter().map(|(name, text)| (format!("crates/a/src/{name}"), *text)).collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        circles(&tree(&files)).iter().map(Breach::to_string).collect()
    }

    #[test]
    fn a_planted_circle_of_three_files_is_found() {
        let breaches = found(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use super::{c::C, x::Y}; pub struct B;"),
            ("c.rs", "fn c() { let _ = crate::a::A; } pub struct C;"),
        ]);
        let list = "crates/a/src/a.rs, crates/a/src/b.rs, crates/a/src/c.rs";
        assert_eq!(breaches, [format!("crates/a/src/a.rs: 3 files import each other: {list}")]);
    }

    #[test]
    fn a_circle_through_a_re_export_is_found_and_names_its_definer() {
        let breaches = found(&[
            ("lib.rs", "mod a; mod b; mod c; pub use a::A; pub use b::{B as Bee}; pub use c::C;"),
            ("a.rs", "use crate::Bee;"),
            ("b.rs", "use crate::{C, self as root};"),
            ("c.rs", "use crate::A;"),
        ]);
        assert_eq!(breaches.len(), 1, "{breaches:?}");
        assert!(breaches[0].contains("3 files") && !breaches[0].contains("lib.rs"), "{breaches:?}");
    }

    #[test]
    fn pairs_parents_with_children_and_tests_are_no_circle() {
        let pair = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a::A;"),
        ];
        assert_eq!(found(&pair), [""; 0]);
        let family = [
            ("lib.rs", "mod p;"),
            ("p/mod.rs", "mod a; mod b; use a::A; use self::b::B; pub struct P;"),
            ("p/a.rs", "use super::P;"),
            ("p/b.rs", "use crate::p::P; use super::a::A;"),
        ];
        assert_eq!(found(&family), [""; 0]);
        let tests = [
            ("lib.rs", "mod a; mod b;\n#[cfg(test)]\nmod t;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "pub struct B;\n#[cfg(test)]\nmod tests {\n use crate::t::T;\n}\n"),
            ("t.rs", "use crate::a::A;"),
        ];
        assert_eq!(found(&tests), [""; 0]);
    }

    #[test]
    fn children_of_a_parent_that_go_round_among_themselves_are_a_circle() {
        let breaches = found(&[
            ("lib.rs", "mod p;"),
            ("p.rs", "mod a; mod b; mod c;"),
            ("p/a.rs", "use super::b::B;"),
            ("p/b.rs", "use super::c::{self, C};"),
            ("p/c.rs", "use super::a::A as Other;"),
        ]);
        assert_eq!(breaches.len(), 1, "{breaches:?}");
    }
}
