//! Paths of the programs of the protocol's authors, which `cargo xtask test` installs. Starts none of them.

use std::path::{Path, PathBuf};

/// The folder of a Python environment that replaces the one below the target folder.
const VARIABLE: &str = "RECOUNT_AAEP_PYTHON";

/// The path of a program such as `aaep-capture` or `aaep-minimal-producer`.
pub(crate) fn program(name: &str) -> PathBuf {
    let beside = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("aaep").join("python");
    let folder = std::env::var_os(VARIABLE).map_or(beside, PathBuf::from);
    let program = folder.join("bin").join(name);
    assert!(
        program.is_file(),
        "{} is missing; `cargo xtask test --only tests` installs it. By hand: python3 -m venv DIR, then \
         DIR/bin/pip install -r xtask/aaep/requirements.txt, and {VARIABLE}=DIR in the environment",
        program.display()
    );
    program
}
