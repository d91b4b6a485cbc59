//! Hooks of runs, with real programs: their input, and the effects of their output and of failures.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use recount_engine::RunConfig;
use recount_event::family::run::RunKind;
use recount_event::{Event, Payload};
use recount_faulty_store::{Crash, CrashAt};
use serde_json::Value;

use crate::runs::scene::{Scene, Setup, count, course, first, refusals, results, types};

/// A scene whose model makes these calls, one in each turn, and then ends. `guard` runs before them.
async fn scene(guard: &str, calls: &[&str]) -> Scene {
    Scene::with_setup(setup(&format!("[guard]\nevent = 'PreToolUse'\n{guard}\n"), calls)).await
}

fn setup(hooks: &str, calls: &[&str]) -> Setup {
    let turn = |call: &&str| format!("[[turn]]\ncall = [{{ {call} }}]\n");
    let script: String = calls.iter().map(turn).chain(["[[turn]]\ntext = 'Done.'\n".to_owned()]).collect();
    Setup { script, hooks: hooks.to_owned(), ..Setup::default() }
}

/// Writes a program into the configuration folder.
fn program(scene: &Scene, name: &str, text: &str) {
    let path = scene.folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The file that a program wrote to the configuration folder.
fn left(scene: &Scene, name: &str) -> String {
    std::fs::read_to_string(scene.folder.path().join(name)).unwrap_or_default()
}

const TOUCH: &str = "name = 'shell_exec', input = { command = 'echo done >> marks' }";

/// How often the command ran.
fn marks(events: &[Event]) -> usize {
    let path = first!(*events, RunQueued).workspace_path.unwrap();
    std::fs::read_to_string(Path::new(&path).join("marks")).unwrap_or_default().lines().count()
}

/// The recorded failures of hooks.
fn failures(events: &[Event]) -> Vec<Value> {
    let data = |event: &Event| match event.payload() {
        Payload::Opaque(opaque) if &*opaque.type_name == "ext.recount.hook_failed" => {
            Some(serde_json::from_str(&opaque.data).unwrap())
        }
        _ => None,
    };
    events.iter().filter_map(data).collect()
}

/// The stored bytes of the first event of a type.
async fn stored(scene: &Scene, run: recount_event::RunId, type_name: &str) -> String {
    let typed = format!("\"{type_name}\"");
    scene.stored_lines(run).await.into_iter().find(|line| line.contains(&typed)).unwrap()
}

#[tokio::test]
async fn hooks_read_the_stored_bytes_of_the_event_and_nothing_else() {
    let hooks = "[before]\nevent = 'PreToolUse'\ncommand = ['./keep', 'before']\n\
                 [after]\nevent = 'PostToolUse'\ncommand = ['./keep', 'after']\n";
    let scene = Scene::with_setup(setup(hooks, &[TOUCH])).await;
    program(
        &scene,
        "keep",
        "#!/bin/sh\ncat > \"$(dirname \"$0\")/$1\"\npwd > \"$(dirname \"$0\")/cwd\"\n\
        env | cut -d= -f1 | sort | tr '\\n' ' ' > \"$(dirname \"$0\")/env\"\necho \"$RECOUNT_RUN_ID\" > \"$(dirname \"$0\")/run\"\n",
    );
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    assert_eq!(marks(&events), 1);
    assert_eq!(left(&scene, "before"), stored(&scene, run, "tool.invoked").await);
    assert_eq!(left(&scene, "after"), stored(&scene, run, "tool.completed").await);
    assert_eq!(left(&scene, "cwd").trim(), first!(events, RunQueued).workspace_path.unwrap());
    assert_eq!(left(&scene, "run").trim(), run.to_string());
    let variables = left(&scene, "env");
    assert!(variables.contains("PATH") && !variables.contains("CARGO"), "{variables}");
    // Nothing of it is in the log.
    assert!(failures(&events).is_empty());
    assert_eq!(
        course(&events),
        [
            "assistant.tool_call_proposed",
            "turn.completed",
            "tool.invoked",
            "tool.started",
            "tool.shell.command",
            "tool.shell.exited",
            "tool.completed",
            "assistant.final_answer",
            "turn.completed",
            "run.finished",
        ]
    );
}

#[tokio::test]
async fn a_veto_fails_the_call_before_anything_happens() {
    let scene = scene("command = 'echo \"not on a Friday\" >&2; exit 2'", &[TOUCH]).await;
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    assert_eq!((marks(&events), types(&events).last()), (0, Some(&"run.finished")));
    let failed = first!(events, ToolFailed);
    assert_eq!(failed.code.as_deref(), Some("vetoed"));
    assert_eq!(failed.error.as_deref(), Some("the hook guard vetoed the call: not on a Friday"));
    // It was invoked, but its command never started.
    assert_eq!((count(&events, "tool.invoked"), count(&events, "tool.shell.command")), (1, 0));
    assert_eq!(results(&events), [("the hook guard vetoed the call: not on a Friday".to_owned(), true)]);
    assert!(failures(&events).is_empty());
}

#[tokio::test]
async fn the_first_veto_decides_and_matchers_select_the_calls() {
    let hooks = "[a]\nevent = 'PreToolUse'\ncommand = 'exit 0'\n\
                 [b]\nevent = 'PreToolUse'\nmatcher = 'shell_exec|git_exec'\ncommand = ['./note', 'b']\n\
                 [c]\nevent = 'PreToolUse'\ncommand = ['./note', 'c']\n";
    let scene = Scene::with_setup(setup(
        hooks,
        &[TOUCH, "name = 'write_file', input = { path = 'a', content = 'x' }"],
    ))
    .await;
    program(&scene, "note", "#!/bin/sh\necho $1 >> \"$(dirname \"$0\")/asked\"\ntest $1 = c || exit 2\n");
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    assert_eq!(left(&scene, "asked"), "b\nc\n");
    assert_eq!(refusals(&events), [("vetoed".to_owned(), "the hook b vetoed the call".to_owned())]);
    assert_eq!(count(&events, "tool.completed"), 1);
}

/// All kinds of failures, with what is recorded.
const FAILURES: [(&str, &str, &str); 7] = [
    ("command = 'echo oh >&2; exit 1'", "exit_status", "it ended with exit status 1: oh"),
    ("command = 'kill -9 $$'", "signal", "it was terminated by SIGKILL"),
    ("command = ['./missing']", "not_started", "missing: No such file or directory"),
    (
        "command = 'sleep 1000'\ntimeout_ms = 200",
        "timed_out",
        "it did not finish within 200 ms and was killed",
    ),
    ("command = 'yes'", "flooded", "it wrote more than 1048576 bytes and was killed"),
    ("command = 'yes >&2'", "flooded", "it wrote more than 1048576 bytes and was killed"),
    ("style = 'claude-code'\ncommand = 'echo \"{broken\"'", "garbled", "its response cannot be read"),
];

#[tokio::test]
async fn a_failed_hook_vetoes_if_it_fails_closed() {
    for (guard, _, words) in FAILURES {
        let scene = scene(&format!("{guard}\non_failure = 'closed'"), &[TOUCH]).await;
        let run = scene.start("go").await;
        let events = scene.ended(run).await;
        assert_eq!((marks(&events), types(&events).last()), (0, Some(&"run.finished")), "{guard}");
        let [(code, error)] = &refusals(&events)[..] else { panic!("{:?}", refusals(&events)) };
        assert_eq!(code, "vetoed");
        let named = "the hook guard failed, so the call was not run: ";
        assert!(error.starts_with(named) && error.contains(words), "{guard}: {error}");
        assert!(failures(&events).is_empty());
    }
}

#[tokio::test]
async fn a_failed_hook_that_fails_open_is_recorded_and_the_call_runs() {
    for (guard, code, words) in FAILURES {
        let scene = scene(&format!("{guard}\non_failure = 'open'"), &[TOUCH]).await;
        let run = scene.start("go").await;
        let events = scene.ended(run).await;
        assert_eq!((marks(&events), count(&events, "tool.completed")), (1, 1), "{guard}");
        let [failure] = &failures(&events)[..] else { panic!("{:?}", types(&events)) };
        let call = first!(events, ToolInvoked).tool_call_id;
        assert_eq!(failure["tool_call_id"], *call);
        for (key, value) in
            [("tool_name", "shell_exec"), ("hook", "guard"), ("hook_event", "PreToolUse"), ("code", code)]
        {
            assert_eq!(failure[key], value, "{guard}");
        }
        assert!(failure["error"].as_str().unwrap().contains(words), "{guard}: {failure}");
        // It is between the start of the call and the tool's own events.
        let place = |name: &str| types(&events).iter().position(|known| *known == name).unwrap();
        assert!(place("tool.invoked") < place("ext.recount.hook_failed"));
        assert!(place("ext.recount.hook_failed") < place("tool.shell.command"));
    }
}

#[tokio::test]
async fn hooks_fail_closed_by_default_and_open_in_claude_code_style() {
    for (style, made) in [("event", 0), ("claude-code", 1)] {
        let scene = scene(&format!("style = '{style}'\ncommand = 'exit 7'"), &[TOUCH]).await;
        let run = scene.start("go").await;
        let events = scene.ended(run).await;
        assert_eq!((marks(&events), failures(&events).len()), (made, made), "{style}");
    }
}

#[tokio::test]
async fn a_hook_may_ignore_its_input_and_its_background_processes_are_killed() {
    let scene = scene("command = ['./leave']", &[TOUCH]).await;
    program(&scene, "leave", "#!/bin/sh\nexec <&-\nsleep 1000 &\necho $! > \"$(dirname \"$0\")/pid\"\n");
    let run = scene.start("go").await;
    assert_eq!(marks(&scene.ended(run).await), 1);
    wait_for_exit(left(&scene, "pid").trim()).await;
}

/// Returns when a process has ended or is a zombie.
async fn wait_for_exit(pid: &str) {
    let runs = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|state| state.starts_with(['R', 'S', 'D']))
    };
    let over = async {
        while runs() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), over).await.expect("it still runs");
}

#[tokio::test]
async fn cancelling_a_run_ends_its_hook() {
    for event in ["PreToolUse", "PostToolUse"] {
        let hooks = format!("[slow]\nevent = '{event}'\ncommand = ['./slow']\n");
        let scene = Scene::with_setup(setup(&hooks, &[TOUCH])).await;
        program(
            &scene,
            "slow",
            "#!/bin/sh\ncd \"$(dirname \"$0\")\"\nsleep 1000 &\necho $! > half\nmv half pid\nwait\n",
        );
        let run = scene.start("go").await;
        let started = async {
            while left(&scene, "pid").is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(scene.setup.patience, started).await.expect("the hook did not start");
        scene.cancel(run).await;
        let events = scene.ended(run).await;
        assert_eq!(types(&events).last(), Some(&"run.cancelled"));
        let (made, ended) = if event == "PreToolUse" { (0, "tool.cancelled") } else { (1, "tool.completed") };
        assert_eq!((marks(&events), count(&events, ended)), (made, 1), "{event}");
        wait_for_exit(left(&scene, "pid").trim()).await;
    }
}

/// The record is that of every interrupted call: whether it took effect is unknown.
#[tokio::test]
async fn a_restart_while_a_hook_runs_interrupts_the_call() {
    let mut scene = scene("command = ['./slow']", &[TOUCH]).await;
    program(
        &scene,
        "slow",
        "#!/bin/sh\ncd \"$(dirname \"$0\")\"\necho $$ > half\nmv half pid\nexec sleep 1000\n",
    );
    let run = scene.start("go").await;
    let started = async {
        while left(&scene, "pid").is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(scene.setup.patience, started).await.expect("the hook did not start");
    scene.restart().await;
    let events = scene.ended(run).await;
    assert_eq!(types(&events).last(), Some(&"run.finished"));
    assert_eq!((marks(&events), count(&events, "tool.invoked")), (0, 1), "{:?}", types(&events));
    let failed = first!(events, ToolFailed);
    assert_eq!(failed.code.as_deref(), Some("interrupted"));
    wait_for_exit(left(&scene, "pid").trim()).await;
}

#[tokio::test]
async fn no_hook_runs_before_its_call_is_durable() {
    let hooks = "[guard]\nevent = 'PreToolUse'\ncommand = ['./note']\n";
    for kept in [true, false] {
        let mut scene = Scene::with_setup(setup(hooks, &[TOUCH])).await;
        program(&scene, "note", "#!/bin/sh\ngrep -o '\"sequence\":[0-9]*' >> \"$(dirname \"$0\")/asked\"\n");
        scene.disk.crash_at(Crash { at: CrashAt::Type("tool.invoked"), kept });
        let run = scene.start("go").await;
        scene.disk.crashed().await;
        assert_eq!(left(&scene, "asked"), "", "kept: {kept}");
        scene.restart().await;
        let events = scene.ended(run).await;
        // If the append succeeded, the call is interrupted; otherwise it is made again.
        assert_eq!(
            (marks(&events), left(&scene, "asked").lines().count()),
            if kept { (0, 0) } else { (1, 1) }
        );
    }
}

#[tokio::test]
async fn concurrent_calls_run_their_hooks_separately() {
    let hooks = "[guard]\nevent = 'PreToolUse'\ncommand = ['./guard']\n\
                 [after]\nevent = 'PostToolUse'\ncommand = ['./after']\n";
    let calls = "{ name = 'meets', input = { wait_for = 3, say = 'one' } }, { name = 'read_file', input = { path = 'a' } }, \
                 { name = 'meets', input = { say = 'two' } }, { name = 'meets', input = { say = 'three' } }";
    let script = format!("[[turn]]\ncall = [{calls}]\n[[turn]]\ntext = 'Done.'\n");
    let scene = Scene::with_setup(Setup { script, hooks: hooks.into(), ..Setup::default() }).await;
    scene.put("a", "secret\n");
    program(&scene, "guard", "#!/bin/sh\nif grep -q '\"read_file\"'; then echo no reading >&2; exit 2; fi\n");
    program(
        &scene,
        "after",
        "#!/bin/sh\ncd \"$(dirname \"$0\")\"\ngrep -o '\"type\":\"[a-z.]*\"' >> ends\ntest -n \"$RECOUNT_RUN_ID\" && exit 3\n",
    );
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    let outputs = results(&events);
    assert_eq!(outputs[1], ("the hook guard vetoed the call: no reading".to_owned(), true));
    assert_eq!(
        [&outputs[0], &outputs[2], &outputs[3]].map(|(text, is_error)| (text.as_str(), *is_error)),
        [("one", false), ("two", false), ("three", false)]
    );
    let mut ends: Vec<String> = left(&scene, "ends").lines().map(str::to_owned).collect();
    ends.sort();
    assert_eq!(
        ends,
        [
            "\"type\":\"tool.completed\"",
            "\"type\":\"tool.completed\"",
            "\"type\":\"tool.completed\"",
            "\"type\":\"tool.failed\"",
        ]
    );
    // Hooks after a call fail here. Each failure is recorded and has no other effect.
    let failures = failures(&events);
    assert_eq!(failures.len(), 4, "{failures:?}");
    assert!(
        failures.iter().all(|failure| failure["hook"] == "after" && failure["hook_event"] == "PostToolUse")
    );
    assert_eq!(types(&events).last(), Some(&"run.finished"));
}

#[tokio::test]
async fn a_hook_after_a_call_does_not_change_the_record() {
    let calls = &[TOUCH, "name = 'read_file', input = { path = 'missing' }"];
    let alone = Scene::with_setup(setup("", calls)).await;
    let run = alone.start("go").await;
    let expected = alone.ended(run).await;
    let answer = r#"{"decision":"block","reason":"undo it","hookSpecificOutput":{"additionalContext":"x"}}"#;
    for status in [0, 2] {
        let hooks = format!(
            "[after]\nevent = 'PostToolUse'\ncommand = '''echo '{answer}'; echo bad >&2; exit {status}'''\n\
             [foreign]\nevent = 'PostToolUse'\nstyle = 'claude-code'\ncommand = '''echo '{answer}'; exit {status}'''\n"
        );
        let scene = Scene::with_setup(setup(&hooks, calls)).await;
        let run = scene.start("go").await;
        let events = scene.ended(run).await;
        assert_eq!(types(&events), types(&expected));
        assert_eq!(results(&events), results(&expected));
    }
}

#[tokio::test]
async fn a_run_of_one_call_has_hooks_too() {
    let hooks =
        "[guard]\nevent = 'PreToolUse'\nstyle = 'claude-code'\nmatcher = 'Bash'\ncommand = ['./guard']\n";
    let scene = Scene::with_setup(setup(hooks, &[])).await;
    program(
        &scene,
        "guard",
        "#!/bin/sh\ngrep -q '\"command\":\"echo bad\"' && { echo bad words >&2; exit 2; }\nexit 0\n",
    );
    for (line, last) in [("echo bad", "run.failed"), ("echo good", "run.finished")] {
        let order = RunConfig { command: Some(line.into()), ..RunConfig::default() };
        let run = scene.call(RunKind::Shell, order).await;
        let events = scene.ended(run).await;
        assert_eq!(types(&events).last(), Some(&last), "{line}");
        if last == "run.failed" {
            let failed = first!(events, RunFailed);
            assert_eq!((failed.code.as_str(), failed.retriable), ("vetoed", false));
        }
    }
}

#[tokio::test]
async fn secrets_are_masked_for_hooks_and_in_their_output() {
    const CANARY: &str = "canary-3c1f9b52d07e";
    let known = recount_redact::Secret::new(CANARY).unwrap();
    let hooks = "[a]\nevent = 'PreToolUse'\nstyle = 'claude-code'\ncommand = ['./keep']\n\
                 [b]\nevent = 'PreToolUse'\ncommand = ['./leak']\n\
                 [c]\nevent = 'PreToolUse'\non_failure = 'open'\ncommand = ['./fail']\n";
    let call = format!("name = 'shell_exec', input = {{ command = 'echo {CANARY} >> marks' }}");
    let read = "name = 'read_file', input = { path = 'marks' }";
    let redactor = std::sync::Arc::new(recount_engine::Redactor::new(vec![known], true));
    let scene = Scene::with_setup(Setup { redactor, ..setup(hooks, &[&call, read]) }).await;
    program(&scene, "keep", "#!/bin/sh\ncat >> \"$(dirname \"$0\")/read\"\n");
    program(&scene, "fail", &format!("#!/bin/sh\necho {CANARY} >&2\nexit 1\n"));
    program(
        &scene,
        "leak",
        &format!("#!/bin/sh\ngrep -q read_file && {{ echo it is {CANARY} >&2; exit 2; }}\nexit 0\n"),
    );
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    assert_eq!((marks(&events), failures(&events).len()), (1, 1));
    assert_eq!(refusals(&events)[0].0, "vetoed");
    let read = left(&scene, "read");
    assert!(read.contains("\"tool_name\":\"Bash\"") && !read.contains(CANARY), "{read}");
    assert!(!scene.disk.has_seen(CANARY));
}
