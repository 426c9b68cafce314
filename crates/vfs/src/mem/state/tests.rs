//! Random histories of the simulated disk, with every reference and page recounted from scratch.

use std::path::PathBuf;

use super::*;

fn path_of(mix: &mut Mix) -> PathBuf {
    let mut path = PathBuf::from("/");
    for _ in 0..=mix.below(3) {
        path.push(["a", "b", "c"][mix.below(3) as usize]);
    }
    path
}

/// One random change; refusals are part of the game.
fn step(state: &mut State, mix: &mut Mix) -> Raw<()> {
    let (first, second) = (path_of(mix), path_of(mix));
    let options = OpenOptions::new().write(true).create(true);
    match mix.below(12) {
        0..=3 => {
            let id = state.open(&first, &options)?;
            state.write(id, mix.below(20_000), &[1; 3_000])?;
            state.set_len(id, mix.below(30_000))?;
            state.sync_file(id, 0, mix.below(2) * 4_096);
            state.close(id);
            Ok(())
        }
        4..=5 => state.create_dir(&first),
        6..=7 => state.rename(&first, &second),
        8 => state.link(&first, &second),
        9 => state.remove_file(&first).or_else(|_| state.remove_dir(&first)),
        10 => state.sync_dir(first.parent().unwrap()),
        _ => state.sync_dir(&first),
    }
}

/// Recounts every reference and page, and compares.
fn check(state: &State) {
    let mut live = BTreeMap::from([(ROOT, 1)]);
    let mut durable = BTreeMap::from([(ROOT, 1)]);
    for node in state.nodes.values() {
        if let Body::Dir(dir) = &node.body {
            dir.live.values().for_each(|id| *live.entry(*id).or_default() += 1);
            dir.durable.values().for_each(|id| *durable.entry(*id).or_default() += 1);
        }
    }
    for change in &state.journal {
        *durable.entry(change.node).or_default() += 1;
        for (dir, _) in change.removed.iter().chain(&change.entered) {
            *durable.entry(*dir).or_default() += 1;
        }
    }
    let mut pages = 0;
    for (id, node) in &state.nodes {
        assert_eq!(node.live, live.get(id).copied().unwrap_or(0), "live references of {id}");
        assert_eq!(node.durable, durable.get(id).copied().unwrap_or(0), "durable ones of {id}");
        assert!(node.live + node.durable > 0, "node {id} is garbage");
        pages += if node.live > 0 { node.live_pages() } else { 0 };
    }
    assert_eq!(state.used_pages, pages);
}

/// Removes everything below a directory.
fn clear(state: &mut State, dir: &Path) {
    let names = state.find(dir).and_then(|id| Ok(state.dir(id)?.live.clone())).unwrap();
    for name in names.keys() {
        let path = dir.join(name);
        if state.remove_file(&path).is_err() {
            clear(state, &path);
            state.remove_dir(&path).unwrap();
        }
    }
}

#[test]
fn references_and_space_are_counted_right_in_random_histories() {
    let policies =
        [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Ordered, CrashPolicy::Reordered];
    for seed in 0..60 {
        let mut mix = Mix::new(seed);
        let mut state = State::new(1_000);
        let mut done = 0;
        for _ in 0..120 {
            done += u32::from(step(&mut state, &mut mix).is_ok());
        }
        assert!(done > 10, "SEED={seed}: only {done} changes were possible");
        check(&state);
        check(&state.without_process());
        for policy in policies {
            let image = state.crash(mix.next(), policy);
            check(&image);
            assert!(image.journal.is_empty());
            let again = image.crash(mix.next(), policy);
            assert_eq!(format!("{image:?}"), format!("{again:?}"), "SEED={seed} not durable");
        }
        clear(&mut state, Path::new("/"));
        check(&state);
        state.sync_dir(Path::new("/")).unwrap();
        check(&state);
        assert_eq!((state.nodes.len(), state.journal.len()), (1, 0), "SEED={seed}");
        assert_eq!(state.free_pages(), 1_000);
    }
}
