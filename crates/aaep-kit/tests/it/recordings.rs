//! Captures: written and read back, and read from other tools.

use std::io::Write as _;

use recount_aaep_kit::recording::{Direction, Reader, RecordedLine, Stamp, Unreadable, Writer, times_of};

const EVENT: &str = r#"{"type":"aaep:agent.x","event_id":"evt_1","n":1.0}"#;
const REPLY: &str = r#"{"type":"confirmation.reply","decision":"accept"}"#;
const CLOSE: &str = r#"{"type":"subscription.close"}"#;

fn read(reader: Reader) -> Vec<Result<RecordedLine, Unreadable>> {
    reader.collect()
}

/// Number, text and direction of each line; an unreadable line by its number.
fn shown(lines: &[Result<RecordedLine, Unreadable>]) -> Vec<(usize, &str, Direction)> {
    let read = lines.iter().filter_map(|line| line.as_ref().ok());
    read.map(|line| (line.number, line.text.as_str(), line.direction)).collect()
}

#[test]
fn written_captures_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    let mut writer = Writer::create(&path).unwrap();
    let pretty = EVENT.replace(',', ",\r\n  ");
    let stamp =
        |after_ms, connection, id| Stamp { at_ms: 1_779_632_531_342 + after_ms, after_ms, connection, id };
    writer.put(&pretty, Direction::In, &stamp(0, 1, Some("evt_1"))).unwrap();
    writer.put(REPLY, Direction::Out, &stamp(7, 1, None)).unwrap();
    // Either side may close: only the times file states the direction.
    writer.put(CLOSE, Direction::Out, &stamp(9, 2, None)).unwrap();
    assert_eq!(writer.lines(), 3);
    writer.finish().unwrap();
    let one_line = EVENT.replace(',', ",   ");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{one_line}\n{REPLY}\n{CLOSE}\n"));
    assert_eq!(
        std::fs::read_to_string(times_of(&path)).unwrap().lines().nth(1).unwrap(),
        r#"{"line":2,"direction":"out","at":"2026-05-24T14:22:11.349Z","after_ms":7,"connection":1}"#
    );
    let lines = read(Reader::open(&path).unwrap());
    let expected =
        [(1, one_line.as_str(), Direction::In), (2, REPLY, Direction::Out), (3, CLOSE, Direction::Out)];
    assert_eq!(shown(&lines), expected);
    let times: Vec<_> = lines.iter().map(|line| line.as_ref().unwrap().time.clone().unwrap()).collect();
    assert_eq!(
        times.iter().map(|time| (time.after_ms, time.connection)).collect::<Vec<_>>(),
        [(0, 1), (7, 1), (9, 2)]
    );
    assert_eq!(times[0].at_ms, 1_779_632_531_342);

    std::fs::remove_file(times_of(&path)).unwrap();
    let lines = read(Reader::open(&path).unwrap());
    let directions: Vec<_> = shown(&lines).into_iter().map(|(_, _, direction)| direction).collect();
    assert_eq!(directions, [Direction::In, Direction::Out, Direction::In], "by their types");
    assert!(lines.iter().all(|line| line.as_ref().unwrap().time.is_none()));
    // Writing to an existing capture truncates it.
    Writer::create(&path).unwrap();
    assert_eq!((std::fs::read(&path).unwrap().len(), std::fs::read(times_of(&path)).unwrap().len()), (0, 0));
}

#[cfg(unix)]
#[test]
fn captures_are_for_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    Writer::create(&path).unwrap();
    for file in [path.clone(), times_of(&path)] {
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn files_of_other_tools_are_read() {
    for (file, expected) in [
        (format!("{EVENT}\r\n\n  {REPLY}"), vec![1, 3]),
        // The byte order mark is reported, and the text after it is read.
        (format!("\u{feff}{EVENT}\n{REPLY}\n"), vec![1, 2]),
        (format!("[\n{EVENT},\n{REPLY}\n]"), vec![2, 3]),
        (EVENT.replace(',', ",\n") + "\n", vec![1]),
        (String::new(), vec![]),
    ] {
        let lines = read(Reader::over(std::io::Cursor::new(file.clone())));
        let numbers: Vec<_> = shown(&lines).into_iter().map(|(number, ..)| number).collect();
        assert_eq!(numbers, expected, "{file:?}: {lines:?}");
    }
}

#[test]
fn unreadable_lines_are_reported_and_the_rest_is_read() {
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(1_000_000));
    let file = format!("{EVENT}\n{{\"cut\n[1]\n\"text\"\n7\n{long}\n{REPLY}\n");
    let lines = read(Reader::over(std::io::Cursor::new(file)));
    let numbers: Vec<_> = shown(&lines).into_iter().map(|(number, ..)| number).collect();
    assert_eq!(numbers, [1, 6, 7]);
    let bad: Vec<_> = lines.iter().filter_map(|line| line.as_ref().err()).map(ToString::to_string).collect();
    assert_eq!(bad.len(), 4);
    for (why, line) in bad.iter().zip(2..) {
        assert!(why.starts_with(&format!("line {line} is not a message")), "{why}");
    }
}

#[test]
fn times_that_do_not_match_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    let time = |line: usize, id: &str| {
        format!(
            "{{\"line\":{line},\"direction\":\"in\",\"at\":\"2026-05-24T14:22:11.342Z\",\"after_ms\":{line},\
             \"connection\":1,\"id\":\"{id}\"}}\n"
        )
    };
    let second = EVENT.replace("evt_1", "evt_2");
    std::fs::write(&path, format!("{EVENT}\n\n{second}\n{REPLY}\n")).unwrap();
    let check = |times: String, has_time: [bool; 3], remark: Option<&str>| {
        std::fs::write(times_of(&path), &times).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        let lines: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!(lines.iter().map(|line| line.time.is_some()).collect::<Vec<_>>(), has_time, "{times}");
        let found = reader.remark();
        assert_eq!(found.is_some(), remark.is_some(), "{found:?}");
        assert!(found.unwrap_or_default().contains(remark.unwrap_or_default()));
        assert!(reader.remark().is_none(), "returned once");
    };
    check(time(1, "evt_1") + &time(3, "evt_2"), [true, true, false], None);
    check(time(3, "evt_2") + &time(9, "evt_9"), [false, true, false], None);
    check(time(1, "evt_1") + &time(3, "evt_2")[..20], [true, false, false], None);
    check(time(1, "evt_7") + &time(3, "evt_2"), [false; 3], Some("belong to another file"));
    check(time(1, "evt_1") + "what?\n" + &time(3, "evt_2"), [true, false, false], Some("invalid at"));
    check("x".repeat(100_000), [false; 3], None);
}

#[test]
fn a_file_that_grows_while_it_is_written_has_whole_lines_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    let mut writer = Writer::create(&path).unwrap();
    for number in 0..50_u64 {
        let text =
            format!("{{\"n\":{number},\"x\":\"{}\"}}", "y".repeat(usize::try_from(number).unwrap() * 1_000));
        writer
            .put(&text, Direction::In, &Stamp { at_ms: 0, after_ms: number, connection: 1, id: None })
            .unwrap();
        // As if it had been killed here.
        let files = [std::fs::read(&path).unwrap(), std::fs::read(times_of(&path)).unwrap()];
        assert!(files.iter().all(|file| file.ends_with(b"\n")));
        assert_eq!(read(Reader::open(&path).unwrap()).len() as u64, number + 1);
    }
    let mut torn = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    torn.write_all(b"{\"half").unwrap();
    assert!(read(Reader::open(&path).unwrap()).pop().unwrap().is_err());
}
