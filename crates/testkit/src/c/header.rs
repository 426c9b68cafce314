//! Headers, made of the sources by cbindgen.
//!
//! What stands in the comments of a call under "Safety" is for callers in Rust, and is left out:
//! what it asks of pointers goes without saying in C.

pub use ::cbindgen;

use super::read;
use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};
use keyrack_vfs::{Fs, RealFs};
use std::env;
use std::path::Path;

/// A header that a crate has.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The folder of the crate: `env!("CARGO_MANIFEST_DIR")`.
    pub folder: &'a str,
    /// The header, below the folder.
    pub path: &'a str,
    /// The macro that says that it is included.
    pub guard: &'a str,
    /// The comment at its beginning.
    pub about: &'a str,
    /// What follows the headers that it includes.
    pub after_includes: Option<&'a str>,
    /// The names of the sources in `src`, in the order of the header.
    pub sources: &'a [&'a str],
    /// Types of the crate, and their names in the header.
    pub types: &'a [(&'a str, &'a str)],
}

impl Header<'_> {
    /// Compares the header with the sources, or writes it where `KEYRACK_REWRITE` is set.
    /// `configure` changes what all headers have in common.
    ///
    /// # Panics
    /// They differ: the message has the first line.
    pub fn check(&self, configure: impl FnOnce(&mut Config)) {
        let path = Path::new(self.folder).join(self.path);
        let found = self.generate(configure);
        if env::var_os("KEYRACK_REWRITE").is_some() {
            RealFs.write_atomic(&path, found.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
            return;
        }
        let expected = read(&path);
        for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
            let number = number + 1;
            assert_eq!(found, expected, "{}:{number}; KEYRACK_REWRITE=1 accepts it", self.path);
        }
        assert_eq!(found, expected, "KEYRACK_REWRITE=1 accepts it");
    }

    fn generate(&self, configure: impl FnOnce(&mut Config)) -> String {
        let mut config = Config {
            language: Language::C,
            header: Some(self.about.to_owned()),
            after_includes: self.after_includes.map(str::to_owned),
            include_guard: Some(self.guard.to_owned()),
            sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
            no_includes: true,
            cpp_compat: true,
            style: Style::Both,
            documentation_style: DocumentationStyle::C99,
            usize_is_size_t: true,
            tab_width: 4,
            ..Config::default()
        };
        let names =
            self.types.iter().map(|(here, there)| ((*here).to_owned(), (*there).to_owned()));
        config.export.rename = names.collect();
        configure(&mut config);
        let folder = Path::new(self.folder);
        let builder = self.sources.iter().fold(Builder::new(), |builder, name| {
            builder.with_src(folder.join(format!("src/{name}.rs")))
        });
        let bindings = builder.with_config(config).generate();
        let mut text = Vec::new();
        bindings.unwrap_or_else(|error| panic!("{error}")).write(&mut text);
        without_safety(&String::from_utf8_lossy(&text))
    }
}

fn without_safety(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut is_safety = false;
    for line in text.lines() {
        if line.trim() == "// # Safety" {
            is_safety = true;
            // The empty line before it.
            kept.pop();
        }
        is_safety &= line.trim_start().starts_with("//");
        if !is_safety {
            kept.push(line.trim_end());
        }
    }
    kept.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_callers_in_rust_promise_is_left_out() {
        let text = "// Does.\n//\n// # Safety\n// `x` is null.\nint does(int *x);\n// More.\n";
        assert_eq!(without_safety(text), "// Does.\nint does(int *x);\n// More.\n");
    }
}
