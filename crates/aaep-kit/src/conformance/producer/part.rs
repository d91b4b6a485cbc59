//! The parts of a producer test, one file for each subject: [`SCENES`] lists the scenes of each part with their
//! subscriptions and terms, and [`run`] plays them. A scene records its results; one that cannot continue returns why.

mod access;
mod delivery;
mod grave;
mod handshake;
mod leaving;
mod listening;
mod manifest;
mod plain;
mod prompt;
mod question;
mod readers;
mod renegotiate;
mod reply;
mod terms;

use futures_util::future::LocalBoxFuture;
use serde_json::json;

use super::harness::{Harness, Trouble, able};
use super::specs::{self, Part, Spec};
use crate::conformance::talk::Talk;
use crate::conformance::transcript::Scope;
use crate::link::Target;

pub(super) use grave::alike;

const UNSHARED: &str = "each connection starts its own producer";
const NO_WAY_BACK: &str = "this transport cannot resume; a reconnect starts from the beginning";

/// What is played in one go, with the subscriptions that listen to it.
struct Scene {
    part: Part,
    /// It is played when one of these checks, or rules on one of these requirements, are asked for; a scene without
    /// checks always is.
    specs: &'static [&'static Spec],
    rules: &'static [&'static str],
    needs: Needs,
    listeners: &'static [Listener],
    play: Play,
}

/// A scene may take listeners away; those that are left are finished when it is over, the last first.
type Play = for<'s> fn(&'s Harness<'s>, &'s mut Vec<Talk>) -> LocalBoxFuture<'s, Result<(), Trouble>>;

struct Listener {
    when: When,
    terms: Terms,
    scope: Scope,
    label: &'static str,
}

/// What a producer must have for a scene.
#[derive(Clone, Copy)]
enum Needs {
    Nothing,
    /// Several connections to one producer; otherwise its checks do not apply.
    Sharing,
    /// The same over HTTP, where a stream can be resumed.
    Resuming,
    /// Subscriptions with terms of their own; otherwise the part ends here.
    OwnTerms,
}

/// When a listener takes part.
#[derive(Clone, Copy)]
enum When {
    Always,
    /// Where several connections are to one producer.
    Shared,
    /// Where, besides, each subscription has terms of its own.
    Apart,
}

/// The terms of a listener.
#[derive(Clone, Copy)]
enum Terms {
    /// It can do everything.
    Able,
    /// The same, and text comes in the finest pieces.
    Fine,
    /// It cannot reply.
    Mute,
}

macro_rules! scenes {
    (@play $play:path;) => { |harness, _| Box::pin($play(harness)) };
    (@play $play:path; $($label:literal)+) => { |harness, talks| Box::pin($play(harness, talks)) };
    ($( $part:ident $needs:ident [$( $spec:ident )* $( & $rule:literal )?]
        $( $when:ident $terms:ident $scope:ident $label:literal, )* => $play:path; )*) => {
        /// All of them, in the order of the run.
        static SCENES: &[Scene] = &[$( Scene {
            part: Part::$part,
            specs: &[$( &specs::$spec, )*],
            rules: &[$( $rule, )?],
            needs: Needs::$needs,
            listeners: &[$( Listener {
                when: When::$when,
                terms: Terms::$terms,
                scope: Scope::$scope,
                label: $label,
            }, )*],
            play: scenes!(@play $play; $( $label )*),
        }, )*];
    };
}

// Part, what it needs, [checks & rules], then each listener (when, terms, scope, label), and what is played.
scenes! {
    Grave Nothing []
        Always Able Whole "an action that cannot be undone",
        Apart Mute Part "a subscription that cannot reply",
        => grave::action;
    Rejected Nothing []
        Always Able Whole "a confirmation that is rejected",
        Shared Able Whole "a second subscription of the same",
        => prompt::rejected;
    Race Nothing []
        Always Able Part "a hundred replies, first subscription",
        Shared Able Part "a hundred replies, second subscription",
        => prompt::race;
    TimedOut Nothing [] Always Able Whole "a confirmation that nobody answers", => prompt::timed_out;
    Modified Nothing [] Always Able Part "an acceptance with changes", => prompt::modified;
    Twice Nothing [] Always Able Whole "the same action asked for twice", => prompt::twice;
    Question Nothing [] Always Able Whole "questions", => question::settle_question;
    Handoff Nothing [] Always Able Whole "a handoff", => question::handoff;
    Leaving OwnTerms [CANNOT_REPLY] Always Mute Part "a prompt with nobody who can answer", => leaving::without_approver;
    Leaving OwnTerms [ONE_CANNOT]
        Always Able Part "one who can answer beside one who cannot",
        Always Mute Part "one who cannot answer",
        => leaving::one_cannot;
    Leaving OwnTerms [LAST_LEAVES]
        Always Mute Part "one who stays and cannot answer",
        Always Able Part "one who leaves with an open prompt",
        => leaving::last_closes;
    Leaving OwnTerms [BROKEN_OFF]
        Always Mute Part "one who stays and cannot answer",
        Always Able Part "one who leaves with an open prompt",
        => leaving::last_breaks_off;
    Leaving OwnTerms [ONE_LEAVES]
        Always Able Part "one of two leaves with an open prompt",
        Always Able Part "the other of two",
        => leaving::one_leaves;
    Plain Nothing [] Always Able Whole "sessions without prompts", => plain::sessions;
    Delivery Nothing [SAME_BYTES IN_ORDER]
        Always Fine Whole "a story",
        Shared Fine Whole "the same story, heard by another",
        => delivery::two_readers;
    Delivery Resuming [RESUMED AT_LEAST_ONCE] Always Fine Whole "a reader that stays", => delivery::resumed;
    Access Nothing [] => access::run;
    Handshake Nothing [] => handshake::answers;
    Handshake Nothing [ANSWERED & "R-112"] => handshake::answered;
    Handshake Nothing [SIGNED_ONLY] => handshake::signed_only;
    Handshake Nothing [UNKNOWN_EXTENSION] => handshake::unknown_extension;
    Handshake Nothing [VERSION] => handshake::version;
    Handshake Nothing [LARGE] => handshake::large;
    Handshake Nothing [FULL] => handshake::full;
    Terms OwnTerms [EXACT BOUNDARIES AS_MANY ADAPTS NO_LANGUAGE OLDEST & "R-060"] => terms::story;
    Terms OwnTerms [RATE] => terms::burst;
    Terms OwnTerms [PROGRESS_RATE AS_MANY] => terms::progress;
    Terms OwnTerms [FILTERED NUMBERED & "R-117"] => terms::filters;
    Terms OwnTerms [CRITICAL HIGHEST_LEVEL] => terms::critical;
    Renegotiate OwnTerms [] => renegotiate::run;
    Readers Sharing [NOT_HELD_UP STALLED]
        Always Fine Whole "a reader beside it",
        Always Fine Part "a reader that does not read",
        => readers::slow;
    Readers Sharing [SURVIVES] => readers::survives;
    Readers Resuming [AGED] Always Fine Part "a reader with an open prompt", => readers::aged;
    Readers Sharing [MIDWAY] Always Fine Part "who was there before", => readers::midway;
    Manifest Nothing [] => manifest::run;
    Quiet Nothing [] => access::quiet;
}

pub(super) async fn run(part: Part, harness: &Harness<'_>) -> Result<(), Trouble> {
    for scene in SCENES.iter().filter(|scene| scene.part == part) {
        if scene.is_wanted(harness) && scene.is_possible(harness)? {
            scene.run(harness).await?;
        }
    }
    Ok(())
}

impl Scene {
    fn is_wanted(&self, harness: &Harness<'_>) -> bool {
        self.specs.is_empty() || harness.wants(self.specs) || harness.wants_rules(self.rules)
    }

    /// Whether the producer has what the scene needs. Where it has not, its checks say so, or the part ends.
    fn is_possible(&self, harness: &Harness<'_>) -> Result<bool, Trouble> {
        let why = match self.needs {
            Needs::Nothing => return Ok(true),
            Needs::OwnTerms => {
                return harness.needs_sharing().and_then(|()| harness.needs_own_terms()).map(|()| true);
            }
            Needs::Sharing | Needs::Resuming if !harness.is_shared() => UNSHARED,
            Needs::Resuming if !matches!(harness.target, Target::Http { .. }) => NO_WAY_BACK,
            Needs::Sharing | Needs::Resuming => return Ok(true),
        };
        for spec in self.specs {
            harness.inapplicable(spec, why);
        }
        Ok(false)
    }

    async fn run(&self, harness: &Harness<'_>) -> Result<(), Trouble> {
        let mut talks = Vec::new();
        let outcome = match self.listen(harness, &mut talks).await {
            Ok(()) => (self.play)(harness, &mut talks).await,
            Err(trouble) => Err(trouble),
        };
        while let Some(talk) = talks.pop() {
            harness.finish(talk).await;
        }
        outcome
    }

    async fn listen(&self, harness: &Harness<'_>, talks: &mut Vec<Talk>) -> Result<(), Trouble> {
        for listener in self.listeners {
            talks.extend(listener.open(harness).await?);
        }
        Ok(())
    }
}

impl Listener {
    /// Opens its subscription, where it takes part.
    async fn open(&self, harness: &Harness<'_>) -> Result<Option<Talk>, Trouble> {
        let takes_part = match self.when {
            When::Always => true,
            When::Shared => harness.is_shared(),
            When::Apart => harness.is_shared() && harness.has_own_terms(),
        };
        if !takes_part {
            return Ok(None);
        }
        let talk = match self.terms {
            Terms::Able => harness.listen(self.label, self.scope).await,
            Terms::Fine => listening::listen(harness, self.label, self.scope).await,
            Terms::Mute => {
                let mute =
                    json!({"supports_confirmation_reply": false, "supports_clarification_reply": false});
                harness.subscribe(self.label, self.scope, able(mute)).await
            }
        };
        talk.map(Some)
    }
}
