//! Tests the reader against real shells: random scripts run, and no program may run that the reader did not list.
//!
//! Start at [`no_program_runs_that_was_not_listed`]. Programs are stubs that append their words to a file. The search
//! path contains only the stubs and a few programs that run others.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::*;

const STUBS: &[&str] = &["a", "b", "c", "d", "rm"];
const RUNNERS: &[&str] =
    &["env", "nice", "xargs", "find", "timeout", "nohup", "sh", "bash", "setsid", "stdbuf"];

/// Hidden, so that no pattern matches it.
const LOG: &str = ".log";

struct ShellStage {
    folder: tempfile::TempDir,
    /// Each shell with its first argument before `-c`.
    shells: Vec<(PathBuf, Option<&'static str>)>,
    runs: Cell<u32>,
}

fn found(name: &str) -> Option<PathBuf> {
    ["/bin", "/usr/bin", "/usr/local/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.exists())
}

impl ShellStage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let programs = folder.path().join("programs");
        fs::create_dir(&programs).unwrap();
        for (name, code) in STUBS.iter().map(|name| (*name, 0)).chain([("no", 1)]) {
            let path = programs.join(name);
            // In the working folder of one script, because processes that it left running may write later.
            let text = format!(
                "#!/bin/sh\nprintf '%s\\0' \"${{0##*/}}\" \"$@\" '\n' >>{LOG}\necho rm\nexit {code}\n"
            );
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        for name in RUNNERS {
            if let Some(real) = found(name) {
                symlink(real, programs.join(name)).unwrap();
            }
        }
        let names = [("sh", None), ("bash", None), ("dash", None), ("busybox", Some("sh"))];
        let shells: Vec<_> = names
            .into_iter()
            .filter_map(|(name, first)| Some((found(name)?.canonicalize().ok()?, first)))
            .collect();
        // One shell often has several names.
        let mut shells: Vec<_> = shells;
        shells.sort();
        shells.dedup();
        ShellStage { folder, shells, runs: Cell::new(0) }
    }

    /// The programs that a script runs, with their arguments.
    fn run(&self, (shell, first): &(PathBuf, Option<&'static str>), script: &str) -> Vec<Vec<String>> {
        self.runs.set(self.runs.get() + 1);
        let work = self.folder.path().join(self.runs.get().to_string());
        fs::create_dir(&work).unwrap();
        fs::write(work.join("a"), "rm\n").unwrap();
        fs::write(work.join("rm"), "").unwrap();
        let status = Process::new(shell)
            .args(*first)
            .args(["-c", script])
            .current_dir(&work)
            .env_clear()
            .env("PATH", self.folder.path().join("programs"))
            .env("X", "rm")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.unwrap();
        let log = String::from_utf8_lossy(&fs::read(work.join(LOG)).unwrap_or_default()).into_owned();
        let records = log.split("\n\0").filter(|record| !record.is_empty());
        records
            .map(|record| {
                record.strip_suffix('\0').unwrap_or(record).split('\0').map(str::to_owned).collect()
            })
            .collect()
    }
}

/// Whether these words can be the executed ones. A word that the shell may split matches any number of words; a dynamic
/// word matches any one.
fn can_be(words: &[Word], ran: &[String]) -> bool {
    match words.split_first() {
        None => ran.is_empty(),
        Some((word, rest))
            if word.is_dynamic()
                && !word.is_several()
                && !word.expansions.iter().any(|part| matches!(part, Expansion::Number { .. })) =>
        {
            !ran.is_empty() && can_be(rest, &ran[1..])
        }
        Some((word, rest)) if word.is_dynamic() => (0..=ran.len()).any(|taken| can_be(rest, &ran[taken..])),
        Some((word, rest)) => ran.first().is_some_and(|first| **word == **first) && can_be(rest, &ran[1..]),
    }
}

fn is_listed(line: &CommandLine, ran: &[String]) -> bool {
    // Words that may be a program are listed too, and prove nothing.
    line.commands.iter().filter(|command| !command.is_named).any(|command| {
        let Some((program, args)) = command.words.split_first() else { return false };
        !program.is_dynamic() && base(program) == ran[0] && can_be(args, &ran[1..])
    })
}

/// Pieces of scripts.
const PIECES: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "rm",
    "no",
    "a b",
    "rm y",
    " ",
    " ",
    " ",
    "\t",
    "\n",
    ";",
    ";",
    "&&",
    "||",
    "|",
    "&",
    "'",
    "'",
    "\"",
    "\"",
    "\\",
    "$",
    "(",
    ")",
    "((",
    "))",
    "`",
    "{",
    "}",
    "{ ",
    "; }",
    "{a,rm}",
    "*",
    "?",
    "[",
    "]",
    "$X",
    "\"$X\"",
    "${X}",
    "${X:-rm}",
    "${#X}",
    "$Y",
    "Y='a[$(rm y)]'; ",
    "Y=1; ",
    "[[ $Y -eq 1 ]]",
    "Y=1",
    "$((Y))",
    "$((1+2))",
    "((Y))",
    "X=c",
    "X=rm ",
    "X+=1 ",
    "$(",
    "$(a)",
    "$(rm z)",
    "\"$(b)\"",
    "eval ",
    "sh -c ",
    "bash -c ",
    "xargs ",
    "env ",
    "env -i ",
    "nice ",
    "nohup ",
    "timeout 5 ",
    "find . -name a -exec ",
    " {} \\;",
    " {} +",
    "if ",
    "then ",
    "else ",
    "fi",
    "case ",
    " in ",
    "a) ",
    ";; ",
    "esac",
    "for i in ",
    "do ",
    "done",
    "#",
    "!",
    "! ",
    "time ",
    "exec ",
    "command ",
    "builtin ",
    "trap ",
    " EXIT",
    ". ",
    "alias a=rm",
    "f() ",
    "f",
    "function ",
    "\r",
    "$'",
    "\\x72m",
    "echo ",
    "printf %s ",
    "set -- ",
    "read Y",
    "export ",
    "let ",
    "[[ ",
    " ]]",
    "[ ",
    " ]",
    "-v ",
    " -eq ",
    "coproc ",
    "<<<",
    "<(",
    ">(",
    "&>",
    "|&",
    ">&",
    ">",
    "<",
    ">>",
    "2>&1",
    "<<E\n",
    "<<'E'\n",
    "<<-E\n",
    "\nE\n",
    "E",
    "~",
    "=",
    "\u{a0}",
    "-c ",
    "-n 1 ",
    "-I{} ",
    "--",
    "\\\n",
    // Text that is evaluated without looking like a command.
    "'a[$(rm y)]'",
    "a[$(rm y)]",
    "\"$Y\"",
    "RANDOM=",
    "wait -p ",
    "jobs -x ",
    "PROMPT_COMMAND=rm ",
    "BASH_ENV=a ",
    "ENV=a ",
    "${Y@P}",
    "${!Y}",
    "${a[Y]}",
    "declare -n Y=",
    "declare -i Y=",
    "typeset ",
    "local ",
    "readonly ",
    "printf -v ",
    "mapfile -C ",
    "mapfile -t ",
    "read -a ",
    "getopts a ",
    "[[ -v ",
    "test -v ",
    "test ",
    "unset ",
    "$((a[$(rm y)]))",
    "$[",
    "exec -a x ",
    "command -p ",
    "enable -f a ",
    "hash -p a ",
    "fc -s ",
    "bind -x ",
    "complete -C ",
    "compgen -C ",
    "{x[$Y]}>f ",
    "{x['$(rm y)']}>f ",
    "eval -- ",
    "sh -c - ",
    "bash +c ",
    "-o errexit ",
    ">&'$(rm y)' ",
    "&>'$(rm y)'",
    "X=' rm y'; ",
    "env A=1$X ",
    "timeout 5$X ",
    "nice -n 1$X ",
    "find .$X ",
    "_=1; ",
    "$((_))",
    "REPLY=1; read <a; ",
    "$((REPLY))",
    // Options that are only partly visible, and expansions to several words.
    "env \"-u$E\" ",
    "nice \"-n$E\" 5 ",
    "timeout \"-k$E\" 3 4 ",
    "env -u{,,} ",
    "find . \"-exe$C\" rm y \\;",
    "C=c; ",
    "E=' rm y'; ",
    "set -- '' rm y; ",
    "\"${@-}\"",
    "\"${@:1}\"",
    "\"${@#x}\"",
    "timeout \"5${@-}\" ",
    "env \"A=1${@-}\" ",
    "-Ix{1..1} ",
    "xargs -Ix{1..1} sh -c x1",
    "printf -{v..v} 'a[$(rm y)]' x",
    "find . ! -name -name -exec rm {} \\;",
    "10>/dev/null ",
    "timeout 10>/dev/null rm a -r y",
    "[[ Y*1 -eq 1 ]]",
    "[[ Y+$# -eq 1 ]]",
    "$((PATH=1))",
    "((PATH=1))",
    "$((a$Y))",
    "sh --version -c 'rm y'",
    "-- ",
    "- ",
    "-n x ",
];

/// Pieces of scripts, joined without regard to grammar.
pub(super) fn soup() -> impl Strategy<Value = String> {
    let token = prop::sample::select(PIECES);
    prop::collection::vec(token, 1..14).prop_map(|tokens| tokens.concat())
}

/// Scripts that mostly are well formed.
fn script() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        6 => prop::sample::select(vec!["x", "y", "'x y'", "\"z\"", "-n", "x\\ y", "1", "'$(rm q)'", "'#'", "it\\'s"]),
        2 => prop::sample::select(vec!["$X", "\"$X\"", "*", "{x,y}", "$((1+2))", "${X%m}", "~", "$'x'", "$?", "\"${X:-u}\""]),
    ];
    let words = prop::collection::vec(word, 0..4).prop_map(|words| words.join(" "));
    let program = prop::sample::select(vec!["a", "b", "c", "d", "rm"]);
    let simple = (program, words).prop_map(|(program, words)| format!("{program} {words}")).boxed();
    simple.prop_recursive(5, 40, 3, |inner| {
        let quoted = |script: &str| format!("'{}'", script.replace('\'', "'\\''"));
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            (pair.clone(), prop::sample::select(vec!["; ", " && ", " || ", " | ", "\n", " & ", "|& "]))
                .prop_map(|((one, two), between)| format!("{one}{between}{two}")),
            (pair.clone(), prop::sample::select(vec!["$()", "\"$()\"", "``", "<()", "\"x $() y\""]))
                .prop_map(|((one, two), form)| {
                    let inner = match form {
                        "``" => format!("`{two}`"),
                        _ => form.replace("()", &format!("({two}\n)")),
                    };
                    format!("{one} {inner}")
                }),
            inner.clone().prop_map(|one| format!("({one})")),
            inner.clone().prop_map(|one| format!("{{ {one}; }}")),
            pair.clone().prop_map(|(one, two)| format!("if {one}; then {two}; else c; fi")),
            pair.clone().prop_map(|(one, two)| format!("case $X in r*) {one};; *) {two};; esac")),
            inner.clone().prop_map(|one| format!("for i in x y; do {one} $i; done")),
            inner.clone().prop_map(|one| format!("while no; do {one}; done")),
            inner.clone().prop_map(|one| format!("set -- x y; for i do {one}; done")),
            inner.clone().prop_map(|one| format!("for ((i = 0; i < 2; i++)); do {one}; done")),
            inner.clone().prop_map(|one| format!("i=0; while [ $i -lt 2 ]; do {one}; i=$((i+1)); done")),
            inner.clone().prop_map(|one| format!("f() {{ {one}; }}; f")),
            inner.clone().prop_map(move |one| format!("sh -c {}", quoted(&one))),
            inner.clone().prop_map(move |one| format!("bash -ec {}", quoted(&one))),
            inner.clone().prop_map(move |one| format!("eval {}", quoted(&one))),
            inner.clone().prop_map(move |one| format!("trap {} EXIT", quoted(&one))),
            (
                inner.clone(),
                prop::sample::select(vec![
                    "env ",
                    "env -i PATH=\"$PATH\" Y=1 ",
                    "nice -n 1 ",
                    "nohup ",
                    "timeout 5 ",
                    "command ",
                    "exec ",
                    "time ",
                    "! ",
                    "Z=1 ",
                    "echo x | xargs ",
                    "echo rm | xargs -I{} ",
                    "stdbuf -oL ",
                    "xargs -n1 ",
                    ">out ",
                    "<a ",
                    "2>&1 ",
                    "builtin ",
                    "env env ",
                ])
            )
                .prop_map(|(one, before)| format!("{before}{one}")),
            (
                inner.clone(),
                prop::sample::select(vec![
                    " >out",
                    " 2>/dev/null",
                    " <a",
                    " &>out",
                    " >&2",
                    " # rm y",
                    " <<E\n$(rm y)\nE\n",
                    " <<'E'\n$(rm y)\nE\n",
                    " <<< x",
                    " \\\n x",
                    " {} \\;",
                    "; exec rm",
                ])
            )
                .prop_map(|(one, after)| format!("{one}{after}")),
            inner.prop_map(|one| format!("find . -name a -exec {one} {{}} \\;")),
        ]
    })
}

/// Builtins of the shell, without those that signal other processes.
fn builtins(stage: &ShellStage) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut listed = |shell: &str, first: &[&str], script: &str| {
        let Some(shell) = found(shell) else { return };
        let log = Process::new(shell).args(first).args(["-c", script]).stdin(Stdio::null()).output().unwrap();
        let log = String::from_utf8_lossy(&log.stdout).into_owned();
        names.extend(log.split_whitespace().filter(|word| !word.contains('-')).map(str::to_owned));
    };
    assert!(!stage.shells.is_empty());
    listed("bash", &[], "compgen -b; compgen -k");
    listed("busybox", &["sh"], "help | tail -n +3");
    // `dash` lists none.
    let dash = ". : [ alias bg break cd chdir command continue echo eval exec exit export false fg getopts hash \
                jobs kill let local printf pwd read readonly return set shift test times trap true type ulimit \
                umask unalias unset wait";
    names.extend(dash.split_whitespace().map(str::to_owned));
    names.sort();
    names.dedup();
    names
}

/// Each builtin of a shell is read, known to evaluate nothing, or needs approval.
#[test]
fn every_builtin_of_the_shells_is_known() {
    let unknown: Vec<String> =
        builtins(&ShellStage::new()).into_iter().filter(|name| !inner::is_known_builtin(name)).collect();
    assert_eq!(unknown, [""; 0], "add each to `HARMLESS` or `UNSAFE` of `inner`, or read its words");
}

/// A builtin with options and words that it may evaluate.
fn builtin_line(names: Vec<String>) -> impl Strategy<Value = String> {
    // Excluded, because it reaches foreign processes.
    let names: Vec<String> = names.into_iter().filter(|name| name != "kill").collect();
    let evaluated = ["'a[$(d y)]'", "'d y'", "d y", "\"$Y\"", "Y", "'a[$(d y)]=1'", "'Y=a[$(d y)]'"];
    let plain = ["x", "1", "-eq", "=", "EXIT", "-", "--", "+", "]", "]]", "in", "a", "!", "-a", "-o"];
    let other = ["{x['$(d y)']}>f", "{x[$Y]}>f", "<a", "<<<x", "&& -v", "|| Y"];
    let one_of = |words: &[&str]| {
        prop::sample::select(words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>()).boxed()
    };
    let word = prop_oneof![
        4 => one_of(&evaluated),
        4 => one_of(&plain),
        3 => "[-+][a-zA-Z]{1,2}".boxed(),
        1 => one_of(&other),
    ];
    let before = one_of(&["", "", "", "command ", "builtin ", "! ", "X=1 ", "[[ -n x && ", "eval "]);
    let words = prop::collection::vec(word, 0..4).prop_map(|words| words.join(" "));
    let after = one_of(&["", "", "; a", " ]]", "; echo $((x))", " <a", " && [[ $x -eq 1 ]]"]);
    (before, prop::sample::select(names), words, after)
        .prop_map(|(before, name, words, after)| format!("Y='a[$(d y)]'; {before}{name} {words}{after}"))
}

#[test]
fn no_program_runs_that_was_not_listed() {
    let stage = ShellStage::new();
    assert!(!stage.shells.is_empty(), "no shell in /bin or /usr/bin; install one");
    let cases = std::env::var("RECOUNT_SHELL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(250);
    let (judged, ran) = (Cell::new(0_u32), Cell::new(0_u32));
    let check = |text: &str| {
        let line = CommandLine::read(text);
        if line.unjudged.is_some() {
            return Ok(());
        }
        judged.set(judged.get() + 1);
        for shell in &stage.shells {
            for program in stage.run(shell, text) {
                ran.set(ran.get() + 1);
                if !is_listed(&line, &program) {
                    return Err(TestCaseError::fail(format!(
                        "{} ran {program:?} of {text:?}",
                        shell.0.display()
                    )));
                }
            }
        }
        Ok(())
    };
    let mut runner = TestRunner::new(Config { cases, ..Config::default() });
    runner.run(&prop_oneof![soup(), script(), builtin_line(builtins(&stage))], |text| check(&text)).unwrap();
    // A reader that judges nothing would pass too.
    assert!(judged.get() > cases / 8 && ran.get() > cases / 8, "{judged:?} {ran:?} of {cases}");
}

#[test]
fn the_trace_sees_what_runs() {
    let stage = ShellStage::new();
    for shell in &stage.shells {
        assert_eq!(stage.run(shell, "a 'x y'; echo z | xargs b"), [vec!["a", "x y"], vec!["b", "z"]]);
    }
    assert!(is_listed(&CommandLine::read("rm $X y"), &["rm", "a", "b", "y"].map(str::to_owned)));
    assert!(!is_listed(&CommandLine::read("rm x"), &["rm", "y"].map(str::to_owned)));
    assert!(!is_listed(&CommandLine::read("a rm"), &["rm".to_owned()]));
}
