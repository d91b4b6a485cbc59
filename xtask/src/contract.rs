//! The step `contract` of `cargo xtask test`: runs a tester for published API descriptions against a real server.
//!
//! The settings and the accepted deviations are in `xtask/contract/`. The server runs with assertions, so a refusal
//! that is missing in the table of routes counts too.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::child::{build_programs, command, target_folder, watch};

/// The server; it is killed on drop.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts the server on a free port, on a folder with the content of `seed`.
    fn start(binary: &Path, folder: &Path, seed: &Path) -> Result<Server> {
        if folder.exists() {
            std::fs::remove_dir_all(folder).with_context(|| format!("cannot clear {}", folder.display()))?;
        }
        let folder = folder.to_string_lossy();
        let mut import = command(binary, Path::new("."));
        import.args(["import", "--data", &folder]).arg(seed).stdout(Stdio::null());
        ensure!(watch(import)?, "the seed could not be imported");
        let mut serve = command(binary, Path::new("."));
        serve.args(["serve", "--bind", "127.0.0.1:0", "--durability", "relaxed", "--log", "error"]);
        let mut child = serve.args(["--data", &folder]).stderr(Stdio::piped()).spawn()?;
        let mut words = BufReader::new(child.stderr.take().context("standard error is piped")?).lines();
        let address = words.find_map(|line| Some(line.ok()?.strip_prefix("listening on ")?.to_owned()));
        let Some(url) = address else {
            let status = child.wait()?;
            bail!("the server exited with {status} before it listened");
        };
        // Later output contains errors, and belongs to the output of the step.
        std::thread::spawn(move || words.map_while(Result::ok).for_each(|line| println!("server: {line}")));
        Ok(Server { child, url })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, which the step reports.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Checks that the server conforms to `/openapi.json`. `tester` is schemathesis.
pub(crate) fn run(root: &Path, tester: &Path) -> Result<bool> {
    if !build_programs(root)? {
        return Ok(false);
    }
    let (target, settings) = (target_folder(root)?, root.join("xtask/contract"));
    let folder = target.join("contract/data");
    let mut server = Server::start(&target.join("debug/recount"), &folder, &settings.join("seed.jsonl"))?;
    let mut test = command(tester, &target.join("contract"));
    test.arg("--config-file").arg(settings.join("schemathesis.toml"));
    test.args(["--no-color", "run", &format!("{}/openapi.json", server.url)]);
    test.env("SCHEMATHESIS_HOOKS", settings.join("hooks.py")).env("PYTHONDONTWRITEBYTECODE", "1");
    let kept = watch(test)?;
    match server.child.try_wait()? {
        None => Ok(kept),
        Some(status) => bail!("the server exited with {status} while it was tested"),
    }
}
