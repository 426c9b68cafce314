//! A range within a prefix that no table has: no index is searched.

use super::open;
use crate::options::Options;
use crate::prefix_extractor::PrefixExtractor;
use crate::table::FINDS;

#[test]
fn no_index_is_searched_for_a_prefix_of_nothing() {
    let extractor = PrefixExtractor::Separator(b'/');
    let options = Options { filter_bits_per_key: 100, memtable_bytes: 1 << 20, ..Options::new() };
    for (is_filtered, options) in
        [(false, options.clone()), (true, options.prefix_extractor(extractor))]
    {
        let db = open(options);
        for keys in [["ada/1", "cyd/1"], ["ada/2", "eve/1"]] {
            keys.iter().for_each(|key| db.put(key.as_bytes(), b"value").unwrap());
            db.flush().unwrap();
        }
        for is_compacted in [false, true] {
            if is_compacted {
                db.compact_range(None, None).unwrap();
            }
            let searches = || {
                let before = FINDS.get();
                assert_eq!(db.prefix("bob/").count(), 0);
                assert!(db.range("bob/1"..="bob/2").next_back().is_none());
                FINDS.get() - before
            };
            assert_eq!(searches() == 0, is_filtered, "compacted: {is_compacted}");
        }
    }
}
