//! The counters of one loop and one protocol.

/// Declares `Counts`, the counters of one loop, once: the fields, their names, and their order.
macro_rules! counters {
    ($(#[$about:meta])* $($field:ident),* $(,)?) => {
        $(#[$about])*
        #[derive(Debug, Default)]
        pub(crate) struct Counts {
            $(pub(crate) $field: keyrack_measure::LiveCounter,)*
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

pub(crate) use counters;
