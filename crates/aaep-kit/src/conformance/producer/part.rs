//! The parts of a producer test, one file per subject: [`SCENES`] lists the scenes of each part with their
//! subscriptions and terms, and [`run`] runs them. A scene records its results; one that cannot continue returns why.

mod access;
mod decision;
mod delivery;
mod handshake;
mod irreversible;
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

use super::harness::{Harness, PartError, able};
use super::specs::{self, Part, Spec};
use crate::conformance::conversation::Conversation;
use crate::conformance::transcript::Scope;
use crate::link::Target;

pub(super) use irreversible::check_equal_responses;

const UNSHARED: &str = "each connection starts its own producer";
const NO_RESUME: &str = "this transport cannot resume; a reconnect starts from the beginning";

/// A unit of the run, with the subscriptions that listen to it.
struct Scene {
    part: Part,
    /// The scene runs if one of these checks or rules is selected; a scene without checks always runs.
    specs: &'static [&'static Spec],
    rules: &'static [&'static str],
    needs: SceneRequirement,
    listeners: &'static [Listener],
    play: SceneFn,
}

/// A scene may take subscriptions; the remaining ones are finished after it, the last first.
type SceneFn =
    for<'s> fn(&'s Harness<'s>, &'s mut Vec<Conversation>) -> LocalBoxFuture<'s, Result<(), PartError>>;

struct Listener {
    when: Participation,
    terms: ListenerTerms,
    scope: Scope,
    label: &'static str,
}

/// What a scene requires of the producer.
#[derive(Clone, Copy)]
enum SceneRequirement {
    Nothing,
    /// Several connections to one producer; otherwise the checks do not apply.
    Sharing,
    /// The same over HTTP, where a stream can be resumed.
    Resuming,
    /// Subscriptions with their own terms; otherwise the part ends here.
    OwnTerms,
}

/// When a listener takes part.
#[derive(Clone, Copy)]
enum Participation {
    Always,
    /// If several connections share one producer.
    Shared,
    /// If, in addition, each subscription has its own terms.
    Apart,
}

/// The terms of a listener.
#[derive(Clone, Copy)]
enum ListenerTerms {
    /// All capabilities.
    Able,
    /// All capabilities, with output in the smallest pieces.
    Fine,
    /// Cannot reply.
    Mute,
}

macro_rules! scenes {
    (@play $play:path;) => { |harness, _| Box::pin($play(harness)) };
    (@play $play:path; $($label:literal)+) => { |harness, conversations| Box::pin($play(harness, conversations)) };
    ($( $part:ident $needs:ident [$( $spec:ident )* $( & $rule:literal )?]
        $( $when:ident $terms:ident $scope:ident $label:literal, )* => $play:path; )*) => {
        /// All scenes in run order.
        static SCENES: &[Scene] = &[$( Scene {
            part: Part::$part,
            specs: &[$( &specs::$spec, )*],
            rules: &[$( $rule, )?],
            needs: SceneRequirement::$needs,
            listeners: &[$( Listener {
                when: Participation::$when,
                terms: ListenerTerms::$terms,
                scope: Scope::$scope,
                label: $label,
            }, )*],
            play: scenes!(@play $play; $( $label )*),
        }, )*];
    };
}

// Part, its requirements, [checks & rules], then each listener (when, terms, scope, label), and the function.
scenes! {
    Irreversible Nothing []
        Always Able Whole "an action that cannot be undone",
        Apart Mute Part "a subscription that cannot reply",
        => irreversible::action;
    Rejected Nothing []
        Always Able Whole "a confirmation that is rejected",
        Shared Able Whole "a second subscription of the same",
        => prompt::rejected;
    Race Nothing []
        Always Able Part "a hundred replies, first subscription",
        Shared Able Part "a hundred replies, second subscription",
        => prompt::race;
    TimedOut Nothing [] Always Able Whole "a confirmation without a reply", => prompt::timed_out;
    Modified Nothing [] Always Able Part "an acceptance with changes", => prompt::modified;
    Twice Nothing [] Always Able Whole "the same action requested twice", => prompt::twice;
    Question Nothing [] Always Able Whole "questions", => question::settle_question;
    Handoff Nothing [] Always Able Whole "a handoff", => question::handoff;
    Leaving OwnTerms [CANNOT_REPLY] Always Mute Part "a prompt without a subscriber that can reply", => leaving::without_approver;
    Leaving OwnTerms [ONE_CANNOT]
        Always Able Part "a subscriber that can reply beside one that cannot",
        Always Mute Part "a subscriber that cannot reply",
        => leaving::one_cannot;
    Leaving OwnTerms [LAST_LEAVES]
        Always Mute Part "a subscriber that stays and cannot reply",
        Always Able Part "a subscriber that leaves with an open prompt",
        => leaving::last_closes;
    Leaving OwnTerms [BROKEN_OFF]
        Always Mute Part "a subscriber that stays and cannot reply",
        Always Able Part "a subscriber that leaves with an open prompt",
        => leaving::last_breaks_off;
    Leaving OwnTerms [ONE_LEAVES]
        Always Able Part "one of two leaves with an open prompt",
        Always Able Part "the other of two",
        => leaving::one_leaves;
    Leaving OwnTerms [MADE_ANEW]
        Always Able Part "a subscriber that stays during a prompt",
        Always Able Part "a subscriber whose subscription ends during a prompt",
        => leaving::made_anew;
    Plain Nothing [] Always Able Whole "sessions without prompts", => plain::sessions;
    Delivery Nothing [SAME_BYTES IN_ORDER]
        Always Fine Whole "a story",
        Shared Fine Whole "the same story on another subscription",
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
    Terms OwnTerms [SLOW_OUTCOME SLOW_STATE] => decision::at_low_rates;
    Renegotiate OwnTerms [] => renegotiate::run;
    Readers Sharing [NOT_HELD_UP STALLED]
        Always Fine Whole "a reader beside it",
        Always Fine Part "a reader that does not read",
        => readers::slow;
    Readers Sharing [SURVIVES] => readers::survives;
    Readers Resuming [AGED] Always Fine Part "a reader with an open prompt", => readers::aged;
    Readers Sharing [MIDWAY] Always Fine Part "a subscriber from the beginning", => readers::midway;
    Manifest Nothing [] => manifest::run;
    Quiet Nothing [] => access::quiet;
}

pub(super) async fn run(part: Part, harness: &Harness<'_>) -> Result<(), PartError> {
    for scene in SCENES.iter().filter(|scene| scene.part == part) {
        if scene.is_selected(harness) && scene.is_possible(harness)? {
            scene.run(harness).await?;
        }
    }
    Ok(())
}

impl Scene {
    fn is_selected(&self, harness: &Harness<'_>) -> bool {
        self.specs.is_empty() || harness.has_selected(self.specs) || harness.has_selected_rules(self.rules)
    }

    /// Whether the producer has what the scene needs. If not, its checks are reported as inapplicable, or the part
    /// ends.
    fn is_possible(&self, harness: &Harness<'_>) -> Result<bool, PartError> {
        let why = match self.needs {
            SceneRequirement::Nothing => return Ok(true),
            SceneRequirement::OwnTerms => {
                return harness
                    .require_shared_producer()
                    .and_then(|()| harness.require_own_terms())
                    .map(|()| true);
            }
            SceneRequirement::Sharing | SceneRequirement::Resuming if !harness.is_shared() => UNSHARED,
            SceneRequirement::Resuming if !matches!(harness.target, Target::Http { .. }) => NO_RESUME,
            SceneRequirement::Sharing | SceneRequirement::Resuming => return Ok(true),
        };
        for spec in self.specs {
            harness.inapplicable(spec, why);
        }
        Ok(false)
    }

    async fn run(&self, harness: &Harness<'_>) -> Result<(), PartError> {
        let mut conversations = Vec::new();
        let outcome = match self.listen(harness, &mut conversations).await {
            Ok(()) => (self.play)(harness, &mut conversations).await,
            Err(error) => Err(error),
        };
        while let Some(conversation) = conversations.pop() {
            harness.finish(conversation).await;
        }
        outcome
    }

    async fn listen(
        &self,
        harness: &Harness<'_>,
        conversations: &mut Vec<Conversation>,
    ) -> Result<(), PartError> {
        for listener in self.listeners {
            conversations.extend(listener.open(harness).await?);
        }
        Ok(())
    }
}

impl Listener {
    /// Opens the subscription if the listener takes part.
    async fn open(&self, harness: &Harness<'_>) -> Result<Option<Conversation>, PartError> {
        let takes_part = match self.when {
            Participation::Always => true,
            Participation::Shared => harness.is_shared(),
            Participation::Apart => harness.is_shared() && harness.has_own_terms(),
        };
        if !takes_part {
            return Ok(None);
        }
        let conversation = match self.terms {
            ListenerTerms::Able => harness.listen(self.label, self.scope).await,
            ListenerTerms::Fine => listening::listen(harness, self.label, self.scope).await,
            ListenerTerms::Mute => {
                let mute =
                    json!({"supports_confirmation_reply": false, "supports_clarification_reply": false});
                harness.subscribe(self.label, self.scope, able(mute)).await
            }
        };
        conversation.map(Some)
    }
}
