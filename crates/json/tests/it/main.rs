//! Integration tests of the scanner.

mod hostile;
