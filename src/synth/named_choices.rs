//! Choices that have a name on the command line.

/// Declares an enum with a name on the command line for each value.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident, $what:literal {
        $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// The names, in order of the values.
            pub const NAMES: &'static [&'static str] = &[$($text),+];
            /// The values, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The name on the command line.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                match text {
                    $($text => Ok($name::$variant),)+
                    _ => Err(Error::Usage(format!(
                        "unknown {} \"{text}\"; expected one of {}", $what, Self::NAMES.join(", ")
                    ))),
                }
            }
        }
    };
}

pub(crate) use named;
