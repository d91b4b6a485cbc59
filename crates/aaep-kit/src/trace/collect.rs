//! Reads a file and collects its trace. Bounded: after [`limits::TRACE_BYTES_MAX`], texts are checked and counted, but
//! not kept.

use std::io::{self, Read};
use std::mem::size_of;

use super::Options;
use super::aaep::json::{Piece, Splitter};
use super::aaep::rule::Finding;
use super::follow::Follower;
use super::model::{Entry, Problem, Session, StatePeriod, Trace, TracePart};
use crate::limits;

/// Bytes read at a time.
const CHUNK: usize = 64 * 1024;

pub(super) fn collect(mut file: impl Read, options: &Options<'_>) -> io::Result<Trace> {
    let mut gathering = TraceCollector {
        follower: Follower::new(options.profile, options.seed, true),
        only: options.session,
        outside: Vec::new(),
        problems: Vec::new(),
        bytes: 0,
    };
    let mut splitter = Splitter::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
            Err(why) => return Err(why),
        };
        splitter.push(&chunk[..read], |piece| gathering.piece(piece));
    }
    splitter.finish(|piece| gathering.piece(piece));
    Ok(gathering.finish())
}

struct TraceCollector<'o> {
    follower: Follower,
    /// The selected session.
    only: Option<&'o str>,
    outside: Vec<Entry>,
    problems: Vec<Problem>,
    bytes: usize,
}

impl TraceCollector<'_> {
    fn piece(&mut self, piece: Piece<'_>) {
        if self.bytes >= limits::TRACE_BYTES_MAX {
            return self.follower.check_only(piece);
        }
        let sessions = self.follower.sessions.len();
        let followed = self.follower.piece(piece);
        if self.follower.sessions.len() > sessions {
            self.bytes += 2 * size_of::<Session>();
        }
        let mut entry = followed.entry;
        // What an event may add besides its entry: a part or a state, with names.
        self.bytes += size_of::<Entry>()
            + size_of::<TracePart>().max(size_of::<StatePeriod>())
            + entry.sentence.bytes();
        let wanted = |id: &str| self.only.is_none_or(|only| only == id);
        let shown = match followed.session {
            Some(at) => wanted(&self.follower.sessions[at].id),
            None => self.only.is_none(),
        };
        if !shown {
            return;
        }
        entry.problems = self.keep(followed.session, followed.findings);
        match followed.session {
            Some(at) => self.follower.sessions[at].entries.push(entry),
            None => self.outside.push(entry),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "there are fewer than the limit of problems")]
    fn keep(&mut self, session: Option<usize>, findings: Vec<Finding>) -> (u32, u32) {
        let from = self.problems.len();
        for finding in findings {
            if self.problems.len() >= limits::TRACE_PROBLEMS_MAX {
                self.follower.totals.problems_left_out += 1;
                continue;
            }
            self.bytes += size_of::<Problem>() + finding.message.len() + finding.path.len();
            self.problems.push(Problem { finding, session });
        }
        (from as u32, (self.problems.len() - from) as u32)
    }

    fn finish(mut self) -> Trace {
        for (session, finding) in self.follower.finish() {
            let shown = match session {
                Some(at) => self.only.is_none_or(|only| *self.follower.sessions[at].id == *only),
                None => self.only.is_none(),
            };
            if !shown {
                continue;
            }
            let (from, count) = self.keep(session, vec![finding]);
            if let Some(at) = session.filter(|_| count > 0) {
                self.follower.sessions[at].problems.push(from as usize);
            }
        }
        let Follower { mut sessions, mut totals, languages, .. } = self.follower;
        let mut problems = self.problems;
        if let Some(only) = self.only {
            sessions.retain(|session| *session.id == *only);
            // Only one session remains, and it owns all problems.
            problems.iter_mut().for_each(|problem| problem.session = Some(0));
            totals.sessions = sessions.len() as u64;
            if let Some(session) = sessions.first() {
                totals.errors = session.totals.errors;
                totals.warnings = session.totals.warnings;
                totals.notes = session.totals.notes;
            }
        }
        Trace { totals, sessions, outside: self.outside, problems, languages }
    }
}
