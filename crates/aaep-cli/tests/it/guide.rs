//! Runs the shell examples of docs/aaep/guide.md, up to the section that needs two terminals.

use std::path::Path;
use std::process::Command;

use crate::aaep;
use crate::program::CommandOutput;

/// Commands of the page with their expected output.
fn steps(page: &str) -> Vec<(&str, &str)> {
    let (alone, _) = page.split_once("\n## 5. ").expect("the page has a fifth section");
    let blocks = alone.split("```sh\n").skip(1);
    blocks
        .map(|block| {
            let (typed, rest) = block.split_once("\n```\n\n```").expect("the command block has an end");
            let (_, expected) = rest.split_once('\n').expect("the output block has a start");
            (typed, expected.split_once("\n```").expect("the output block has an end").0)
        })
        .collect()
}

#[test]
fn guide_examples_match_the_real_output() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/aaep/guide.md");
    let page = std::fs::read_to_string(path).unwrap();
    let steps = steps(&page);
    assert_eq!(steps.len(), 5, "{steps:?}");
    let folder = tempfile::tempdir().unwrap();
    let binary = aaep().get_program().to_owned();
    let binary = Path::new(&binary).parent().unwrap().to_owned();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::env::join_paths(std::iter::once(binary).chain(std::env::split_paths(&paths))).unwrap();
    for (typed, expected) in steps {
        let mut shell = Command::new("sh");
        shell.args(["-c", typed]).current_dir(folder.path()).env("PATH", &paths);
        let output = CommandOutput::of(&mut shell);
        assert_eq!((output.data.trim_end(), output.words.as_str()), (expected, ""), "{typed}");
    }
}
