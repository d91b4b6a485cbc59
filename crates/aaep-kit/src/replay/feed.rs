//! One reader of a replay: where it is, and what it is given next. How that is written onto a socket is the surfaces'
//! matter. Look at [`Feed::next`].

use std::sync::Arc;

use recount_world::moment;
use tokio::sync::watch;

use super::Told;
use super::room::Door;
use super::stage::{Progress, Saying, Stage};
use crate::aaep::field::Field;
use crate::aaep::json::Reader;
use crate::aaep::kind::{Named, named};
use crate::aaep::negotiate::Terms;
use crate::aaep::{Kind, Reading};
use crate::limits;

/// A reader's place. Dropping it is leaving.
pub(super) struct Feed {
    stage: Arc<Stage>,
    number: u64,
    /// The place of the next line.
    at: u64,
    door: Door,
    progress: watch::Receiver<Progress>,
    changed: watch::Receiver<u64>,
    /// It was told that nothing more comes.
    whole: bool,
}

/// What comes next.
pub(super) enum Next {
    Line(Saying),
    /// Of a handshake.
    Answer(Arc<str>),
    /// Nothing, for so long that the reader is to be told that the stream lives.
    Quiet,
    Over,
}

impl Feed {
    /// Begins behind the event that was heard last, or at the beginning. `None` when there are too many readers.
    pub(super) fn open(stage: &Arc<Stage>, door: Door, heard: Option<&str>) -> Option<Feed> {
        let resumed = heard.and_then(|id| stage.behind(id));
        let at = resumed.unwrap_or_else(|| stage.beginning());
        let (progress, changed) = (stage.progress.subscribe(), stage.room.changed.subscribe());
        let Some(number) = stage.enter(at) else {
            stage.room.leave(&door);
            return None;
        };
        stage.tell(Told::Comes { listeners: stage.listeners(), after: heard.filter(|_| resumed.is_some()) });
        Some(Feed { stage: stage.clone(), number, at, door, progress, changed, whole: false })
    }

    /// What there is already.
    pub(super) fn ready(&mut self) -> Option<Next> {
        loop {
            if let Some(answer) = self.stage.room.answer(&mut self.door) {
                return Some(Next::Answer(answer));
            }
            let Some(terms) = self.stage.room.terms(&self.door) else {
                self.whole = true;
                return Some(Next::Over);
            };
            let Progress { place, over } = *self.progress.borrow();
            // Rounds that are long over are not said any more.
            self.at = self.at.max(self.stage.oldest());
            if self.at >= place {
                self.whole = over;
                return over.then_some(Next::Over);
            }
            let saying = self.stage.saying(self.at);
            self.at += 1;
            self.stage.took(self.number, self.at);
            if terms.is_none_or(|terms| is_wanted(&terms, &saying)) {
                return Some(Next::Line(saying));
            }
        }
    }

    /// Waits for what comes next. May be dropped while it waits.
    pub(super) async fn next(&mut self) -> Next {
        let beat = moment() + limits::REPLAY_HEARTBEAT;
        loop {
            self.progress.borrow_and_update();
            self.changed.borrow_and_update();
            if let Some(next) = self.ready() {
                return next;
            }
            tokio::select! {
                changed = self.progress.changed() => if changed.is_err() { return Next::Over },
                changed = self.changed.changed() => if changed.is_err() { return Next::Over },
                () = tokio::time::sleep_until(beat) => return Next::Quiet,
            }
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.stage.room.leave(&self.door);
        self.stage.leave(self.number, self.whole);
    }
}

/// Whether a line is said where these terms hold. What is critical is said whatever is filtered; who cannot answer is
/// asked nothing; what is no event is said.
fn is_wanted(terms: &Terms, saying: &Saying) -> bool {
    let mut reader = Reader::new();
    let Some(reading) = reader.read_bytes(&saying.text).ok().and_then(Reading::of) else { return true };
    match reading.kind() {
        Some(kind @ (Kind::AwaitingConfirmation | Kind::AwaitingClarification)) => {
            return terms.replies(kind);
        }
        Some(kind) if kind.is_critical() => return true,
        _ => {}
    }
    let Some(name) = reading.text(Field::Type) else { return true };
    if reading.is(Field::Urgency, "critical") {
        return true;
    }
    match named(&name) {
        Named::Core(kind) => terms.wants(&format!("aaep:{}", kind.name())),
        _ => terms.wants(&name),
    }
}
