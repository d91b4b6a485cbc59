//! The events of each scenario, as data. It must not know how they are sent; `play` does that.

use recount_aaep::wire::{Level, Reversibility};

use crate::Scenario;

/// A session: how it begins, what happens, how it ends.
pub struct Script {
    pub begins: &'static str,
    pub steps: &'static [Step],
    /// What `session.completed` says. A step may end the session in another way.
    pub ends: &'static str,
}

/// One thing that happens.
pub enum Step {
    /// The state changes.
    State(&'static str, &'static str),
    /// Work in so many equal steps.
    Progress(u64),
    Tool(&'static Tool),
    /// Output in these pieces, each with what it ends.
    Output(&'static [&'static str]),
    /// Output word by word.
    Story(&'static str),
    Confirm(&'static Confirm),
    Clarify(&'static Clarify),
    Handoff,
    /// The session ends in an error.
    Fail,
}

/// One call.
pub struct Tool {
    pub name: &'static str,
    pub summary: &'static str,
    pub args: &'static str,
    pub done: &'static str,
    pub risk: Level,
    pub irreversible: bool,
    /// Given up because it takes too long.
    pub times_out: bool,
}

/// A prompt, and what is done when it is accepted.
pub struct Confirm {
    pub action: &'static str,
    pub consequence: &'static str,
    pub reversibility: Reversibility,
    pub tool: &'static Tool,
    /// The same is asked for again while the prompt is open.
    pub twice: bool,
}

/// A question with choices: what is sent back, and what is read to people.
pub struct Clarify {
    pub question: &'static str,
    pub context: &'static str,
    pub choices: &'static [(&'static str, &'static str)],
    pub answers: &'static str,
    pub unavailable: &'static str,
}

const FETCH: Tool = Tool {
    name: "fetch_data",
    summary: "Fetching the data.",
    args: "The newest figures.",
    done: "The data has arrived.",
    risk: Level::Low,
    irreversible: false,
    times_out: false,
};

const SLOW: Tool = Tool {
    name: "search_archive",
    summary: "Searching the archive.",
    args: "All years.",
    done: "The archive did not answer in time.",
    risk: Level::Low,
    irreversible: false,
    times_out: true,
};

/// What came as an argument is told as that it came, never as what it is.
const DISCREET: Tool = Tool {
    name: "data_tool",
    summary: "Calling the data tool.",
    args: "One argument, which is hidden.",
    done: "The data tool returned a result.",
    risk: Level::Low,
    irreversible: false,
    times_out: false,
};

const BOOK: Tool = Tool {
    name: "book_room",
    summary: "Booking the room.",
    args: "The blue room, tomorrow at two.",
    done: "The room is booked.",
    risk: Level::Low,
    irreversible: false,
    times_out: false,
};

const DELETE: Tool = Tool {
    name: "delete_record",
    summary: "Deleting the record.",
    args: "One customer.",
    done: "The record is gone.",
    risk: Level::High,
    irreversible: true,
    times_out: false,
};

const BOOKING: Confirm = Confirm {
    action: "Book the blue room for tomorrow at two.",
    consequence: "The room is reserved for you; you can cancel until noon.",
    reversibility: Reversibility::Reversible,
    tool: &BOOK,
    twice: false,
};

const STORY: &str = "The sea was grey that morning, and the gulls were late. Adéọlá stood at the rail and counted the \
    waves. Nobody had told her how many there would be. She had reached forty when the wind turned.\n\n\
    By noon the water shone 🌊 like hammered tin. A small boat came round the point, its sail patched with blue cloth. \
    The old man in it waved once and said nothing. His dog, a patient animal, looked the other way.\n\n\
    In the evening they ate bread and olives on the quay. The tide went out, as it does, and left the boats lying on \
    their sides. A sailor sang. It was, she wrote later, a day in which nothing happened, and she would have given \
    much to have it once more.";

const SENTENCES: &[&str] =
    &["The moon goes round the earth. ", "It takes about a month. ", "It always shows us the same side."];

/// The script of a scenario.
pub fn script(scenario: Scenario) -> Script {
    use Step::{Fail, Output, Progress, State, Story, Tool as Call};
    let (begins, steps, ends): (_, &[Step], _) = match scenario {
        Scenario::Brief => (
            "Answering briefly.",
            &[State("writing_output", "Writing the answer."), Output(&["Hello."])],
            "The answer is complete.",
        ),
        Scenario::Tool => (
            "Looking up some data.",
            &[
                State("thinking", "Choosing a tool."),
                State("calling_tool", "Calling a tool."),
                Call(&FETCH),
                State("writing_output", "Writing the answer."),
                Output(&["The data says that all is well."]),
            ],
            "The data was fetched and reported.",
        ),
        Scenario::ToolTimeout => (
            "Looking into the archive.",
            &[
                State("thinking", "Choosing a tool."),
                State("calling_tool", "Calling a tool."),
                Call(&SLOW),
                State("writing_output", "Writing the answer."),
                Output(&["The archive did not answer."]),
            ],
            "The archive call was abandoned.",
        ),
        Scenario::Stream => (
            "Describing the moon.",
            &[
                State("thinking", "Recalling what is known."),
                State("writing_output", "Writing the answer."),
                Output(SENTENCES),
            ],
            "Three sentences were written.",
        ),
        Scenario::LongStream => (
            "Telling a story.",
            &[
                State("thinking", "Thinking of a story."),
                State("writing_output", "Writing the story."),
                Story(STORY),
            ],
            "The story is written.",
        ),
        Scenario::Progress => (
            "Doing many small steps.",
            &[State("thinking", "Working through the steps."), Progress(40)],
            "All steps are done.",
        ),
        Scenario::Error => (
            "Looking for the tool.",
            &[
                State("thinking", "Looking for the tool."),
                State("writing_output", "Reporting what is being tried."),
                Output(&["The tool is being looked for."]),
                Fail,
            ],
            "",
        ),
        Scenario::Secrets => (
            "Calling a tool with the given argument.",
            &[State("calling_tool", "Calling a tool."), Call(&DISCREET)],
            "The tool was called.",
        ),
        _ => return prompting_script(scenario),
    };
    Script { begins, steps, ends }
}

/// The script of a scenario that asks a person.
fn prompting_script(scenario: Scenario) -> Script {
    use Step::{Clarify as Ask, Confirm as May, Handoff, State};
    let (begins, steps, ends): (_, &[Step], _) = match scenario {
        Scenario::Confirm => ("Booking a room.", &[May(&BOOKING)], "The room is booked."),
        Scenario::Irreversible => (
            "Deleting a record.",
            &[May(&Confirm {
                action: "Delete the customer's record for good.",
                consequence: "The record and its history cannot be brought back.",
                reversibility: Reversibility::Irreversible,
                tool: &DELETE,
                twice: false,
            })],
            "The record is deleted.",
        ),
        Scenario::Twice => {
            ("Booking a room.", &[May(&Confirm { twice: true, ..BOOKING })], "The room is booked, once.")
        }
        Scenario::Clarify => (
            "Looking up the weather.",
            &[Ask(&Clarify {
                question: "Which city do you mean?",
                context: "The weather is different everywhere.",
                choices: &[
                    ("Lagos", "Lagos in Nigeria"),
                    ("Lima", "Lima in Peru"),
                    ("Oslo", "Oslo in Norway"),
                ],
                answers: "It is fine there today.",
                unavailable: "Without a city, the weather cannot be looked up.",
            })],
            "The weather was looked up.",
        ),
        Scenario::Handoff => (
            "Looking at the request.",
            &[State("handing_off", "Handing over to a person."), Handoff],
            "A person takes it from here.",
        ),
        scenario => unreachable!("{scenario:?} asks nobody"),
    };
    Script { begins, steps, ends }
}

/// Which scenario an input asks for: its own sentence, or else the first word that says it. What says nothing is
/// answered briefly; what would be a prompt is done step by step where nothing is asked.
pub fn scenario(text: &str, asks: bool) -> Scenario {
    const WORDS: &[(&str, Scenario)] = &[
        ("handoff", Scenario::Handoff),
        ("escalate", Scenario::Handoff),
        ("clarification", Scenario::Clarify),
        ("irreversible", Scenario::Irreversible),
        ("delete", Scenario::Irreversible),
        ("confirm", Scenario::Confirm),
        ("api_key", Scenario::Secrets),
        ("does not exist", Scenario::Error),
        ("error", Scenario::Error),
        ("tool", Scenario::Tool),
        ("three", Scenario::Stream),
        ("story", Scenario::LongStream),
    ];
    let wanted = Scenario::of(text).unwrap_or_else(|| {
        let text = text.to_lowercase();
        WORDS.iter().find(|(word, _)| text.contains(word)).map_or(Scenario::Brief, |(_, scenario)| *scenario)
    });
    if wanted.has_prompts() && !asks { Scenario::Progress } else { wanted }
}
