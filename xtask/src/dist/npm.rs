//! The packages for npm: one with the program of this platform, and a small one that all users install, which picks it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Release, fresh_folder, licences, program_name};
use crate::child::{command, watch};

/// Targets with the names that Node has for their system and processor.
const PLATFORMS: [(&str, &str, &str); 7] = [
    ("x86_64-unknown-linux-musl", "linux", "x64"),
    ("x86_64-unknown-linux-gnu", "linux", "x64"),
    ("aarch64-unknown-linux-musl", "linux", "arm64"),
    ("aarch64-unknown-linux-gnu", "linux", "arm64"),
    ("x86_64-apple-darwin", "darwin", "x64"),
    ("aarch64-apple-darwin", "darwin", "arm64"),
    ("x86_64-pc-windows-msvc", "win32", "x64"),
];

pub(super) fn pack(release: &Release<'_>) -> Result<Vec<PathBuf>> {
    let platform = PLATFORMS.iter().find(|(target, ..)| *target == release.target);
    let (_, system, processor) =
        platform.with_context(|| format!("npm has no name for {}", release.target))?;
    let source = release.root.join("packaging/npm");
    let wrapper: Value = serde_json::from_str(&std::fs::read_to_string(source.join("package.json"))?)?;
    let name = wrapper["name"].as_str().context("the package has no name")?;

    let program = release.out.join("staged/npm-program");
    fresh_folder(&program)?;
    for file in [program_name(&release.target), licences::FILE, "LICENSE-APACHE", "LICENSE-MIT"] {
        std::fs::copy(release.staged.join(file), program.join(file))?;
    }
    let manifest = json!({
        "name": format!("{name}-{system}-{processor}"),
        "version": release.version,
        "description": format!("The program recount for {system} on {processor}"),
        "license": wrapper["license"],
        "os": [system],
        "cpu": [processor],
        "files": [program_name(&release.target), licences::FILE, "LICENSE-*"],
    });
    std::fs::write(program.join("package.json"), format!("{manifest:#}\n"))?;

    let folder = release.out.join("staged/npm");
    fresh_folder(&folder)?;
    for file in ["recount.js", "README.md"] {
        std::fs::copy(source.join(file), folder.join(file))?;
    }
    for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
        std::fs::copy(release.root.join(file), folder.join(file))?;
    }
    std::fs::write(folder.join("package.json"), format!("{:#}\n", with_version(wrapper, release.version)))?;
    Ok(vec![pack_folder(&program, release)?, pack_folder(&folder, release)?])
}

/// The version of the wrapper, and of the packages that it picks from.
fn with_version(mut manifest: Value, version: &str) -> Value {
    manifest["version"] = version.into();
    if let Some(programs) = manifest["optionalDependencies"].as_object_mut() {
        programs.values_mut().for_each(|wanted| *wanted = version.into());
    }
    manifest
}

fn pack_folder(folder: &Path, release: &Release<'_>) -> Result<PathBuf> {
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(folder.join("package.json"))?)?;
    let name = manifest["name"].as_str().context("the package has no name")?;
    let mut pack = command("npm", folder);
    pack.args(["pack", "--silent", "--offline", "--pack-destination"]).arg(&release.out);
    ensure!(watch(pack)?, "the package {name} could not be written");
    let file = format!("{}-{}.tgz", name.trim_start_matches('@').replace('/', "-"), release.version);
    Ok(release.out.join(file))
}
