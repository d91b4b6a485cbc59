//! Masks the texts in commands: reasons, comments, answers, names.

use recount_event::{Draft, Event, Json};
use recount_redact::with_paths;
use recount_run::{CallResolution, Command, State};
use serde_json::Value;

use crate::Error;
use crate::write::redaction::texts::Texts;
use crate::write::redaction::{Masking, Redaction};

impl Redaction {
    /// Masks a command before it is checked.
    pub(crate) fn command(
        &self,
        texts: &Texts,
        state: &State,
        command: &mut Command,
    ) -> Result<Masking, Error> {
        let mut masked_texts = Vec::new();
        match command {
            Command::Append { drafts } | Command::Progress { drafts } => {
                return self.drafts(texts, state, drafts);
            }
            Command::Queue { .. } | Command::Tick => {}
            Command::Cancel { reason, .. } | Command::Prune { reason, .. } => {
                self.mask_text(reason, &mut masked_texts)
            }
            Command::Fail { message, .. } => self.mask_text(message, &mut masked_texts),
            Command::ResolveApproval { by, comment, .. }
            | Command::AcknowledgeHandoff { by, comment, .. } => {
                self.mask_text(by, &mut masked_texts);
                comment.iter_mut().for_each(|comment| self.mask_text(comment, &mut masked_texts));
            }
            Command::ExtendPrompt { by, .. } => self.mask_text(by, &mut masked_texts),
            Command::RejectHandoff { by, reason, .. } => {
                self.mask_text(by, &mut masked_texts);
                reason.iter_mut().for_each(|reason| self.mask_text(reason, &mut masked_texts));
            }
            Command::AnswerCalls { answers, by, config, .. } => {
                self.mask_text(by, &mut masked_texts);
                config.iter_mut().try_for_each(|config| self.json(config, &mut masked_texts))?;
                for answer in answers {
                    match &mut answer.resolution {
                        CallResolution::Granted | CallResolution::Denied { reason: None } => {}
                        CallResolution::Denied { reason: Some(reason) } => {
                            self.mask_text(reason, &mut masked_texts)
                        }
                        CallResolution::Output { output, text } => {
                            self.json(output, &mut masked_texts)?;
                            self.mask_text(text, &mut masked_texts);
                        }
                    }
                }
            }
            Command::AnswerClarification { response, blocks, by, config, .. } => {
                self.mask_text(by, &mut masked_texts);
                config.iter_mut().try_for_each(|config| self.json(config, &mut masked_texts))?;
                self.json(response, &mut masked_texts)?;
                blocks.iter_mut().flatten().try_for_each(|block| self.json(block, &mut masked_texts))?;
            }
            Command::TakeOver { worker_id, reason, .. } => {
                self.mask_text(worker_id, &mut masked_texts);
                self.mask_text(reason, &mut masked_texts);
            }
        }
        Ok(Masking { masked: !masked_texts.is_empty(), masked_texts, ..Masking::default() })
    }

    fn mask_text(&self, text: &mut String, masked_texts: &mut Vec<String>) {
        if let std::borrow::Cow::Owned(masked) = self.redactor.text(text) {
            masked_texts.push(masked.clone());
            *text = masked;
        }
    }

    pub(crate) fn json(&self, json: &mut Json, masked_texts: &mut Vec<String>) -> Result<(), Error> {
        let Some(masked) = self.redactor.json(json.text(), None, &|_| false) else { return Ok(()) };
        let unread = |why: serde_json::Error| Error::bug(format!("masked JSON cannot be read: {why}"));
        let value: Value = serde_json::from_str(&masked.text).map_err(unread)?;
        let texts = masked.paths.iter().filter_map(|path| value.pointer(path)?.as_str());
        masked_texts.extend(texts.map(str::to_owned));
        *json = Json::parse(&masked.text).map_err(unread)?;
        Ok(())
    }
}

impl Masking {
    /// Adds the paths of masked texts to the events of a command.
    pub(crate) fn list_masked_paths(&self, events: &mut [Event]) {
        if self.masked_texts.is_empty() {
            return;
        }
        for event in events {
            let Draft { payload, verbatim: verbatim @ None } = &mut event.body else { continue };
            let written = payload.write();
            let Ok(value) = serde_json::from_str::<Value>(&written) else { continue };
            let mut paths = Vec::new();
            collect_paths(&value, &self.masked_texts, &mut String::new(), &mut paths);
            if !paths.is_empty() {
                *verbatim = Some(with_paths(&written, &paths).into());
            }
        }
    }
}

/// Collects the JSON Pointers of masked texts. Commands are bounded in size and depth.
fn collect_paths(value: &Value, masked_texts: &[String], path: &mut String, paths: &mut Vec<String>) {
    let length = path.len();
    match value {
        Value::String(text) if masked_texts.iter().any(|masked| text.contains(masked.as_str())) => {
            paths.push(path.clone())
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("/{index}"));
                collect_paths(item, masked_texts, path, paths);
                path.truncate(length);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                path.push('/');
                path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                collect_paths(member, masked_texts, path, paths);
                path.truncate(length);
            }
        }
        _ => {}
    }
}
