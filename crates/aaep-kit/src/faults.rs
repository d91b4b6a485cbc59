//! The macro for tables of faults: what a scripted producer or subscriber does wrong on purpose, each with the
//! requirement that it breaks.

macro_rules! faults {
    (
        #[doc = $of:literal]
        $( $fault:ident $(= $name:literal)? $requirement:literal $level:literal : $description:literal; )*
    ) => {
        #[doc = $of]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault { $( #[doc = $description] $fault, )* }

        impl Fault {
            pub const ALL: &[Fault] = &[$( Fault::$fault, )*];

            /// The name in tables and options.
            pub fn name(self) -> &'static str {
                match self { $( Fault::$fault => [$( $name, )? stringify!($fault)][0], )* }
            }

            /// The wrong behaviour.
            pub fn description(self) -> &'static str {
                match self { $( Fault::$fault => $description, )* }
            }

            /// The requirement that it breaks.
            pub fn requirement(self) -> &'static str {
                match self { $( Fault::$fault => $requirement, )* }
            }

            /// The lowest level at which a check must find it.
            pub fn level(self) -> u8 {
                match self { $( Fault::$fault => $level, )* }
            }

            pub fn named(name: &str) -> Option<Fault> {
                Fault::ALL.iter().copied().find(|fault| fault.name() == name)
            }
        }
    };
}

pub(crate) use faults;
