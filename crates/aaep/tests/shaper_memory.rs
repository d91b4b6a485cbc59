//! Measures the memory of many shapers, at rest and under load, with a counting allocator. A separate process, because
//! the allocator counts everything.

#![allow(clippy::unwrap_used, reason = "in a test a surprise is a panic")]
#![allow(clippy::print_stdout, reason = "the figures are what it is run for")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use recount_aaep::build::{self, Frame};
use recount_aaep::negotiate::{Offer, Terms, evaluate_text};
use recount_aaep::shaping::Shaper;
use recount_aaep::wire::{Boundary, Producer, Progress, SubscriptionId, ToolStatus};

/// Number of measured shapers.
const SHAPERS: usize = 20;

/// Maximum bytes of a subscription.
const SUBSCRIPTION_BYTES_MAX: usize = 24 * 1024;

/// The system's allocator with a count of used bytes, rounded up like its size classes.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

fn rounded(layout: Layout) -> usize {
    (layout.size() + size_of::<usize>()).next_multiple_of(16)
}

#[expect(unsafe_code, reason = "an allocator is counted from within")]
// SAFETY: each call is passed on as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(rounded(layout), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(rounded(layout), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn in_use() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

fn terms() -> Terms {
    let request = r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"reader","subscriber_name":"A reader",
        "capabilities":{"max_events_per_second":1,"preferred_verbosity":"normal","languages":["en-US","de"],
        "supports_confirmation_reply":true,"supports_clarification_reply":true,"cognitive_load":"medium","pace_wpm":180,
        "coalesce_boundaries":["sentence","completion"],"event_filters":{"exclude":["aaep:agent.progress.x"]}}}"#;
    evaluate_text(&Offer::new(Producer::named("planner"), "en-US"), request).accepted().unwrap()
}

/// A subscriber of one event per second, and its input.
struct Listener {
    shaper: Shaper,
    session: usize,
    made: u64,
    position: u64,
    sent: u64,
}

impl Listener {
    fn new(session: usize) -> Self {
        let shaper = Shaper::new(terms(), &SubscriptionId::new(format!("sub_{session:032}")).unwrap());
        Listener { shaper, session, made: 0, position: 0, sent: 0 }
    }

    /// Pushes the next event: mostly words, with calls, states and progress between them.
    fn event(&mut self, now: u64) {
        let frame = Frame::new(&format!("sess_{:026}", self.session), "planner", "en-US").unwrap();
        let id = format!("evt_{:026}{:016}", self.session, self.made);
        let at = i64::try_from(now).unwrap();
        let step = self.made % 100;
        let event = match step {
            0 => frame.event(
                &id,
                at,
                build::state_changed("thinking", "calling_tool", "The agent calls a tool."),
            ),
            1 => frame.event(
                &id,
                at,
                build::tool_invoked("read_file", "Reads the file src/shaping/shaper.rs of the workspace.")
                    .tool_call_id(format!("call_{:026}", self.made)),
            ),
            10 => frame.event(
                &id,
                at,
                build::tool_completed(
                    "read_file",
                    ToolStatus::Success,
                    "Read the file src/shaping/shaper.rs.",
                )
                .tool_call_id(format!("call_{:026}", self.made - 9)),
            ),
            11 => frame.event(
                &id,
                at,
                build::state_changed("calling_tool", "writing_output", "The agent writes."),
            ),
            12 => frame.event(
                &id,
                at,
                build::progress(Progress { step: Some(self.made), ..Progress::default() })
                    .summary("A step is done."),
            ),
            _ => {
                let word =
                    ["One ", "word ", "after ", "the ", "other. "][usize::try_from(self.made % 5).unwrap()];
                let piece = build::output(word, self.position, Boundary::Word).output_id("out_t1b0");
                self.position += word.len() as u64;
                frame.event(&id, at, piece)
            }
        };
        self.made += 1;
        self.shaper.push(event.unwrap(), now);
        self.sent += self.shaper.due(now).len() as u64;
    }
}

#[test]
fn a_shaper_is_small() {
    println!("size_of: {} bytes", size_of::<Shaper>());
    let mut listeners: Vec<Listener> = Vec::with_capacity(SHAPERS);
    let before = in_use();
    listeners.extend((0..SHAPERS).map(Listener::new));
    let at_rest = (in_use() - before) / SHAPERS;
    println!("at rest: {at_rest} bytes");
    // A minute of twenty events per second for subscribers of one per second.
    for tick in 0..1_200_u64 {
        for listener in &mut listeners {
            listener.event(tick * 50);
        }
    }
    let loaded = in_use().saturating_sub(before) / SHAPERS;
    let held = listeners.iter().map(|listener| listener.shaper.held_bytes()).max().unwrap();
    let (events, sent) = (listeners[0].shaper.held_events(), listeners[0].sent);
    println!(
        "under load: {loaded} bytes, held as counted: {held} bytes in {events} events, {sent} sent in a minute"
    );
    assert!(listeners.iter().all(|listener| listener.shaper.counts().ahead == 0));
    assert!(loaded <= SUBSCRIPTION_BYTES_MAX, "{loaded}");
    assert!(at_rest <= 4 * 1024, "{at_rest}");
}
