//! `cargo xtask dist`: builds the program `recount` for publication and packs it with man pages, completions, licences, the
//! systemd units and a list of its parts (SBOM); with options also as a package for Debian and for npm.
//!
//! Nothing is uploaded. Everything that it packs and that is not generated is in `packaging/`. Start at [`run`].

mod debian;
mod elf;
mod image;
mod licences;
mod npm;
mod parts;
mod sbom;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use self::parts::Parts;
use crate::child::{cargo_program, command, output_of, target_folder, watch};
use crate::targets;

/// The profile of published programs.
const PROFILE: &str = "dist";

/// The variable of the program's version line.
const COMMIT: &str = "RECOUNT_COMMIT";

/// Where releases are published; written into `install.sh`.
const RELEASES: &str = "RECOUNT_RELEASES";

/// What the command line selects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    deb: bool,
    npm: bool,
    image: bool,
    /// A program that is already built, and the target that it was built for.
    binary: Option<PathBuf>,
    target: Option<String>,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || {
                rest.next()
                    .cloned()
                    .with_context(|| format!("{argument} needs a value; see `cargo xtask help`"))
            };
            match argument.as_str() {
                "--deb" => options.deb = true,
                "--npm" => options.npm = true,
                "--image" => options.image = true,
                "--binary" => options.binary = Some(value()?.into()),
                "--target" => options.target = Some(value()?),
                _ => bail!("unknown argument `{argument}` of `dist`; see `cargo xtask help`"),
            }
        }
        Ok(options)
    }
}

/// What all packages are made from.
struct Release<'a> {
    root: &'a Path,
    version: &'static str,
    target: String,
    /// Seconds since 1970 of everything in a package, so that packages of one commit are the same.
    time: String,
    /// The files of the archive.
    staged: PathBuf,
    /// Where finished packages go.
    out: PathBuf,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<bool> {
    let target = match &options.target {
        Some(target) => target.clone(),
        None => best_target(root)?,
    };
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => {
            if let Some(why) = targets::missing(root, &target)? {
                bail!("cannot build for {target}: {why}");
            }
            build(root, &target)?
        }
    };
    check_static(&binary, &target)?;
    let release = stage(root, target, &binary)?;
    let mut packages = vec![archive(&release)?];
    if options.deb {
        packages.push(debian::pack(&release)?);
    }
    if options.npm {
        packages.extend(npm::pack(&release)?);
    }
    if options.image {
        image::stage(&release)?;
    }
    let list = release.out.join(format!("{}.cdx.json", release.name()));
    std::fs::copy(release.staged.join(sbom::FILE), &list)?;
    packages.push(list);
    packages.push(installer(&release)?);
    write_sums(&release.out, &packages)?;
    for package in &packages {
        println!("{} {}", size(package)?, package.display());
    }
    Ok(true)
}

impl Release<'_> {
    /// The processor, as Debian and images name it.
    fn processor(&self) -> Result<&'static str> {
        match self.target.split('-').next() {
            Some("x86_64") => Ok("amd64"),
            Some("aarch64") => Ok("arm64"),
            _ => bail!("there is no package of this kind for {}", self.target),
        }
    }

    /// The name of the archive and of the only folder in it.
    fn name(&self) -> String {
        format!("recount-{}-{}", self.version, self.target)
    }
}

/// The target whose program runs on most machines: a static one on Linux, with musl if its standard library is installed.
fn best_target(root: &Path) -> Result<String> {
    let version = output_of(root, &["rustc", "-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    let Some(machine) = host.strip_suffix("-unknown-linux-gnu") else { return Ok(host.to_owned()) };
    let musl = format!("{machine}-unknown-linux-musl");
    match targets::missing(root, &musl)? {
        None => Ok(musl),
        Some(why) => {
            println!("{musl}: {why}; building {host}, statically");
            Ok(host.to_owned())
        }
    }
}

/// Builds the program. Returns its path.
fn build(root: &Path, target: &str) -> Result<PathBuf> {
    // Paths of this machine would be in panics and differ from those of other builders.
    let home =
        std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    let mut flags = vec![format!("--remap-path-prefix={}=/recount", root.display())];
    flags.extend(home.ok().map(|home| format!("--remap-path-prefix={home}=/cargo")));
    if target.contains("-linux-") {
        flags.push("-Ctarget-feature=+crt-static".into());
        // By default it looks for the function at run time, which fails in a static program, and then needs /dev/urandom.
        flags.push("--cfg=getrandom_backend=\"linux_getrandom\"".into());
    }
    let mut cargo = command(cargo_program(), root);
    cargo.args([
        "build",
        "--locked",
        "--profile",
        PROFILE,
        "-p",
        "recount-cli",
        "--bin",
        "recount",
        "--target",
        target,
    ]);
    cargo.arg("--config").arg(format!("target.{target}.rustflags={flags:?}"));
    // Flags of the environment would replace those above.
    cargo.env_remove("RUSTFLAGS").env_remove(COMMIT);
    // Outside of a checkout the version names no commit.
    if let Ok(commit) =
        output_of(root, &["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
    {
        cargo.env(COMMIT, commit.trim());
    }
    ensure!(watch(cargo)?, "the program does not build");
    Ok(target_folder(root)?.join(target).join(PROFILE).join(program_name(target)))
}

fn program_name(target: &str) -> &'static str {
    if target.contains("windows") { "recount.exe" } else { "recount" }
}

/// A program for Linux must need no file of the machine.
fn check_static(binary: &Path, target: &str) -> Result<()> {
    if !target.contains("-linux-") {
        return Ok(());
    }
    let bytes = std::fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
    match elf::interpreter(&bytes)? {
        None => Ok(()),
        Some(loader) => bail!("{} is not static: it needs {loader}", binary.display()),
    }
}

/// Collects the files of the archive.
fn stage<'a>(root: &'a Path, target: String, binary: &Path) -> Result<Release<'a>> {
    let out = target_folder(root)?.join("packages");
    let version = env!("CARGO_PKG_VERSION");
    let time = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(time) => time,
        Err(_) => {
            output_of(root, &["git", "show", "-s", "--format=%ct", "HEAD"]).unwrap_or_else(|_| "0".into())
        }
    };
    let time = time.trim().to_owned();
    let staged = out.join("staged").join(format!("recount-{version}-{target}"));
    fresh_folder(&staged)?;
    let release = Release { root, version, target, time, staged, out };
    let staged = &release.staged;
    let program = staged.join(program_name(&release.target));
    std::fs::copy(binary, &program).with_context(|| format!("cannot copy {}", binary.display()))?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        std::fs::copy(root.join(file), staged.join(file)).with_context(|| format!("cannot copy {file}"))?;
    }
    let mut man = command(&program, root);
    man.arg("man").arg("--out").arg(staged.join("man/man1"));
    ensure!(watch(man)?, "the manual pages could not be written");
    for (shell, file) in [("bash", "bash/recount"), ("zsh", "zsh/_recount"), ("fish", "fish/recount.fish")] {
        let path = staged.join("completions").join(file);
        fresh_folder(path.parent().context("it has a folder")?)?;
        std::fs::write(path, output_of(root, &[&program.to_string_lossy(), "completion", shell])?)?;
    }
    if release.target.contains("-linux-") {
        fresh_folder(&staged.join("systemd"))?;
        for file in ["recount.service", "recount.socket", "recount.sysusers"] {
            std::fs::copy(root.join("packaging/systemd").join(file), staged.join("systemd").join(file))?;
        }
    }
    let parts = Parts::read(root, &release.target)?;
    std::fs::write(staged.join(licences::FILE), licences::page(&parts)?)?;
    std::fs::write(staged.join(sbom::FILE), sbom::document(&parts, &sha256(&program)?))?;
    Ok(release)
}

fn archive(release: &Release<'_>) -> Result<PathBuf> {
    let path = release.out.join(format!("{}.tar.gz", release.name()));
    let folder = release.staged.parent().context("it is in a folder")?;
    let mut tar = command("tar", folder);
    if cfg!(target_os = "linux") {
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u+rwX,go+rX,go-w"]);
        tar.arg(format!("--mtime=@{}", release.time)).args(["--use-compress-program", "gzip -9n"]);
    } else {
        tar.arg("-z");
    }
    tar.arg("-cf").arg(&path).arg(release.name());
    ensure!(watch(tar)?, "the archive could not be written");
    Ok(path)
}

/// The script that installs a release, with the address of releases if that is known.
fn installer(release: &Release<'_>) -> Result<PathBuf> {
    let path = release.out.join("install.sh");
    let mut script = std::fs::read_to_string(release.root.join("packaging/install.sh"))?;
    if let Ok(address) = std::env::var(RELEASES) {
        script = script.replace("@RELEASES@", &address);
    }
    std::fs::write(&path, script)?;
    Ok(path)
}

/// Writes `SHA256SUMS`, in the format of `sha256sum --check`.
fn write_sums(out: &Path, packages: &[PathBuf]) -> Result<()> {
    let mut sums = String::new();
    for package in packages {
        let name = package.file_name().context("a package has a name")?.to_string_lossy();
        sums.push_str(&format!("{}  {name}\n", sha256(package)?));
    }
    let path = out.join("SHA256SUMS");
    std::fs::write(&path, sums).with_context(|| format!("cannot write {}", path.display()))
}

fn sha256(file: &Path) -> Result<String> {
    let name = file.to_string_lossy();
    let here = Path::new(".");
    // The second one is on macOS.
    let line = output_of(here, &["sha256sum", &name])
        .or_else(|_| output_of(here, &["shasum", "-a", "256", &name]))?;
    let sum = line.trim_start_matches('\\').split_whitespace().next();
    Ok(sum.filter(|sum| sum.len() == 64).context("sha256sum prints no sum")?.to_owned())
}

fn size(file: &Path) -> Result<String> {
    Ok(format!("{:>6.1} MB", std::fs::metadata(file)?.len() as f64 / 1e6))
}

/// Creates an empty folder in place of what is at the path.
fn fresh_folder(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}
