//! Compares the projection of every story of `testdata/runs` with its transcript `testdata/faces/acp/<story>.txt`.
//! `RECOUNT_BLESS=1` writes the files, except if `CI` is set.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use recount_event::registry::Payload;
use recount_event::{Event, codec};
use serde_json::Value;

use crate::editor_prompt;
use crate::project::{OpenPrompt, Projector, Step};

const SERVER: &str = "http://127.0.0.1:8765";

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

fn stories() -> BTreeMap<String, Vec<Event>> {
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let events = text.lines().map(|line| codec::decode(line.as_bytes()).unwrap()).collect();
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), events)
    };
    std::fs::read_dir(testdata().join("runs")).unwrap().map(read).collect()
}

fn projector(events: &[Event], is_replay: bool) -> Projector {
    Projector::new(&events[0].run_id.to_string(), SERVER, is_replay)
}

/// The steps of a whole run, each prompt with its permission or form.
fn steps(events: &[Event], projector: &mut Projector) -> Vec<(Step, Option<Value>)> {
    let mut steps = Vec::new();
    for event in events {
        for step in projector.event(event) {
            let request = match &step {
                Step::Prompt(OpenPrompt::Clarification(question)) => {
                    Some(editor_prompt::form("chat", question))
                }
                Step::Prompt(prompt) => editor_prompt::permission("chat", prompt, projector),
                _ => None,
            };
            steps.push((step, request));
        }
    }
    steps
}

fn line(step: &Step, request: Option<&Value>) -> String {
    match step {
        Step::Update(update) => format!("{update}\n"),
        Step::Prompt(prompt) => format!("ask {} {}\n", prompt.id().as_str(), request.unwrap_or(&Value::Null)),
        Step::Settled { prompt } => format!("settled {prompt}\n"),
        Step::Patch { call, artifact, path } => format!("patch {artifact} of {call} for {path}\n"),
        Step::Ended(ending) => format!("ended {ending:?}\n"),
    }
}

fn transcript(events: &[Event]) -> String {
    let part = |is_replay| {
        let steps = steps(events, &mut projector(events, is_replay));
        steps.iter().map(|(step, request)| line(step, request.as_ref())).collect::<String>()
    };
    format!("### live\n{}### replay\n{}", part(false), part(true))
}

#[test]
fn every_story_matches_its_transcript() {
    let folder = testdata().join("faces/acp");
    let is_blessed = std::env::var_os("RECOUNT_BLESS").is_some_and(|value| value == "1");
    assert!(!is_blessed || std::env::var_os("CI").is_none(), "CI compares; it does not bless");
    let mut names = BTreeSet::new();
    for (story, events) in stories() {
        let made = transcript(&events);
        let name = format!("{story}.txt");
        let file = folder.join(&name);
        if is_blessed {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &made).unwrap();
        }
        let stored = std::fs::read_to_string(&file)
            .unwrap_or_else(|why| panic!("{name}: {why}: RECOUNT_BLESS=1 writes it"));
        for (at, (stored, made)) in stored.lines().zip(made.lines()).enumerate() {
            assert_eq!(stored, made, "{name}:{}: if it is meant, RECOUNT_BLESS=1", at + 1);
        }
        assert_eq!(stored, made, "{name}: if it is meant, RECOUNT_BLESS=1");
        names.insert(name);
    }
    let files = std::fs::read_dir(folder).unwrap();
    let files: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, names, "each file is the transcript of a story");
}

/// An independent check of the updates of one run, by what an editor may rely on.
#[test]
fn every_story_is_a_legal_conversation() {
    for (story, events) in stories() {
        let mut calls: BTreeMap<String, String> = BTreeMap::new();
        let (mut open, mut text, mut is_over) = (BTreeSet::new(), String::new(), false);
        for (step, request) in steps(&events, &mut projector(&events, false)) {
            let is_note =
                |update: &Value| update["messageId"].as_str().is_some_and(|id| id.ends_with(".note"));
            assert!(
                !is_over || matches!(&step, Step::Update(update) if is_note(update)),
                "{story}: {step:?}"
            );
            match step {
                Step::Update(update) => match update["sessionUpdate"].as_str().unwrap() {
                    "tool_call" => {
                        let id = update["toolCallId"].as_str().unwrap().to_owned();
                        assert_eq!(update["status"], "pending", "{story}");
                        assert!(calls.insert(id, "pending".to_owned()).is_none(), "{story}: {update} again");
                    }
                    "tool_call_update" => {
                        let status = calls.get_mut(update["toolCallId"].as_str().unwrap()).expect(&story);
                        assert!(
                            !matches!(status.as_str(), "completed" | "failed"),
                            "{story}: after its end {update}"
                        );
                        if let Some(next) = update["status"].as_str() {
                            assert_ne!(next, status, "{story}: {update}");
                            next.clone_into(status);
                        }
                    }
                    "agent_message_chunk" if !is_note(&update) => {
                        text.push_str(update["content"]["text"].as_str().unwrap_or(""));
                    }
                    "user_message_chunk" => panic!("{story}: {update} is live"),
                    _ => {}
                },
                Step::Prompt(prompt) => {
                    if let Some(id) =
                        request.as_ref().and_then(|request| request["toolCall"]["toolCallId"].as_str())
                    {
                        assert!(!id.is_empty(), "{story}");
                    }
                    assert!(request.is_some() && open.insert(prompt.id().as_str().to_owned()), "{story}");
                }
                Step::Settled { prompt } => assert!(open.remove(&prompt), "{story}: {prompt}"),
                Step::Patch { call, .. } => assert!(calls.contains_key(&call), "{story}: {call}"),
                Step::Ended(_) => is_over = true,
            }
        }
        let whole: String = events
            .iter()
            .filter_map(|event| match event.payload() {
                Payload::AssistantTextComplete(whole) => Some(whole.text.as_str()),
                _ => None,
            })
            .collect();
        assert!(text.starts_with(&whole) || text == whole, "{story}: {text:?} is not {whole:?}");
        assert!(open.is_empty(), "{story}: {open:?}");
        let has_ended = events.iter().any(|event| {
            matches!(
                event.payload(),
                Payload::RunFinished(_) | Payload::RunFailed(_) | Payload::RunCancelled(_)
            )
        });
        assert_eq!(is_over, has_ended, "{story}");
    }
}

/// A replay up to any event, continued live, gives the same updates as the whole run live. The prompts that are open
/// then are forwarded.
#[test]
fn a_story_continues_after_any_cut() {
    for (story, events) in stories() {
        let updates = |steps: Vec<(Step, Option<Value>)>| -> Vec<Value> {
            let update = |(step, _)| if let Step::Update(update) = step { Some(update) } else { None };
            steps
                .into_iter()
                .filter_map(update)
                .filter(|u| u["sessionUpdate"] != "user_message_chunk")
                .collect()
        };
        let is_question =
            |update: &Value| update["messageId"].as_str().is_some_and(|id| id.contains(".clar"));
        let uncut = updates(steps(&events, &mut projector(&events, false)));
        for cut in 0..=events.len() {
            let mut projector = projector(&events, true);
            let mut merged = updates(steps(&events[..cut], &mut projector));
            let open: Vec<String> =
                projector.open().iter().map(|open| open.id().as_str().to_owned()).collect();
            projector.go_live();
            let rest = steps(&events[cut..], &mut projector);
            let mut waiting: BTreeSet<String> = open.iter().cloned().collect();
            for (step, _) in &rest {
                match step {
                    Step::Prompt(prompt) => {
                        assert!(waiting.insert(prompt.id().as_str().to_owned()), "{story}:{cut}")
                    }
                    Step::Settled { prompt } => assert!(waiting.remove(prompt), "{story}:{cut}: {prompt}"),
                    _ => {}
                }
            }
            merged.extend(updates(rest));
            merged.retain(|update| !is_question(update));
            assert_eq!(merged, uncut, "{story} cut before event {cut}");
        }
    }
}
