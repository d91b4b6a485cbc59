//! `cargo xtask package`: packs the publishable libraries, unpacks them elsewhere and runs their tests there.
//!
//! It shows that the packages need no other files. Nothing is uploaded or downloaded. It takes minutes, because the
//! packages are built from scratch.

use std::path::Path;

use anyhow::{Context, Result};

use crate::child::{cargo_program, command, watch};

/// The crates that can be published, each after its dependencies.
const LIBRARIES: [&str; 2] = ["recount-json", "recount-aaep"];

/// Whether the tests of the packages passed.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let target = root.join("target").join("library");
    let mut pack = command(cargo_program(), root);
    pack.args(["package", "--offline", "--locked", "--allow-dirty", "--no-verify"]);
    pack.args(LIBRARIES.iter().flat_map(|library| ["-p", library])).arg("--target-dir").arg(&target);
    if !watch(pack)? {
        return Ok(false);
    }
    // No parent of the temporary folder is a workspace that the packages could belong to.
    let unpacked = std::env::temp_dir().join(format!("recount-packages-{}", std::process::id()));
    std::fs::create_dir_all(&unpacked).with_context(|| format!("cannot make {}", unpacked.display()))?;
    let passed = test(root, &target, &unpacked);
    std::fs::remove_dir_all(&unpacked).with_context(|| format!("cannot remove {}", unpacked.display()))?;
    passed
}

fn test(root: &Path, target: &Path, unpacked: &Path) -> Result<bool> {
    let mut patches: Vec<String> = Vec::new();
    for library in LIBRARIES {
        let name = format!("{library}-{}", env!("CARGO_PKG_VERSION"));
        let mut unpack = command("tar", root);
        unpack.arg("-xzf").arg(target.join("package").join(format!("{name}.crate"))).arg("-C").arg(unpacked);
        if !watch(unpack)? {
            return Ok(false);
        }
        let folder = unpacked.join(&name);
        let mut test = command(cargo_program(), &folder);
        // An earlier package is used from its unpacked folder, because it is not published yet.
        test.args(["test", "--offline", "--quiet"]).args(&patches).arg("--target-dir").arg(target);
        if !watch(test)? {
            return Ok(false);
        }
        patches.extend([
            "--config".into(),
            format!("patch.crates-io.{library}.path={:?}", folder.display().to_string()),
        ]);
    }
    Ok(true)
}
