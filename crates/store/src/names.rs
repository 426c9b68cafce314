//! "Did you mean": the nearest valid name to one that is not.

/// The candidate with the smallest edit distance to `name`, unless none is near: more than a
/// third of the letters (and more than two) would have to change. O(candidates x letters^2).
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `unknown KIND 'NAME'`, the nearest valid one, and all that are valid: one line.
#[must_use]
pub fn unknown(kind: &str, name: &str, candidates: &[&str]) -> String {
    let hint = match nearest(name, candidates.iter().copied()) {
        Some(near) => format!("; did you mean '{near}'?"),
        None => String::new(),
    };
    format!("unknown {kind} '{name}'{hint} (have: {})", candidates.join(", "))
}

/// Optimal string alignment distance: insert, delete, substitute, swap neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (above[j - 1] + changed).min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_nonsense_finds_none() {
        let names = ["skiplist", "btree", "null"];
        assert_eq!(nearest("skiplst", names), Some("skiplist"));
        assert_eq!(nearest("btere", names), Some("btree"));
        assert_eq!(nearest("nul", names), Some("null"));
        assert_eq!(nearest("postgres", names), None);
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn the_message_names_the_thing_and_the_choices() {
        assert_eq!(
            unknown("backend", "skiplst", &["skiplist", "btree"]),
            "unknown backend 'skiplst'; did you mean 'skiplist'? (have: skiplist, btree)"
        );
    }
}
