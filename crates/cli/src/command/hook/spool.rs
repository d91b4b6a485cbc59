//! Hooks that wait on disk until the server answers: bounded, in order, one folder for each server and user.
//!
//! What does not fit is counted, and the count is sent as a hook of its own. It must not know HTTP. Look at [`Spool`].

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use recount_world::platform::{check_owner, private_file, private_folder};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::limits;

/// The event that reports how many hooks were not kept.
pub(super) const DROPPED: &str = "recount.spool_dropped";

/// A hook that is to be sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Hook {
    /// Different for each call of `recount hook`; the same for each attempt to send it.
    pub(super) number: String,
    pub(super) agent: String,
    pub(super) event: String,
    pub(super) session: Option<String>,
    pub(super) at_ms: u64,
    pub(super) body: String,
}

impl Hook {
    pub(super) fn idempotency_key(&self) -> String {
        let digest = blake3::hash(self.body.as_bytes()).to_hex();
        format!("{}-{}", &digest.as_str()[..32], self.number)
    }
}

/// Hooks of one session that were not kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct DroppedHooks {
    agent: String,
    session: Option<String>,
    reason: String,
    count: u64,
    first_at_ms: u64,
    last_at_ms: u64,
}

impl DroppedHooks {
    fn into_hook(self) -> Hook {
        let body = json!({
            "hook_event_name": DROPPED,
            "session_id": self.session,
            "reason": self.reason,
            "count": self.count,
            "first_at_ms": self.first_at_ms,
            "last_at_ms": self.last_at_ms,
        });
        Hook {
            number: format!("dropped-{:x}-{:x}", self.first_at_ms, self.last_at_ms),
            agent: self.agent,
            event: DROPPED.to_owned(),
            session: self.session,
            at_ms: self.last_at_ms,
            body: body.to_string(),
        }
    }
}

/// What waits for one server.
pub(crate) struct Spool {
    folder: PathBuf,
}

/// What `recount connect --status` shows.
#[derive(Debug, Default, Serialize)]
pub(crate) struct SpoolContent {
    pub(crate) hooks: u64,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
}

impl Spool {
    /// Where the hooks for a server wait, below the folder of this user's state.
    pub(crate) fn place(state: &Path, base_url: &str) -> PathBuf {
        let base = base_url.trim_end_matches('/');
        let host = base.split_once("://").map_or(base, |(_, rest)| rest);
        let shown: String =
            host.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
        let digest = blake3::hash(base.as_bytes()).to_hex();
        state.join("spool").join(format!("{shown}-{}", &digest.as_str()[..12]))
    }

    /// Opens the folder, or makes it. It must be this user's own.
    pub(crate) fn open(folder: PathBuf) -> io::Result<Self> {
        private_folder(DirBuilder::new().recursive(true)).create(&folder)?;
        let found = fs::symlink_metadata(&folder)?;
        if !found.is_dir() || check_owner(&found).is_err() {
            return Err(io::Error::other("it is not a folder of this user"));
        }
        Ok(Spool { folder })
    }

    pub(crate) fn waiting(folder: &Path) -> SpoolContent {
        let path = folder.join("hooks.jsonl");
        let bytes = fs::metadata(&path).map_or(0, |found| found.len());
        let lines = File::open(&path).map(|file| BufReader::new(file).split(b'\n').count());
        let dropped = read_dropped(&folder.join("dropped.json"));
        SpoolContent {
            hooks: lines.map_or(0, |lines| u64::try_from(lines).unwrap_or(u64::MAX)),
            bytes,
            dropped: dropped.iter().map(|dropped| dropped.count).sum(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn file(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        private_file(options.read(true).write(true).create(true).truncate(false)).open(self.path(name))
    }

    /// Held for the few moments in which files are changed.
    fn lock(&self) -> io::Result<File> {
        let lock = self.file("append.lock")?;
        lock.lock()?;
        Ok(lock)
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        let has = |name: &str| fs::metadata(self.path(name)).is_ok_and(|found| found.len() > 0);
        !has("hooks.jsonl") && !has("dropped.json")
    }

    /// Keeps a hook. Returns false if it did not fit and was counted instead.
    pub(super) fn keep(&self, hook: &Hook) -> io::Result<bool> {
        let _lock = self.lock()?;
        let line = line_of(hook)?;
        let mut file = self.file("hooks.jsonl")?;
        let size = file.seek(SeekFrom::End(0))?;
        if size + line.len() as u64 > limits::HOOK_SPOOL_BYTES_MAX {
            self.count(hook, "spool_full")?;
            return Ok(false);
        }
        let mut text = self.dropped_lines()?;
        text.extend_from_slice(&line);
        write_lines(&mut file, size, &text)?;
        self.forget_dropped()?;
        Ok(true)
    }

    /// Counts a hook that is not kept.
    pub(super) fn drop_hook(&self, hook: &Hook, reason: &str) -> io::Result<()> {
        let _lock = self.lock()?;
        self.count(hook, reason)
    }

    fn count(&self, hook: &Hook, reason: &str) -> io::Result<()> {
        let path = self.path("dropped.json");
        let mut all = read_dropped(&path);
        let mut session = hook.session.clone();
        if all.len() >= limits::HOOK_DROPPED_SESSIONS_MAX {
            let known = all.iter().any(|dropped| dropped.agent == hook.agent && dropped.session == session);
            session = session.filter(|_| known);
        }
        let same = |dropped: &&mut DroppedHooks| {
            dropped.agent == hook.agent && dropped.session == session && dropped.reason == reason
        };
        match all.iter_mut().find(same) {
            Some(dropped) => {
                dropped.count += 1;
                dropped.last_at_ms = hook.at_ms;
            }
            None => all.push(DroppedHooks {
                agent: hook.agent.clone(),
                session,
                reason: reason.to_owned(),
                count: 1,
                first_at_ms: hook.at_ms,
                last_at_ms: hook.at_ms,
            }),
        }
        let text = serde_json::to_vec(&all).map_err(io::Error::other)?;
        replace(&path, &text)
    }

    /// The counts as lines. They are forgotten after the lines were written, so that a full disk loses none.
    fn dropped_lines(&self) -> io::Result<Vec<u8>> {
        let mut lines = Vec::new();
        for dropped in read_dropped(&self.path("dropped.json")) {
            lines.extend(line_of(&dropped.into_hook())?);
        }
        Ok(lines)
    }

    fn forget_dropped(&self) -> io::Result<()> {
        match fs::remove_file(self.path("dropped.json")) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
            _ => Ok(()),
        }
    }

    /// When the server took too long last: until then nothing is sent.
    pub(super) fn is_away(&self, now_ms: u64) -> bool {
        let until =
            fs::read_to_string(self.path("away-until")).ok().and_then(|text| text.parse::<u64>().ok());
        // A clock that was set back must not keep hooks here for long.
        until.is_some_and(|until| now_ms < until && until - now_ms <= limits::HOOK_AWAY_PAUSE_MS)
    }

    pub(super) fn set_away(&self, now_ms: u64) -> io::Result<()> {
        replace(&self.path("away-until"), (now_ms + limits::HOOK_AWAY_PAUSE_MS).to_string().as_bytes())
    }

    /// The right to send what waits; `None` if another process has it, which also takes what was kept before this call.
    pub(super) fn drain(&self) -> io::Result<Option<Draining<'_>>> {
        // Under the other lock, so that the holder has either ended or will see what was kept before.
        let _lock = self.lock()?;
        let right = self.file("drain.lock")?;
        match right.try_lock() {
            Ok(()) => self.draining(right).map(Some),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(why)) => Err(why),
        }
    }

    /// The same, after the other process, which is bound to end soon.
    pub(super) fn wait_to_drain(&self) -> io::Result<Draining<'_>> {
        let right = self.file("drain.lock")?;
        right.lock()?;
        self.draining(right)
    }

    fn draining(&self, right: File) -> io::Result<Draining<'_>> {
        let file = BufReader::new(self.file("hooks.jsonl")?);
        Ok(Draining { spool: self, right, file, sent: 0, read: 0 })
    }
}

/// Sends what waits, in order. Dropping it leaves everything in place; it is sent again with the same keys.
pub(super) struct Draining<'s> {
    spool: &'s Spool,
    right: File,
    file: BufReader<File>,
    /// Bytes of hooks that are done with.
    sent: u64,
    /// The same, and of the one that is being sent.
    read: u64,
}

impl Draining<'_> {
    /// The next hook. A line that a killed process left unfinished is counted.
    pub(super) fn next(&mut self) -> io::Result<Option<Hook>> {
        loop {
            let mut line = Vec::new();
            // Nothing longer was written.
            let most = limits::HOOK_SPOOL_BYTES_MAX;
            let read = (&mut self.file).take(most).read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(None);
            }
            self.read += read as u64;
            if let Ok(hook) = serde_json::from_slice(&line) {
                return Ok(Some(hook));
            }
            self.sent = self.read;
            if line.iter().any(|byte| !byte.is_ascii_whitespace()) {
                let beginning = String::from_utf8_lossy(&line);
                let agent = super::member(&beginning, "agent").unwrap_or_else(|| "unknown".to_owned());
                let (event, session, at_ms) = (String::new(), super::member(&beginning, "session"), 0);
                let hook = Hook { number: String::new(), agent, event, session, at_ms, body: String::new() };
                self.spool.drop_hook(&hook, "damaged")?;
            }
        }
    }

    /// The hook that was returned last is done with.
    pub(super) fn done(&mut self) {
        self.sent = self.read;
    }

    /// Ends when everything was sent. Returns false if more was added meanwhile.
    pub(super) fn finish(&mut self) -> io::Result<bool> {
        let _lock = self.spool.lock()?;
        let mut file = self.spool.file("hooks.jsonl")?;
        let size = file.seek(SeekFrom::End(0))?;
        let dropped = self.spool.dropped_lines()?;
        if size > self.read || !dropped.is_empty() {
            write_lines(&mut file, size, &dropped)?;
            self.spool.forget_dropped()?;
            return Ok(false);
        }
        file.set_len(0)?;
        self.right.unlock()?;
        Ok(true)
    }

    /// Ends early: what was sent is removed, the rest stays.
    pub(super) fn stop(self) -> io::Result<()> {
        if self.sent == 0 {
            return Ok(());
        }
        let _lock = self.spool.lock()?;
        let mut file = self.spool.file("hooks.jsonl")?;
        file.seek(SeekFrom::Start(self.sent))?;
        let mut rest = Vec::new();
        file.read_to_end(&mut rest)?;
        replace(&self.spool.path("hooks.jsonl"), &rest)
    }
}

fn line_of(hook: &Hook) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(hook).map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

/// Adds whole lines at the end, after the end of an unfinished one. All of them or none, as far as the disk lets it.
fn write_lines(file: &mut File, size: u64, lines: &[u8]) -> io::Result<()> {
    add_lines(file, size, lines).inspect_err(|_| drop(file.set_len(size)))
}

fn add_lines(file: &mut File, size: u64, lines: &[u8]) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut last = *b"\n";
    if size > 0 {
        file.seek(SeekFrom::Start(size - 1))?;
        file.read_exact(&mut last)?;
    }
    file.seek(SeekFrom::End(0))?;
    if last != *b"\n" {
        file.write_all(b"\n")?;
    }
    file.write_all(lines)
}

fn read_dropped(path: &Path) -> Vec<DroppedHooks> {
    fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = private_file(OpenOptions::new().write(true).create(true).truncate(true)).open(&new)?;
    file.write_all(content)?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(number: &str, body: &str) -> Hook {
        Hook {
            number: number.to_owned(),
            agent: "codex".to_owned(),
            event: "Stop".to_owned(),
            session: Some("s1".to_owned()),
            at_ms: 5,
            body: body.to_owned(),
        }
    }

    fn numbers(spool: &Spool) -> Vec<String> {
        let mut draining = spool.drain().unwrap().unwrap();
        let mut numbers = Vec::new();
        loop {
            match draining.next().unwrap() {
                Some(hook) => {
                    numbers.push(hook.number);
                    draining.done();
                }
                None if draining.finish().unwrap() => return numbers,
                None => {}
            }
        }
    }

    #[test]
    fn hooks_leave_in_order_and_only_once() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path().join("spool")).unwrap();
        assert!(spool.is_empty());
        for number in ["1", "2", "3"] {
            assert!(spool.keep(&hook(number, "{}")).unwrap());
        }
        let mut draining = spool.drain().unwrap().unwrap();
        assert!(spool.drain().unwrap().is_none(), "one process sends at a time");
        assert_eq!(draining.next().unwrap().unwrap().number, "1");
        draining.done();
        assert_eq!(draining.next().unwrap().unwrap().number, "2");
        draining.stop().unwrap();
        assert!(spool.keep(&hook("4", "{}")).unwrap());
        assert_eq!(numbers(&spool), ["2", "3", "4"]);
        assert!(spool.is_empty());
    }

    #[test]
    fn an_unfinished_line_costs_only_itself_and_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path().join("spool")).unwrap();
        spool.keep(&hook("1", "{}")).unwrap();
        let path = folder.path().join("spool/hooks.jsonl");
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(br#"{"number":"2","agent":"codex","ev"#).unwrap();
        spool.keep(&hook("3", "{}")).unwrap();
        let left = numbers(&spool);
        assert_eq!(left[..2], ["1", "3"]);
        assert!(left[2].starts_with("dropped-") && left.len() == 3, "{left:?}");
    }

    #[test]
    fn a_full_spool_counts_and_reports_dropped_hooks_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path().join("spool")).unwrap();
        let large = "x".repeat(usize::try_from(limits::HOOK_SPOOL_BYTES_MAX).unwrap() / 2);
        assert!(spool.keep(&hook("1", &large)).unwrap());
        assert!(!spool.keep(&hook("2", &large)).unwrap());
        assert!(!spool.keep(&hook("3", &large)).unwrap());
        assert!(spool.keep(&hook("4", "{}")).unwrap());
        let mut draining = spool.drain().unwrap().unwrap();
        let sent: Vec<Hook> = std::iter::from_fn(|| draining.next().unwrap()).collect();
        let events: Vec<&str> = sent.iter().map(|hook| &*hook.event).collect();
        assert_eq!(events, ["Stop", DROPPED, "Stop"]);
        let body: serde_json::Value = serde_json::from_str(&sent[1].body).unwrap();
        assert_eq!((&body["count"], &body["session_id"]), (&json!(2), &json!("s1")));
        assert_eq!((&body["first_at_ms"], &body["last_at_ms"]), (&json!(5), &json!(5)));
    }

    #[test]
    fn a_disk_that_is_full_loses_no_counts() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path().join("spool")).unwrap();
        spool.drop_hook(&hook("1", "{}"), "refused").unwrap();
        let path = folder.path().join("spool/hooks.jsonl");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let full = spool.keep(&hook("2", "{}")).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        fs::remove_file(&path).unwrap();
        assert!(spool.keep(&hook("3", "{}")).unwrap());
        let left = numbers(&spool);
        assert!(left.len() == 2 && left[0].starts_with("dropped-") && left[1] == "3", "{left:?}");
        assert!(spool.is_empty());
    }

    #[test]
    fn counts_of_many_sessions_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path().join("spool")).unwrap();
        for session in 0..limits::HOOK_DROPPED_SESSIONS_MAX + 10 {
            let hook = Hook { session: Some(session.to_string()), ..hook("1", "{}") };
            spool.drop_hook(&hook, "refused").unwrap();
        }
        let all = read_dropped(&folder.path().join("spool/dropped.json"));
        assert_eq!(all.len(), limits::HOOK_DROPPED_SESSIONS_MAX + 1);
        assert_eq!((all.last().unwrap().count, &all.last().unwrap().session), (10, &None));
    }
}
