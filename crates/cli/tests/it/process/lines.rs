//! What a run looks like at a terminal: lines broken between words, signs of life, words alone with `--plain`, and how to go
//! on after Ctrl-C.

use std::process::Command;

use unicode_width::UnicodeWidthStr as _;

use crate::process::scene::Scene;
use crate::process::terminal::Terminal;
use crate::server::{CommandOutput, recount};

const SCRIPT: &str = r#"
[[scene]]
when = "tell me"
[[scene.turn]]
text = """
The quick brown fox jumps over the lazy dog, and then it turns around and does the same once more for good measure.
See https://example.com/a/very/long/address/that/nobody/should/ever/break/in/the/middle/of/it?query=yes for more.
```sh
echo this line of code is longer than eighty columns are wide, and it has to stay as it is, whole
```
"""
call = [{ name = "shell_exec", input = { command = "echo output that is longer than eighty columns are wide, and that has to stay as it is, too" } }]
[[scene.turn]]
text = "Done."

[[scene]]
when = "think"
[[scene.turn]]
text = "I thought about it."
pace = { delay_ms = 3000 }

[[scene]]
when = "slow"
[[scene.turn]]
text = "One two three four five six seven eight nine ten."
pace = { words = 1, tokens_per_second = 0.5 }
"#;

const WHOLE: [&str; 3] = [
    "https://example.com/a/very/long/address/that/nobody/should/ever/break/in/the/middle/of/it?query=yes",
    "echo this line of code is longer than eighty columns are wide, and it has to stay as it is, whole",
    "output that is longer than eighty columns are wide, and that has to stay as it is, too",
];

/// What a run writes at a terminal of 80 columns, with colours or without.
fn shown(scene: &Scene, url: &str, arguments: &[&str], colours: bool) -> String {
    let arguments: Vec<&str> = ["--url", url, "run"].into_iter().chain(arguments.iter().copied()).collect();
    let variables = [("COLUMNS", "80"), ("NO_COLOR", if colours { "" } else { "1" }), ("TERM", "xterm")];
    let (text, status) = Terminal::start(&scene.work(), &arguments, &variables).end();
    assert_eq!(status, 0, "{text}");
    text
}

/// A text as it is seen: without colours and without lines that were erased.
fn seen(text: &str) -> String {
    let mut seen = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\u{1b}' {
            seen.push(letter);
            continue;
        }
        let end = letters.find(char::is_ascii_alphabetic);
        if end == Some('K') {
            // The line is empty again.
            seen.truncate(seen.rfind('\n').map_or(0, |at| at + 1));
        }
    }
    seen
}

#[test]
fn lines_are_broken_between_words_and_what_must_stay_whole_does() {
    let scene = Scene::playing(SCRIPT);
    let server = scene.server();
    let plain = shown(&scene, &server.url(), &["tell me", "--plain"], true);
    let bare = shown(&scene, &server.url(), &["tell me"], false);
    let coloured = shown(&scene, &server.url(), &["tell me"], true);
    for (text, broken) in [
        (
            &plain,
            "\nagent: The quick brown fox jumps over the lazy dog, and then it turns around and\ndoes the same",
        ),
        (&bare, "\nThe quick brown fox jumps over the lazy dog, and then it turns around and does\nthe same"),
        (
            &coloured,
            "\nThe quick brown fox jumps over the lazy dog, and then it turns around and does\nthe same",
        ),
    ] {
        let seen = seen(text);
        assert!(seen.contains(broken), "{seen}");
        for whole in WHOLE {
            assert!(seen.contains(whole), "{whole} is broken in\n{seen}");
        }
        // The first line of the run names ids and a model, and where it works.
        let long = seen.lines().filter(|line| line.chars().count() > 80);
        let long: Vec<&str> = long.filter(|line| !WHOLE.iter().any(|whole| line.contains(whole))).collect();
        assert!(long.iter().all(|line| !line.trim().contains(' ')), "{long:#?}");
    }
    assert!(!plain.contains('\u{1b}') && !plain.contains(['▸', '✓', '✗']), "{plain:?}");
    assert!(
        plain.contains("\ntool: call shell_exec") && plain.contains("\nrun: finished: completed"),
        "{plain}"
    );
    assert!(bare.contains("▸ call shell_exec") && bare.contains("✓ finished: completed"), "{bare}");
    assert!(coloured.contains("\u{1b}[32m✓ finished:\u{1b}[0m"), "{coloured:?}");
    // Into a pipe lines are whole.
    let piped = CommandOutput::of(&mut scene.run(&server, &["tell me"])).good();
    assert!(piped.contains("does the same once more for good measure.\n"), "{piped}");
}

#[test]
fn a_line_counts_the_seconds_while_the_model_thinks_and_is_gone_afterwards() {
    let scene = Scene::playing(SCRIPT);
    let server = scene.server();
    let text = shown(&scene, &server.url(), &["think"], false);
    assert!(text.contains("still waiting for the model (1 s)") && text.contains("(2 s)"), "{text:?}");
    let left = seen(&text);
    assert!(!left.contains("still waiting") && left.contains("I thought about it.\n"), "{left:?}");
    let plain = shown(&scene, &server.url(), &["think", "--plain"], false);
    assert!(!plain.contains("still waiting") && !plain.contains('\u{1b}'), "{plain:?}");
}

#[test]
fn after_an_interrupt_the_command_that_goes_on_is_there_and_works() {
    let scene = Scene::playing(SCRIPT);
    let server = scene.server();
    let mut terminal = scene.at_terminal(&server, &["slow"]);
    terminal.wait_for("One ");
    terminal.interrupt();
    terminal.wait_for("cancelled; to continue from where it stopped:\n    recount ");
    let (rest, status) = terminal.end();
    assert_eq!(status, 130);
    let command = rest.rsplit_once("    recount ").unwrap().1.lines().next().unwrap();
    let mut again = recount();
    again.args(command.split(' ')).arg("think").current_dir(scene.work());
    let printed = CommandOutput::of(&mut again).good();
    assert!(printed.contains("I thought about it."), "{printed}");
}

#[tokio::test]
async fn a_run_without_a_title_is_named_after_its_request() {
    let scene = Scene::playing(SCRIPT);
    let server = scene.server();
    CommandOutput::of(&mut scene.run(&server, &["Please tell me. I want to know."])).good();
    let listed = server.ask(&["ls"]).good();
    assert!(listed.contains(" Please tell me "), "{listed}");
}

/// What a command ends with whose output and words nobody reads any more, as behind `2>&1 | head -1`.
fn unread(command: &mut Command) -> Option<i32> {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command.stdout(writer.try_clone().unwrap()).stderr(writer).status().unwrap();
    status.code()
}

#[test]
fn output_that_nobody_reads_is_no_reason_to_panic() {
    let scene = Scene::playing(SCRIPT);
    let server = scene.server();
    assert_eq!(unread(&mut scene.run(&server, &["think"])), Some(0));
    let at = |words: &[&str]| {
        let mut command = recount();
        command.args(["--url", &server.url()]).args(words).current_dir(scene.work());
        command
    };
    assert_eq!(unread(&mut at(&["chat", "--message", "think"])), Some(0));
    assert_eq!(unread(&mut at(&["ls"])), Some(0));
    // A failure sets the exit status, also when the output is closed.
    assert_eq!(unread(&mut at(&["show", "run_01KQPNV2ZVNJX2AM9103W0PNQW"])), Some(1));
    assert_eq!(unread(&mut at(&["chat", "--agent", "nobody", "--message", "x"])), Some(2));
}

/// Text from right to left, wide letters and emoji, at 80 and 120 columns: what is seen as one character is never parted,
/// and no line is wider than the terminal.
#[test]
fn lines_of_every_script_are_broken_where_they_may_be() {
    let text = "שלום עולם זה טקסט ארוך מאוד שנכתב מימין לשמאל ואמור להישבר בין מילים בלבד ולא באמצע של מילה. \
                日本語の文章は単語の間に空白がないので、どこでも改行できますが、句読点の前では改行しません。これはとても長い行です。 \
                👩‍🚀👨‍👩‍👧‍👦🇳🇴 and e\u{301}te\u{301} again 👩‍🚀👨‍👩‍👧‍👦🇳🇴 and e\u{301}te\u{301} once more 👩‍🚀 until the line is long enough to be broken.";
    let script = format!("[[turn]]\ntext = \"{text}\"\n");
    let scene = Scene::playing(&script);
    let server = scene.server();
    let url = server.url();
    for (columns, arguments) in [(80, vec!["go"]), (120, vec!["go"]), (80, vec!["go", "--plain"])] {
        let arguments: Vec<&str> = ["--url", &url, "run"].into_iter().chain(arguments).collect();
        let columns_text = columns.to_string();
        let variables = [("COLUMNS", &*columns_text), ("TERM", "xterm")];
        let (text_seen, status) = Terminal::start(&scene.work(), &arguments, &variables).end();
        assert_eq!(status, 0, "{text_seen}");
        let seen = seen(&text_seen);
        // The first line of the run names ids and a path, which stay whole.
        let lines: Vec<&str> =
            seen.lines().filter(|line| !line.starts_with("run ") && !line.contains('/')).collect();
        for line in &lines {
            assert!(line.width() <= columns, "{} columns of {columns}: {line}", line.width());
            assert!(!line.starts_with(['\u{200d}', '\u{301}', '、', '。']), "{line:?}");
        }
        let letters = |text: &str| text.split_whitespace().collect::<String>();
        assert!(letters(&lines.concat()).contains(&letters(text)), "{seen}");
    }
}

#[test]
fn the_default_system_prompt_is_printed() {
    let printed = CommandOutput::of(recount().args(["config", "--system-prompt", "--sandbox", "off"])).good();
    assert!(printed.starts_with("You are an agent run by Recount."), "{printed}");
    assert!(
        printed.contains("git_status, glob, grep") && printed.contains("Commands run without a sandbox."),
        "{printed}"
    );
}
