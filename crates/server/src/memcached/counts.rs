//! One loop's counters of memcached's commands. One writer, any number of readers.

use keyrack_measure::LiveCounter;

/// Declares the counters once: the fields, their names in `stats`, and their order there.
macro_rules! counts {
    ($($field:ident),* $(,)?) => {
        /// Counters of one loop, named as memcached's `stats` names them.
        #[derive(Debug, Default)]
        pub(crate) struct Counts {
            $(pub(crate) $field: LiveCounter,)*
        }

        impl Counts {
            /// Names, in the order of [`Counts::values`].
            pub(crate) const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            /// How many there are.
            pub(crate) const LEN: usize = Self::NAMES.len();

            pub(crate) fn values(&self) -> [u64; Self::LEN] {
                [$(self.$field.get()),*]
            }
        }
    };
}

counts! {
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
