//! Fuzz tests: lines of the corpus with bytes changed, cut, repeated and spliced are parsed and checked without a
//! panic. `RECOUNT_FUZZ_ROUNDS` sets the number of rounds (one file of forty lines each); the default is small.

use std::path::Path;

use recount_aaep::Message;
use recount_aaep::json::Splitter;
use recount_aaep::rule::Profile;
use recount_aaep::session::{Checker, Options};

/// Reproducible pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % bound.max(1)
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut lines = Vec::new();
    for name in ["events", "sessions", "chapter4"] {
        let mut files: Vec<_> =
            std::fs::read_dir(folder.join(name)).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        for file in files {
            let bytes = std::fs::read(file).unwrap();
            lines.extend(
                bytes.split(|byte| *byte == b'\n').filter(|line| line.len() < 20_000).map(<[u8]>::to_vec),
            );
        }
    }
    lines
}

fn change(line: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    const PIECES: &[&str] = &[
        "\"",
        "\\",
        "\\u",
        "\\ud83d",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "-",
        "1e999",
        "0",
        "\u{feff}",
        "é",
        "\n",
        "\r",
        "9007199254740993",
        "true",
        "evt_",
        "\"aaep:agent.tool.invoked\"",
        "[[[[[[[[[[[[",
        "\"type\":",
        "\0",
    ];
    let at = dice.below(line.len() + 1);
    match dice.below(7) {
        0 if at < line.len() => line[at] = u8::try_from(dice.below(256)).unwrap(),
        1 => line.truncate(at),
        2 if at < line.len() => drop(line.drain(at..(at + 1 + dice.below(9)).min(line.len()))),
        3 => {
            let from = dice.below(other.len() + 1);
            let to = (from + dice.below(60)).min(other.len());
            line.splice(at..at, other[from..to].iter().copied());
        }
        4 => {
            let end = (at + dice.below(40)).min(line.len());
            let again = line[at..end].to_vec();
            line.splice(at..at, again);
        }
        _ => {
            let piece = PIECES[dice.below(PIECES.len())];
            line.splice(at..at, piece.bytes());
        }
    }
}

#[test]
fn corrupted_lines_are_checked() {
    let rounds =
        std::env::var("RECOUNT_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(60_u64);
    let corpus = corpus();
    for round in 0..rounds {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15 ^ (round + 1).wrapping_mul(0xD1B5_4A32_D192_ED03));
        let mut file = Vec::new();
        // Mostly neighbouring lines, so that sessions stay together.
        let first = dice.below(corpus.len());
        for step in 0..40 {
            let at =
                if dice.below(4) == 0 { dice.below(corpus.len()) } else { (first + step) % corpus.len() };
            let mut line = corpus[at].clone();
            for _ in 0..[0, 0, 1, 1, 2, 5][dice.below(6)] {
                let other = dice.below(corpus.len());
                change(&mut line, &corpus[other], &mut dice);
            }
            if let Ok(text) = std::str::from_utf8(&line)
                && let Ok(message) = Message::parse(text)
            {
                let again = Message::parse(&message.to_json());
                assert!(
                    again.is_ok(),
                    "round {round}: {text} is parsed, but its serialized form is not: {again:?}"
                );
            }
            file.extend_from_slice(&line);
            file.push(b'\n');
        }
        let profile = if round % 2 == 0 { Profile::Strict } else { Profile::Compat };
        let mut checker = Checker::new(Options { profile, seed: round, ..Options::default() });
        let mut splitter = Splitter::new();
        for chunk in file.chunks(1 + dice.below(5_000)) {
            splitter.push(chunk, |piece| {
                checker.piece(piece);
            });
        }
        splitter.finish(|piece| {
            checker.piece(piece);
        });
        checker.finish();
        for finding in checker.take() {
            assert!(finding.line >= 1 && !finding.to_string().is_empty());
        }
    }
}
