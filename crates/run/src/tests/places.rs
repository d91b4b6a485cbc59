//! Where a new run may go on from an ended one, by a table of what happened in it.

use super::story::{fid, placed_all, script};
use crate::view::{FilesAt, ResumePlaces};

/// Events up to and including the checkpoint `ckpt_1` at 7: one turn with one call.
const ONE_TURN: &str = "@own
    @turn 0
    @propose call_1
    @turned 0
    @invoke call_1
    @complete call_1
    run.checkpoint_saved {'checkpoint_id':'ckpt_1'}";

fn places(text: &str) -> ResumePlaces {
    let mut places = ResumePlaces::default();
    for event in placed_all(script(text)) {
        places.see(&event);
    }
    places
}

#[test]
fn the_settled_place_is_the_last_checkpoint_or_the_ending_after_a_completed_turn() {
    let failed = "run.failed {'code':'x','message':'x','retriable':false}";
    let broken = "turn.failed {'turn_index':1,'code':'x','message':'x','will_retry':false}";
    for (what, text, settled) in [
        ("nothing", String::new(), None),
        ("no turn was started", format!("@own\n{failed}"), None),
        ("the first turn failed", format!("@own\n@turn 0\n{}\n{failed}", broken.replace('1', "0")), Some(4)),
        ("the first turn was the last", "@own\n@turn 0\n@turned 0\n@finished".to_owned(), Some(4)),
        ("a checkpoint is last", format!("{ONE_TURN}\n{failed}"), Some(7)),
        ("a turn failed behind it", format!("{ONE_TURN}\n@turn 1\n{broken}\n{failed}"), Some(7)),
        ("a turn was completed behind it", format!("{ONE_TURN}\n@turn 1\n@turned 1\n@finished"), Some(10)),
        (
            "two checkpoints",
            format!(
                "{ONE_TURN}\n@turn 1\n@turned 1\nrun.checkpoint_saved {{'checkpoint_id':'ckpt_2'}}\n@turn 2\n{failed}"
            ),
            Some(10),
        ),
    ] {
        assert_eq!(places(&text).settled(), settled, "{what}");
    }
}

#[test]
fn checkpoints_are_found_by_id_and_turns_by_index() {
    let again = "turn.failed {'turn_index':1,'code':'x','message':'x','will_retry':true}";
    let places = places(&format!(
        "{ONE_TURN}\n@turn 1\n{again}\n@turn 1\n@turned 1\nrun.checkpoint_saved {{'checkpoint_id':'ckpt_2'}}\n@turn 2"
    ));
    assert_eq!(places.checkpoint(&fid("ckpt_1")), Some(7));
    assert_eq!(places.checkpoint(&fid("ckpt_2")), Some(12));
    assert_eq!(places.checkpoint(&fid("ckpt_3")), None);
    assert_eq!(places.last_checkpoint(), Some(&fid("ckpt_2")));
    assert_eq!(places.before_turn(0), Some(1));
    // Of a turn that was started twice the first start counts, so that nothing of the attempt that failed is included.
    assert_eq!(places.before_turn(1), Some(7));
    assert_eq!(places.before_turn(2), Some(12));
    assert_eq!(places.before_turn(3), None);
    assert_eq!(places.turns(), Some((0, 2)));
}

#[test]
fn files_are_those_of_the_last_record_unless_calls_followed() {
    let ready = "workspace.provisioned {'mode':'clone','path':'/w','files':0,'bytes':0,'duration_ms':0}";
    let text = format!(
        "{}\n@turn 1\n@turned 1\n@finished",
        ONE_TURN.replace("@turn 0", &format!("{ready}\n@turn 0"))
    );
    let places = places(&text);
    let (id, checkpoint) = (fid("ckpt_1"), places.checkpoint(&fid("ckpt_1")).unwrap());
    for (what, sequence, expected) in [
        ("before the workspace was ready", 0, FilesAt::Start),
        ("before the first turn", places.before_turn(0).unwrap(), FilesAt::Start),
        ("after a call", checkpoint - 1, FilesAt::NotRecorded { last_checkpoint: None }),
        ("at the checkpoint", checkpoint, FilesAt::Checkpoint(&id)),
        ("after it, without a call", checkpoint + 1, FilesAt::Checkpoint(&id)),
    ] {
        assert_eq!(places.files_at(sequence), expected, "{what}");
    }
    assert_eq!(self::places(ONE_TURN).files_at(3), FilesAt::NoWorkspace);
}
