//! `cargo xtask package`: packs the library that can be published, unpacks it elsewhere and runs its tests there.
//!
//! Shows that the package needs no file outside of it. Nothing is sent anywhere, and nothing is fetched that is not here
//! already. It takes minutes, because the package is built anew.

use std::path::Path;

use anyhow::{Context, Result};

use crate::steps::{command, watch};

/// The one crate that can be published.
const LIBRARY: &str = "recount-aaep";

/// Whether the tests of the package passed.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let target = root.join("target").join("library");
    let mut pack = command(cargo(), root);
    pack.args(["package", "--offline", "--locked", "--allow-dirty", "--no-verify", "-p", LIBRARY]);
    pack.arg("--target-dir").arg(&target);
    if !watch(pack)? {
        return Ok(false);
    }
    // Above the temporary folder there is no workspace that the package could belong to.
    let unpacked = std::env::temp_dir().join(format!("{LIBRARY}-package-{}", std::process::id()));
    std::fs::create_dir_all(&unpacked).with_context(|| format!("cannot make {}", unpacked.display()))?;
    let passed = test(root, &target, &unpacked);
    std::fs::remove_dir_all(&unpacked).with_context(|| format!("cannot remove {}", unpacked.display()))?;
    passed
}

fn test(root: &Path, target: &Path, unpacked: &Path) -> Result<bool> {
    let packed = target.join("package").join(format!("{LIBRARY}-{}.crate", env!("CARGO_PKG_VERSION")));
    let mut unpack = command("tar", root);
    unpack.arg("-xzf").arg(&packed).arg("-C").arg(unpacked).arg("--strip-components=1");
    if !watch(unpack)? {
        return Ok(false);
    }
    let mut test = command(cargo(), unpacked);
    test.args(["test", "--offline", "--locked", "--quiet", "--target-dir"]).arg(target);
    watch(test)
}

fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}
