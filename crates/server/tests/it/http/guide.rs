//! Checks `docs/faces/aep.md` against the program: its table of paths, its numbers, its commands.

use std::collections::BTreeMap;
use std::time::Duration;

use recount_api::query;
use recount_api::routes::ROUTES;

use crate::test_context::TestContext;

const PAGE: &str = include_str!("../../../../../docs/faces/aep.md");

/// The rows of the table under a heading, cell by cell.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let section = PAGE.split(&format!("\n## {heading}\n")).nth(1).expect("the heading is there");
    let section = section.split("\n## ").next().unwrap();
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect();
    section.lines().filter(|line| line.starts_with('|')).skip(2).map(cells).collect()
}

#[test]
fn every_path_is_on_the_page() {
    let documented: Vec<String> = rows("Paths").iter().map(|row| row.join(" ")).collect();
    let there: Vec<String> =
        ROUTES.iter().map(|route| format!("{} `{}` {}", route.method, route.path, route.does)).collect();
    assert_eq!(documented, there);
}

#[test]
fn every_limit_on_the_page_is_the_program_s() {
    let seconds = |wait: Duration| format!("{} s", wait.as_secs());
    let bytes = |bytes: usize| format!("{bytes} bytes");
    let there = {
        use recount_face_aep::limits as face_aep;
        use recount_server::limits as server;
        use recount_transport::limits as transport;
        use {recount_engine::limits as engine, recount_event::limits as event, recount_run::limits as run};
        BTreeMap::from([
            ("`face_aep::BATCH_BODY_BYTES_MAX`", bytes(face_aep::BATCH_BODY_BYTES_MAX)),
            ("`face_aep::BODY_BYTES_MAX`", bytes(face_aep::BODY_BYTES_MAX)),
            ("`face_aep::IMPORT_BODY_BYTES_MAX`", bytes(face_aep::IMPORT_BODY_BYTES_MAX)),
            ("`face_aep::IMPORTS_MAX`", face_aep::IMPORTS_MAX.to_string()),
            ("`engine::IMPORT_ENTRIES_MAX`", engine::IMPORT_ENTRIES_MAX.to_string()),
            ("`face_aep::BODY_WAIT`", seconds(face_aep::BODY_WAIT)),
            ("`face_aep::TEXT_BYTES_MAX`", bytes(face_aep::TEXT_BYTES_MAX)),
            ("`face_aep::STREAMS_MAX`", face_aep::STREAMS_MAX.to_string()),
            ("`face_aep::STREAMS_RETRY`", seconds(face_aep::STREAMS_RETRY)),
            ("`engine::BATCH_EVENTS_MAX`", engine::BATCH_EVENTS_MAX.to_string()),
            ("`engine::PAGE_BYTES`", bytes(engine::PAGE_BYTES)),
            ("`event::DATA_BYTES_MAX`", bytes(event::DATA_BYTES_MAX)),
            ("`event::JSON_DEPTH_MAX`", event::JSON_DEPTH_MAX.to_string()),
            ("`event::INTEGER_MAX`", event::INTEGER_MAX.to_string()),
            ("`event::FOREIGN_ID_BYTES_MAX`", bytes(event::FOREIGN_ID_BYTES_MAX)),
            ("`event::TYPE_NAME_BYTES_MAX`", bytes(event::TYPE_NAME_BYTES_MAX)),
            ("`run::TEXT_BLOCK_BYTES_MAX`", bytes(run::TEXT_BLOCK_BYTES_MAX)),
            ("`run::CALLS_OPEN_MAX`", run::CALLS_OPEN_MAX.to_string()),
            ("`run::PROMPTS_OPEN_MAX`", run::PROMPTS_OPEN_MAX.to_string()),
            ("`api::EVENTS_LIMIT_DEFAULT`", query::EVENTS_LIMIT_DEFAULT.to_string()),
            ("`api::EVENTS_LIMIT_MAX`", query::EVENTS_LIMIT_MAX.to_string()),
            ("`api::LIST_LIMIT_DEFAULT`", query::LIST_LIMIT_DEFAULT.to_string()),
            ("`api::LIST_LIMIT_MAX`", query::LIST_LIMIT_MAX.to_string()),
            ("`transport::HEARTBEAT_EVERY`", seconds(transport::HEARTBEAT_EVERY)),
            ("`transport::RETRY_MS`", format!("{} ms", transport::RETRY_MS)),
            ("`transport::WRITE_STALL`", seconds(transport::WRITE_STALL)),
            ("`server::CONNECTIONS_MAX`", server::CONNECTIONS_MAX.to_string()),
            ("`server::HEAD_WAIT`", seconds(server::HEAD_WAIT)),
            ("`server::HEAD_BYTES_MAX`", bytes(server::HEAD_BYTES_MAX)),
            ("`server::HEADERS_MAX`", server::HEADERS_MAX.to_string()),
            ("`server::DRAIN_WAIT`", seconds(server::DRAIN_WAIT)),
        ])
    };
    let documented: BTreeMap<&str, String> =
        rows("Limits").iter().map(|row| (row[3], row[1].to_owned())).collect();
    assert_eq!(documented, there);
}

#[test]
fn every_limit_of_exports_is_the_program_s() {
    use recount_engine::limits as engine;
    let page = include_str!("../../../../../docs/export.md");
    for (limit, name) in [
        (recount_api::export::RUN_BYTES_MAX, "api::RUN_BYTES_MAX"),
        (engine::IMPORT_ENTRIES_MAX, "engine::IMPORT_ENTRIES_MAX"),
        (engine::IMPORT_BYTES_MAX, "engine::IMPORT_BYTES_MAX"),
        (recount_face_aep::limits::IMPORTS_MAX, "face_aep::IMPORTS_MAX"),
    ] {
        let row = page.lines().find(|line| line.ends_with(&format!("| `{name}` |")));
        let documented = row.and_then(|row| row.split('|').nth(2)).map(str::trim);
        assert_eq!(documented, Some(&*limit.to_string()), "{name}");
    }
    let rows = page.lines().filter(|line| line.ends_with("_MAX` |")).count();
    assert_eq!(rows, 4, "each row was checked");
}

/// The blocks of one language, in order.
fn blocks(language: &str) -> Vec<&'static str> {
    let open = format!("\n```{language}\n");
    PAGE.split(open.as_str()).skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

/// A text with identifiers and times replaced, because they differ between runs.
fn masked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let word: usize = rest.bytes().take_while(|b| b.is_ascii_digit() || b.is_ascii_uppercase()).count();
        let time = rest.get(..24).filter(|time| time.ends_with('Z') && time.as_bytes()[4] == b'-');
        if word == 26 {
            out.push_str("ULID");
            rest = &rest[26..];
        } else if time.is_some() {
            out.push_str("TIME");
            rest = &rest[24..];
        } else {
            let step = word.max(next.len_utf8());
            out.push_str(&rest[..step]);
            rest = &rest[step..];
        }
    }
    out
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_on_the_page_print_the_shown_output() {
    let (commands, outputs) = (blocks("sh"), blocks("text"));
    assert_eq!((commands.len(), outputs.len()), (7, 7));
    let context = TestContext::memory().await;
    let folder = tempfile::tempdir().unwrap();
    let cut = "\n---- cut ----\n";
    let mut script = String::from("set -eu\n");
    for command in &commands {
        script.push_str(&command.replace("127.0.0.1:8765", &context.address.to_string()));
        script.push_str("\nprintf '\\n---- cut ----\\n'\n");
    }
    let done = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("no_proxy", "127.0.0.1")
        .output()
        .expect("a shell");
    let stdout = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&done.stderr));
    let printed: Vec<&str> = stdout.split(cut).collect();
    assert_eq!(printed.len(), commands.len() + 1);
    for (printed, documented) in printed.iter().zip(outputs) {
        assert_eq!(masked(printed.trim_end()), masked(documented.trim_end()));
    }
}
