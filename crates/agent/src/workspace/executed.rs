//! Files that other programs execute or obey on their own, which people should read before they are applied.
//!
//! Pure. Start at [`executed_by`].

use std::path::Path;

/// Names of files that are executed wherever they are.
const NAMES: &[(&str, &str)] = &[
    (".envrc", "direnv"),
    (".mise.toml", "mise"),
    ("mise.toml", "mise"),
    ("package.json", "npm"),
    (".npmrc", "npm"),
    (".yarnrc.yml", "Yarn"),
    (".pnpmfile.cjs", "pnpm"),
    ("Makefile", "make"),
    ("makefile", "make"),
    ("GNUmakefile", "make"),
    ("justfile", "just"),
    ("Justfile", "just"),
    ("Rakefile", "rake"),
    ("Taskfile.yml", "task"),
    ("build.rs", "cargo"),
    ("setup.py", "pip"),
    ("conftest.py", "pytest"),
    (".pre-commit-config.yaml", "pre-commit"),
    ("lefthook.yml", "Lefthook"),
    (".gitattributes", "git"),
    (".gitmodules", "git"),
    (".gitlab-ci.yml", "GitLab CI"),
    ("Jenkinsfile", "Jenkins"),
    ("Dockerfile", "Docker"),
    ("docker-compose.yml", "Docker"),
    ("compose.yaml", "Docker"),
    (".vimrc", "Vim"),
    (".exrc", "Vim"),
    (".nvim.lua", "Neovim"),
    (".dir-locals.el", "Emacs"),
];

/// Folders whose files are executed.
const FOLDERS: &[(&str, &str)] = &[
    (".vscode", "VS Code"),
    (".idea", "JetBrains IDEs"),
    (".zed", "Zed"),
    (".devcontainer", "development containers"),
    (".github/workflows", "GitHub Actions"),
    (".github/actions", "GitHub Actions"),
    (".circleci", "CircleCI"),
    (".husky", "git hooks"),
    (".githooks", "git hooks"),
    (".cargo", "cargo"),
    (".claude", "Claude Code"),
    (".cursor", "Cursor"),
    (".codex", "Codex"),
    (".gemini", "Gemini CLI"),
];

/// The program that executes or obeys this file without a command that names it.
pub(super) fn executed_by(path: &Path) -> Option<&'static str> {
    let text = path.to_str()?;
    let name = path.file_name()?.to_str()?;
    let named = NAMES.iter().find(|(known, _)| *known == name);
    let below = |folder: &str| {
        let at = text.strip_prefix(folder).or_else(|| text.split_once(&format!("/{folder}/")).map(|_| "/"));
        at.is_some_and(|rest| rest.starts_with('/'))
    };
    named.or_else(|| FOLDERS.iter().find(|(folder, _)| below(folder))).map(|(_, program)| *program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_other_programs_execute_are_known() {
        for (path, expected) in [
            (".envrc", Some("direnv")),
            ("web/package.json", Some("npm")),
            (".vscode/tasks.json", Some("VS Code")),
            ("sub/.vscode/tasks.json", Some("VS Code")),
            (".github/workflows/ci.yml", Some("GitHub Actions")),
            (".husky/pre-commit", Some("git hooks")),
            ("Makefile", Some("make")),
            ("src/main.rs", None),
            (".github/README.md", None),
            ("x.vscode/tasks.json", None),
            (".vscodes/tasks.json", None),
            ("docs/Makefile.md", None),
        ] {
            assert_eq!(executed_by(Path::new(path)), expected, "{path}");
        }
    }
}
