//! Tests of the tool registry.

use super::*;

#[test]
fn an_unknown_tool_names_the_closest_one() {
    let tools = Tools::standard();
    let message = tools.get("readFile").err().unwrap().to_string();
    assert!(message.starts_with("unknown tool `readFile`; available tools: "), "{message}");
    assert!(message.ends_with("; did you mean `read_file`?"), "{message}");
    assert!(tools.get(&"x".repeat(1_000_000)).err().unwrap().to_string().len() < 1_000);
    let message = UnknownTool::for_names("globs", ["glob", "weather"]).to_string();
    assert_eq!(message, "unknown tool `globs`; available tools: glob, weather; did you mean `glob`?");
    let message = UnknownTool::for_names("list_dir", ["git_diff", "glob"]).to_string();
    assert_eq!(message, "unknown tool `list_dir`; available tools: git_diff, glob");
    assert_eq!(UnknownTool::for_names("x", []).to_string(), "unknown tool `x`; available tools: none");
    let specs = tools.specs(&["read_file"]).unwrap();
    assert_eq!(specs[0].name, "read_file");
    assert!(tools.specs(&["read_file", "none"]).is_err());
}
