//! Enums whose variants have names that reports show.

/// Declares one with `ALL`, its variants in order, and `name`.
macro_rules! named {
    ($(#[$of_enum:meta])* pub enum $enum:ident {
        $($(#[$of_variant:meta])* $variant:ident = $name:literal,)+
    }) => {
        $(#[$of_enum])*
        pub enum $enum {
            $($(#[$of_variant])* $variant,)+
        }

        impl $enum {
            /// All, in the order of tables.
            pub const ALL: [$enum; [$($name),+].len()] = [$($enum::$variant),+];

            /// The name in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $($enum::$variant => $name,)+
                }
            }
        }
    };
}

pub(crate) use named;
