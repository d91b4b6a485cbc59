//! Words that come with commands: reasons, comments, answers, names.

use recount_event::{Draft, Event, Json};
use recount_redact::with_paths;
use recount_run::{CallResolution, Command, State};
use serde_json::Value;

use crate::Error;
use crate::write::redaction::texts::Texts;
use crate::write::redaction::{Masking, Redaction};

impl Redaction {
    /// Masks a command before it is judged.
    pub(crate) fn command(
        &self,
        texts: &Texts,
        state: &State,
        command: &mut Command,
    ) -> Result<Masking, Error> {
        let mut words = Vec::new();
        match command {
            Command::Append { drafts } | Command::Progress { drafts } => {
                return self.drafts(texts, state, drafts);
            }
            Command::Queue { .. } | Command::Tick => {}
            Command::Cancel { reason, .. } | Command::Prune { reason, .. } => self.word(reason, &mut words),
            Command::Fail { message, .. } => self.word(message, &mut words),
            Command::ResolveApproval { by, comment, .. }
            | Command::AcknowledgeHandoff { by, comment, .. } => {
                self.word(by, &mut words);
                comment.iter_mut().for_each(|comment| self.word(comment, &mut words));
            }
            Command::ExtendPrompt { by, .. } => self.word(by, &mut words),
            Command::RejectHandoff { by, reason, .. } => {
                self.word(by, &mut words);
                reason.iter_mut().for_each(|reason| self.word(reason, &mut words));
            }
            Command::AnswerCalls { answers, by, config, .. } => {
                self.word(by, &mut words);
                config.iter_mut().try_for_each(|config| self.json(config, &mut words))?;
                for answer in answers {
                    match &mut answer.resolution {
                        CallResolution::Granted | CallResolution::Denied { reason: None } => {}
                        CallResolution::Denied { reason: Some(reason) } => self.word(reason, &mut words),
                        CallResolution::Output { output, text } => {
                            self.json(output, &mut words)?;
                            self.word(text, &mut words);
                        }
                    }
                }
            }
            Command::AnswerClarification { response, blocks, by, config, .. } => {
                self.word(by, &mut words);
                config.iter_mut().try_for_each(|config| self.json(config, &mut words))?;
                self.json(response, &mut words)?;
                blocks.iter_mut().flatten().try_for_each(|block| self.json(block, &mut words))?;
            }
            Command::TakeOver { worker_id, reason, .. } => {
                self.word(worker_id, &mut words);
                self.word(reason, &mut words);
            }
        }
        Ok(Masking { masked: !words.is_empty(), words, ..Masking::default() })
    }

    fn word(&self, text: &mut String, words: &mut Vec<String>) {
        if let std::borrow::Cow::Owned(masked) = self.redactor.text(text) {
            words.push(masked.clone());
            *text = masked;
        }
    }

    pub(crate) fn json(&self, json: &mut Json, words: &mut Vec<String>) -> Result<(), Error> {
        let Some(masked) = self.redactor.json(json.text(), None, &|_| false) else { return Ok(()) };
        let unread = |why: serde_json::Error| Error::bug(format!("masked JSON cannot be read: {why}"));
        let value: Value = serde_json::from_str(&masked.text).map_err(unread)?;
        let texts = masked.paths.iter().filter_map(|path| value.pointer(path)?.as_str());
        words.extend(texts.map(str::to_owned));
        *json = Json::parse(&masked.text).map_err(unread)?;
        Ok(())
    }
}

impl Masking {
    /// Lets the events that a command made name the places of its masked words.
    pub(crate) fn name_places(&self, events: &mut [Event]) {
        if self.words.is_empty() {
            return;
        }
        for event in events {
            let Draft { payload, verbatim: verbatim @ None } = &mut event.body else { continue };
            let written = payload.write();
            let Ok(value) = serde_json::from_str::<Value>(&written) else { continue };
            let mut paths = Vec::new();
            places(&value, &self.words, &mut String::new(), &mut paths);
            if !paths.is_empty() {
                *verbatim = Some(with_paths(&written, &paths).into());
            }
        }
    }
}

/// Where words stand, as JSON Pointers. What may come with a command is bounded in size and depth.
fn places(value: &Value, words: &[String], path: &mut String, paths: &mut Vec<String>) {
    let length = path.len();
    match value {
        Value::String(text) if words.iter().any(|word| text.contains(word.as_str())) => {
            paths.push(path.clone())
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("/{index}"));
                places(item, words, path, paths);
                path.truncate(length);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                path.push('/');
                path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                places(member, words, path, paths);
                path.truncate(length);
            }
        }
        _ => {}
    }
}
