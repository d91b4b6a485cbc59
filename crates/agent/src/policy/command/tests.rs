//! Tests of the command reader: the commands of a line, and that every line that cannot be read completely is marked.

use super::*;
use proptest::prelude::*;

fn read(text: &str) -> Vec<String> {
    let words =
        |command: &Command| command.words.iter().map(|word| word.text.clone()).collect::<Vec<_>>().join("·");
    CommandLine::read(text).commands.iter().map(words).collect()
}

#[test]
fn a_line_is_split_into_its_commands() {
    for (text, expected) in [
        ("ls -l 'a b' \"c d\" e\\ f", &["ls·-l·a b·c d·e f"][..]),
        ("a; b && c || d | e & f\ng", &["a", "b", "c", "d", "e", "f", "g"]),
        ("echo 'rm -rf /; b'", &["echo·rm -rf /; b"]),
        ("echo \"$(rm -rf x)\" `b c`", &["rm·-rf·x", "b·c", "echo·$·$"]),
        ("sh -c 'rm x; ls'", &["rm·x", "ls", "sh·-c·rm x; ls"]),
        ("sh -c -e 'rm x'", &["rm·x", "sh·-c·-e·rm x"]),
        ("bash -lc \"git push\"", &["git·push", "bash·-lc·git push"]),
        ("A=1 B=2 env -u X C=3 nice -n 5 cargo test", &["cargo·test"]),
        ("timeout -k 1 5 make", &["make"]),
        ("time -p make", &["make"]),
        ("sudo -u root rm x", &["rm·x"]),
        ("./env rm x", &["./env·rm·x", "rm·x"]),
        ("find . -name '*.o' -exec rm {} \\;", &["rm·{}", "find·.·-name·*.o·-exec·rm·{}·;"]),
        ("echo x | xargs -n 1 rm", &["echo·x", "rm·$"]),
        ("echo x | xargs -I{} mv {} y", &["echo·x", "mv·{}·y·$"]),
        ("if a; then b; fi", &["a", "b"]),
        ("(cd x && ls)", &["cd·x", "ls"]),
        ("ls # ; rm x", &["ls"]),
        ("ls 2>&1 >/dev/null", &["ls"]),
        ("0<in rm x", &["rm·x"]),
        (">out rm x", &["rm·x"]),
        ("r\\\nm x", &["rm·x"]),
        ("$\\\n(rm x)a", &["rm·x", "$a"]),
        ("diff <(a) <(b c)", &["a", "b·c", "diff·$·$"]),
        ("while read -r l; do a; done < <(b)", &["read·-r·l", "a", "b"]),
        ("case $x in a) b;; *) c;; esac", &["case·$·in·a", "b", "c"]),
        ("cat <<E; b\nrm x\nE\nc", &["cat", "b", "c"]),
        ("cat <<E\n$(rm x)\nE", &["cat", "rm·x"]),
        ("cat <<'E'\n$(rm x)\nE", &["cat"]),
        ("echo \"$(cat <<'E'\nit's ) here\nE\n)\"; b", &["cat", "echo·$", "b"]),
        ("trap 'rm x' EXIT; a", &["rm·x", "trap·rm x·EXIT", "a"]),
        ("trap -- '-x; rm y' EXIT", &["-x", "rm·y", "trap·--·-x; rm y·EXIT"]),
        ("[[ -n x && -f y ]] && a", &["[[·-n·x", "-f·y·]]", "a"]),
        ("cat < in", &["cat"]),
        ("", &[]),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn redirect_targets_are_listed() {
    for (text, redirects) in [
        ("a > x 2>> 'y z'", &["x", "y z"][..]),
        ("a 2>&1 > /dev/null", &[]),
        ("a &> out", &["out"]),
        ("a >&2", &[]),
        ("a >| x >&y", &["x", "y"]),
        ("a <> x", &["x"]),
    ] {
        assert_eq!(CommandLine::read(text).redirects, redirects, "{text}");
    }
    assert!(CommandLine::read("a | b").commands[1].piped && !CommandLine::read("a || b").commands[1].piped);
}

/// Each of these runs, or may run in some shell, something that its commands do not list.
const UNJUDGED: &[&str] = &[
    // Values that the shell evaluates on assignment, or runs because of an option.
    "RANDOM='a[$(rm b)]'",
    "OPTIND='a[$(rm b)]' true",
    "for SRANDOM in 'a[$(rm b)]'; do echo x; done",
    "sleep 0 & wait -n -p 'a[$(rm b)]'",
    "jobs -x rm b",
    "bash -c 'jobs -x rm b'",
    // The text of `eval`, `sh -c` and `trap` is not the word that it seems to be.
    "eval -- rm b",
    "bash -c - 'rm b'",
    "dash -c - 'rm b'",
    "bash +c 'rm b'",
    "bash -c + 'rm b'",
    "trap -x 'rm b' EXIT",
    // A condition continues after `&&`, and evaluates there too.
    "[[ -n x && -v 'a[$(rm b)]' ]]",
    "[[ -n x ||\n-v 'a[$(rm b)]' ]]",
    "y='a[$(rm b)]'; [[ -n x && y -eq 1 ]]",
    "y='a[$(rm b)]'; [[ -y -eq 1 ]]",
    "[[ -n x",
    // A redirection that sets a variable.
    "y='a[$(rm b)]'; true {x[$y]}>f",
    "true {x['$(rm b)']}>f",
    "exec {RANDOM}<f",
    // Some shells expand these names twice.
    "echo >&'$(rm b)'",
    "X='$(rm b)'; echo >&\"$X\"",
    "echo >& \\$\\(rm\\ b\\)",
    // Files of a home folder that the line chooses.
    "HOME=. bash -lc ls",
    "env HOME=. bash -lc ls",
    // Values that may become several words, of which a later one is the command.
    "X=' rm b'; env A=1$X ls",
    "X=' rm b'; env -u a$X ls",
    "X=' rm b'; env -ua$X ls",
    "X=' rm b'; nice -n1$X ls",
    "X=' rm b'; timeout 5$X ls",
    "timeout 5{,rm} ls",
    "env -u a* ls",
    "exec -a $X rm b",
    "X=' -exec rm b ;'; find f$X",
    "X='f -exec rm b ;'; find . -name $X",
    "X='-v a[$(rm\tb)] y'; printf $X",
    // Variables that the shell itself sets.
    "_=1; true 'a[$(rm b)]'; echo $((_))",
    "REPLY=1; read -r <f; echo $((REPLY))",
    "MAPFILE=1; mapfile -t <f; echo $((MAPFILE))",
    "OPTARG=1; getopts a: x; echo $((OPTARG))",
    // Unknown builtins.
    "compopt -o x",
    "help x",
    "caller 1",
    // Unclosed quotes and parentheses.
    "a 'b",
    "a \"b",
    "a `b",
    "a $(b",
    "(a",
    "a)",
    "a \\",
    "a ${b",
    // Command names that are known only at run time.
    "$CMD x",
    "\"$CMD\" x",
    "X=rm; $X y",
    "$(echo rm) y",
    "`echo rm` y",
    "/bin/r* y",
    "{rm,-rf,y}",
    "~ y",
    "$'\\x72m' y",
    "$\"rm\" y",
    "${X:-rm} y",
    "env $X",
    "nice \"$X\"",
    "command $X",
    "exec $X",
    "builtin $X",
    "set -- rm y; \"$@\"",
    "echo rm | xargs env",
    "echo rm | xargs nice -n 5",
    "echo rm | xargs -I{} {} y",
    "find . -exec {} y \\;",
    "find . -exec env {} \\;",
    "find . $X rm {} +",
    "timeout $X rm",
    "timeout 5 $X",
    "time $X",
    "! $X",
    "X=1 $X",
    // Texts that are known only at run time.
    "eval $X",
    "eval \"$X\"",
    "eval rm *",
    "sh -c $X",
    "bash -c \"$X\"",
    "sh $X",
    "echo rm y | sh",
    "echo cm0K | base64 -d | sh",
    "bash -s < x",
    "sh <<E\nrm y\nE",
    "bash <(echo rm y)",
    "find . -exec sh -c 'rm {}' \\;",
    "xargs -I{} sh -c 'rm {}'",
    "echo -c | xargs sh",
    "bash -O extglob -c ls",
    "bash --rcfile x -c ls",
    ". ./x",
    "source x",
    "trap \"$X\" EXIT",
    // Words that change the meaning of later text.
    "f() { rm y; }; f",
    "f () { rm y; }",
    "function f { rm y; }",
    "alias ls=rm; ls y",
    "shopt -s expand_aliases",
    "enable -f x y",
    "hash -p /bin/rm ls; ls y",
    "coproc rm y",
    "set -k",
    "a=(rm y)",
    "a+=(rm y)",
    "x+=1 rm y",
    "complete -C rm x",
    "mapfile -C rm x",
    "fc -s",
    "PS4='$(rm y)'; set -x; ls",
    "BASH_ENV=x bash y.sh",
    "env ENV=x sh y.sh",
    "export PROMPT_COMMAND=rm",
    "select x in a; do rm; done",
    "set -- a; for x do rm y; done",
    "env 'BASH_FUNC_ls%%=() { rm y; }' bash -c ls",
    "echo rm > ~/.profile; bash -lc ls",
    "bash -ic ls",
    "bash --login -c ls",
    "zsh -c ls",
    "ksh -c ls",
    // Unknown options and programs.
    "env -S 'rm y'",
    "env --split-string='rm y'",
    "sudo -i rm y",
    "xargs --process-slot-var=x rm",
    "time -f x rm y",
    "busybox rm y",
    "watch rm y",
    "flock x rm y",
    "script -c rm",
    "unshare rm y",
    "su -c 'rm y'",
    "parallel rm",
    // Arithmetic runs the content of variables.
    "x='a[$(rm y)]'; echo $((x))",
    "x='a[$(rm y)]'; ((x))",
    "x=$(cat f); [[ $x -eq 1 ]]",
    "read x; echo $((x + 1))",
    "let x",
    "x=1 a $((x)) ",
    "declare -i x='a[$(rm)]'",
    "[ -v 'a[$(rm)]' ]",
    "[ $x = y ]",
    "x=-v; [ \"$x\" 'a[$(rm y)]' ]",
    "printf -v 'a[$(rm)]' x",
    "read 'a[$(rm)]'",
    "unset 'a[$(rm)]'",
    "echo $[1]",
    "echo $(( $(rm) ))",
    "echo ${a[x]}",
    "echo ${x@P}",
    "echo ${!x}",
    "echo ${x:y}",
    "echo ${x:=1}",
    "((1 # )) ; rm y",
    "$((rm y) )",
    "echo \"${x:-'}'}\"",
    // Here-documents whose end shells find in different places.
    "cat <<E",
    "cat <<E\nrm",
    "cat <<E$x\nE",
    "cat <<E\na\\\nE\nrm y",
    "$(cat <<E)\nE",
    "echo $(cat <<E\nE)\nrm y\necho $(cat <<E\nE\n)",
    "cat <<E '\n'\nE\n",
    "cat <<E \\\nx\nE",
    // Syntax that shells interpret differently.
    "echo &>f rm y",
    "echo `echo '`'`; rm y",
    "echo `echo \\`rm\\``",
    "$'a\\'; rm y; #'",
    "echo $(case x in a) rm;; esac)",
    "ls\u{a0}rm",
    "ls\u{3000}rm",
    "ls\r\nrm",
    "ls\0rm",
    "ls\u{b}rm",
    "echo '\u{202e}mr'",
    "echo a\u{200b}b",
    "cat < /dev/tcp/a/1",
    "echo x > /dev/tcp/a/1",
];

#[test]
fn unreadable_lines_are_marked() {
    let many = format!("{}rm -rf zz", "echo ok; ".repeat(300));
    let deep = format!("{}rm{}", "echo $(".repeat(20), ")".repeat(20));
    let evals = (0..12).fold("rm".to_owned(), |script, _| format!("eval {}", quoted(&[&script])));
    let execs = format!("find . {}", "-exec rm {} \\; ".repeat(300));
    let endless = [&*many, &*deep, &*evals, &*execs];
    let judged = endless.iter().chain(UNJUDGED).filter(|text| CommandLine::read(text).unjudged.is_none());
    assert_eq!(judged.map(|text| &text[..text.len().min(200)]).collect::<Vec<_>>(), [""; 0]);
    // A very long chain of programs that run programs.
    assert!(CommandLine::read(&format!("{}rm b", "env ".repeat(25_000))).unjudged.is_some());
    assert!(CommandLine::read(&"a ".repeat(COMMAND_BYTES_MAX)).unjudged.is_some());
    assert!(CommandLine::read(&"$(".repeat(100_000)).unjudged.is_some());
    assert!(CommandLine::read(&"a;".repeat(100_000)).unjudged.is_some());
    assert!(CommandLine::read(&"A=1 ".repeat(30_000)).commands.len() == 1);
    // Up to the limit, and not beyond it.
    assert_eq!(CommandLine::read(&"a;".repeat(limits::COMMANDS_MAX)).unjudged, None);
    assert!(CommandLine::read(&"a;".repeat(limits::COMMANDS_MAX + 1)).unjudged.is_some());
}

/// Each of these ran `rm` in some shell without being listed. It must be unjudged, listed, or change the search path.
#[test]
fn partly_known_words_hide_nothing() {
    let hiding = [
        "env \"-u$E\" ls rm -rf y",
        "nice \"-n$E\" 5 rm y",
        "timeout \"-k$E\" 3 4 rm y",
        "C=c; find . \"-exe$C\" rm -rf y \\;",
        "E=e; find keep \"-delet$E\"",
        "find . \"-exec$E\" rm -rf y \\;",
        "env -u{,,} ls rm -rf y",
        "find . -exe{c..c} rm -rf y \\;",
        "echo 'rm y' | xargs -Ix{1..1} sh -c x1",
        "printf -{v..v} 'a[$(rm y)]' x",
        "V=v; printf \"-$V\" 'a[$(rm y)]' x",
        "Y1=1; read Y{1..1} <<< 'x[$(rm y)]'; echo $((Y1))",
        "Y=1; mapfile Y{,} <<< 'x[$(rm y)]'; echo $((Y))",
        "export PAT{H..H}=1; ls",
        "read PAT{H..H} <<< 1; ls",
        "find . -printf -name -exec rm {} \\;",
        "find . -printf -name \"$X\" rm {} \\;",
        "find . -newermt -exec -exec rm -rf {} \\;",
        "set -- '' rm -rf y; timeout \"5${@-}\" ls",
        "set -- '' rm -rf y; timeout \"5${@:1}\" ls",
        "set -- '' rm -rf y; env \"A=1${@-}\" ls",
        "set -- '' rm -rf y; nice -n \"5${@#x}\" ls",
        "set -- '' -exec rm y \\;; find . -maxdepth \"0${@-}\"",
        "b='x[$(rm y)]'; [[ b*1 -eq 1 ]]",
        "b='x[$(rm y)]'; [[ a[b] -eq 1 ]]",
        "b='x[$(rm y)]'; [[ b+$# -eq 1 ]]",
        "b='x[$(rm y)]'; [[ b?1:2 -eq 1 ]]",
        "b='x[$(rm y)]'; x=1; [[ b+$x -eq 1 ]]",
        "ab=1; b=1; a1='x[$(rm y)]'; echo $((a$b))",
        "((BASH_REMATCH=1)); [[ 'a[$(rm y)]' =~ .* ]]; echo $((BASH_REMATCH))",
        "timeout 10>/dev/null rm ls -r y",
        "xargs -n 10>/dev/null rm ls -r y",
        "sh --version -c 'rm y'",
        "sh --help -c 'rm y'",
        "find . ! -name -name -exec rm -rf {} \\;",
    ];
    let judged = hiding.iter().filter(|text| CommandLine::read(text).unjudged.is_none());
    assert_eq!(judged.collect::<Vec<_>>(), [&""; 0]);
    for text in
        ["IFS", "PATH", "HOME"].map(|name| [format!(": $(({name}=1)); ls"), format!("(({name}=1)); ls")])
    {
        assert!(text.iter().all(|text| CommandLine::read(text).twisted), "{text:?}");
    }
}

/// Similar lines that show what they run.
#[test]
fn quoted_values_and_known_options_are_judged() {
    for text in [
        "find . -name *.rs",
        "find . -type f -name \"$X\"",
        "find src -mtime -7 -print",
        "find . -not -name \"$X\" -exec grep -l x {} +",
        "find src/* -maxdepth 1",
        "xargs -I{} cp {} dst < list",
        "xargs -I {} cp {} dst < list",
        "read -p 'Go on? ' answer",
        "export A=\"$B\" C=1",
        "[[ $# -eq 1 ]]",
        "x=1; [[ $x -eq 1 ]]",
        "printf '%s\\n' \"$X\"",
        "i=1; echo $((i + 1)) $(($i*2))",
        "bash --version",
        "timeout 5 ls \"-$X\"",
    ] {
        assert_eq!(CommandLine::read(text).unjudged, None, "{text}");
    }
}

/// Approvers stop reading requests that come too often, so common commands of agents must be judged.
#[test]
fn everyday_commands_are_judged() {
    let everyday = [
        "ls -la",
        "cat src/main.rs | head -50",
        "git status --short",
        "git diff HEAD~1 -- src",
        "git log --oneline -10",
        "git add -A && git commit -m \"Fix the parser\"",
        "git commit -m \"$(cat <<'EOF'\nFix it\n\nIt's (now) \"right\".\nEOF\n)\"",
        "git checkout -b feature/x",
        "git stash pop stash@{0}",
        "git show HEAD:src/lib.rs",
        "git rev-parse --abbrev-ref HEAD",
        "cargo test -p a --test b -- name 2>&1 | tail -40",
        "RUST_BACKTRACE=1 cargo run -- --help",
        "cargo clippy --all-targets -- -D warnings",
        "cd web && npm ci && npm run build",
        "npm test -- --watch=false",
        "npx tsc --noEmit",
        "yarn lint --fix",
        "python3 -m pytest -q tests/test_a.py::test_b",
        "python3 -c 'import sys; print(sys.version)'",
        "pip install -r requirements.txt",
        "python3 - <<'EOF'\nimport os\nprint(os.environ['HOME'])\nEOF",
        "cat > a.py <<'EOF'\nprint(\"$x\")\nEOF\npython3 a.py",
        "cat <<EOF > config.toml\nname = \"$NAME\"\nhome = \"${HOME}\"\nEOF",
        "grep -rn 'fn main' --include='*.rs' .",
        "rg -n \"panic|unwrap\" src | wc -l",
        "find . -name '*.rs' -not -path './target/*' | xargs wc -l",
        "find . -type f -name '*.py' -exec grep -l foo {} +",
        "find src -name '*.ts' | head -20",
        "for f in src/*.rs; do echo \"$f\"; wc -l \"$f\"; done",
        "for i in 1 2 3; do echo $((i * 2)); done",
        "for ((i = 0; i < 5; i++)); do echo $i; done",
        "for i in {1..5}; do curl -s localhost:$i; done",
        "for i in $(seq 1 5); do echo $i; done",
        "i=0; while [ $i -lt 5 ]; do echo $i; i=$((i+1)); done",
        "while IFS= read -r line; do echo \"$line\"; done < file.txt",
        "if [ -f Cargo.toml ]; then cargo build; else make; fi",
        "[ -d \"$HOME/.cargo\" ] && echo yes || echo no",
        "[[ -z \"$X\" ]] && echo empty",
        "[[ -f a && -d b ]] && echo both",
        "test -f a && cat a",
        "case \"$1\" in start) ls;; *) pwd;; esac",
        "mkdir -p a/b && touch a/b/c.txt",
        "cp file.txt{,.bak}",
        "mv *.log logs/",
        "sed -i 's/foo/bar/g' src/*.rs",
        "sed -n '10,20p' file",
        "awk '{ print $1 }' data.txt | sort | uniq -c | sort -rn",
        "tar czf out.tgz dir/",
        "curl -sSL https://example.org/a.json | jq '.items[] | .name'",
        "export PATH=\"$HOME/.cargo/bin:$PATH\" && cargo build",
        "set -euo pipefail; make test",
        "make -j4 && make check",
        "timeout 60 ./run.sh --fast",
        "docker compose up -d",
        "ls *.{rs,toml}",
        "echo \"${VERSION:-unknown}\" > VERSION",
        "name=$(basename \"$PWD\"); echo \"${name%.git}\"",
        "diff <(sort a) <(sort b)",
        "sleep 2; ps aux | grep node | grep -v grep",
        "node -e \"console.log(process.version)\"",
        "./gradlew test > out.log 2>&1 &",
        "echo $?; echo $#",
        "command -v rustc >/dev/null || echo missing",
        "chmod +x scripts/*.sh && ./scripts/a.sh",
        "kill %1 2>/dev/null; true",
        "trap 'rm -f \"$tmp\"' EXIT; tmp=$(mktemp); ls > \"$tmp\"",
        "sort -t$'\\t' -k2 a.tsv",
        "tee out.txt < in.txt",
        "printf '%s\\n' a b c | xargs -n1 echo",
        "(cd sub && go test ./...)",
        "bash -c 'cd a && ls'",
        "bash scripts/x.sh",
        "xargs -I{} cp {} dst < list",
    ];
    let unjudged: Vec<_> = everyday
        .iter()
        .map(|text| (*text, CommandLine::read(text).unjudged))
        .filter(|(_, why)| why.is_some())
        .collect();
    assert_eq!(unjudged, [], "of {}", everyday.len());
    assert!(everyday.len() >= 60);
}

#[test]
fn words_are_quoted_if_a_shell_would_change_them() {
    for (words, expected) in [
        (&["git", "log", "--format=%h", "HEAD~1"][..], "git log --format=%h HEAD~1"),
        (&["git", "commit", "-m", "a; b's", ""], "git commit -m 'a; b'\\''s' ''"),
    ] {
        assert_eq!(quoted(words), expected);
    }
}

proptest! {
    #[test]
    fn quoted_words_are_read_back_unchanged(words in prop::collection::vec("[a$()`'\"\\\\;|&<> \n#{}=~-]{0,8}", 0..5)) {
        let mut line = vec!["git"];
        line.extend(words.iter().map(String::as_str));
        let read = CommandLine::read(&quoted(&line));
        let texts: Vec<&str> = read.commands[0].words.iter().map(|word| &**word).collect();
        prop_assert_eq!(&texts, &line);
        prop_assert!(read.commands[0].words.iter().all(|word| !word.is_dynamic()));
        prop_assert_eq!((read.commands.len(), read.unjudged, read.redirects.len()), (1, None, 0));
    }

    #[test]
    fn nothing_breaks_it(text in "[a$()`'\"\\\\;|&<> \n#{}=*\\[\\]!-]{0,60}") {
        CommandLine::read(&text);
    }
}
