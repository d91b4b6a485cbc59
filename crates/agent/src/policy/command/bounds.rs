//! Tests that hostile lines are read in a limited number of steps that grows at most linearly with their length.
//!
//! Start at [`SHAPES`]. Steps are counted, not time: every text and list of words is counted each time it is processed.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::trace::soup;
use super::*;

/// Repeated text, with the text before and after it.
const SHAPES: &[(&str, &str, &str)] = &[
    // Programs that run programs.
    ("", "env ", "ls"),
    ("", "./env ", "ls"),
    ("", "sudo nice nohup ", "ls"),
    ("", "env A=1 ", "ls"),
    ("env ", "-u x ", "ls"),
    ("env ", "A=1 ", "ls"),
    ("nice -", "1", " ls"),
    ("xargs ", "-Ia ", "ls"),
    ("xargs ", "xargs -Ia ", "ls"),
    ("xargs -Ia ", "a", ""),
    ("", "time ", "ls"),
    ("", "command exec ", "ls"),
    ("", "! ", "ls"),
    ("find ", "-exec find ", "ls"),
    ("find . ", "-exec rm {} \\; ", ""),
    ("find . ", "-exec env env env ls \\; ", ""),
    ("find . ", "-exec ", ""),
    // Texts that contain commands.
    ("", "eval ", "ls"),
    ("", "bash -c ", "ls"),
    ("eval ", "'eval ' ", "ls"),
    ("trap '", "trap ", "' EXIT"),
    ("", "eval eval eval ls;", ""),
    // Quotes, expansions and nesting.
    ("echo ", "'a' ", ""),
    ("echo '", "a", "'"),
    ("echo \"", "\\\"", "\""),
    ("echo \"", "$x", "\""),
    ("echo ", "${x:-", ""),
    ("echo ", "\"${x:-$y}\"", ""),
    ("", "$(", ""),
    ("echo ", "$(ls) ", ""),
    ("echo ", "`ls` ", ""),
    ("echo ", "<(ls) ", ""),
    ("", "(", ""),
    ("", "{ ", "ls"),
    ("", "((", ""),
    ("((", "(", ""),
    ("((x", "=", "1))"),
    ("((", "x=", "1))"),
    ("((", "x + ", "1))"),
    ("echo $((", "1 + ", "1))"),
    ("echo ", "$((1)) ", ""),
    ("echo ", "\\\n", "x"),
    ("echo ", "{a,b}", ""),
    ("echo ", "{", ""),
    ("echo ", "*", ""),
    // Here-documents.
    ("cat ", "<<E ", "\nE\n"),
    ("cat <<E\n", "a\n", "E\n"),
    ("cat <<E\n", "$x`ls`\n", "E\n"),
    ("", "cat <<E\nE\n", ""),
    ("cat <<E\n", "$(cat <<F\nF\n)", "\nE\n"),
    ("cat <<E\n", "$(cat <<F\n", ""),
    ("cat <<-E\n", "\t", "E\n"),
    // Variables, conditions, loops and redirections.
    ("", "A=1 ", "ls"),
    ("", "A=1;", ""),
    ("", "RANDOM=1 ", "ls"),
    ("export ", "A ", ""),
    ("[ ", "$x ", "]"),
    ("[ ", "! ", "]"),
    ("[[ ", "$x -eq ", "]]"),
    ("[[ -n x", " && -n x", " ]]"),
    ("for x in ", "1 ", "; do ls; done"),
    ("", "for x in a; do ", "ls"),
    ("", "if ", "ls"),
    ("case x in ", "a) ls;; ", "esac"),
    ("ls ", ">f ", ""),
    ("ls ", "<f ", ""),
    ("ls ", "1>&2 ", ""),
    ("", ";", ""),
    ("", "ls;", ""),
    ("", "ls | ", "ls"),
    ("", "#\n", ""),
    ("", "a", ""),
];

fn shape((before, again, after): (&str, &str, &str), bytes: usize) -> String {
    let times = bytes.saturating_sub(before.len() + after.len()) / again.len();
    format!("{before}{}{after}", again.repeat(times))
}

#[test]
fn no_line_takes_more_steps_than_its_length_allows() {
    for &parts in SHAPES {
        let [small, large] = [6_000, 12_000].map(|bytes| CommandLine::read(&shape(parts, bytes)).steps);
        assert!(large <= 2 * small + small / 4 + 1_000, "{parts:?}: {small} and {large} steps");
        let line = CommandLine::read(&shape(parts, COMMAND_BYTES_MAX));
        // A step beyond the limit is counted but not processed.
        assert!(line.steps <= limits::COMMAND_STEPS_MAX || line.unjudged.is_some(), "{parts:?}");
        assert!(line.commands.len() <= limits::COMMANDS_MAX, "{parts:?}");
    }
}

#[test]
fn what_is_beyond_a_bound_is_not_read_and_not_judged() {
    let line = CommandLine::read(&"a ".repeat(COMMAND_BYTES_MAX));
    assert_eq!(line.unjudged, Some("it exceeds the length limit of a command line"));
    assert_eq!((line.commands.len(), line.steps), (0, 0));
    let wraps = |times: usize| CommandLine::read(&format!("{}ls", "env ".repeat(times))).unjudged;
    assert_eq!(wraps(limits::COMMAND_WRAPPERS_MAX), None);
    assert_eq!(wraps(limits::COMMAND_WRAPPERS_MAX + 1), Some("too many programs run other programs"));
    let within = |times: usize| {
        let script = (0..times).fold("ls".to_owned(), |script, _| format!("eval {}", quoted(&[&script])));
        CommandLine::read(&script).unjudged
    };
    assert_eq!(within(4), None);
    assert!(within(limits::COMMAND_DEPTH_MAX + 2).is_some());
    let expands = |times: usize| {
        CommandLine::read(&format!("echo {}x{}", "${x:-".repeat(times), "}".repeat(times))).unjudged
    };
    assert_eq!(expands(limits::COMMAND_DEPTH_MAX), None);
    assert_eq!(expands(limits::COMMAND_DEPTH_MAX + 1), Some("its expansions are nested too deeply"));
    // Eight readings of a long text are allowed, and no more.
    let mut line = CommandLine::default();
    assert!(line.may_take(limits::COMMAND_STEPS_MAX) && line.unjudged.is_none());
    assert!(!line.may_take(1) && line.unjudged.is_some());
    line.add("rm x", 0);
    assert_eq!(line.commands.len(), 0);
}

/// Pieces of scripts, repeated and nested: nothing panics, and nothing exceeds its limit.
#[test]
fn random_lines_are_read_within_bounds() {
    let pieces = (soup(), 1_usize..400);
    let text = prop::collection::vec(pieces, 1..5)
        .prop_map(|pieces| pieces.iter().map(|(piece, times)| piece.repeat(*times)).collect::<String>());
    let cases = std::env::var("RECOUNT_SHELL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(100);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let check = |text: String| {
        let line = CommandLine::read(&text);
        prop_assert!(line.steps <= limits::COMMAND_STEPS_MAX || line.unjudged.is_some());
        prop_assert!(line.steps <= 40 * text.len() + 10_000 || line.unjudged.is_some(), "{}", line.steps);
        prop_assert!(line.commands.len() <= limits::COMMANDS_MAX);
        Ok(())
    };
    runner.run(&text, check).unwrap();
}
