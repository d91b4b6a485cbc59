//! Checks that need a person: what the subscriber speaks and shows. Each sends events and asks the person at the
//! terminal about them. Without a person, the result is unknown.

use recount_aaep::wire::Boundary;
use serde_json::json;
use tokio::sync::oneshot;

use crate::conformance::Outcome;
use crate::conformance::subscriber::builder::{ACTION, CONSEQUENCE, Event};
use crate::conformance::subscriber::trial::Trial;
use crate::conformance::subscriber::{Expectation, Question, TrialError};
use crate::limits;

type EventsFn = fn(&mut Trial<'_>) -> Vec<Event>;

/// Events to send and a question about them; "yes" passes.
struct PersonCheck {
    expects: Expectation,
    play: EventsFn,
    question: &'static str,
}

/// The requirements of the questions.
pub(crate) fn requirements() -> impl Iterator<Item = &'static str> {
    SCENES.iter().map(|scene| scene.expects.0).chain([SHOWN.0])
}

const SHOWN: Expectation = Expectation("R-092", "prompts are shown at once, complete and unchanged");

const SCENES: &[PersonCheck] = &[
    PersonCheck {
        expects: Expectation("R-034", "errors are reported promptly, whatever is queued"),
        play: |trial| {
            let mut events: Vec<Event> = (1..=limits::TRIAL_BACKLOG)
                .map(|step| trial.builder.progress(step, limits::TRIAL_BACKLOG))
                .collect();
            events.push(trial.builder.errored());
            events.extend([trial.builder.begin(), trial.builder.go("thinking")]);
            events
        },
        question: "Many small steps were reported, then an error: “The bank did not answer.” Were you told of the error at \
                   once, not only after all the steps?",
    },
    PersonCheck {
        expects: Expectation("R-035", "the remedy for an error is reported"),
        play: |_| Vec::new(),
        question: "That error came with advice: “Try again in a minute.” Were you told?",
    },
    PersonCheck {
        expects: Expectation("R-038", "unknown states are reported in general words"),
        play: |trial| {
            let odd = json!({"to_state": "pondering", "summary_normal": "Pondering the matter."});
            vec![trial.builder.go("thinking").with(odd)]
        },
        question: "The producer said that it is “pondering”, a state that no version knows. Were you told something of it, \
                   or could you have it told if you wanted to?",
    },
    PersonCheck {
        expects: Expectation("R-041", "the three endings can be told apart"),
        play: |trial| {
            let builder = &mut trial.builder;
            let mut events = vec![builder.completed(), builder.begin(), builder.errored(), builder.begin()];
            events.extend([builder.cancelled(), builder.begin(), builder.go("thinking")]);
            events
        },
        question: "Three sessions ended just now: one was completed, one failed, one was cancelled. Could you tell which was \
                   which?",
    },
    PersonCheck {
        expects: Expectation("R-061", "pieces without a boundary are not spoken by themselves"),
        play: |trial| {
            let builder = &mut trial.builder;
            vec![
                builder.go("writing_output"),
                builder.output("The ba", 0, Boundary::None),
                builder.output("lance is ", 6, Boundary::None),
                builder.output("twenty euros. ", 15, Boundary::Sentence),
                builder.last_output("", 29),
                builder.go("thinking"),
            ]
        },
        question: "A sentence came in three pieces: “The balance is twenty euros.” Did you get it whole, and not cut inside \
                   of the word balance?",
    },
    PersonCheck {
        expects: Expectation("R-185", "characters are not cut, and the direction of a text is kept"),
        play: |trial| {
            let builder = &mut trial.builder;
            let hints = json!({"primary_language": "ar", "text_direction": "rtl"});
            let arabic = json!({"summary_normal": "تم تحويل ٢٠ يورو.", "localization_hints": hints});
            vec![builder.progress(1, 2).with(arabic)]
        },
        question: "An Arabic sentence was reported. Was it told whole, and where it was shown, did it run from right to left?",
    },
    PersonCheck {
        expects: Expectation("R-189", "a piece in another language is spoken in that language"),
        play: |trial| {
            let builder = &mut trial.builder;
            let french = json!({"language": "fr"});
            vec![
                builder.go("writing_output"),
                builder.output("Le virement est fait. ", 0, Boundary::Sentence).with(french),
                builder.last_output("", 22),
                builder.go("thinking"),
            ]
        },
        question: "An answer in French came: “Le virement est fait.” Was it spoken or marked as French?",
    },
];

pub(crate) async fn run(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    for scene in SCENES {
        if !is_watched(trial, scene.expects).await? {
            continue;
        }
        for event in (scene.play)(trial) {
            trial.send_event(&event).await;
        }
        let answer = ask_person(trial, scene.question).await;
        report_answer(trial, scene.expects, answer);
    }
    prompt(trial).await
}

/// Whether a person and a connected subscriber are available. If so, starts a check. A declared requirement is not tested.
async fn is_watched(trial: &mut Trial<'_>, expects: Expectation) -> Result<bool, TrialError> {
    if trial.subject.declared.contains(expects.0) {
        trial.check(expects, Outcome::Declared, "");
        return Ok(false);
    }
    let is_watched = trial.subject.person.is_some() && trial.present().await?;
    match is_watched {
        true => trial.start_check(),
        false => {
            trial
                .not_shown(expects, "only a person can judge what it says and shows; pass --ask to be asked, or --declare that it holds");
        }
    }
    Ok(is_watched)
}

async fn prompt(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    if !is_watched(trial, SHOWN).await? {
        return Ok(());
    }
    let reaction = trial.probe().await;
    let question = format!(
        "You were just asked for permission. Were you told both what is to be done, “{ACTION}”, and what follows, \
         “{CONSEQUENCE}”, before anything else?"
    );
    let answer = ask_person(trial, &question).await;
    let description = trial.describe(&reaction);
    trial.note(&description);
    report_answer(trial, SHOWN, answer);
    Ok(())
}

async fn ask_person(trial: &Trial<'_>, question: &str) -> Option<bool> {
    let (answer, answered) = oneshot::channel();
    let question = Question { text: question.to_owned(), answer };
    trial.subject.person.as_ref()?.send(question).await.ok()?;
    answered.await.ok().flatten()
}

fn report_answer(trial: &mut Trial<'_>, expects: Expectation, answer: Option<bool>) {
    let (outcome, detail) = match answer {
        Some(true) => (Outcome::Passed, "confirmed by the person at the terminal"),
        Some(false) => (Outcome::Failed, "denied by the person at the terminal"),
        None => (Outcome::NotShown("the person at the terminal could not tell".into()), ""),
    };
    trial.check(expects, outcome, detail);
}
