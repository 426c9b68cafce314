//! What was compiled: the rows of the build probe.
//!
//! | row | example |
//! |---|---|
//! | `keyrack` | `0.1.0` |
//! | `revision` | the commit that was built, 40 hexadecimal digits |
//! | `compiler` | `rustc 1.95.0` |
//! | `std` | `Rust 2024 (optimized)`, or `(debug)`, or with the profile's name |
//! | `allocator` | `mimalloc (glibc 2.41)` |
//! | `lua` | `Lua 5.4.8` |
//! | `features` | `redb lua54` |
//!
//! A library cannot see how the program around it was built, so the program passes the facts in.
//! Only the C library is asked here, because it is the one found at run time.

use super::NOT_AVAILABLE;

/// Facts about the program that only the program knows. An empty text reads `n/a`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildFacts<'a> {
    /// Version of Keyrack.
    pub version: &'a str,
    /// The commit that was built, where the build knew it.
    pub revision: &'a str,
    /// Compiler and its version.
    pub rustc: &'a str,
    /// Cargo profile: `release`, `bench`, `dev`, `debug`, or one of ours.
    pub profile: &'a str,
    /// Name of the memory allocator.
    pub allocator: &'a str,
    /// Lua's name and version.
    pub lua: &'a str,
    /// Cargo features that were on.
    pub features: &'a [&'a str],
}

/// Rows of the build probe, in order.
#[must_use]
pub fn build_info(facts: &BuildFacts<'_>) -> Vec<(String, String)> {
    rows(facts, glibc_version().as_deref())
}

fn rows(facts: &BuildFacts<'_>, glibc: Option<&str>) -> Vec<(String, String)> {
    let edition = match facts.profile {
        "" => NOT_AVAILABLE.to_owned(),
        "release" | "bench" => "Rust 2024 (optimized)".to_owned(),
        "dev" | "debug" | "test" => "Rust 2024 (debug)".to_owned(),
        other => format!("Rust 2024 (optimized, {other})"),
    };
    let allocator = match glibc {
        Some(version) => format!("{} (glibc {version})", or_not_available(facts.allocator)),
        None => or_not_available(facts.allocator),
    };
    let features =
        if facts.features.is_empty() { "none".to_owned() } else { facts.features.join(" ") };
    [
        ("keyrack", or_not_available(facts.version)),
        ("revision", or_not_available(facts.revision)),
        ("compiler", or_not_available(facts.rustc)),
        ("std", edition),
        ("allocator", allocator),
        ("lua", or_not_available(facts.lua)),
        ("features", features),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn or_not_available(text: &str) -> String {
    if text.is_empty() { NOT_AVAILABLE.to_owned() } else { text.to_owned() }
}

/// Version of the GNU C library that this process runs on; `None` with another C library.
#[must_use]
pub fn glibc_version() -> Option<String> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the function takes nothing and has no preconditions.
        let version = unsafe { libc::gnu_get_libc_version() };
        if version.is_null() {
            return None;
        }
        // SAFETY: the pointer is not null and leads to the library's constant text, which ends with
        // a zero byte and lives as long as the process.
        let version = unsafe { std::ffi::CStr::from_ptr(version) };
        Some(version.to_string_lossy().into_owned())
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn std_row(profile: &str) -> String {
        let facts = BuildFacts { profile, ..BuildFacts::default() };
        rows(&facts, None).into_iter().find(|(key, _)| key == "std").unwrap().1
    }

    #[test]
    fn rows_come_in_order() {
        let facts = BuildFacts {
            version: "0.1.0",
            revision: "673994c",
            rustc: "rustc 1.95.0",
            profile: "release",
            allocator: "mimalloc",
            lua: "Lua 5.4",
            features: &["redb", "lua54"],
        };
        let rows = rows(&facts, Some("2.41"));
        let rows: Vec<(&str, &str)> = rows.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let expected = [
            ("keyrack", "0.1.0"),
            ("revision", "673994c"),
            ("compiler", "rustc 1.95.0"),
            ("std", "Rust 2024 (optimized)"),
            ("allocator", "mimalloc (glibc 2.41)"),
            ("lua", "Lua 5.4"),
            ("features", "redb lua54"),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn profiles_say_whether_code_was_optimised() {
        assert_eq!(std_row("dev"), "Rust 2024 (debug)");
        assert_eq!(std_row("fat"), "Rust 2024 (optimized, fat)");
        assert_eq!(std_row(""), "n/a");
    }

    #[test]
    fn missing_facts_keep_their_rows() {
        let rows = rows(&BuildFacts::default(), None);
        assert_eq!(rows.len(), 7);
        assert!(rows[..6].iter().all(|(_, value)| value == "n/a"));
        assert_eq!(rows[6].1, "none");
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn the_c_library_tells_its_version() {
        let version = glibc_version().unwrap();
        assert!(version.starts_with("2."), "{version}");
        let facts = BuildFacts { allocator: "system", ..BuildFacts::default() };
        assert_eq!(build_info(&facts)[4].1, format!("system (glibc {version})"));
    }
}
