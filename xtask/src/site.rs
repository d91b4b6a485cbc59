//! `cargo xtask site`: the pages of `docs/` as a static site in `target/site`, with search and without any request to
//! another host.
//!
//! mdBook makes the pages; the order of the pages is that of the documentation section of README.md, so there is one list.
//! Links between pages, to their headings and to files are checked afterwards. Entry point: [`run`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::child::{cargo_program, command, watch};

/// The version of mdBook that is installed if there is none.
const MDBOOK: &str = "0.5.4";

const BOOK: &str = r#"[book]
title = "Recount"
language = "en"
src = "."

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
no-section-label = true
smart-punctuation = false
additional-css = ["site.css"]

[output.html.fold]
enable = true
level = 0

[output.html.search]
limit-results = 20
"#;

/// Whether the site was made and all of its links lead somewhere.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let (source, site) = (root.join("target/site-source"), root.join("target/site"));
    for folder in [&source, &site] {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
    }
    copy(&root.join("docs"), &source)?;
    for page in pages(&source)? {
        if page.ends_with("README.md") {
            std::fs::rename(&page, page.with_file_name("index.md"))?;
        }
    }
    std::fs::copy(root.join("CHANGELOG.md"), source.join("changelog.md"))?;
    let readme = std::fs::read_to_string(root.join("README.md"))?;
    let summary = summary(&readme, &children(&source)?)?;
    let listed: BTreeSet<PathBuf> = links(&summary).into_iter().map(|link| source.join(link)).collect();
    let mut problems = Vec::new();
    for page in pages(&source)? {
        if !listed.contains(&page) {
            problems.push(format!("{}: README.md does not list this page", shown(&page, &source)));
        }
        let text = std::fs::read_to_string(&page)?;
        std::fs::write(&page, within(&text, &page, &source))?;
    }
    std::fs::write(source.join("SUMMARY.md"), summary)?;
    std::fs::write(source.join("book.toml"), BOOK)?;
    std::fs::write(source.join("site.css"), include_str!("site.css"))?;
    let mut build = command(mdbook(root)?, root);
    build.arg("build").arg(&source).arg("--dest-dir").arg(&site);
    if !watch(build)? {
        return Ok(false);
    }
    name_parts(&site)?;
    problems.extend(broken(&site)?);
    problems.iter().for_each(|problem| eprintln!("site: {problem}"));
    if problems.is_empty() {
        println!("site: {} pages in {}", listed.len(), site.display());
    }
    Ok(problems.is_empty())
}

/// The program, installed below `target/` if it is missing.
fn mdbook(root: &Path) -> Result<PathBuf> {
    let tools = root.join("target/tools");
    let program = tools.join("bin/mdbook");
    if !program.is_file() {
        let mut install = command(cargo_program(), root);
        install.args(["install", "mdbook", "--locked", "--version", MDBOOK]);
        install.args(["--no-default-features", "--features", "search", "--root"]).arg(&tools);
        if !watch(install)? {
            bail!("cannot install mdBook {MDBOOK}");
        }
    }
    Ok(program)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// All pages below a folder.
fn pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(pages(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The pages that each page links to, as titles and links, in order. The list of decisions has all decisions.
fn children(source: &Path) -> Result<BTreeMap<String, Vec<(String, String)>>> {
    let mut found = BTreeMap::new();
    for page in pages(source)? {
        let text = std::fs::read_to_string(&page)?;
        let folder = page.parent().unwrap_or(source);
        let linked = links(&text).into_iter().filter_map(|link| {
            let target = link.split('#').next().filter(|target| target.ends_with(".md"))?;
            Some(normalized(&folder.join(target)))
        });
        let linked = match page.ends_with("decisions/index.md") {
            true => pages(folder)?,
            false => linked.collect(),
        };
        let titled = |page: PathBuf| Some((title(&page)?, shown(&page, source)));
        found.insert(shown(&page, source), linked.into_iter().filter_map(titled).collect());
    }
    Ok(found)
}

fn title(page: &Path) -> Option<String> {
    let text = std::fs::read_to_string(page).ok()?;
    text.lines().find_map(|line| line.strip_prefix("# ")).map(str::to_owned)
}

/// The list of pages for mdBook: the front page, then the documentation section of the README. Below a page are those that it
/// links to and that the README does not list.
fn summary(readme: &str, children: &BTreeMap<String, Vec<(String, String)>>) -> Result<String> {
    let section =
        readme.split_once("\n## Documentation\n").context("README.md has no section Documentation")?.1;
    let section = section.split("\n## ").next().unwrap_or_default();
    let page_of = |link: &str| Some(within_docs(link)?.replace("README.md", "index.md"));
    let mut listed: BTreeSet<String> = links(section).iter().filter_map(|link| page_of(link)).collect();
    listed.insert("index.md".to_owned());
    let (mut out, mut seen) = ("# Summary\n\n[Recount](index.md)\n".to_owned(), BTreeSet::new());
    for line in section.lines() {
        if let Some(part) = line.strip_prefix("### ") {
            write!(out, "\n# {part}\n\n")?;
        }
        for (text, link) in markdown_links(line) {
            let Some(page) = page_of(link).filter(|page| seen.insert(page.clone())) else { continue };
            writeln!(out, "- [{}]({page})", capitalized(text))?;
            for (title, child) in children.get(&page).into_iter().flatten() {
                if !listed.contains(child) && seen.insert(child.clone()) {
                    writeln!(out, "  - [{title}]({child})")?;
                }
            }
        }
    }
    writeln!(out, "- [Changes](changelog.md)")?;
    Ok(out)
}

fn within_docs(link: &str) -> Option<&str> {
    link.split('#').next()?.strip_prefix("docs/").filter(|page| page.ends_with(".md"))
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// The links of a text as text and target.
fn markdown_links(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("](") {
        let Some(length) = text[at + 2..].find(')') else { continue };
        let Some(start) = text[..at].rfind('[') else { continue };
        found.push((&text[start + 1..at], &text[at + 2..at + 2 + length]));
    }
    found
}

fn links(text: &str) -> Vec<String> {
    markdown_links(text).into_iter().map(|(_, link)| link.to_owned()).collect()
}

/// The text of a page without links to files outside of the site: their names stay.
fn within(text: &str, page: &Path, source: &Path) -> String {
    let mut out = text.to_owned();
    let folder = page.parent().unwrap_or(source);
    for (words, link) in markdown_links(text) {
        let target = link.split('#').next().unwrap_or_default();
        if target.is_empty()
            || target.contains("://")
            || target.starts_with("mailto:")
            || target.starts_with('<')
        {
            continue;
        }
        let renamed = match target {
            _ if target.ends_with("CHANGELOG.md") => Some("changelog.md"),
            // The README of the project, or of a folder of the site.
            _ if target.ends_with("README.md")
                && !folder.join(target).with_file_name("index.md").exists() =>
            {
                Some("index.md")
            }
            _ => None,
        };
        if let Some(name) = renamed {
            let up = "../".repeat(folder.strip_prefix(source).map_or(0, |below| below.components().count()));
            out = out.replace(&format!("[{words}]({link})"), &format!("[{words}]({up}{name})"));
        } else if target.ends_with("README.md") {
            let to = link.replace("README.md", "index.md");
            out = out.replace(&format!("[{words}]({link})"), &format!("[{words}]({to})"));
        } else if !folder.join(target).exists() {
            out = out.replace(&format!("[{words}]({link})"), words);
        }
    }
    out
}

fn shown(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

/// The control of the list of pages: a label of a hidden box, which is no button for a screen reader or a keyboard.
const TOGGLE: &str = "<label id=\"mdbook-sidebar-toggle\"";
const BUTTON: &str = "<button type=\"button\" onclick=\"document.getElementById('mdbook-sidebar-toggle-anchor').click()\" \
                      id=\"mdbook-sidebar-toggle\"";

/// Adds the roles that the theme of mdBook lacks, so that a screen reader names the bar and the button in it.
fn name_parts(site: &Path) -> Result<()> {
    let mut files = Vec::new();
    html(site, &mut files)?;
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let named =
            text.replace("<div id=\"mdbook-menu-bar\"", "<div role=\"banner\" id=\"mdbook-menu-bar\"");
        // Wide tables scroll, which needs the focus.
        let table = "<div class=\"table-wrapper\" role=\"group\" aria-label=\"Table\" tabindex=\"0\"";
        let named = named.replace("<div class=\"table-wrapper\"", table).replace("<th></th>", "<td></td>");
        let named = match named.split_once(TOGGLE) {
            Some((before, after)) => {
                let after = after.replacen(" for=\"mdbook-sidebar-toggle-anchor\"", "", 1);
                format!("{before}{BUTTON}{}", after.replacen("</label>", "</button>", 1))
            }
            None => named,
        };
        if !file.ends_with("toc.html") && named == text {
            bail!("{} is not made as expected; is mdBook another version than {MDBOOK}?", file.display());
        }
        std::fs::write(&file, named)?;
    }
    Ok(())
}

/// What is wrong with the links of the pages: a missing file or heading, or a request to another host.
fn broken(site: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    html(site, &mut files)?;
    let texts: BTreeMap<PathBuf, String> = files
        .into_iter()
        .map(|file| std::fs::read_to_string(&file).map(|text| (file, text)))
        .collect::<Result<_, _>>()?;
    let mut problems = Vec::new();
    for (file, text) in &texts {
        // Their links are relative to any page.
        if file.ends_with("404.html") || file.ends_with("print.html") || file.ends_with("toc.html") {
            continue;
        }
        let name = shown(file, site);
        for tag in ["<script", "<link", "<img", "<iframe"] {
            for (at, _) in text.match_indices(tag) {
                let element = text[at..].split('>').next().unwrap_or_default();
                if element.contains("=\"http") || element.contains("=\"//") {
                    problems.push(format!("{name}: {element} loads from another host"));
                }
            }
        }
        for (at, _) in text.match_indices(" href=\"") {
            let link = text[at + 7..].split('"').next().unwrap_or_default();
            if let Some(problem) = broken_link(file, link, &texts) {
                problems.push(format!("{name}: {problem}"));
            }
        }
    }
    problems.dedup();
    Ok(problems)
}

fn broken_link(file: &Path, link: &str, texts: &BTreeMap<PathBuf, String>) -> Option<String> {
    let (target, heading) = link.split_once('#').unwrap_or((link, ""));
    if target.contains(':') {
        return None;
    }
    let path = match target {
        "" => file.to_owned(),
        target => normalized(&file.parent()?.join(target)),
    };
    if !path.exists() {
        return Some(format!("{link} leads to no file"));
    }
    let text = texts.get(&path).filter(|_| !heading.is_empty())?;
    let is_there = text.contains(&format!(" id=\"{heading}\""));
    (!is_there).then(|| format!("{link} leads to no heading"))
}

/// A path without `..`.
fn normalized(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(out.pop()),
            part => out.push(part),
        }
    }
    out
}

fn html(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            html(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_pages_is_that_of_the_readme() {
        let readme = "# x\n\n## Documentation\n\n### Start\n\n- [Command line](docs/cli.md): [same](docs/cli.md)\n- [agents](docs/agents.md), \
                      [contract](docs/openapi.json)\n\n## Known limits\n\n- [x](docs/x.md)\n";
        let expected = "# Summary\n\n[Recount](index.md)\n\n# Start\n\n- [Command line](cli.md)\n  - [AAEP/MORE.MD](aaep/more.md)\n- [Agents](agents.md)\n- [Changes](changelog.md)\n";
        let pages =
            |names: &[&str]| names.iter().map(|name| (name.to_uppercase(), (*name).to_owned())).collect();
        let children = [("cli.md".to_owned(), pages(&["agents.md", "aaep/more.md"]))].into();
        assert_eq!(summary(readme, &children).unwrap(), expected);
        assert!(summary("# x", &children).is_err());
    }

    #[test]
    fn links_out_of_the_site_become_words() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path();
        std::fs::create_dir(source.join("faces")).unwrap();
        std::fs::write(source.join("a.md"), "").unwrap();
        let text =
            "[here](../a.md#x) [away](../../crates/x.rs) [net](https://a.example) [new](../../CHANGELOG.md)";
        let expected = "[here](../a.md#x) away [net](https://a.example) [new](../changelog.md)";
        assert_eq!(within(text, &source.join("faces/b.md"), source), expected);
    }

    #[test]
    fn missing_files_headings_and_foreign_scripts_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("b.html", "<h1 id=\"top\">");
        write(
            "a.html",
            "<a href=\"b.html#top\"><a href=\"c.html\"><a href=\"b.html#x\"><script src=\"https://t.example/t.js\">",
        );
        let problems = broken(folder.path()).unwrap();
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].contains("another host") && problems[1].contains("c.html leads to no file"));
        assert!(problems[2].contains("b.html#x leads to no heading"));
    }
}
