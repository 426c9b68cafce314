//! One loop's counters of memcached's commands. One writer, any number of readers.

use crate::counters::counters;

counters! {
    /// Counters of one loop, named as memcached's `stats` names them.
    cmd_get, cmd_set, cmd_flush, cmd_touch, cmd_meta, get_hits, get_misses,
    delete_misses, delete_hits, incr_misses, incr_hits, decr_misses, decr_hits, cas_misses,
    cas_hits, cas_badval, touch_hits, touch_misses, store_too_large, store_no_memory, auth_cmds,
    auth_errors, bytes_read, bytes_written, total_connections, closed_connections, conn_yields,
    total_items, requests, errors,
}

impl Counts {
    /// Counts one lookup.
    pub(crate) fn looked_up(&self, hit: bool) {
        self.cmd_get.add(1);
        if hit { self.get_hits.add(1) } else { self.get_misses.add(1) }
    }

    pub(crate) fn touched(&self, hit: bool) {
        self.cmd_touch.add(1);
        if hit { self.touch_hits.add(1) } else { self.touch_misses.add(1) }
    }
}
