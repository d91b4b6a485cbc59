//! The table of producer tests in the conformance page is generated from the tables of the suite. `RECOUNT_BLESS=1`
//! writes it.

use std::fmt::Write as _;

use recount_aaep_kit::conformance::producer::{CHECKS, REASONS, how};
use recount_aaep_kit::conformance::requirements::ALL;

const BEGIN: &str = "<!-- table: producers -->\n";
const END: &str = "<!-- end: producers -->";

fn table() -> String {
    let mut table = String::from(
        "\n| requirement | level | strength | what is asked | how it is tried |\n| --- | --- | --- | --- | --- |\n",
    );
    for row in ALL.iter().filter(|row| row.concerns_producers()) {
        let run_suite = match how(row) {
            Ok((checks, rules)) => {
                let mut ways: Vec<String> = checks.iter().map(|check| check.name.to_owned()).collect();
                if !rules.is_empty() {
                    let rules: Vec<String> = rules.iter().map(|rule| format!("`{rule}`")).collect();
                    ways.push(format!("rules on everything that is heard: {}", rules.join(", ")));
                }
                ways.join("; ")
            }
            Err(reason) => format!("not from outside. {}", reason.unwrap_or("?")),
        };
        writeln!(
            table,
            "| {} | {} | {} | {} ({}) | {} |",
            row.id,
            row.level,
            row.strength.name(),
            row.text,
            row.section,
            run_suite.replace('|', "\\|"),
        )
        .expect("writing to a string cannot fail");
    }
    let run_suite = ALL.iter().filter(|row| row.concerns_producers() && how(row).is_ok()).count();
    write!(
        table,
        "\n{run_suite} requirements on producers, transports and suites are tried, by {} checks and by the rules; {} are not, for \
         the reasons that are given.\n\n",
        CHECKS.len(),
        REASONS.len(),
    )
    .expect("writing to a string cannot fail");
    table
}

#[test]
fn the_page_lists_the_checks_of_each_requirement() {
    let path = format!("{}/../../docs/aaep/conformance.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let right = format!("{head}{BEGIN}{}{END}{tail}", table());
    if std::env::var_os("RECOUNT_BLESS").is_some() {
        std::fs::write(&path, &right).unwrap();
    }
    assert!(
        page == right || std::env::var_os("RECOUNT_BLESS").is_some(),
        "docs/aaep/conformance.md is out of date: RECOUNT_BLESS=1 cargo test -p recount-aaep-kit --test it conformance_page"
    );
}
