//! What looking for secrets costs where there are none: nanoseconds an event.
//!
//! `cargo run --release -p recount-redact --example redaction_rate`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for measuring")]

use std::hint::black_box;

use recount_redact::{JsonField, Online, Redactor, Secret};

const ROUNDS: u32 = 100;
const TIMES: u32 = 2000;

/// Nanoseconds of one call, in the best of many rounds: the others were disturbed.
fn best(mut call: impl FnMut()) -> u128 {
    let round = |_| {
        let start = recount_world::moment();
        (0..TIMES).for_each(|_| call());
        start.elapsed().as_nanos() / u128::from(TIMES)
    };
    (0..ROUNDS).map(round).min().unwrap()
}

fn main() {
    let known: Vec<Secret> = (0..20)
        .map(|n| Secret::new(&format!("{:x}", 0x9e37_79b9_7f4a_7c15_u64.rotate_left(n))).unwrap())
        .collect();
    let words = "The writer takes everything that waits, writes once, syncs once and answers all of them; \
                 see https://example.org/docs/a-b-c and task 01M7YHX0000000000000000000. ";
    let prose = words.repeat(3)[..380].to_owned();
    let delta = format!(r#"{{"turn_index":3,"block_index":0,"delta":"{prose}"}}"#);
    let short = r#"{"turn_index":3,"block_index":0,"delta":" the notes"}"#.to_owned();
    let lines =
        "   Compiling recount-engine v0.1.0 (/w/crates/engine)\\n    Finished `dev` profile in 7.52s\\n"
            .repeat(4);
    let chunk = format!(
        r#"{{"tool_call_id":"call_01M7YHX0000000000000000000","stream":"stdout","data":"{lines}","byte_offset":16384}}"#
    );
    let call = format!(
        r#"{{"turn_index":3,"tool_call_id":"call_1","tool_name":"edit","input":{{"path":"src/lib.rs","old":"{}","new":"let x = 4294967296;"}}}}"#,
        "fn main() {\\n    println!(\\\"{}\\\", 0xdead_beef);\\n}\\n".repeat(5)
    );
    for (name, redactor) in
        [("shapes", Redactor::shapes()), ("shapes and 20 values", Redactor::new(known, true))]
    {
        for (what, json) in [
            ("text delta", &delta),
            ("short delta", &short),
            ("shell output", &chunk),
            ("proposed call", &call),
        ] {
            assert_eq!(redactor.json(json, None, &|_| false), None);
            let took = best(|| drop(black_box(redactor.json(black_box(json), None, &|_| false))));
            println!("{name}: {what} of {} bytes, as JSON: {took} ns", json.len());
        }
        for piece in [prose.as_str(), " the notes"] {
            let mut before = Online::default();
            let took = best(|| {
                let (spans, next) = redactor.online(&before, black_box(piece.as_bytes()), false);
                assert!(spans.is_empty());
                before = next;
            });
            println!("{name}: a piece of {} bytes, online: {took} ns", piece.len());
        }
        let field = Some(JsonField { name: "delta", value: None });
        let took = best(|| drop(black_box(redactor.json(black_box(&delta), field, &|_| false))));
        println!("{name}: the rest of a delta: {took} ns");
    }
}
