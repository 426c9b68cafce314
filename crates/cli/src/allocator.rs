//! The memory allocator of the program, which cargo features choose.
//!
//! | features | allocator |
//! |---|---|
//! | `mimalloc`, a default | mimalloc |
//! | `jemalloc` | jemalloc, whether or not `mimalloc` is there |
//! | `system-malloc`, or none of them | that of the system, or one that `LD_PRELOAD` puts in its place |

#[cfg(all(feature = "jemalloc", not(feature = "system-malloc")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(all(feature = "mimalloc", not(any(feature = "jemalloc", feature = "system-malloc"))))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Allocators that are put in the place of the system's by the name of their library.
const PRELOADED: [&str; 4] = ["tcmalloc", "jemalloc", "mimalloc", "hoard"];

/// What the allocator is called in records.
pub(crate) fn name() -> String {
    if cfg!(feature = "system-malloc") || !cfg!(any(feature = "jemalloc", feature = "mimalloc")) {
        return of_the_system(std::env::var("LD_PRELOAD").ok().as_deref());
    }
    if cfg!(feature = "jemalloc") { "jemalloc" } else { "mimalloc" }.to_owned()
}

/// The system's, or that of the first library of a list whose file is named after one.
fn of_the_system(preloaded: Option<&str>) -> String {
    let files = preloaded.unwrap_or_default().split([' ', ':']).map(|path| {
        let file = path.rsplit('/').next().unwrap_or(path);
        file.strip_prefix("lib").unwrap_or(file)
    });
    let named = |file: &str| PRELOADED.into_iter().find(|name| file.starts_with(name));
    let found = files.filter_map(named).next();
    found.map_or_else(|| "system".to_owned(), |name| format!("{name} by LD_PRELOAD"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preloaded_allocator_is_named() {
        assert_eq!(of_the_system(None), "system");
        assert_eq!(of_the_system(Some("/usr/lib/libfoo.so")), "system");
        assert_eq!(of_the_system(Some("/opt/jemalloc-tests/libfoo.so")), "system");
        assert_eq!(of_the_system(Some("libfoo.so:/x/libjemalloc.so.2")), "jemalloc by LD_PRELOAD");
        let tcmalloc = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4";
        assert_eq!(of_the_system(Some(tcmalloc)), "tcmalloc by LD_PRELOAD");
    }
}
