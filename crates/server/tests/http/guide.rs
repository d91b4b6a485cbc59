//! The page that users read, held against the program.
