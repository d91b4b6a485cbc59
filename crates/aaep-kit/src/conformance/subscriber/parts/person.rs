//! Checks that need a person: what the subscriber says and shows. Each plays something and asks the person at the
//! terminal about it. Without a person, the result is unknown.

use recount_aaep::wire::Boundary;
use serde_json::json;
use tokio::sync::oneshot;

use crate::conformance::Outcome;
use crate::conformance::subscriber::trial::Trial;
use crate::conformance::subscriber::voice::{ACTION, CONSEQUENCE, Event};
use crate::conformance::subscriber::{Question, TrialError};
use crate::limits;

type Play = fn(&mut Trial<'_>) -> Vec<Event>;

/// What is played, and what is asked about it; yes is right.
struct Scene {
    requirement: &'static str,
    name: &'static str,
    play: Play,
    question: &'static str,
}

/// What people are asked about, for the table of what is covered.
#[cfg(test)]
pub(crate) fn asked() -> impl Iterator<Item = &'static str> {
    SCENES.iter().map(|scene| scene.requirement).chain(["R-092"])
}

const SCENES: &[Scene] = &[
    Scene {
        requirement: "R-034",
        name: "errors are told promptly, whatever waits",
        play: |trial| {
            let mut events: Vec<Event> = (1..=limits::TRIAL_BACKLOG)
                .map(|step| trial.voice.progress(step, limits::TRIAL_BACKLOG))
                .collect();
            events.push(trial.voice.errored());
            events.extend([trial.voice.begin(), trial.voice.go("thinking")]);
            events
        },
        question: "Many small steps were reported, then an error: “The bank did not answer.” Were you told of the error at \
                   once, and not only behind all of the steps?",
    },
    Scene {
        requirement: "R-035",
        name: "what can be done about an error is told",
        play: |_| Vec::new(),
        question: "With that error came an advice: “Try again in a minute.” Were you told of it?",
    },
    Scene {
        requirement: "R-038",
        name: "states that are not known are told in general words",
        play: |trial| {
            let odd = json!({"to_state": "pondering", "summary_normal": "Pondering the matter."});
            vec![trial.voice.go("thinking").with(odd)]
        },
        question: "The producer said that it is “pondering”, a state that no version knows. Were you told something of it, \
                   or could you have it told if you wanted to?",
    },
    Scene {
        requirement: "R-041",
        name: "the three endings can be told apart",
        play: |trial| {
            let voice = &mut trial.voice;
            let mut events = vec![voice.completed(), voice.begin(), voice.errored(), voice.begin()];
            events.extend([voice.cancelled(), voice.begin(), voice.go("thinking")]);
            events
        },
        question: "Three sessions ended just now: one was completed, one failed, one was cancelled. Could you tell which was \
                   which?",
    },
    Scene {
        requirement: "R-061",
        name: "pieces that end nowhere are not spoken by themselves",
        play: |trial| {
            let voice = &mut trial.voice;
            vec![
                voice.go("writing_output"),
                voice.output("The ba", 0, Boundary::None),
                voice.output("lance is ", 6, Boundary::None),
                voice.output("twenty euros. ", 15, Boundary::Sentence),
                voice.last_output("", 29),
                voice.go("thinking"),
            ]
        },
        question: "A sentence came in three pieces: “The balance is twenty euros.” Did you get it whole, and not cut inside \
                   of the word balance?",
    },
    Scene {
        requirement: "R-185",
        name: "characters are not cut, and the direction of a text is kept",
        play: |trial| {
            let voice = &mut trial.voice;
            let hints = json!({"primary_language": "ar", "text_direction": "rtl"});
            let arabic = json!({"summary_normal": "تم تحويل ٢٠ يورو.", "localization_hints": hints});
            vec![voice.progress(1, 2).with(arabic)]
        },
        question: "An Arabic sentence was reported. Was it told whole, and where it was shown, did it run from right to left?",
    },
    Scene {
        requirement: "R-189",
        name: "a piece in another language is told in that language",
        play: |trial| {
            let voice = &mut trial.voice;
            let french = json!({"language": "fr"});
            vec![
                voice.go("writing_output"),
                voice.output("Le virement est fait. ", 0, Boundary::Sentence).with(french),
                voice.last_output("", 22),
                voice.go("thinking"),
            ]
        },
        question: "An answer in French came: “Le virement est fait.” Was it spoken or marked as French?",
    },
];

pub(crate) async fn run(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    for scene in SCENES {
        if trial.subject.person.is_none() || !trial.present().await? {
            let why = "only a person can tell what it says and shows; say --ask to be asked";
            trial.check(scene.requirement, scene.name, Outcome::NotShown(why.into()), "");
            continue;
        }
        trial.fresh();
        for event in (scene.play)(trial) {
            trial.say(&event).await;
        }
        let answer = ask(trial, scene.question).await;
        tell(trial, scene.requirement, scene.name, answer);
    }
    prompt(trial).await
}

async fn prompt(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    const NAME: &str = "prompts are shown at once, whole and truly";
    if trial.subject.person.is_none() || !trial.present().await? {
        let why = "only a person can tell what it says and shows; say --ask to be asked";
        trial.check("R-092", NAME, Outcome::NotShown(why.into()), "");
        return Ok(());
    }
    trial.fresh();
    let sign = trial.probe().await;
    let question = format!(
        "You were asked for leave just now. Were you told both what is to be done, “{ACTION}”, and what follows, \
         “{CONSEQUENCE}”, before anything else?"
    );
    let answer = ask(trial, &question).await;
    let told = trial.told(&sign);
    trial.note(&told);
    tell(trial, "R-092", NAME, answer);
    Ok(())
}

async fn ask(trial: &Trial<'_>, question: &str) -> Option<bool> {
    let (answer, answered) = oneshot::channel();
    let question = Question { text: question.to_owned(), answer };
    trial.subject.person.as_ref()?.send(question).await.ok()?;
    answered.await.ok().flatten()
}

fn tell(trial: &mut Trial<'_>, requirement: &'static str, name: &'static str, answer: Option<bool>) {
    let (outcome, said) = match answer {
        Some(true) => (Outcome::Passed, "so the person at the terminal said"),
        Some(false) => (Outcome::Failed, "the person at the terminal said no"),
        None => (Outcome::NotShown("the person at the terminal could not tell".into()), ""),
    };
    trial.check(requirement, name, outcome, said);
}
