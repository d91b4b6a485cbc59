//! The package for Debian, from the staged files.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::{Release, fresh_folder, licences, output_of, sbom};
use crate::child::{command, watch};

/// Folders of the archive and files in it, and where they are on the machine.
const FILES: [(&str, &str); 9] = [
    ("recount", "usr/bin/recount"),
    ("systemd/recount.service", "usr/lib/systemd/system/recount.service"),
    ("systemd/recount.socket", "usr/lib/systemd/system/recount.socket"),
    ("systemd/recount.sysusers", "usr/lib/sysusers.d/recount.conf"),
    ("completions/bash/recount", "usr/share/bash-completion/completions/recount"),
    ("completions/zsh/_recount", "usr/share/zsh/vendor-completions/_recount"),
    ("completions/fish/recount.fish", "usr/share/fish/vendor_completions.d/recount.fish"),
    (licences::FILE, "usr/share/doc/recount/THIRD-PARTY-LICENSES.txt"),
    (sbom::FILE, "usr/share/doc/recount/sbom.cdx.json"),
];

const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

pub(super) fn pack(release: &Release<'_>) -> Result<PathBuf> {
    let machine = release.processor()?;
    let tree = release.out.join("staged/deb");
    fresh_folder(&tree)?;
    for (from, to) in FILES {
        copy(&release.staged.join(from), &tree.join(to))?;
    }
    let source = release.root.join("packaging/debian");
    copy(&source.join("copyright"), &tree.join("usr/share/doc/recount/copyright"))?;
    copy(&release.root.join("CHANGELOG.md"), &tree.join("usr/share/doc/recount/CHANGELOG.md"))?;
    compress(&tree.join("usr/share/doc/recount/CHANGELOG.md"))?;
    for page in std::fs::read_dir(release.staged.join("man/man1"))? {
        let page = page?;
        let to = tree.join("usr/share/man/man1").join(page.file_name());
        copy(&page.path(), &to)?;
        compress(&to)?;
    }
    for script in SCRIPTS {
        copy(&source.join(script), &tree.join("DEBIAN").join(script))?;
    }
    let installed = output_of(release.root, &["du", "-sk", "--apparent-size", &tree.to_string_lossy()])?;
    let control = std::fs::read_to_string(source.join("control"))?;
    let control = control.replace("@VERSION@", release.version).replace("@ARCHITECTURE@", machine);
    let control =
        control.replace("@SIZE@", installed.split_whitespace().next().context("du prints no size")?);
    std::fs::write(tree.join("DEBIAN/control"), control)?;
    set_modes(&tree)?;
    let path = release.out.join(format!("recount_{}_{machine}.deb", release.version));
    let mut build = command("dpkg-deb", release.root);
    build.env("SOURCE_DATE_EPOCH", &release.time);
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&tree).arg(&path);
    ensure!(watch(build)?, "the package for Debian could not be written");
    Ok(path)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().context("it is in a folder")?;
    std::fs::create_dir_all(folder)?;
    std::fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// Debian requires compressed manual pages.
fn compress(file: &Path) -> Result<()> {
    output_of(Path::new("."), &["gzip", "-9nf", &file.to_string_lossy()]).map(drop)
}

fn set_modes(tree: &Path) -> Result<()> {
    let tree = tree.to_string_lossy();
    output_of(Path::new("."), &["chmod", "-R", "u=rwX,go=rX", &tree])?;
    // Files that no one runs keep no right to run from where they were copied.
    let find = ["find", &tree, "-type", "f", "!", "-path", "*/usr/bin/*", "!", "-path", "*/DEBIAN/p*"];
    output_of(Path::new("."), &[&find[..], &["-exec", "chmod", "644", "{}", "+"]].concat())?;
    for script in SCRIPTS {
        output_of(Path::new("."), &["chmod", "755", &format!("{tree}/DEBIAN/{script}")])?;
    }
    Ok(())
}
