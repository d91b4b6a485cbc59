//! Our own suite for producers against our own server at level 3, over HTTP, a WebSocket and standard input and output.
//!
//! The whole of it waits for prompts that nobody answers and for a quiet stream, over three minutes. Tests leave these
//! waits out, `cargo xtask soak --conformance` does not: it sets the variable `RECOUNT_CONFORMANCE_FULL`.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::server::{CommandOutput, Server, aaep, aaep_program, recount};

/// What is not shown when nothing is waited for: what comes about when the time of a prompt is up, and when a stream is
/// quiet for longer.
const WAITED_FOR: [&str; 7] = ["R-081", "R-084", "R-088", "R-093", "R-097", "R-144", "R-152"];

/// The transport that has no manifest, so nothing names how many subscriptions there may be.
const STDIO: &str = "standard input and output";

/// One server, and our suite on it.
struct Trial {
    name: &'static str,
    folder: tempfile::TempDir,
    _server: Server,
    suite: Child,
}

impl Trial {
    fn start(name: &'static str, whole: bool, producer: impl Fn(&Server, &str) -> Vec<String>) -> Trial {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let mut add = recount();
        add.args([
            "token",
            "add",
            "suite",
            "--scope",
            "admin,read,run,approve,ingest",
            "--data",
            &at("data"),
        ]);
        std::fs::write(at("token"), CommandOutput::of(&mut add).good().trim()).unwrap();
        let mut serve = recount();
        serve.args(["serve", "--bind", "127.0.0.1:0", "--require-token", "--log", "warn"]);
        serve.args(["--conformance-agent", "--data", &at("data")]);
        // Few enough that one too many is reached.
        serve.env("RECOUNT_AAEP__SUBSCRIPTIONS_MAX", "40");
        let server = Server::of(&mut serve).listening();
        let mut suite = aaep();
        suite.args(["conformance", "producer", "--level", "3", "--token-file", &at("token")]);
        suite.args(["--drive", &format!("{}/aaep/legacy/conformance/messages", server.url())]);
        suite.args(["--report-json", &at("report.json")]).args(producer(&server, &at("token")));
        if !whole {
            suite.args(["--outlast", "0", "--quiet", "0"]);
        }
        let log = std::fs::File::create(at("suite.txt")).unwrap();
        let suite = suite.stdout(log).stderr(Stdio::null()).spawn().unwrap();
        Trial { name, folder, _server: server, suite }
    }

    #[allow(clippy::print_stdout, reason = "a soak tells what it found")]
    fn end(mut self, whole: bool) {
        let status = self.suite.wait().unwrap();
        let read = |name: &str| std::fs::read_to_string(self.folder.path().join(name)).unwrap();
        let (text, report) = (read("suite.txt"), read("report.json"));
        let report: Value = serde_json::from_str(&report).unwrap();
        let about = format!("{}: {text}", self.name);
        let of = |outcome: &str| -> BTreeSet<String> {
            let checks = report["checks"].as_array().unwrap().iter();
            let those = checks.filter(|check| check["outcome"] == outcome);
            those.map(|check| check["requirement"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(of("failed"), BTreeSet::new(), "{about}");
        let not_shown = of("not_shown");
        if whole {
            let no_manifest = BTreeSet::from(["R-131".to_owned()]);
            let expected = if self.name == STDIO { no_manifest } else { BTreeSet::new() };
            assert_eq!(not_shown, expected, "{about}");
            assert!(status.success() && report["claim"]["verdict"] == "passed", "{about}");
            println!("{}", text.lines().next().unwrap_or_default());
        } else {
            let is_known = |id: &str| WAITED_FOR.contains(&id) || (id == "R-131" && self.name == STDIO);
            let beside: Vec<_> = not_shown.iter().filter(|id| !is_known(id)).collect();
            assert!(beside.is_empty(), "{beside:?} are not shown. {about}");
            assert!(of("passed").len() > 60, "{about}");
        }
    }
}

#[test]
#[ignore = "full: our own AAEP suite"]
fn our_own_suite_passes_level_3_over_every_transport() {
    let whole = std::env::var_os("RECOUNT_CONFORMANCE_FULL").is_some();
    // At the same time, each on a server of its own: most of a trial is waiting.
    let trials = [
        Trial::start("HTTP", whole, |server, _| vec![format!("{}/aaep/v1", server.url())]),
        Trial::start("WebSocket", whole, |server, _| vec![format!("ws://{}/aaep/v1/ws", server.address)]),
        Trial::start(STDIO, whole, |server, token| {
            let program = aaep_program();
            let bridge = format!("{} --url {} stdio --token-file {token}", program.display(), server.url());
            vec!["--shared".to_owned(), "--command".to_owned(), bridge]
        }),
    ];
    for trial in trials {
        trial.end(whole);
    }
}
