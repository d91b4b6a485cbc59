//! Tests of the policy: verdicts by tables, invalid rules, and the rule for grave calls as a property.

mod table;

use super::*;
use crate::limits::{APPROVAL_TIMEOUT_SECONDS_MAX, COMMAND_BYTES_MAX};
use crate::tool::Targets;
use proptest::prelude::*;

fn setting(mode: WorkspaceMode, sandboxed: bool, network: bool) -> Setting {
    Setting { workspace_mode: mode, root: "/w".into(), sandboxed, network }
}

fn clone() -> Setting {
    setting(WorkspaceMode::Clone, true, false)
}

fn call(risk: RiskLevel, reversibility: Reversibility, targets: Targets, writes: bool) -> Assessment {
    Assessment {
        risk,
        reversibility,
        summary: String::new(),
        action: String::new(),
        consequence: String::new(),
        targets,
        writes,
    }
}

fn reading(path: &str) -> Assessment {
    let targets = Targets { paths: vec![path.to_owned()], ..Targets::default() };
    call(RiskLevel::Low, Reversibility::Reversible, targets, false)
}

fn editing(paths: &[&str]) -> Assessment {
    let targets =
        Targets { paths: paths.iter().map(|&path| path.to_owned()).collect(), ..Targets::default() };
    call(RiskLevel::Medium, Reversibility::Reversible, targets, true)
}

fn running(command: &str) -> Assessment {
    let (risk, reversibility, consequence) = command_risk(command);
    let targets = Targets { command: Some(command.to_owned()), ..Targets::default() };
    Assessment { consequence: consequence.to_owned(), ..call(risk, reversibility, targets, true) }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask { .. } => "ask",
        Verdict::Block { .. } => "block",
    }
}

#[test]
fn the_default_is_cautious() {
    use WorkspaceMode::{Clone, InPlace};
    let policy = Policy::default();
    for (tool, assessment, expected) in [
        // Verdicts in a clone with a sandbox, without a sandbox, with network, and in place.
        ("read_file", reading("a"), ["allow"; 4]),
        ("git_status", running("git status"), ["allow"; 4]),
        ("todo_write", reading(""), ["allow"; 4]),
        ("edit_file", editing(&["a"]), ["allow", "allow", "allow", "ask"]),
        ("shell_exec", running("cargo test"), ["allow", "ask", "ask", "ask"]),
        ("shell_exec", running("./unknown"), ["allow", "ask", "ask", "ask"]),
        ("shell_exec", running("cat a"), ["allow", "ask", "allow", "allow"]),
        ("shell_exec", running("mv a b"), ["allow", "ask", "allow", "ask"]),
        ("shell_exec", running("rm -rf src"), ["allow", "ask", "allow", "ask"]),
        ("shell_exec", running("rm -rf src; git push"), ["ask"; 4]),
        ("git_exec", running("git push"), ["ask"; 4]),
    ] {
        let settings = [
            setting(Clone, true, false),
            setting(Clone, false, false),
            setting(Clone, true, true),
            setting(InPlace, true, false),
        ];
        let got = settings.map(|setting| word(&policy.judge(tool, &assessment, &setting, None)));
        assert_eq!(got, expected, "{tool} {assessment:?}");
    }
    let verdict = policy.judge("git_exec", &running("git push"), &clone(), None);
    assert_eq!(
        verdict,
        Verdict::Ask {
            risk: RiskLevel::High,
            reversibility: Reversibility::Irreversible,
            timeout_seconds: limits::APPROVAL_TIMEOUT_SECONDS,
            default_decision: DefaultDecision::Reject,
            policy_reason: "high-risk calls that cannot be undone always need approval".into(),
        }
    );
    let fetching = Targets { hosts: vec!["example.org".into()], ..Targets::default() };
    let fetching = call(RiskLevel::Low, Reversibility::Reversible, fetching, false);
    assert_eq!(word(&policy.judge("web_fetch", &fetching, &clone(), None)), "ask");
}

const RULES: &str = r#"
    [[rules]]
    id = "no-keys"
    path = "*.pem"
    action = "block"
    reason = "keys are not for agents"

    [[rules]]
    id = "docs"
    tool = "edit_file"
    path = "docs/**"
    action = "allow"

    [[rules]]
    id = "edits"
    tool = "*"
    path = "src/**"
    risk_at_least = "medium"
    action = "ask"
    timeout_seconds = 60
    default_decision = "approve"

    [[rules]]
    id = "push"
    tool = "shell_*"
    command_prefix = "git push"
    action = "block"

    [[rules]]
    id = "tests"
    command_prefix = "cargo test"
    action = "allow"

    [[rules]]
    id = "hosts"
    host = "*.example.org"
    action = "allow"

    [[rules]]
    id = "deploy"
    command_prefix = "./deploy"
    action = "ask"
    risk = "high"
    reversibility = "irreversible"
"#;

#[test]
fn the_first_matching_rule_decides() {
    let policy = Policy::parse(RULES).unwrap();
    let in_place = setting(WorkspaceMode::InPlace, false, false);
    for (tool, assessment, expected) in [
        ("read_file", reading("a/key.pem"), "block"),
        ("read_file", reading("/w/key.pem"), "block"),
        ("read_file", reading("x/../key.pem"), "block"),
        ("multi_edit", editing(&["docs/a", "key.pem"]), "block"),
        ("edit_file", editing(&["docs/a/b.md"]), "allow"),
        ("edit_file", editing(&["docs/../src/a"]), "ask"),
        ("edit_file", editing(&["docs"]), "ask"),
        ("write_file", editing(&["docs/a"]), "ask"),
        ("shell_exec", running("git push"), "block"),
        ("shell_exec", running("cargo test; /usr/bin/git push origin"), "block"),
        ("shell_exec", running("echo $(git push)"), "block"),
        ("shell_exec", running("git pushy"), "ask"),
        ("git_exec", running("git push"), "ask"),
        ("shell_exec", running("cargo test -p a && cargo test -p b"), "allow"),
        ("shell_exec", running("cargo test; ./other"), "ask"),
        ("shell_exec", running("cargo test > src/a"), "ask"),
        ("shell_exec", running("cargo test $(./other)"), "ask"),
        ("shell_exec", running("sudo cargo test"), "ask"),
        ("shell_exec", running("RUSTC_WRAPPER=x cargo test"), "ask"),
        // A program of the workspace with the name of an allowed one.
        ("shell_exec", running("./cargo test"), "ask"),
        ("shell_exec", running("/usr/bin/cargo test"), "allow"),
        ("shell_exec", running("PATH=.; cargo test"), "ask"),
        // Commands that may be the one that a rule blocks.
        ("shell_exec", running("git $VERB origin"), "block"),
        ("shell_exec", running("git pus*"), "block"),
        ("shell_exec", running("echo push | xargs git"), "block"),
    ] {
        assert_eq!(
            word(&policy.judge(tool, &assessment, &in_place, None)),
            expected,
            "{tool} {:?}",
            assessment.targets
        );
    }
    assert_eq!(
        policy.judge("read_file", &reading("key.pem"), &in_place, None),
        Verdict::Block { policy_id: "no-keys".into(), reason: "keys are not for agents".into() }
    );
    assert_eq!(
        policy.judge("edit_file", &editing(&["src/a"]), &in_place, None),
        Verdict::Ask {
            risk: RiskLevel::Medium,
            reversibility: Reversibility::Reversible,
            timeout_seconds: 60,
            default_decision: DefaultDecision::Approve,
            policy_reason: "the policy rule `edits` requires approval".into(),
        }
    );
    // A rule makes a call grave, and then a timeout rejects it.
    let Verdict::Ask { risk, default_decision, .. } =
        policy.judge("shell_exec", &running("./deploy"), &in_place, None)
    else {
        panic!("asks")
    };
    assert_eq!((risk, default_decision), (RiskLevel::High, DefaultDecision::Reject));
    for (host, fits) in [
        ("a.example.org:443", true),
        ("example.org", false),
        ("A.B.EXAMPLE.ORG.", true),
        ("aexample.org", false),
    ] {
        assert_eq!(host_matches("*.example.org", host), fits, "{host}");
    }
    assert!(host_matches("example.org", "Example.org:80") && host_matches("*", "x"));
    assert_eq!(policy.digest().map(str::len), Some("sha256:".len() + 64));
}

/// A command that cannot be judged completely needs approval by the default, by a rule that allows, and by one that
/// would approve on timeout. A rule that blocks a visible part of it still blocks.
#[test]
fn commands_that_cannot_be_judged_need_approval() {
    let many = format!("{}rm -rf zz", "echo ok; ".repeat(300));
    let allows = Policy::parse("[[rules]]\nid = \"a\"\ntool = \"shell_exec\"\naction = \"allow\"").unwrap();
    let waits = "[[rules]]\nid = \"a\"\naction = \"ask\"\ndefault_decision = \"approve\"";
    let waits = Policy::parse(waits).unwrap();
    let blocks = "[[rules]]\nid = \"a\"\ncommand_prefix = \"rm\"\naction = \"block\"";
    let blocks = Policy::parse(blocks).unwrap();
    for command in ["$X", "eval \"$X\"", "echo x | sh", "f() { ls; }; f", "echo 'a", "ls\0"] {
        // An assessment as by a tool that reads commands less carefully.
        let careless = call(RiskLevel::Low, Reversibility::Reversible, running(command).targets, true);
        for assessment in [running(command), careless] {
            for policy in [&Policy::default(), &allows, &waits, &blocks] {
                let verdict = policy.judge("shell_exec", &assessment, &clone(), None);
                let Verdict::Ask { default_decision, risk, policy_reason, .. } = verdict else {
                    panic!("{command} comes to {verdict:?}")
                };
                assert_eq!((default_decision, risk), (DefaultDecision::Reject, RiskLevel::High));
                let plain = policy_reason.starts_with("the policy rule `a` requires approval");
                assert!(plain || policy_reason.contains("cannot be judged completely"), "{policy_reason}");
            }
        }
    }
    // Of a line that is not read completely, the whole text is searched for what a rule blocks.
    for command in [&*many, "rm x; $X", "$X; rm x", "eval rm x; eval \"$X\""] {
        assert_eq!(
            word(&blocks.judge("shell_exec", &running(command), &clone(), None)),
            "block",
            "{command}"
        );
    }
}

/// A rule that blocks a command holds where another program, a setting or code names it. What hides it is not run
/// unasked.
#[test]
fn blocked_commands_are_blocked_anywhere_in_a_line() {
    let policy = |prefix: &str| {
        Policy::parse(&format!("[[rules]]\nid = \"a\"\ncommand_prefix = \"{prefix}\"\naction = \"block\""))
            .unwrap()
    };
    for (prefix, command, expected) in [
        ("rm", "grep rm a", "block"),
        ("rm", "ls /bin/rm", "block"),
        ("rm", "ls rm.txt farm", "allow"),
        ("rm", "A=rm; ls", "block"),
        ("./deploy", "bash -x ./deploy", "block"),
        ("./deploy", "deploy-docs", "allow"),
        ("git push", "git -C a -c b=c push", "block"),
        ("git push", "git commit -m 'push it'", "allow"),
        ("git push", "echo 'then git push'", "block"),
        ("git push --force", "git push -v --force", "block"),
        ("git push --force", "git push", "ask"),
        (
            "git push",
            "git -a -b -c -d -e -f -g -h -i -j -k -l -m -n -o -p -q -r -s -t -u -v -w -x -y -z x",
            "block",
        ),
        // Code that is not read.
        ("rm", "python3 -c 'import shutil; shutil.rmtree(\"a\")'", "ask"),
        ("rm", "python3 - < a", "ask"),
        ("rm", "node -e 'x()'", "ask"),
        ("rm", "echo 'x()' | ruby", "ask"),
        ("rm", "awk '{ print $1 }' a", "allow"),
        ("rm", "python3 x.py", "allow"),
        ("rm", "sh x.sh", "allow"),
    ] {
        let verdict = policy(prefix).judge("shell_exec", &running(command), &clone(), None);
        assert_eq!(word(&verdict), expected, "{prefix} blocked: {command}");
    }
    // Searching takes no longer than reading.
    let long = running(&format!("a {}", "git -a ".repeat(15_000)));
    assert_eq!(word(&policy("git push").judge("shell_exec", &long, &clone(), None)), "block");
    let nested = running(&"npx --no ".repeat(12_000));
    assert_eq!(word(&policy("rm").judge("shell_exec", &nested, &clone(), None)), "ask");
    // A rule about another tool has no effect on commands.
    let other = "[[rules]]\nid = \"a\"\ntool = \"git_exec\"\ncommand_prefix = \"rm\"\naction = \"block\"";
    let other = Policy::parse(other).unwrap();
    assert_eq!(word(&other.judge("shell_exec", &running("python3 -c 'x()'"), &clone(), None)), "allow");
}

#[test]
fn files_that_a_rule_blocks_are_hidden_from_searches() {
    let policy = Policy::parse(
        "[[rules]]\nid = \"docs\"\npath = \"docs/**\"\naction = \"allow\"\n\
         [[rules]]\nid = \"keys\"\npath = \"*.pem\"\naction = \"block\"\n\
         [[rules]]\nid = \"env\"\ntool = \"read_file\"\npath = \".env\"\naction = \"block\"\n\
         [[rules]]\nid = \"logs\"\ntool = \"grep\"\npath = \"*.log\"\naction = \"block\"\n\
         [[rules]]\nid = \"edits\"\ntool = \"edit_file\"\npath = \"src/**\"\naction = \"block\"\n",
    )
    .unwrap();
    for (tool, path, expected) in [
        ("grep", "a/key.pem", true),
        ("glob", "key.pem", true),
        ("glob", "docs/key.pem", false),
        ("grep", "sub/.env", true),
        ("grep", "a.log", true),
        ("glob", "a.log", false),
        ("grep", "src/a.rs", false),
    ] {
        assert_eq!(policy.hides(tool, path, &clone()), expected, "{tool} {path}");
    }
    assert!(!Policy::default().hides("grep", "key.pem", &clone()));
}

/// People are shown what becomes of their files: a copy keeps them.
#[test]
fn a_command_is_assessed_where_it_runs() {
    let in_place = setting(WorkspaceMode::InPlace, true, false);
    let open = setting(WorkspaceMode::Clone, false, false);
    for (command, copy, other) in [
        ("rm -rf src", "Deletes files of the copy. Your folder keeps its files.", "Deletes files."),
        ("rm -rf /w/src", "Deletes files of the copy. Your folder keeps its files.", "Deletes files."),
        (
            "rm -rf /x",
            "Changes or deletes files outside of the folder.",
            "Changes or deletes files outside of the folder.",
        ),
        (
            "git stash drop",
            "Deletes commits or stashes of the git repository.",
            "Deletes commits or stashes of the git repository.",
        ),
        ("touch /w/a", "Changes files.", "Changes files."),
        (
            "ls; rm -rf src && rm -f b && git push --force",
            "Publishes something or changes a remote service.",
            "Deletes files. Publishes something or changes a remote service.",
        ),
        (
            "rm -rf src; touch a; git reset --hard",
            "Deletes files of the copy. Your folder keeps its files. Changes files. Discards changes in the copy. Your folder does not \
             change.",
            "Deletes files. Discards uncommitted or unpublished work.",
        ),
    ] {
        for (setting, expected) in [(&clone(), copy), (&in_place, other), (&open, other)] {
            let assessment = setting.assess(running(command));
            assert_eq!(assessment.consequence, expected, "{command} in {setting:?}");
            assert_eq!(setting.assess(assessment.clone()), assessment, "again");
        }
    }
}

#[test]
fn errors_name_the_rule_and_the_key() {
    let rule = |more: &str| format!("[[rules]]\nid = \"a\"\n{more}");
    for (text, message) in [
        (
            rule("action = \"allow\"\nrisk = \"high\""),
            "rule `a`: `action` is `allow` with `risk = \"high\"`; such calls always need approval; use `ask` or `block`",
        ),
        (
            rule("action = \"allow\"\nreversibility = \"irreversible\""),
            "rule `a`: `action` is `allow` with `reversibility = \"irreversible\"`; such calls always need approval; use `ask` or `block`",
        ),
        (
            rule("action = \"ask\"\nrisk = \"high\"\ndefault_decision = \"approve\""),
            "rule `a`: `default_decision` is `approve` with `risk = \"high\"`; such calls are never approved by a timeout; use `reject`",
        ),
        (
            rule("action = \"allow\"\ntimeout_seconds = 5"),
            "rule `a`: `timeout_seconds` has no effect with `action = \"allow\"`; remove it",
        ),
        (
            rule("action = \"ask\"\ntimeout_seconds = 0"),
            "rule `a`: `timeout_seconds` is 0; it must be 1 to 604800",
        ),
        (
            rule("action = \"ask\"\ntool = \"a*b\""),
            "rule `a`: `tool` is `a*b`; `*` is allowed only at the end",
        ),
        (rule("action = \"ask\"\ntool = \" \""), "rule `a`: `tool` has 0 characters; it must have 1 to 500"),
        (
            rule("action = \"ask\"\nhost = \"a.*\""),
            "rule `a`: `host` is `a.*`; use `*` for all hosts or `*.example.com` for subdomains",
        ),
        (
            rule("action = \"ask\"\n[[rules]]\nid = \"a\"\naction = \"ask\""),
            "rule `a`: an earlier rule has the same `id`; ids must be unique",
        ),
        (
            "[[rules]]\nid = \"a b\"\naction = \"ask\"".into(),
            "rule `a b`: `id` must have 1 to 64 of the characters A-Z a-z 0-9 . _ -",
        ),
    ] {
        assert_eq!(Policy::parse(&text).unwrap_err().to_string(), message);
    }
    for (text, parts) in [
        (rule("action = \"maybe\""), &["rule `a`", "maybe", "`allow`"][..]),
        (rule("actoin = \"ask\""), &["rule `a`", "actoin", "expected one of"]),
        (rule("action = \"ask\"\nrisk = \"hi\""), &["rule `a`", "hi", "risk"]),
        (rule("action = \"ask\"\npath = \"[\""), &["rule `a`", "`path`"]),
        ("[[rules]]\naction = \"ask\"".into(), &["rule number 1", "id"]),
        ("[[rule]]\n".into(), &["rule", "rules"]),
        (rule(&format!("action = \"ask\"\nreason = \"{}\"", "x".repeat(501))), &["`reason` has 501"]),
        ("#".repeat(300_000), &["300000 bytes"]),
        ("[[rules]]\n".repeat(501), &["501 rules"]),
        ("rules = 7".into(), &["rules"]),
    ] {
        let message = Policy::parse(&text).unwrap_err().to_string();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    let policy = Policy::parse(&rule("tool = \"edit_fil\"\naction = \"ask\"")).unwrap();
    let message = policy.check_tools(["edit_file", "grep"].into_iter(), &[]).unwrap_err().to_string();
    assert_eq!(message, "rule `a`: `tool` is `edit_fil`, which is not a tool; did you mean `edit_file`?");
    assert_eq!(
        Policy::parse(RULES).unwrap().check_tools(["edit_file", "shell_exec"].into_iter(), &[]),
        Ok(())
    );
    // An unknown server is an error, unless the rule declares it as recorded.
    let recorded = |more: &str| {
        let rule = format!("[[rules]]\nid = \"a\"\ntool = \"mcp__files__*\"\naction = \"block\"\n{more}");
        Policy::parse(&rule).unwrap()
    };
    let unmarked = recorded("");
    let servers = ["mcp__tickets__".to_owned()];
    let message = unmarked.check_tools(["grep"].into_iter(), &servers).unwrap_err().to_string();
    assert!(message.contains("rule `a`: `tool` is `mcp__files__`, which is not a tool"), "{message}");
    assert_eq!(unmarked.recorded().count(), 0);
    assert_eq!(recorded("recorded = true").recorded().collect::<Vec<_>>(), [("a", "mcp__files__")]);
}

/// A value at a limit is accepted, and one beyond it is refused.
#[test]
fn every_limit_of_a_policy_is_enforced() {
    let reads = |text: &str| Policy::parse(text).is_ok();
    let rule = |id: &str, more: &str| format!("[[rules]]\nid = \"{id}\"\naction = \"ask\"\n{more}\n");
    let rules = |count: usize| (0..count).map(|at| rule(&format!("r{at}"), "")).collect::<String>();
    assert!(reads(&rules(limits::POLICY_RULES_MAX)) && !reads(&rules(limits::POLICY_RULES_MAX + 1)));
    let padded = |bytes: usize| {
        let rule = rule("a", "");
        format!("{rule}{}", "#".repeat(bytes - rule.len()))
    };
    assert!(reads(&padded(limits::POLICY_BYTES_MAX)) && !reads(&padded(limits::POLICY_BYTES_MAX + 1)));
    let id = |chars: usize| rule(&"a".repeat(chars), "");
    assert!(reads(&id(limits::RULE_ID_CHARS_MAX)) && !reads(&id(limits::RULE_ID_CHARS_MAX + 1)));
    for key in ["tool", "path", "host", "command_prefix", "reason"] {
        let text = |chars: usize| rule("a", &format!("{key} = \"{}\"", "a".repeat(chars)));
        assert!(reads(&text(limits::RULE_TEXT_CHARS_MAX)), "{key}");
        assert!(!reads(&text(limits::RULE_TEXT_CHARS_MAX + 1)), "{key}");
    }
    let waits = |seconds: u64| rule("a", &format!("timeout_seconds = {seconds}"));
    let most = APPROVAL_TIMEOUT_SECONDS_MAX;
    assert!(reads(&waits(most)) && !reads(&waits(most + 1)) && !reads(&waits(0)));
    // Patterns that would be large with every alternative expanded, and nested tables.
    assert!(reads(&rule("a", &format!("path = \"{}\"", "{a,b}".repeat(limits::RULE_TEXT_CHARS_MAX / 5)))));
    assert!(!reads(&format!("rules = {}{}", "[".repeat(100_000), "]".repeat(100_000))));
    // A command line beyond its limit needs approval where a rule allows all, and is blocked where a rule blocks all.
    let long = running(&format!("ls {}", "a".repeat(COMMAND_BYTES_MAX)));
    for (action, expected) in [("allow", "ask"), ("ask", "ask"), ("block", "block")] {
        let policy = Policy::parse(&format!("[[rules]]\nid = \"a\"\naction = \"{action}\"")).unwrap();
        assert_eq!(word(&policy.judge("shell_exec", &long, &clone(), None)), expected);
    }
    assert_eq!(word(&Policy::default().judge("shell_exec", &long, &clone(), None)), "ask");
}

proptest! {
    /// With any policy, a grave call needs approval or is blocked, and a timeout never approves it.
    #[test]
    fn grave_calls_always_need_approval(
        action in prop::sample::select(vec!["allow", "ask", "block"]),
        tool in prop::sample::select(vec!["*", "shell_exec", "shell*"]),
        decision in prop::sample::select(vec![
            "",
            "default_decision = \"approve\"",
            "risk = \"low\"\nreversibility = \"reversible\"",
        ]),
        high in any::<bool>(),
        in_place in any::<bool>(),
        sandboxed in any::<bool>(),
        name in prop::sample::select(vec!["shell_exec", "read_file", "other"]),
    ) {
        let text = format!("[[rules]]\nid = \"a\"\ntool = \"{tool}\"\naction = \"{action}\"\n{decision}");
        let policy = Policy::parse(&text).unwrap_or_default();
        let (risk, reversibility) = if high {
            (RiskLevel::High, Reversibility::Reversible)
        } else {
            (RiskLevel::Low, Reversibility::Irreversible)
        };
        let mode = if in_place { WorkspaceMode::InPlace } else { WorkspaceMode::Clone };
        let verdict = policy.judge(name, &call(risk, reversibility, Targets::default(), true), &setting(mode, sandboxed, false), None);
        match verdict {
            Verdict::Allow => prop_assert!(false, "allowed"),
            Verdict::Ask { default_decision, risk: ask_risk, reversibility: ask_reversibility, .. } => {
                prop_assert_eq!(default_decision, DefaultDecision::Reject);
                prop_assert_eq!((ask_risk, ask_reversibility), (risk, reversibility));
            }
            Verdict::Block { .. } => {}
        }
    }
}
