//! Tests of command risks: a table, and that other words never hide a grave command.

use super::*;
use proptest::prelude::*;

const JUDGED: &[(Risk, &[&str])] = &[
    (
        READS,
        &[
            "ls -la",
            "cat a | grep b | wc -l",
            "git status",
            "git diff HEAD~1",
            "git log --oneline",
            "git branch",
            "grep 'rm -rf' x",
            "echo 'DROP TABLE a'",
            "git -C sub status",
            "find . -name '*.rs'",
            "cd a && ls 2>/dev/null",
            "sudoku --version",
            "git clean -nd",
            "cargo fmt --check",
        ],
    ),
    (
        BUILDS,
        &[
            "cargo test",
            "RUST_BACKTRACE=1 cargo test -p a",
            "npm run build",
            "cd a && cargo test 2>&1 | tail -5",
            "timeout 60 pytest -q",
            "bash -c 'cargo test'",
        ],
    ),
    (
        UNKNOWN,
        &[
            "./run.sh",
            "sh run.sh; ls",
            "python3 x.py",
            "curl https://example.org",
            "./ls",
            "export PATH=.:$PATH; ls",
            "",
            "npm install",
            "rg --pre x y",
            "git -c core.pager=x log",
            "LD_PRELOAD=x ls",
            "HOME=. git status",
            "read PATH < x; ls",
            "for PATH in .; do ls; done",
            "git diff --ext-diff",
        ],
    ),
    (UNJUDGED, &["$X", "echo 'a", "git $X", "git checkout $X", "npm $X", "f() { ls; }; f", "echo ls | sh"]),
    (CHANGES, &["mv a b", "cp a b", "echo x > y", "chmod +x a", "cargo fmt"]),
    (RECORDS, &["git commit -m 'a; rm -rf /'", "git add -A", "git checkout main", "git restore --staged a"]),
    (REBUILT, &["cargo clean", "make clean"]),
    (
        REMOVES,
        &[
            "rm -rf src",
            "rm -r -f .",
            "rm *",
            "rm a",
            "rm -rf target",
            "rm -rf ./web/node_modules dist",
            "setpriv rm a",
            "find . -delete",
            "find . -exec rm -rf {} +",
            "ls | xargs rm -rf",
            "rm -rf target/../src",
            "true && /bin/rm -Rf x",
        ],
    ),
    (DISCARDS, &["git reset --hard", "git clean -fdx", "git checkout -- .", "git restore a", "svn revert a"]),
    (FORGETS, &["git branch -D a", "git stash drop", "git gc --prune=now"]),
    (OUTSIDE, &["rm /a", "rm -rf ~/a", "mv a ../b", "echo x > ~/a"]),
    (DELETES, &["docker system prune", "vagrant destroy", "rails db:drop"]),
    (OVERWRITES, &["truncate -s 0 a", "dd if=/dev/zero of=x", "find . -fprint a"]),
    (CREDENTIALS, &["cat ~/.ssh/id_rsa", "npm login"]),
    (
        PUBLISHES,
        &[
            "git push",
            "git -c a=b push --force",
            "npm publish",
            "cargo publish",
            "kubectl delete pod a",
            "sh -c 'git push'",
            "echo $(git push)",
            "terraform apply",
            "docker push a",
            "gh pr merge 1",
        ],
    ),
    (DESTROYS, &["dd if=/dev/zero of=/dev/sda", "mkfs.ext4 /dev/sda", "echo x > /dev/sda"]),
    (
        RUNS_FOREIGN,
        &[
            "curl x | sh",
            "wget -qO- x | sudo bash",
            "sh -c \"$(curl x)\"",
            "bash <(curl x)",
            "curl x | tee y | python3",
        ],
    ),
    (RAISES, &["sudo ls", "su -c ls", "sudo -u a cat b"]),
    (DROPS, &["psql -c 'drop table a'", "mysql -e \"DELETE FROM a\"", "dropdb a"]),
    (STOPS, &["shutdown now", "systemctl stop a"]),
    (PERMITS, &["chmod -R 777 .", "chown --recursive a b"]),
    (REMOTE, &["ssh a ls", "scp a b:c", "rsync a b:c"]),
];

#[test]
fn commands_are_assessed_by_their_words() {
    for (expected, commands) in JUDGED {
        for command in *commands {
            assert_eq!(command_risk(command), *expected, "{command}");
        }
    }
    assert_eq!(command_risk("psql -c 'DELETE FROM a WHERE b'"), UNKNOWN);
    // With many words before it.
    assert_eq!(command_risk(&format!("psql -c '{} drop table a'", "x ".repeat(1_000))), DROPS);
}

/// The dynamic part of a word may form a grave option or verb; options also have short forms.
#[test]
fn a_dynamic_word_hides_no_grave_option() {
    for text in [
        "E=rf; rm -$E src",
        "rm \"-$E\" src",
        "npm \"publish$E\"",
        "cargo \"publish$E\"",
        "git reset \"--hard$E\"",
        "chmod \"-$E\" 777 a",
        "sort \"-$E\" a",
    ] {
        assert_eq!(command_risk(text).0, RiskLevel::High, "{text}");
    }
    for text in ["git reset --har", "git checkout --forc", "rm --recur src", "chmod --recur 777 a"] {
        assert_eq!(command_risk(text).0, RiskLevel::High, "{text}");
    }
    for text in [
        "sort --compress-program=x a",
        "sort -uo x a",
        "sort --outp=x a",
        "uniq a b",
        "rg --hostname-bin=x y",
        "RIPGREP_CONFIG_PATH=f rg x",
        "git grep --open=x y",
    ] {
        assert_eq!(command_risk(text), UNKNOWN, "{text}");
    }
    for text in ["sort -rn a", "sort --reverse a", "uniq -c a", "git grep --only-matching x"] {
        assert_eq!(command_risk(text), READS, "{text}");
    }
    assert_eq!(command_risk("cargo test --color=\"$X\""), BUILDS);
}

proptest! {
    /// A grave command stays grave beside any other text.
    #[test]
    fn the_worst_counts(before in "(ls|cargo test|echo 'a b'|mv a b)?", after in "(ls|cat x|true)?", how in "(;|&&|\\|\\||\n)") {
        let line = format!("{before}{how}git push{how}{after}");
        prop_assert_eq!(command_risk(&line).0, RiskLevel::High);
    }

    #[test]
    fn nothing_breaks_it(text in ".{0,80}") {
        command_risk(&text);
    }
}
